/* SPDX-License-Identifier: GPL-2.0 */
/* The nodes that the connections of a move go to. */
#ifndef HOF_DRAIN_H
#define HOF_DRAIN_H

#include <linux/wait.h>
#include <net/sock.h>
#include <flotilla/flotilla.h>
#include <flotilla/move.h>

struct hof_file;
struct workqueue_struct;

/**
 * struct hof_drain_node - one that gets connections
 * @id:     in the node table, where it may be deleted at any time
 * @asking: how many connections it has not answered for yet
 * @answers: it has answered the last time
 * @asked:  jiffies, when it was asked last
 * @not_before: jiffies: it has not answered, and is left alone; 0: it is not
 */
struct hof_drain_node {
	u32 id;
	unsigned int asking;
	bool answers;
	unsigned long asked;
	unsigned long not_before;
};

/**
 * struct hof_drain - where the connections of a move go, when that is other nodes
 * @file:   submits them; nobody reads it. Its lock guards the rest
 * @nr:     of @nodes; grows only
 * @next:   who gets the next connection
 * @nodes:  @nr of them
 * @here, @through: see hof_move_passed
 * @ending: nothing is waited for any more; READ_ONCE
 * @free:   who waits for a node that can be asked
 * @wq:     of its own: what waits for a node holds up no other move; NULL: nothing moves yet
 */
struct hof_drain {
	struct hof_file *file;
	unsigned int nr;
	unsigned int next;
	struct hof_drain_node nodes[HOF_MOVE_NODES];
	u32 here;
	u32 through;
	bool ending;
	wait_queue_head_t free;
	struct workqueue_struct *wq;
};

/* NULL: no memory. */
struct hof_drain *hof_drain_create(struct net *net);
/* Nothing is given any more, nor waited for; what was given goes on. */
void hof_drain_free(struct hof_drain *drain);

/* 0, or an errno of HOF_MOVE_NODE. */
int hof_drain_add(struct hof_drain *drain, u32 id);
/* There is something to move, in @wq. Process context, one at a time. 0 or -ENOMEM. */
int hof_drain_begin(struct hof_drain *drain);

/**
 * hof_drain_give - hand a connection to the node whose turn it is, or to another
 * @drain: it
 * @sk:    the caller holds a reference, not its lock
 * @may:   see hof_transfer_give(); asked for each node that is tried
 * @arg:   for @may
 *
 * Waits for the node's answer, as long as net.flotilla.handoff_timeout_ms says. Two connections
 * wait for one node, or one if it has not answered the last time, and after that none for a
 * second: so a silent node costs one request at a time, and others wait for a moment at most.
 *
 * Context: process, may sleep.
 * Return: FLT_REFUSE_NONE: the node has it; else why it stays.
 */
enum flt_refusal hof_drain_give(struct hof_drain *drain, struct sock *sk,
				enum flt_refusal (*may)(struct sock *sk, void *arg), void *arg);

/* Only somebody who changes something at a node can make it take such a connection. */
bool hof_drain_is_final(enum flt_refusal why);

void hof_drain_passed(struct hof_drain *drain, struct hof_move_passed *passed);
/* How many of the nodes have a link that is up. */
unsigned int hof_drain_up(struct hof_drain *drain);

#endif
