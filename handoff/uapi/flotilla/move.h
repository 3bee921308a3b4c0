/* SPDX-License-Identifier: (GPL-2.0 WITH Linux-syscall-note) OR MIT */
/*
 * Established connections change their process on one machine: from one that is about to end to
 * one that listens on the same address and port (SO_REUSEPORT), through its accept queue.
 *
 * A tool that has descriptors of both processes (pidfd_getfd(2), so it may trace them) does
 *
 *	struct hof_move_start s = { .size = sizeof(s) };
 *	move = ioctl(open("/dev/handoff", O_RDWR), HOF_IOC_MOVE, &s);
 *	ioctl(move, HOF_MOVE_TO, listener);	for each listener of the new process
 *	ioctl(move, HOF_MOVE_FROM, listener);	for each of the old one: no new connections
 *	ioctl(move, HOF_MOVE_CONN, fd);		for each connection of the old one
 *
 * and closes its copies of the descriptors at once: the kernel has the sockets, and the old process
 * goes on with those that have a request or an answer under way. A connection moves
 *
 *	when its process has read nothing from it and written nothing to it;
 *	when the next request of its client comes: what arrives begins with the line of a HTTP/1
 *	request, everything before it was read, the server has sent something since, the client
 *	has acknowledged all of that, and the header of the request before was seen, and
 *	says that it ended there. The request is unread and moves with it;
 *	with @idle_ms, when nothing has been unread, sent or received for so long and the last
 *	word was the server's. An answer that pauses for as long looks the same.
 *
 * To another machine instead: HOF_MOVE_NODE for each node that gets some, and no HOF_MOVE_TO. Each
 * connection is then handed to one of these nodes as by HOF_IOC_SUBMIT (flotilla/handoff.h), at the
 * same moments. One that another node gave us is handed on, and its packets go straight there.
 * Other nodes that give us connections for an address of HOF_MOVE_FROM are refused (nolistener);
 * clients that come to it themselves are served, and handed to a node like the others. Whether the
 * machine is needed no more for what has moved, HOF_MOVE_PASSED says.
 *
 * The old process's descriptor then reads end of file. A move that is refused leaves the
 * connection where and as it was. Asking HOF_MOVE_STATUS says how far it is.
 *
 * Closing @move ends it: connections that have not moved stay, and the old listeners are found by
 * clients again, unless HOF_MOVE_KEEP was said. It is not useful across fork(2).
 */
#ifndef _UAPI_FLOTILLA_MOVE_H
#define _UAPI_FLOTILLA_MOVE_H

#include <linux/types.h>
#include <linux/ioctl.h>

/**
 * struct hof_move_start - argument of HOF_IOC_MOVE
 * @size:    sizeof(struct hof_move_start)
 * @flags:   0
 * @idle_ms: 10 or more: connections that are still for so long move without a next request;
 *	     0: none does
 * @pad:     0
 *
 * Returns a descriptor. Needs CAP_NET_ADMIN in the first user namespace: the kernel's time for it
 * is the machine's. Errors: EPERM, EINVAL, ENOMEM, EMFILE.
 */
struct hof_move_start {
	__u32	size;
	__u32	flags;
	__u32	idle_ms;
	__u32	pad;
};

/* Of /dev/handoff. */
#define HOF_IOC_MOVE	_IOW(0xF1, 2, struct hof_move_start)

/* Most listeners of each side. */
#define HOF_MOVE_LISTENERS	1024

/*
 * Of the descriptor; the argument is a descriptor, by value. Errors: EBADF, ENOTSOCK, EXDEV
 * (of another network namespace), ENOSPC, ENOMEM;
 *	TO, FROM: EEXIST (known already), EOPNOTSUPP (no TCP listener, or bound to a device)
 *	TO, FROM: EBUSY (its program is in a call, or another open move hides it)
 *	TO:       EINVAL (there is a NODE)
 *	FROM:     EADDRNOTAVAIL (nobody of TO has its address)
 *	CONN:     ENOTCONN, EADDRNOTAVAIL (no listener of TO fits, or its program has opened it
 *		  itself), EEXIST (it is being moved, by this or another one), EOPNOTSUPP (kTLS, a
 *		  sockmap, another kernel user of it), EBUSY (its program is in a call on it: try
 *		  again)
 */
#define HOF_MOVE_TO	_IO(0xF1, 3)
#define HOF_MOVE_FROM	_IO(0xF1, 4)
#define HOF_MOVE_CONN	_IO(0xF1, 5)
/* The old listeners stay as they are when the descriptor closes. No argument. EINVAL: NODE. */
#define HOF_MOVE_KEEP	_IO(0xF1, 6)
/*
 * A node's number, by value (FLT_A_NODE_ID). Needs HOF_FEATURE_MOVE_NODE. Errors: EINVAL (there is
 * a TO, a FROM or a CONN already), ENOENT, EEXIST, ENOSPC, ENOMEM.
 */
#define HOF_MOVE_NODE	_IO(0xF1, 8)

/* Most nodes of a move. */
#define HOF_MOVE_NODES	16

/* Codes of enum flt_refusal that there is room for. */
#define HOF_MOVE_REASONS	72

/**
 * struct hof_move_status - answer to HOF_MOVE_STATUS
 * @moved:     connections that are with the new process
 * @ended:     that were closed instead
 * @waiting:   answered, as far as TCP can say; they move with the next request
 * @busy:      a request or an answer is under way
 * @stuck:     cannot move, whatever comes
 * @queued:    in the queues of the old listeners, not accepted yet
 * @listeners: of the new process, that still listen; with NODE: nodes whose link is up
 * @pad:       0
 * @stuck_by:  of @stuck, by enum flt_refusal
 * @refused:   times that a move was tried and put off, by enum flt_refusal
 */
struct hof_move_status {
	__u64	moved;
	__u64	ended;
	__u32	waiting;
	__u32	busy;
	__u32	stuck;
	__u32	queued;
	__u32	listeners;
	__u32	pad;
	__u32	stuck_by[HOF_MOVE_REASONS];
	__u32	refused[HOF_MOVE_REASONS];
};

#define HOF_MOVE_STATUS	_IOR(0xF1, 7, struct hof_move_status)

/**
 * struct hof_move_passed - answer to HOF_MOVE_PASSED: of those that have moved and not ended
 * @through: their packets come to this machine by another node, until that one is told otherwise
 * @here:    clients send them to this machine, which forwards them until they end
 */
struct hof_move_passed {
	__u32	through;
	__u32	here;
};

/* EINVAL: no NODE was given. */
#define HOF_MOVE_PASSED	_IOR(0xF1, 9, struct hof_move_passed)

#endif /* _UAPI_FLOTILLA_MOVE_H */
