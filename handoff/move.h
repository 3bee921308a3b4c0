/* SPDX-License-Identifier: GPL-2.0 */
/* Connections that change their process on this machine; the contract is flotilla/move.h. */
#ifndef HOF_MOVE_H
#define HOF_MOVE_H

#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/workqueue.h>
#include <net/net_namespace.h>
#include <flotilla/flotilla.h>
#include <flotilla/move.h>

/**
 * struct hof_move_listeners - sockets that listen, each with a reference
 * @sk: room for HOF_MOVE_LISTENERS
 * @nr: of them
 */
struct hof_move_listeners {
	struct sock **sk;
	unsigned int nr;
};

struct hof_drain;

/**
 * struct hof_move - one open move
 * @node:    in the list of all
 * @net:     who has the move keeps it
 * @idle_ms: of hof_move_start
 * @lock:    guards the rest; process context; outside the sockets' locks
 * @to:      the new process's
 * @next:    of @to: who gets the next connection
 * @drain:   NULL, or the nodes that get the connections instead of @to; set before there is any
 * @from:    the old one's; clients do not find them, with @drain other nodes do not. Changed under
 *	     hof_moves_lock as well
 * @keep:    nor later
 * @conns:   struct hof_moving
 * @watched: there has been something in @conns
 * @closing: the descriptor closes: what is still in @conns is its
 * @moved, @ended, @refused: see hof_move_status
 * @look:    looks at @conns, as long as there is something
 */
struct hof_move {
	struct list_head node;
	struct net *net;
	u32 idle_ms;
	struct mutex lock;	/* the following */
	struct hof_move_listeners to;
	unsigned int next;
	struct hof_drain *drain;
	struct hof_move_listeners from;
	bool keep;
	struct list_head conns;
	bool watched;
	bool closing;
	u64 moved;
	u64 ended;
	u32 refused[HOF_MOVE_REASONS];
	struct delayed_work look;
};

/* Begins without listeners and connections. NULL: no memory. */
struct hof_move *hof_move_begin(struct net *net, u32 idle_ms);
/* What has not moved stays. Process context, may sleep. */
void hof_move_end(struct hof_move *move);
/* As HOF_MOVE_NODE, HOF_MOVE_CONN, HOF_MOVE_STATUS. */
int hof_move_add_node(struct hof_move *move, u32 id);
int hof_move_add_conn(struct hof_move *move, struct sock *sk);
void hof_move_get_status(struct hof_move *move, struct hof_move_status *status);

/* HOF_IOC_MOVE. */
int hof_move_open(struct net *net, const void __user *arg);

/* Is this node to take no more connections of the address: is one of its listeners drained? */
bool hof_move_drains(const struct net *net, const struct flt_tuple *tuple);

/* Does a listener of @to fit? Under @move's lock. */
bool hof_move_fits(struct hof_move *move, const struct sock *sk);
/* Looks at @conns begin, or go on; under @move's lock. */
void hof_move_watch(struct hof_move *move);
/* The listener whose turn it is among those that fit best, with a reference; NULL: none fits. */
struct sock *hof_move_listener(struct hof_move *move, const struct sock *sk);
/* What became of one: FLT_REFUSE_NONE it moved; else it stayed. */
void hof_move_tried(struct hof_move *move, enum flt_refusal why);

#endif
