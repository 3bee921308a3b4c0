/* SPDX-License-Identifier: GPL-2.0 */
/* One connection that is to change its process. */
#ifndef HOF_MOVING_H
#define HOF_MOVING_H

#include <linux/kref.h>
#include <linux/list.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>
#include <net/sock.h>
#include <flotilla/flotilla.h>

struct flt_layer;
struct hof_move;

/**
 * struct hof_moving - a connection between HOF_MOVE_CONN and its move or end
 * @ref:     one for the list, one for the layer, one for a queued @work
 * @move:    whose; there as long as @list is in it
 * @sk:      one reference, until it leaves the list
 * @layer:   hears what arrives; NULL once taken off; only @work and the end of @move do that
 * @list:    in @move's, under its lock
 * @work:    tries to move it
 * @lock:    guards the following; taken in the layer, so bottom halves are off; a leaf
 * @stopped: nothing is held back any more
 * @frozen:  the program is not told of what has arrived: it is being moved
 * @lost:    what looks like a next request tells nothing: its client does not wait for answers, or
 *	     there was one whose end is not known: what follows may be its body, or a tunnel's
 * @seen:    everything up to here had arrived the last time that something did
 * @mark:    what the server had written then
 * @answered: with @frozen: had the server written anything since the time before
 * @ready:   with @frozen: it was found to be between two requests
 * @known:   the header of the last request was seen, and says that it ends before @next
 * @begin:   where the request begins that @frozen holds back
 * @why:     FLT_REFUSE_NONE, or why it can never move; written by @work, READ_ONCE
 * @look_rcv, @look_snd, @still: what was received and sent at the last look, and since when it is
 *	     the same; written by @move's looks
 * @pause, @not_before: a move that was put off; written by @work, READ_ONCE
 *
 * Lock order: @move's lock; the socket's; @lock.
 */
struct hof_moving {
	struct kref ref;
	struct hof_move *move;
	struct sock *sk;
	struct flt_layer *layer;
	struct list_head list;
	struct work_struct work;
	spinlock_t lock;	/* the following */
	bool stopped;
	bool frozen;
	bool lost;
	bool answered;
	bool ready;
	bool known;
	u32 next;
	u32 seen;
	u32 mark;
	u32 begin;
	u8 why;
	u32 look_rcv;
	u32 look_snd;
	unsigned long still;
	unsigned long pause;
	unsigned long not_before;
};

/**
 * hof_moving_begin - watch a connection and move it when it can be
 * @move: its lock is not held
 * @sk:   TCP; the caller has a reference
 *
 * Return: 0, or an errno of HOF_MOVE_CONN.
 */
int hof_moving_begin(struct hof_move *move, struct sock *sk);

/* A look from time to time, under @move's lock: has it ended, has it been still for @idle_ms? */
void hof_moving_look(struct hof_moving *m, u32 idle_ms);

/* Answered and acknowledged, as far as TCP can say. Unlocked. */
bool hof_moving_waits(const struct hof_moving *m);

/* The end of @move, in two steps with a grace period between; it is off the list after. */
void hof_moving_stop(struct hof_moving *m);
void hof_moving_end(struct hof_moving *m);

/* Work that was queued is done. */
void hof_moving_flush(void);

int hof_moving_init(void);
void hof_moving_exit(void);

#endif
