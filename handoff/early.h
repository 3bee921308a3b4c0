/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Connections that are handed off before there is a socket: early.c says for which services and
 * sorts their packets, cookie.c does the handshake, early_give.c hands the request to a node.
 */
#ifndef HOF_EARLY_H
#define HOF_EARLY_H

#include <linux/tcp.h>
#include <flotilla/early.h>

#include "kmod/opening.h"

#include "entry.h"
#include "net.h"

struct hof_file;
struct hof_given;
struct hof_given_mark;
struct hof_early_table;
struct hof_peer;
struct hof_transfer;
struct mem_cgroup;
struct nf_hook_state;
struct sk_buff;

/*
 * Of what a packet begins, charged to who has asked for it. Not GFP_ATOMIC, which a memory cgroup
 * lets pass when it is full.
 */
#define HOF_EARLY_GFP	(GFP_NOWAIT | __GFP_ACCOUNT | __GFP_NOWARN)

/**
 * struct hof_early_node - a node that gets connections of a service
 * @peer:   a counted reference; with a table NULL, nobody
 * @flying: given to it and not yet decided
 */
struct hof_early_node {
	struct hof_peer *peer;
	atomic_t flying;
};

/**
 * struct hof_early_rule - a service that is opened in its listener's place
 * @rcu:     for freeing
 * @ref:     being in hn->earlies holds one, and each transfer
 * @node:    in hn->earlies; RCU, changed under hn->early_lock
 * @hn:      namespace
 * @file:    who asked for it; valid while this is in hn->earlies
 * @address: of the service
 * @port:    of the service
 * @shaken:  hn->early_shaken
 * @given:   hn->early_given
 * @memcg:   of who asked for it, charged for what packets begin; NULL: nobody's
 * @table:   of @file: it chooses; NULL: the fewest connections do. Valid as @file is
 * @turn:    whose turn it is among ties; by softirq without a lock, READ_ONCE
 * @lock:    held by who looks at the listener; softirq; a leaf
 * @looked:  jiffies when it was last looked at; READ_ONCE
 * @version: of @open and @door
 * @open:    it was there, and takes cookies
 * @door:    what it would promise
 * @nr_nodes: of @nodes
 * @nodes:   never change; with @table by slot
 */
struct hof_early_rule {
	struct rcu_head rcu;
	refcount_t ref;
	struct list_head node;
	struct hof_net *hn;
	struct hof_file *file;
	__be32 address;
	__be16 port;
	u64 *shaken;
	struct hof_given *given;
	struct mem_cgroup *memcg;
	struct hof_early_table *table;
	u32 turn;
	spinlock_t lock;	/* the following */
	unsigned long looked;
	seqcount_spinlock_t version;
	bool open;
	struct flt_door door;
	unsigned int nr_nodes;
	struct hof_early_node nodes[];
};

/* --- early.c --- */

void hof_early_net_init(struct hof_net *hn);
/* The hook is gone. */
void hof_early_net_exit(struct hof_net *hn);
long hof_early_ioctl(struct hof_file *file, void __user *arg);
/* It closes: no connection is opened for it any more when this returns. */
void hof_early_file_closed(struct hof_file *file);
void hof_early_rule_put(struct hof_early_rule *r);

/* Is the service of @at one? Under hn->early_lock. */
bool hof_early_has(struct hof_net *hn, const struct flt_tuple *at);

static inline bool hof_early_is(const struct hof_net *hn)
{
	return READ_ONCE(hn->nr_earlies);
}

/* A packet without an entry: a verdict of netfilter. Softirq, RCU. */
unsigned int hof_early_packet(struct hof_net *hn, const struct hof_key4 *key,
			      struct sk_buff *skb, const struct nf_hook_state *state);

/* The listener is to make a socket of the next segment of a connection. RCU or softirq. */
void hof_early_leave(struct hof_net *hn, const struct flt_tuple *tuple, int dif);

/* --- early_give.c --- */

/*
 * The first segment of @o goes to a node: NF_STOLEN, and @mark stays, or is forgotten when the node
 * does not take it. Else NF_ACCEPT: it is for the listener. Softirq, RCU.
 */
unsigned int hof_early_give(struct hof_early_rule *r, const struct flt_opening *o,
			    const struct hof_given_mark *mark, struct sk_buff *skb,
			    unsigned int offset, unsigned int len,
			    const struct nf_hook_state *state);

/* Of a transfer that began so: it is decided. Process context. */
void hof_early_done(struct hof_transfer *t);
void hof_early_failed(struct hof_transfer *t);

#endif
