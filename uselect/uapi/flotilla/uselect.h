/* SPDX-License-Identifier: (GPL-2.0 WITH Linux-syscall-note) OR MIT */
/*
 * /dev/uselect: readiness of a process's TCP connections in memory that it can read.
 *
 * A process that has set up a descriptor of /dev/uselect is registered: the kernel
 * keeps, for each TCP socket in its descriptor table, one bit each for "tracked",
 * "readable", "writable" and "exceptional", and the mask that poll() would return,
 * in a region mapped read-only. Sockets are tracked from socket(), accept() or
 * connect() to close(), without a call for it.
 *
 *	dev = open("/dev/uselect", O_RDWR | O_CLOEXEC);
 *	ioctl(dev, USEL_SETUP, &setup);
 *	region = mmap(NULL, setup.region_size, PROT_READ, MAP_SHARED, dev, USEL_MAP_REGION);
 *	set = mmap(NULL, setup.set_size, PROT_READ, MAP_SHARED, dev, USEL_MAP_SET);
 *	want = mmap(NULL, setup.want_size, PROT_READ | PROT_WRITE, MAP_SHARED, dev, USEL_MAP_WANT);
 *
 * The region belongs to the descriptor table; each descriptor of the device is a set
 * of interest beside it: who wants what, a ring of what became ready, and something to
 * sleep on. One thread, one set. To wait on tracked sockets without losing a wakeup:
 *
 *	set the bits in want_*; full fence; seq = load-acquire(set->seq);
 *	look at the region (and the ring); something there: done;
 *	want->seen = seq; poll() the descriptor, which is readable while set->seq != want->seen.
 *
 * The ring (USEL_WANT_RING) gets the number of each wanted descriptor that something
 * happened to, once until its bit in the set's "pending" bitmap is cleared, which the
 * reader does before it looks at the state. When the ring is full only the pending bit
 * is set and @overflows goes up: then look through "pending". Those who sleep on the
 * descriptor of such a set are woken once, and again when one of them has asked poll(): do not
 * watch it with EPOLLEXCLUSIVE.
 *
 * Edges. That the bits are right at all times costs something in each receive and send. A set made
 * with USEL_SETUP_EDGES does without: its reader takes news for a hint and reads or sends until
 * EAGAIN, as with EPOLLET. While all sets of all processes that track a socket are such, TCP's own
 * receive and send are left alone, from the first receive on; the descriptor says USEL_FD_EDGES,
 * and its bits and events what was so at the last event (data, room, a state, an error): they may
 * say more than is so, never less. Ask poll() for what is so now. With the first set that was made
 * otherwise all are right again when its USEL_SETUP returns; only what a receive or send that was
 * under way then takes is not seen, until the next call on the socket.
 *
 * The end: closing the set's descriptor (any copy of it, in the owner) ends the set, and
 * the last set the region: the tracked bits go to 0 and USEL_REGION_DEAD is set; the
 * memory stays until it is unmapped. A child by fork() has neither the mappings nor a
 * registration, and whoever has a copy of the descriptor in another table maps nothing (EXDEV);
 * it may open the device itself. exec() ends all, the descriptor being close-on-exec; where it is
 * not, nothing that the new program opens is tracked, and it may register anew. Who shares the
 * descriptor table but not the memory is not registered, and ends the region if it registers. The
 * module cannot be unloaded while a descriptor is open.
 *
 * Limits: descriptors from @nfds on are not tracked; of one socket 64 are, others read
 * USEL_FD_LOST; a table has 64 sets (module parameter max_sets); kTLS, sockmap, MPTCP and SMC
 * sockets are not; a socket that becomes one of these later stops being tracked.
 */
#ifndef _UAPI_FLOTILLA_USELECT_H
#define _UAPI_FLOTILLA_USELECT_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define USEL_DEVICE		"/dev/uselect"
#define USEL_MAGIC		0x4c455355	/* "USEL" */
#define USEL_ABI		1

#define USEL_NFDS_DEFAULT	65536
#define USEL_NFDS_MAX		1048576		/* also not above RLIMIT_NOFILE's hard limit */
#define USEL_NFDS_ALIGN		512		/* @nfds is rounded up to a multiple of it */
#define USEL_RING_DEFAULT	4096
#define USEL_RING_MAX		1048576

/* Offsets for mmap(). */
#define USEL_MAP_REGION		0x00000000UL	/* struct usel_region_head; read-only */
#define USEL_MAP_SET		0x10000000UL	/* struct usel_set_head; read-only */
#define USEL_MAP_WANT		0x20000000UL	/* struct usel_want_head; read and write */

/* usel_setup.flags */
#define USEL_SETUP_BYTES	(1U << 0)	/* keep rx_bytes ... srtt_us of each descriptor;
						 * for the whole region, once asked for
						 */
#define USEL_SETUP_THRESHOLD	(1U << 1)	/* the set has want_rx[]; needs USEL_SETUP_BYTES */
#define USEL_SETUP_EDGES	(1U << 2)	/* the set wants to hear what arrives, not what is
						 * read meanwhile: see "Edges"; EINVAL with
						 * USEL_SETUP_BYTES
						 */

/* usel_setup.features */
#define USEL_FEATURE_BYTES	(1U << 0)	/* USEL_SETUP_BYTES and _THRESHOLD are known */
#define USEL_FEATURE_TRACE_FD	(1U << 1)	/* descriptors are followed exactly, through
						 * dup(), SCM_RIGHTS and reuse of the number;
						 * without it say USEL_FORGET, see there
						 */
#define USEL_FEATURE_WATCH	(1U << 2)	/* USEL_WATCH is known and works */
#define USEL_FEATURE_MOVE	(1U << 4)	/* USEL_MOVE is known */
#define USEL_FEATURE_EDGES	(1U << 3)	/* USEL_SETUP_EDGES is known; it has no effect
						 * without USEL_FEATURE_TRACE_FD
						 */

/**
 * struct usel_setup - argument of USEL_SETUP
 * @abi:         in: USEL_ABI, else EPROTO
 * @flags:       in: USEL_SETUP_*, unknown ones draw EOPNOTSUPP
 * @nfds:        in: descriptors to track, 0 for the default; out: of the region, which
 *		 an earlier set of this process may have made with another number
 * @ring:        in: entries of the ring, 0 for the default; out: rounded up to a power of two
 * @features:    out: USEL_FEATURE_*
 * @region_size: out: bytes to map at USEL_MAP_REGION
 * @set_size:    out: at USEL_MAP_SET
 * @want_size:   out: at USEL_MAP_WANT
 * @reserved:    zero, else EINVAL
 */
struct usel_setup {
	__u32 abi;
	__u32 flags;
	__u32 nfds;
	__u32 ring;
	__u32 features;
	__u32 region_size;
	__u32 set_size;
	__u32 want_size;
	__u32 reserved[8];
};

/*
 * USEL_SETUP  EMFILE: the table has as many sets as it may (module parameter max_sets).
 *	       EBUSY: the descriptor is set up already. EBADF: it was closed meanwhile.
 *	       EINVAL: @nfds or @ring above the maximum, @reserved.
 *	       EPROTO, EOPNOTSUPP: see above. ENOMEM. ENODEV: switched off
 *	       (module parameter "enabled").
 * USEL_TRACK  track this descriptor of the caller's, which was there before registration
 *	       or came from elsewhere; does nothing when it is tracked. EBADF; ENOTSOCK;
 *	       EOPNOTSUPP: cannot be tracked; ENOSPC: number too large, or the socket has 64 tracked
 *	       descriptors; EXDEV: the caller
 *	       has another descriptor table, or other memory, than what was registered; EINVAL: no
 *	       USEL_SETUP.
 * USEL_FORGET this descriptor was closed while copies of it are open elsewhere (fork(), dup()),
 *	       and its number may come to name something that is not a socket. Does
 *	       nothing when the tracked socket is what the number stands for. With
 *	       USEL_FEATURE_TRACE_FD needed only if the state of the closed number is looked
 *	       at before it is used again. EINVAL, EXDEV as above.
 * USEL_WATCH  count into the set's @changes each epoll_ctl() on the epoll that this descriptor
 *	       names, by whichever copy, process or io_uring, before it takes effect; and once
 *	       when the number comes to name something else, and when the set ends. The caller's
 *	       own calls count, too. EBADF; EBUSY: the set watches one already; EUSERS: 64
 *	       sets watch this epoll; EOPNOTSUPP: without USEL_FEATURE_WATCH; ESHUTDOWN: the set
 *	       has ended; EINVAL, EXDEV as above.
 * USEL_MOVE   receives and sends, of any sockets of the caller's, one after the other: each is what
 *	       recv(2) or send(2) with MSG_DONTWAIT and MSG_NOSIGNAL would be, security modules
 *	       and accounting included, and has its own result. The number of those that were made
 *	       is returned: fewer when the rest of @moves cannot be read or written; where it cannot
 *	       be written, one that is not counted may have been made. EINVAL: no USEL_SETUP,
 *	       @nr, @reserved. EFAULT. EPERM: the caller has a seccomp filter, which
 *	       would see no receive and no send.
 * USEL_KICK   count an event into the set's @seq and wake who sleeps on it. EINVAL: no USEL_SETUP.
 */
#define USEL_SETUP	_IOWR('u', 0x90, struct usel_setup)
#define USEL_TRACK	_IOW('u', 0x91, __s32)
#define USEL_FORGET	_IOW('u', 0x92, __s32)
#define USEL_KICK	_IO('u', 0x93)
#define USEL_WATCH	_IOW('u', 0x94, __s32)
#define USEL_MOVE	_IOW('u', 0x95, struct usel_moves)

/* usel_move.flags */
#define USEL_MOVE_SEND		(1U << 0)	/* else it is a receive */
#define USEL_MOVE_MORE		(1U << 1)	/* MSG_MORE */

#define USEL_MOVES_MAX		1024

/**
 * struct usel_move - one receive or send
 * @fd:     a socket of the caller's, tracked or not
 * @flags:  USEL_MOVE_*, others have the result -EINVAL
 * @addr:   of the data
 * @len:    of it
 * @result: out: bytes or a negative errno, as from recv(2) and send(2) with MSG_DONTWAIT and
 *	    MSG_NOSIGNAL
 */
struct usel_move {
	__s32 fd;
	__u32 flags;
	__u64 addr;
	__u32 len;
	__s32 result;
};

/**
 * struct usel_moves - argument of USEL_MOVE
 * @moves:    address of struct usel_move[@nr]
 * @nr:       at most USEL_MOVES_MAX
 * @reserved: zero
 */
struct usel_moves {
	__u64 moves;
	__u32 nr;
	__u32 reserved;
};

/* usel_region_head.flags */
#define USEL_REGION_DEAD	(1U << 0)	/* nothing is tracked any more */

/**
 * struct usel_region_head - start of the region; the kernel writes, the process reads
 * @active: offset in bytes of a bitmap of @nfds bits: the descriptor is tracked
 * @read:   recv() or accept() would not block: data, end, error, a connection
 * @write:  send() would not block: room, or an error
 * @except: urgent data
 * @fds:    offset of struct usel_fd[@nfds]
 *
 * What the kernel takes back without telling anyone stands until the next call on the socket: an
 * urgent mark, and readable below SO_RCVLOWAT.
 */
struct usel_region_head {
	__u32 magic;
	__u32 abi;
	__u32 nfds;
	__u32 flags;
	__u32 active;
	__u32 read;
	__u32 write;
	__u32 except;
	__u32 fds;
	__u32 reserved[7];
};

/* In usel_fd.events; not EPOLL* that poll() gives. */
#define USEL_FD_LOST	(1U << 29)	/* alone */
#define USEL_FD_EDGES	(1U << 28)	/* beside what poll() said at the last event: receives and
					 * sends since are not seen, see "Edges"
					 */

/**
 * struct usel_fd - one descriptor
 * @gen:      odd while tracked; goes up when tracking begins and ends, so that a reused
 *	      number is not taken for the descriptor that had it before
 * @events:   what poll() would say (EPOLL*), while tracked; then 0, or USEL_FD_LOST when the
 *	      descriptor is open and must be asked for with a system call from now on
 * @rx_bytes: unread bytes, as of the last event; with USEL_SETUP_BYTES, as the rest
 * @tx_space: bytes that fit into the send buffer
 * @snd_cwnd: congestion window in segments
 * @srtt_us:  smoothed round-trip time in microseconds
 */
struct usel_fd {
	__u32 gen;
	__u32 events;
	__u32 rx_bytes;
	__u32 tx_space;
	__u32 snd_cwnd;
	__u32 srtt_us;
	__u32 reserved[2];
};

/**
 * struct usel_set_head - start of the set's read-only part
 * @seq:       goes up when a wanted thing happens
 * @head:      entries put into the ring so far; entry N is at @ring[N & (@ring_size - 1)]
 * @ring_size: a power of two
 * @overflows: things that found the ring full
 * @ring:      offset of __u32[@ring_size], descriptors
 * @changes:   of the epoll that USEL_WATCH named
 */
struct usel_set_head {
	__u64 seq;
	__u32 head;
	__u32 ring_size;
	__u64 overflows;
	__u32 ring;
	__u32 changes;
	__u32 reserved[8];
};

/* usel_want_head.flags */
#define USEL_WANT_RING		(1U << 0)	/* fill the ring and "pending" */
#define USEL_WANT_ALL		(1U << 1)	/* count each event into @seq, wanted or not */

/**
 * struct usel_want_head - start of the writable part; mistakes harm the writer only
 * @seen:    the value of usel_set_head.seq that has been acted upon
 * @tail:    entries of the ring that have been taken; at most @head
 * @flags:   USEL_WANT_*
 * @read:    offset of a bitmap: wake for what makes this descriptor readable
 * @write:   the same for writable
 * @except:  the same for urgent data
 * @pending: offset of a bitmap: something happened and nobody has looked
 * @rx:      offset of __u32[nfds]: with USEL_SETUP_THRESHOLD, fewer unread bytes than this
 *	     do not count as readable for this set, unless it is the end or an error
 */
struct usel_want_head {
	__u64 seen;
	__u32 tail;
	__u32 flags;
	__u32 read;
	__u32 write;
	__u32 except;
	__u32 pending;
	__u32 rx;
	__u32 reserved[7];
};

#endif
