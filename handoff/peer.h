/* SPDX-License-Identifier: GPL-2.0 */
/* A node that packets are forwarded to. */
#ifndef HOF_PEER_H
#define HOF_PEER_H

#include <linux/mutex.h>
#include <linux/refcount.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>
#include "kmod/node.h"

struct hof_net;
struct hof_path;

/**
 * struct hof_peer - a node of the node table, as far as forwarding goes
 * @node: a counted reference
 * @hn:   its namespace
 * @ref:  the table of peers, each entry and each transfer hold one
 * @ups:   how often its link came up, as far as was seen here; the link's work, READ_ONCE
 * @heard: @ups when it last said that it had named all that it has; READ_ONCE
 * @nr_pending: what it gave and has not decided; under hn->adopt_lock
 * @held:  what it gave and has not ended; under hn->adopt_lock
 * @nr_held: length of @held
 * @held_turn: held by who turns @held, as @claims_turn
 * @late:  what it gave and we gave up; under hn->adopt_lock
 * @nr_late: length of @late
 * @claims: what was handed on to us and it forwards to another, as far as it has not answered;
 *	   under hn->adopt_lock
 * @nr_claims: length of @claims; READ_ONCE
 * @claims_turn: held by who turns @claims, to say each of them: two at once would leave some out.
 *	   Process context, outside @link_lock
 * @removed: it has left the node table: nothing is claimed of it; under hn->adopt_lock
 * @downs: how often it was given up: it came back as another instance, was removed, or its
 *	   grace was over
 * @instance: of the node that has what we gave it; the link's work
 * @grace: gives it up; while it waits it holds a reference
 * @tell:  tells it what we have of it (resync.c); while it waits or runs it holds a reference
 * @path: how packets get there now, NULL unknown; RCU, replaced under @lock
 * @retry: jiffies of the last attempt to find @path; under @lock
 * @gone: it has left the table and gets no path any more; under @lock
 * @lock: softirq too; a leaf
 * @link_lock: held while what a change of its link means is decided and done, and while what
 *	   belongs to one link is sent; process context, inside hn->live
 * @up:   between its NODE_UP and the end; under @link_lock
 * @until: jiffies when its grace is over; under @link_lock
 * @rcu:  to free it after the last reader of an entry
 */
struct hof_peer {
	struct flt_node *node;
	struct hof_net *hn;
	refcount_t ref;
	u32 ups;
	u32 heard;
	unsigned int nr_pending;
	struct list_head held;
	unsigned int nr_held;
	struct mutex held_turn;	/* see above */
	struct list_head late;
	unsigned int nr_late;
	struct list_head claims;
	unsigned int nr_claims;
	struct mutex claims_turn;	/* see above */
	bool removed;
	atomic_t downs;
	u64 instance;
	struct delayed_work grace;
	struct work_struct tell;
	struct hof_path __rcu *path;
	unsigned long retry;
	bool gone;
	spinlock_t lock;	/* @path, @retry, @gone */
	struct mutex link_lock;	/* see above */
	bool up;
	unsigned long until;
	struct rcu_head rcu;
};

void hof_peer_net_init(struct hof_net *hn);
void hof_peer_net_exit(struct hof_net *hn);
int hof_peer_init(void);
void hof_peer_exit(void);
int hof_peer_watch(void);
void hof_peer_unwatch(void);

/**
 * hof_peer_get - the peer of a node, with a path that works now
 *
 * Process context. Return: a counted reference; ERR_PTR(-ENOMEM, -EHOSTUNREACH).
 */
struct hof_peer *hof_peer_get(struct hof_net *hn, struct flt_node *node);
void hof_peer_put(struct hof_peer *peer);
/*
 * It gives us connections, and their packets may come in tunnels. Process context.
 * Return: a counted reference; ERR_PTR(-ENOMEM), or ERR_PTR(-EHOSTUNREACH): it has left.
 */
struct hof_peer *hof_peer_expect(struct hof_net *hn, struct flt_node *node);
/* The next of the table from *@id on, with a reference; NULL: no more. Process context. */
struct hof_peer *hof_peer_next(struct hof_net *hn, unsigned long *id);
/* NULL when nothing was ever given to it or taken from it. A counted reference. */
struct hof_peer *hof_peer_find(struct hof_net *hn, const struct flt_node *node);

#endif
