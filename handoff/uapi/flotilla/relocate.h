/* SPDX-License-Identifier: (GPL-2.0 WITH Linux-syscall-note) OR MIT */
/*
 * A front-end has a node hand on connections that it gave to it, to other nodes.
 *
 * What is done at the node is what flotilla/move.h says of HOF_MOVE_NODE: each connection leaves
 * between two requests, or when it has been still for @idle_ms. A run is a number of calls:
 *
 *	struct hof_relocate r = { .size = sizeof(r), .flags = HOF_RELOCATE_NAME, .node = be1,
 *				  .nr_to = 2, .to = { be2, be3 }, .timeout_ms = 1000 };
 *	dev = open("/dev/handoff", O_RDWR);
 *	ioctl(dev, HOF_IOC_RELOCATE, &r);	the node hears which; @run is set
 *	while (r.left) {
 *		r.flags = 0;			or once more HOF_RELOCATE_NAME, to tell of new ones
 *		ioctl(dev, HOF_IOC_RELOCATE, &r);
 *	}
 *	r.flags = HOF_RELOCATE_END;
 *	ioctl(dev, HOF_IOC_RELOCATE, &r);
 *
 * The node ends a run that it hears nothing of for 5 s, and then the connections that are left stay
 * where they are; so they do at HOF_RELOCATE_END. A run lives in the node: it belongs to no
 * descriptor. When the call that begins one fails (EINTR, EFAULT) there is none.
 */
#ifndef _UAPI_FLOTILLA_RELOCATE_H
#define _UAPI_FLOTILLA_RELOCATE_H

#include <linux/types.h>
#include <linux/ioctl.h>
#include <flotilla/flotilla.h>
#include <flotilla/move.h>

/* Name the connections that are forwarded to the node, or the one of @tuple. */
#define HOF_RELOCATE_NAME	(1U << 0)
/* The run is over; the answer is not waited for. */
#define HOF_RELOCATE_END	(1U << 1)

/**
 * struct hof_relocate - argument of HOF_IOC_RELOCATE
 * @size:       sizeof(struct hof_relocate)
 * @flags:      HOF_RELOCATE_*
 * @run:        0: a new one; out: its number
 * @node:       who has the connections, FLT_A_NODE_ID
 * @idle_ms:    see struct hof_move_start; the first call of a run counts
 * @timeout_ms: how long the node may take, 1 to 60000
 * @max:        name so many at most; 0: all
 * @nr_to:      1 to HOF_MOVE_NODES; the first call of a run counts
 * @to:         who gets them, zeros behind them; these are called by their names
 * @tuple:      the only connection that is meant; all zeros: all of @node
 * @answered:   out, as all that follows: 1: the node has answered the last question
 * @refusal:    why it does nothing, or was not asked: FLT_REFUSE_NODEDOWN; FLT_REFUSE_VERSION it is
 *		too old; FLT_REFUSE_INSECURE its link is not authenticated, here or there;
 *		FLT_REFUSE_ROLE this node is no front-end there; FLT_REFUSE_POLICY it is told not
 *		to; FLT_REFUSE_NONODE it knows none of @to; FLT_REFUSE_FULL too many runs;
 *		FLT_REFUSE_NOMEM
 * @known, @up: bits, in the order of @to: nodes that it knows, and that have a link with it
 * @left:       connections that are forwarded to @node now, or just being given to it; whatever
 *		@refusal says
 * @named:      that were named in this call
 * @begun, @had, @queued, @held, @fixed, @absent: of these: it is going to hand them on; it was
 *		already, or another move has them; no program has accepted them yet; their program
 *		is in a call; they cannot move; it has none such
 * @waiting, @busy, @stuck, @moved, @ended, @stuck_by, @put_off: of the run, see struct
 *		hof_move_status
 * @through:    they have moved, and their packets still go by @node
 * @pad:        0
 *
 * Needs CAP_NET_ADMIN in the user namespace of the device's network namespace.
 * Errors: EPERM, EINVAL, EFAULT, ENOENT (@node or one of @to), EINTR, ENOMEM.
 */
struct hof_relocate {
	__u32	size;
	__u32	flags;
	__u64	run;
	__u32	node;
	__u32	idle_ms;
	__u32	timeout_ms;
	__u32	max;
	__u32	nr_to;
	__u32	to[HOF_MOVE_NODES];
	struct flt_tuple tuple;
	__u32	answered;
	__u32	refusal;
	__u32	known;
	__u32	up;
	__u32	left;
	__u32	named;
	__u32	begun;
	__u32	had;
	__u32	queued;
	__u32	held;
	__u32	fixed;
	__u32	absent;
	__u32	waiting;
	__u32	busy;
	__u32	stuck;
	__u32	through;
	__u32	pad;
	__u64	moved;
	__u64	ended;
	__u32	stuck_by[HOF_MOVE_REASONS];
	__u32	put_off[HOF_MOVE_REASONS];
};

/* Of /dev/handoff. */
#define HOF_IOC_RELOCATE	_IOWR(0xF1, 17, struct hof_relocate)

#endif /* _UAPI_FLOTILLA_RELOCATE_H */
