/* SPDX-License-Identifier: GPL-2.0 */
/*
 * SYNs of a service that is loaded go to a lighter node, before any socket exists here. The rules
 * and the life of such a connection are told in doc/redirect.md.
 *
 * A SYN that was redirected carries a mark where TCP has nothing to say, its urgent pointer without
 * URG: who gets it takes it off and accepts the connection, or drops it, and never sends it on.
 */
#ifndef HOF_REDIRECT_H
#define HOF_REDIRECT_H

#include <linux/tcp.h>
#include <flotilla/flotilla.h>

#include "entry.h"
#include "net.h"

struct flt_msg;
struct flt_node;
struct hof_peer;
struct nf_hook_state;
struct sk_buff;

#define HOF_REDIRECT_MARK	0xf107
/* Services of one namespace that have a rule. */
#define HOF_REDIRECT_MAX	64
/* A threshold that is never passed; a hint that nobody has given. */
#define HOF_REDIRECT_NEVER	U32_MAX
/* The client's SYNs that go to a node without an ACK in answer: the next is accepted here. */
#define HOF_REDIRECT_TRIES	3
/* Clients in a row that a node has left so: it gets none for a while. */
#define HOF_REDIRECT_MUTE	8
#define HOF_REDIRECT_PAUSE	(30 * HZ)

/**
 * enum hof_redirect_stat - what became of SYNs; by service, and in the room's table
 * @HOF_REDIRECT_SENT:    they went to another node
 * @HOF_REDIRECT_AGAIN:   sent again by the client, they went to the same
 * @HOF_REDIRECT_SILENT:  sent again, they were accepted here: that node is not there any more
 * @HOF_REDIRECT_NONE:    this node was loaded, but no other one takes the service
 * @HOF_REDIRECT_HEAVY:   none of these is lighter
 * @HOF_REDIRECT_FULL:    too many entries, or too many that are not yet open
 * @HOF_REDIRECT_NO_ROUTE: no way to that node
 * @HOF_REDIRECT_TAKEN:   of other nodes: accepted here
 * @HOF_REDIRECT_REFUSED: of other nodes: dropped
 */
enum hof_redirect_stat {
	HOF_REDIRECT_SENT,
	HOF_REDIRECT_AGAIN,
	HOF_REDIRECT_SILENT,
	HOF_REDIRECT_NONE,
	HOF_REDIRECT_HEAVY,
	HOF_REDIRECT_FULL,
	HOF_REDIRECT_NO_ROUTE,
	HOF_REDIRECT_TAKEN,
	HOF_REDIRECT_REFUSED,
	HOF_REDIRECT_STATS,
};

/* hof_entry.redirect: 0 for what was handed off. */
enum hof_redirect_phase {
	HOF_REDIRECT_PENDING	= 1,	/* no ACK of the client has come */
	HOF_REDIRECT_OPEN	= 2,
};

/**
 * struct hof_offer - a node that takes SYNs of a service
 * @rcu:   for freeing
 * @node:  in hof_redirect.offers
 * @peer:  a counted reference
 * @load:  what it said last; READ_ONCE
 * @busy:  it is above its own threshold; READ_ONCE
 * @until: jiffies when that is too old, or was withdrawn; READ_ONCE
 * @sent:  SYNs that went to it since
 * @mute:  clients in a row that it has not answered; by softirq without a lock, READ_ONCE
 * @mute_at: jiffies of the last of them; the same
 */
struct hof_offer {
	struct rcu_head rcu;
	struct list_head node;
	struct hof_peer *peer;
	u32 load;
	bool busy;
	unsigned long until;
	atomic_t sent;
	u32 mute;
	unsigned long mute_at;
};

/**
 * struct hof_redirect - the rule of one service
 * @rcu:    for freeing
 * @node:   in hn->redirects; RCU
 * @hn:     namespace
 * @at:     @at.server and @at.server_port; the rest is zero
 * @above:  redirect when the load is above; HOF_REDIRECT_NEVER
 * @queue:  or more percent of the accept queue are full; HOF_REDIRECT_NEVER
 * @hysteresis: a target is lighter by more than this, and so far below @above it ends
 * @take:   takes SYNs of other nodes
 * @fixed:  load that the operator has given; HOF_REDIRECT_NEVER: none
 * @told:   load that another module has given; the same
 * @load:   what counts: @fixed, @told, or the connections that were counted last
 * @share:  percent of the accept queue that were full then
 * @listens: there was a listener then
 * @full:   TCP would have let in nobody more then
 * @active: above the threshold
 * @counted: of the look that is going on
 * @memcg:  of who has set it, charged for the entries; NULL: nobody's
 * @offers: struct hof_offer; RCU
 * @stats:  per CPU, enum hof_redirect_stat
 *
 * Written under hn->redirect_lock (@told: by anyone), read by softirq with READ_ONCE.
 */
struct hof_redirect {
	struct rcu_head rcu;
	struct list_head node;
	struct hof_net *hn;
	struct flt_tuple at;
	u32 above;
	u32 queue;
	u32 hysteresis;
	bool take;
	u32 fixed;
	u32 told;
	u32 load;
	u32 share;
	bool listens;
	bool full;
	bool active;
	u32 counted;
	struct mem_cgroup *memcg;
	struct list_head offers;
	u64 __percpu *stats;
};

/* --- redirect.c: packets; softirq, RCU --- */

static inline bool hof_redirect_is(const struct hof_net *hn)
{
	return READ_ONCE(hn->nr_redirects);
}

static inline bool hof_redirect_opens(const struct tcphdr *th)
{
	return unlikely(th->syn && !th->ack && !th->rst);
}

/* A SYN without an entry: a verdict of netfilter. */
unsigned int hof_redirect_syn(struct hof_net *hn, const struct flt_tuple *tuple,
			      const struct tcphdr *th, struct sk_buff *skb,
			      const struct nf_hook_state *state);
/* Is a packet of a redirected connection to be forwarded? Else @verdict is netfilter's. */
bool hof_redirect_forwards(struct hof_net *hn, struct hof_entry *e, const struct tcphdr *th,
			   struct sk_buff *skb, unsigned int *verdict);
/* RCU, or hn->redirect_lock. */
struct hof_redirect *hof_redirect_find(struct hof_net *hn, const struct flt_tuple *tuple);
void hof_redirect_count(struct hof_redirect *r, enum hof_redirect_stat stat);

/* --- redirect_life.c: how an entry ends --- */

/* An entry of a redirected connection does not forward any more. Under its lock. */
void hof_redirect_settle(struct hof_net *hn, struct hof_entry *e);
/* Has its time come? Else its node may be asked about it. RCU, process context. */
bool hof_redirect_expired(struct hof_net *hn, struct hof_entry *e);
/* The client has answered the node. */
void hof_redirect_open(struct hof_net *hn, struct hof_entry *e);
/* The client begins anew: what is said of the connection before is not of this one. */
void hof_redirect_doubt(struct hof_net *hn, struct hof_entry *e);
/* The sweep has ended. */
void hof_redirect_batch_free(struct hof_net *hn);
/* What was to be asked goes out. As hof_redirect_expired(). */
void hof_redirect_ask(struct hof_net *hn);
/* Another node asks which of its connections are still here. */
int hof_redirect_asked(struct hof_net *hn, struct flt_node *node, const struct flt_msg *msg);

/* --- redirect_hint.c: what nodes say of their loads --- */

/* Whether it may get a SYN now; @busy or not. RCU. */
bool hof_offer_stands(const struct hof_net *hn, const struct hof_offer *o);
/* It does not get one yet, since it has not answered the last ones. */
bool hof_offer_rests(const struct hof_offer *o);
/* Its load, with what was sent to it since it said so. */
u64 hof_offer_load(const struct hof_offer *o);
int hof_hint_receive(struct hof_net *hn, struct flt_node *node, const struct flt_msg *msg);
/* It has left the node table. Process context. */
void hof_hint_forget(struct hof_net *hn, const struct hof_peer *peer);
/* Say what there is now, and soon. Any context. */
void hof_hint_kick(struct hof_net *hn);
/* @load and @active follow from the rest. Under hn->redirect_lock. */
void hof_hint_judge(struct hof_redirect *r);
void hof_offer_drop(struct hof_offer *o);
/* Who takes a SYN from a client's port by device @dif; NULL: nobody. RCU. */
struct sock *hof_redirect_listener(const struct hof_redirect *r, __be16 client, int dif);

/* --- redirect_rule.c: what an operator says --- */

int hof_redirect_init(void);
void hof_redirect_exit(void);
void hof_redirect_net_init(struct hof_net *hn);
/* The hooks are gone. */
void hof_redirect_net_exit(struct hof_net *hn);
/* redirect_hint.c */
void hof_hint_net_init(struct hof_net *hn);
void hof_hint_stop(struct hof_net *hn);

#endif
