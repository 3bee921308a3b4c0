/* SPDX-License-Identifier: GPL-2.0 */
/* The nodes that the connections of a move go to. */
#ifndef HOF_DRAIN_H
#define HOF_DRAIN_H

#include <net/sock.h>
#include <flotilla/flotilla.h>
#include <flotilla/move.h>

struct hof_file;

/**
 * struct hof_drain - where the connections of a move go, when that is other nodes
 * @file:   submits them; nobody reads it. Its lock guards the rest
 * @nr:     of @nodes; grows only
 * @next:   who gets the next connection
 * @nodes:  @id: in the node table, where it may be deleted at any time; @not_before: jiffies, it
 *	    has not answered; 0: it has
 * @here, @through: see hof_move_passed
 * @ending: nothing is waited for any more; READ_ONCE
 */
struct hof_drain {
	struct hof_file *file;
	unsigned int nr;
	unsigned int next;
	struct {
		u32 id;
		unsigned long not_before;
	} nodes[HOF_MOVE_NODES];
	u32 here;
	u32 through;
	bool ending;
};

/* NULL: no memory. */
struct hof_drain *hof_drain_create(struct net *net);
/* Nothing is given any more, nor waited for; what was given goes on. */
void hof_drain_free(struct hof_drain *drain);

/* 0, or an errno of HOF_MOVE_NODE. */
int hof_drain_add(struct hof_drain *drain, u32 id);

/**
 * hof_drain_give - hand a connection to the node whose turn it is, or to another
 * @drain: it
 * @sk:    the caller holds a reference, not its lock
 * @may:   see hof_transfer_give(); asked for each node that is tried
 * @arg:   for @may
 *
 * Waits for the node's answer, as long as net.flotilla.handoff_timeout_ms says; who has not
 * answered is not asked again for a second, so that no program waits for its requests longer than
 * it has to.
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
