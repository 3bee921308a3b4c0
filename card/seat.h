/* SPDX-License-Identifier: GPL-2.0 */
/* The one writer of a disk. */
#ifndef CARD_SEAT_H
#define CARD_SEAT_H

#include <linux/list.h>
#include <linux/refcount.h>
#include <linux/uuid.h>
#include "kmod/node.h"

#include "net.h"
#include "wire.h"

/**
 * struct card_writer - one attachment of a node that writes alone, over all its sessions
 * @ref:      the seat's and one for each session
 * @busy:     requests of its sessions that are being worked on
 * @fenced:   its place was taken: nothing of it reaches the disk any more. Set once, under
 *	      the seats' lock; READ_ONCE
 * @grant:    its number: who was granted later has a larger one
 * @instance: of the node when it was granted
 * @name:     of the node
 *
 * Who counts itself in @busy and then finds @fenced unset may go on; who sets @fenced and
 * then finds @busy zero knows that nothing comes after.
 */
struct card_writer {
	refcount_t ref;
	atomic_t busy;
	bool fenced;
	u64 grant;
	u64 instance;
	char name[FLT_NAME_MAX];
};

/**
 * struct card_seat - a disk's place for one writer; outlives exports of the disk
 * @list:   in the namespace's seats
 * @uuid:   the disk
 * @users:  exports of it
 * @grant:  last number given, or brought along and believed
 * @name:   of the node that has it: nobody else goes on with it
 * @fresh:  it was given since the seat is known here, not brought along from an earlier life
 * @life:   random; another one when what writers had been told is written may be lost
 * @writer: who has it, or NULL
 * @past:   who had it and is not through yet, or NULL
 *
 * All under the namespace's seats' lock.
 */
struct card_seat {
	struct list_head list;
	uuid_t uuid;
	unsigned int users;
	u64 grant;
	char name[FLT_NAME_MAX];
	bool fresh;
	u64 life;
	struct card_writer *writer;
	struct card_writer *past;
};

struct card_seat *card_seat_get(struct card_net *cn, const uuid_t *uuid);
void card_seat_put(struct card_net *cn, struct card_seat *seat);
/* No export is left. */
void card_seat_exit(struct card_net *cn);

/**
 * card_seat_take - let a node write, or go on writing
 * @cn:     namespace
 * @seat:   of the disk
 * @node:   who asks
 * @grant:  the number that it was given when it attached; 0: it attaches now
 * @life:   in: of the seat when it was given; out: now
 * @steal:  whoever has the place loses it
 * @holder: FLT_NAME_MAX bytes, on EBUSY who has it
 *
 * Process context.
 * Return: the writer, referenced; or ERR_PTR of EBUSY: somebody else has it; EKEYREVOKED: somebody
 * else has had it since; EAGAIN: it is the node's as soon as the last one is through, ask again.
 */
struct card_writer *card_seat_take(struct card_net *cn, struct card_seat *seat,
				   const struct flt_node *node, u64 grant, u64 *life, bool steal,
				   char *holder);
/* What was acknowledged under this life may be lost. */
void card_seat_renew(struct card_net *cn, struct card_seat *seat);
/* @writer has detached. */
void card_seat_leave(struct card_net *cn, struct card_seat *seat, struct card_writer *writer);
/* The administrator has removed the node: its places are free, and it has to ask again. */
void card_seat_forget(struct card_net *cn, const struct flt_node *node);
/* Name of who has it, or "". */
void card_seat_holder(struct card_net *cn, struct card_seat *seat, char *holder);

void card_writer_put(struct card_writer *writer);

/* One more request; false: fenced. NULL: who writes is not alone, or does not write. */
static inline bool card_writer_enter(struct card_writer *writer)
{
	if (!writer)
		return true;
	atomic_inc(&writer->busy);
	smp_mb__after_atomic();		/* pairs with card_writer_fence() */
	if (likely(!READ_ONCE(writer->fenced)))
		return true;
	atomic_dec(&writer->busy);
	return false;
}

static inline void card_writer_leave(struct card_writer *writer)
{
	if (writer)
		atomic_dec(&writer->busy);
}

#endif
