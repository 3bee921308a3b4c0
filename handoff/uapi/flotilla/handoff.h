/* SPDX-License-Identifier: (GPL-2.0 WITH Linux-syscall-note) OR MIT */
/*
 * /dev/handoff: give an established TCP connection to another node.
 *
 * A dispatcher opens the device (that picks its network namespace), accepts
 * connections in the usual way, peeks the request with MSG_PEEK so that it
 * stays in the receive queue, and then
 *
 *	struct hof_submit s = { .size = sizeof(s), .fd = fd, .node = id,
 *				.cookie = 42 };
 *	ioctl(dev, HOF_IOC_SUBMIT, &s);
 *
 * The call checkpoints the connection and sends it; it does not wait for the
 * node.  What became of it arrives as a struct hof_event on read(2) (poll(2)
 * and epoll(7) work; one read returns as many events as fit):
 *
 *	HOF_EVENT_DONE     the node owns it.  The descriptor reads EOF: close it.
 *	HOF_EVENT_FAILED   not moved, for the reason given.  The descriptor is as
 *	                   before: submit it elsewhere, or serve it here.
 *	HOF_EVENT_CLOSED   after DONE: the connection has ended on the node, so it
 *	                   is one load unit less there. Of one that was given to us
 *	                   and handed on: or its packets do not come by here any more.
 *	HOF_EVENT_IDLE     after DONE: the node's server waits for a next request.
 *	HOF_EVENT_BUSY     after IDLE: a next request has arrived there.
 *
 * While a handoff is under way the descriptor must not be read from or written
 * to; if it is, the handoff fails with FLT_REFUSE_CHANGED and nothing is lost.
 * Closing the descriptor meanwhile takes the handoff back.
 *
 * Events that nobody waits for need no wake-up each: with HOF_TELL_LATER, DONE
 * and CLOSED of a connection gather until some have come, another event rings,
 * or 20 ms are over. HOF_IOC_SUBMIT returns how many connections have events to
 * read, so that a dispatcher that is awake anyway can fetch them.
 *
 * Closing the device takes back what is not yet DONE; connections that are
 * DONE go on, unobserved.  The device is per open file: events go to the file
 * that submitted.  It is not useful across fork(2).
 */
#ifndef _UAPI_FLOTILLA_HANDOFF_H
#define _UAPI_FLOTILLA_HANDOFF_H

#include <linux/types.h>
#include <linux/ioctl.h>

#define HOF_DEVICE	"/dev/handoff"
#define HOF_VERSION	1

/**
 * struct hof_submit - argument of HOF_IOC_SUBMIT
 * @size:       sizeof(struct hof_submit); a larger one with non-zero bytes that
 *		the kernel does not know is refused with E2BIG
 * @fd:         the accepted TCP socket, in the network namespace of the device
 * @node:       FLT_A_NODE_ID of the target
 * @flags:      HOF_WANT_IDLE to get IDLE and BUSY events; HOF_TELL_LATER when DONE
 *		and CLOSED (of a node that lives) may come up to 40 ms late, 20 of
 *		them on the node; a reader that is not asleep gets them at once
 * @cookie:     given back in each event
 * @timeout_ms: how long the node may take to answer, at most HOF_TIMEOUT_MAX_MS; 0: the
 *		namespace's default
 * @refusal:    out: enum flt_refusal when the ioctl fails with EOPNOTSUPP,
 *		EHOSTUNREACH or EBUSY, else 0
 * @tls:        address of a struct flt_tls: the connection is one of TLS, whose next
 *		record is unread, and the node's kernel goes on with it; 0: it is in clear
 *		text. Needs HOF_FEATURE_TLS; the struct may end before it. The keys go over
 *		links that are encrypted (FLT_REFUSE_KEYS), to nodes that know them
 *		(FLT_REFUSE_VERSION). Of a connection that was adopted with its keys the kernel
 *		has them: 0, or, with HOF_FEATURE_TLS_PORT, a struct flt_tls of nothing but @port
 *
 * Returns 0, or the number of connections that have events to read.
 * Needs CAP_NET_ADMIN in the user namespace of the socket's network namespace.
 * Errors: EBADF (@fd), ENOTSOCK, EPERM, EINVAL (@flags, @size, @timeout_ms, @tls), EXDEV (the
 * socket is of another network namespace), ENOENT (@node), EHOSTUNREACH (node
 * is down), EOPNOTSUPP (@refusal says what cannot move), EBUSY (already under
 * way; or just given to us, and where it came in has not said yet that it forwards it
 * here: after handoff_timeout_ms at most it is taken), EALREADY (given away before),
 * ENOSPC (forwarding table full), ENOMEM.
 * After any error the descriptor is as before.
 */
struct hof_submit {
	__u32	size;
	__s32	fd;
	__u32	node;
	__u32	flags;
	__u64	cookie;
	__u32	timeout_ms;
	__u32	refusal;
	__aligned_u64 tls;
};

#define HOF_SUBMIT_SIZE_1	32U	/* without @tls */

#define HOF_TIMEOUT_MAX_MS	600000U
#define HOF_WANT_IDLE	(1U << 0)
#define HOF_TELL_LATER	(1U << 1)
#define HOF_FLAGS_ALL	(HOF_WANT_IDLE | HOF_TELL_LATER)

/**
 * struct hof_info - answer to HOF_IOC_INFO
 * @version:  HOF_VERSION
 * @features: HOF_FEATURE_*
 * @inflight: handoffs of this file that are under way
 * @queued:   events waiting to be read
 */
struct hof_info {
	__u32	version;
	__u32	features;
	__u32	inflight;
	__u32	queued;
};

#define HOF_FEATURE_IPV6	(1U << 0)
#define HOF_FEATURE_ENCAP	(1U << 1)
#define HOF_FEATURE_HALFCLOSED	(1U << 2)	/* moves connections whose client sent FIN */
#define HOF_FEATURE_SENDQUEUE	(1U << 3)	/* moves unacknowledged data */
#define HOF_FEATURE_LATER	(1U << 4)	/* HOF_TELL_LATER */
#define HOF_FEATURE_MOVE	(1U << 5)	/* flotilla/move.h */
#define HOF_FEATURE_TLS		(1U << 7)	/* hof_submit.tls */
#define HOF_FEATURE_MOVE_NODE	(1U << 8)	/* HOF_MOVE_NODE of flotilla/move.h */
#define HOF_FEATURE_TAKEOVER	(1U << 9)	/* flotilla/takeover.h */
#define HOF_FEATURE_RELOCATE	(1U << 10)	/* flotilla/relocate.h */
#define HOF_FEATURE_EARLY	(1U << 11)	/* flotilla/early.h */
#define HOF_FEATURE_EARLY_TABLE	(1U << 12)	/* flotilla/early_table.h */
#define HOF_FEATURE_TLS_PORT	(1U << 13)	/* hof_submit.tls of nothing but a port */

#define HOF_IOC_MAGIC	0xF1
#define HOF_IOC_INFO	_IOR(HOF_IOC_MAGIC, 0, struct hof_info)
/* The number is that of the first form; @size says which it is. */
#define HOF_IOC_SUBMIT	_IOC(_IOC_READ | _IOC_WRITE, HOF_IOC_MAGIC, 1, HOF_SUBMIT_SIZE_1)

enum hof_event_type {
	HOF_EVENT_DONE		= 1,
	HOF_EVENT_FAILED	= 2,
	HOF_EVENT_CLOSED	= 3,
	HOF_EVENT_IDLE		= 4,
	HOF_EVENT_BUSY		= 5,
};

/**
 * struct hof_event - one record of read(2); a read shorter than one: EINVAL
 * @cookie:  of the submission
 * @node:    the node concerned
 * @type:    enum hof_event_type
 * @refusal: enum flt_refusal with FAILED; with CLOSED 0, or
 *	     FLT_REFUSE_NODEDOWN when the node died and the client was reset
 * @usec:    with DONE: microseconds from submission to ownership
 * @pad:     zero
 */
struct hof_event {
	__u64	cookie;
	__u32	node;
	__u16	type;
	__u16	refusal;
	__u32	usec;
	__u32	pad;
};

#endif /* _UAPI_FLOTILLA_HANDOFF_H */
