/* SPDX-License-Identifier: GPL-2.0 */
/* The taking side of a handoff. */
#ifndef HOF_ADOPT_H
#define HOF_ADOPT_H

#include <linux/refcount.h>
#include <flotilla/flotilla.h>

#include "hold.h"
#include "message.h"

struct flt_adoption;
struct flt_node;
struct hof_net;
struct hof_peer;

/* Givers that never commit must not fill the memory of the taker: of all together. */
#define HOF_PENDING_MAX	16384

/* Flag of HANDOFF: the giver wants IDLE and BUSY; the value of HOF_WANT_IDLE. */
#define HOF_ADOPT_WANT_IDLE	BIT(0)
/* The giver is in no hurry to hear of the end; the value of HOF_TELL_LATER. */
#define HOF_ADOPT_TELL_LATER	BIT(1)

/**
 * struct hof_adoption - a connection taken from another node
 * @ref:     the layer on the child holds one until the end of the child has been
 *	     told; being in hn->pending is one
 * @hn:      namespace; the child keeps it
 * @node:    who gave it; a counted reference
 * @peer:    the same; a counted reference
 * @id:      theirs
 * @flags:   HOF_ADOPT_*
 * @tuple:   of the connection
 * @sk:      the child; valid while this is in hn->adopted
 * @all:     in hn->adopted, until the child dies
 * @held:    the same, in @peer->held
 * @waiting: in hn->pending, until COMMIT or ABORT; then, when we gave it up, in hn->late
 * @asking:  with these: in hn->asking; then in @peer->late
 * @by_id:   with these: in hn->undecided
 * @busy:    in one of hn->busy, while it is looked at for being idle
 * @telling: in hn->telling, when there is something to tell to @node
 * @ask_at:  jiffies; in hn->asking: when to ask about it
 * @look_at: jiffies; with @busy: when to look next
 * @busy_since: jiffies; with @busy
 * @until:   jiffies; with @waiting: when it is given up
 * @committed: it is ours: only then is its life worth a message
 * @dead:    the child is
 * @late:    we gave it up
 * @lost:    and COMMIT came later still
 * @idle:    the server waits for a request
 * @unsure:  with @busy: it looked idle, but it had sent something since the look before
 * @told:    what @node knows of @idle
 * @sent:    the server's write_seq when it was last found idle, or at first
 * @seen:    the server's write_seq when it was last looked at
 * @child:   until COMMIT or ABORT; touched by who took this out of hn->pending
 * @back:    our own entry of the same connection, on HOLD until then: we gave
 *	     it away once and it comes back; else NULL
 * @hold:    its queue
 *
 * From @all to @seen everything is under hn->adopt_lock.
 */
struct hof_adoption {
	refcount_t ref;
	struct hof_net *hn;
	struct flt_node *node;
	struct hof_peer *peer;
	u64 id;
	u32 flags;
	struct flt_tuple tuple;
	struct sock *sk;
	struct list_head all;
	struct list_head held;
	struct list_head waiting;
	struct list_head asking;
	struct hlist_node by_id;
	struct list_head busy;
	struct list_head telling;
	unsigned long ask_at;
	unsigned long until;
	unsigned long look_at;
	unsigned long busy_since;
	bool committed;
	bool dead;
	bool late;
	bool lost;
	bool idle;
	bool unsure;
	bool told;
	u32 sent;
	u32 seen;
	struct flt_adoption *child;
	struct hof_entry *back;
	struct hof_hold hold;
};

void hof_adopt_net_init(struct hof_net *hn);
/* Aborts what waits for COMMIT; children that are ours go on, unobserved. */
void hof_adopt_net_exit(struct hof_net *hn);
/* Take our layers off all children. */
void hof_adopt_detach(void);

/* Messages of the giver, see message.h. Process context. */
int hof_adopt_request(struct hof_net *hn, struct flt_node *node, u64 id, u32 flags,
		      const void *wire, u32 len);
void hof_adopt_commit(struct hof_net *hn, struct flt_node *node, u64 id, u32 tsval);
void hof_adopt_abort(struct hof_net *hn, struct flt_node *node, u64 id);

/*
 * What waits for a COMMIT of @node waits in vain. Only when @node is gone for good, or another
 * instance, is that forgotten: it may not have noticed that it was away.
 */
void hof_adopt_node_down(struct hof_net *hn, struct flt_node *node);
void hof_adopt_node_gone(struct hof_net *hn, struct flt_node *node);

/* Undo whatever waits for COMMIT, whoever it waits for. Process context. */
void hof_adopt_withdraw(struct hof_net *hn);

void hof_adoption_put(struct hof_adoption *a);

#endif
