/* SPDX-License-Identifier: (GPL-2.0 WITH Linux-syscall-note) OR MIT */
/*
 * /dev/sksplice: join two TCP connections in the kernel.
 *
 * A proxy that has read the headers of an answer from @server and knows how
 * much of it is still to come lets the kernel pass on the rest:
 *
 *	struct ssp_splice s = {
 *		.size = sizeof(s), .flags = SSP_LIMIT | SSP_AUTORELEASE,
 *		.fd0 = server, .fd1 = client, .limit = content_length - had,
 *		.data = (__u64)headers_and_had, .data_len = its_length };
 *	ioctl(dev, SSP_IOC_SPLICE, &s);
 *
 * @data is written to @fd1 first, then @limit bytes go from @fd0 to @fd1
 * without a copy and without the program.  If all of them are there already
 * the call returns with status SSP_DONE and that was it; else with SSP_ACTIVE,
 * and poll(2) reports POLLOUT on @fd1 when the transfer has ended.  Then both
 * are ordinary sockets again, byte-exact, and may be spliced anew, in any
 * combination.  SSP_IOC_RESULT says how it ended.
 *
 * While a transfer is active:
 *
 *			read fd0   write fd0  read fd1   write fd1
 *	SSP_BIDIR	EBUSY      EBUSY      EBUSY      EBUSY
 *	else		EBUSY      allowed    allowed    EBUSY
 *	SSP_KEEPCOPY	the copy   allowed    allowed    EBUSY
 *
 * so a further request can be read from the client and written to the server
 * in the middle of an answer.  poll(2) reports POLLIN only where a read is
 * allowed and POLLOUT only where a write is.
 *
 * SSP_BIDIR joins both directions until both connections are in state CLOSE,
 * with half-closes and resets passed on; then poll(2) reports POLLHUP on both.
 *
 * SSP_KEEPCOPY lets the program read from @fd0 the bytes that are passed on,
 * for a cache.  The copy is complete even if the client goes away meanwhile.
 * The end is reported when its last byte has been read.
 *
 * Closing either descriptor for good ends the transfer (closing @fd1 with
 * SSP_KEEPCOPY lets the copy go on; its end then releases @fd0 by itself).  So
 * does connect(2) to AF_UNSPEC, which gives up the connection.  The
 * device need not stay open.  The descriptors may be shared by fork(2): a
 * transfer belongs to the sockets.
 * The module cannot be unloaded while a transfer is active.
 *
 * Who may open the device may use it on descriptors that he has, if a security module would let
 * him receive and send there; it is asked when a transfer begins.  A user without CAP_NET_ADMIN
 * (in the first user namespace) has limits: the module parameters max_per_user, copy_kb_per_user
 * and user_share.
 */
#ifndef _UAPI_FLOTILLA_SPLICE_H
#define _UAPI_FLOTILLA_SPLICE_H

#include <linux/types.h>
#include <linux/ioctl.h>

#define SSP_DEVICE	"/dev/sksplice"
#define SSP_VERSION	1

/* Both directions, until both connections are closed. Not with LIMIT or KEEPCOPY. */
#define SSP_BIDIR		(1U << 0)
/* End after @limit bytes; without it, when the source has sent its FIN. */
#define SSP_LIMIT		(1U << 1)
/* What is passed on can be read from @fd0 too. */
#define SSP_KEEPCOPY		(1U << 2)
/*
 * The end releases the sockets by itself.  Without it they stay marked (EBUSY
 * for a new transfer; reads and writes are allowed again) until SSP_IOC_UNSPLICE.
 */
#define SSP_AUTORELEASE		(1U << 3)
/* SSP_IOC_UNSPLICE: drop the unread part of the copy instead of leaving it to be read. */
#define SSP_DISCARD		(1U << 4)

/**
 * enum ssp_status - where a transfer stands
 * @SSP_IDLE:   none was ever started on the socket
 * @SSP_ACTIVE: under way
 * @SSP_DONE:   ended
 */
enum ssp_status {
	SSP_IDLE,
	SSP_ACTIVE,
	SSP_DONE,
};

/**
 * enum ssp_cause - why a transfer ended
 * @SSP_CAUSE_NONE:      it has not
 * @SSP_CAUSE_LIMIT:     @limit bytes were transferred
 * @SSP_CAUSE_EOF:       the source has sent FIN; fewer than @limit bytes if there was one
 * @SSP_CAUSE_SOURCE:    the source was reset or timed out; its error is also put on @fd1
 * @SSP_CAUSE_SINK:      the destination cannot be written to any more
 * @SSP_CAUSE_CLOSED:    a descriptor was closed, or its connection given up by connect(2)
 * @SSP_CAUSE_UNSPLICED: SSP_IOC_UNSPLICE
 * @SSP_CAUSE_BOTH:      SSP_BIDIR: both connections are closed
 * @SSP_CAUSE_URGENT:    urgent data is next in the source; go on at user level
 * @SSP_CAUSE_TAKEN:     one of the sockets was given to kTLS or a sockmap, or to repair, or
 *	receives into a device's memory; releases them in any case, and what is unread of the
 *	copy is lost with the source
 */
enum ssp_cause {
	SSP_CAUSE_NONE,
	SSP_CAUSE_LIMIT,
	SSP_CAUSE_EOF,
	SSP_CAUSE_SOURCE,
	SSP_CAUSE_SINK,
	SSP_CAUSE_CLOSED,
	SSP_CAUSE_UNSPLICED,
	SSP_CAUSE_BOTH,
	SSP_CAUSE_URGENT,
	SSP_CAUSE_TAKEN,
};

/**
 * struct ssp_splice - argument of SSP_IOC_SPLICE
 * @size:       sizeof(struct ssp_splice); a larger one with non-zero bytes that
 *		the kernel does not know is refused with E2BIG
 * @flags:      SSP_BIDIR, SSP_LIMIT, SSP_KEEPCOPY, SSP_AUTORELEASE
 * @fd0:        a TCP socket, IPv4 or IPv6; the source unless SSP_BIDIR
 * @fd1:        another one, of either family; the destination
 * @limit:      SSP_LIMIT: bytes from @fd0 to @fd1, @data not counted; may be 0
 * @data:       address of bytes to write to @fd1 first
 * @inbuf:      SSP_KEEPCOPY: address of room for what of the copy is there at once
 * @data_len:   length of @data
 * @inbuf_len:  length of @inbuf
 * @min2read:   SSP_KEEPCOPY: POLLIN on @fd0 from this many unread bytes on, or when
 *		no more will come; 0: 1
 * @max2cache:  SSP_KEEPCOPY: forwarding waits while this many bytes are unread;
 *		0: the module's default (65536); not less than @min2read
 * @status:     out: SSP_ACTIVE, or SSP_DONE: ended in the call and released
 * @cause:      out: enum ssp_cause
 * @moved01:    out: bytes passed on in the call from @fd0 to @fd1
 * @moved10:    out: the same, from @fd1 to @fd0
 * @data_done:  out: bytes of @data that were written, also when the call fails
 * @inbuf_done: out: bytes in @inbuf
 *
 * Errors: EINVAL (@size, flags that exclude each other, @fd0 and @fd1 the same,
 * fields of a flag that is not set), EOPNOTSUPP (unknown flags; a socket that is not
 * TCP or belongs to kTLS, a sockmap, MPTCP or a repair; the module parameter enabled is 0),
 * EBADF, ENOTSOCK, ENOTCONN (a connection is neither ESTABLISHED nor CLOSE_WAIT),
 * EBUSY (already in a transfer; or an unread copy is left), ELOOP (what is sent to @fd1 would
 * come back to @fd0, in this network namespace; or a chain of more than 16 transfers), EUSERS
 * (max_per_user), EACCES, EPERM (a security module forbids it), EAGAIN (only
 * @data_done bytes of @data were taken), EPIPE or the connection's error
 * (@data), EFAULT, ENOMEM.  After an error both sockets are as before, but for
 * @data_done bytes.
 */
struct ssp_splice {
	__u32 size;
	__u32 flags;
	__s32 fd0;
	__s32 fd1;
	__u64 limit;
	__u64 data;
	__u64 inbuf;
	__u32 data_len;
	__u32 inbuf_len;
	__u32 min2read;
	__u32 max2cache;
	__u32 status;
	__u32 cause;
	__u64 moved01;
	__u64 moved10;
	__u32 data_done;
	__u32 inbuf_done;
};

/**
 * struct ssp_result - argument of SSP_IOC_UNSPLICE and SSP_IOC_RESULT
 * @size:    sizeof(struct ssp_result)
 * @flags:   SSP_IOC_UNSPLICE: SSP_DISCARD or 0; else 0
 * @fd0:     a socket of the transfer
 * @fd1:     SSP_IOC_UNSPLICE: the other one, in any order; SSP_IOC_RESULT: -1
 * @status:  out: enum ssp_status
 * @cause:   out: enum ssp_cause
 * @error:   out: errno of the connection that failed (SSP_CAUSE_SOURCE, _SINK), or 0
 * @unread:  out: bytes of the copy that were not read
 * @moved01: out: bytes passed on from the transfer's fd0 to its fd1
 * @moved10: out: the same, from fd1 to fd0
 * @copied:  out: SSP_KEEPCOPY: bytes of the copy, read or not; more than @moved01
 *	     when the client has gone
 *
 * SSP_IOC_UNSPLICE ends the transfer if it is active, releases both sockets and
 * says how it went.  Errors: ENOENT (they are not in a transfer with each
 * other: normal after SSP_AUTORELEASE), EBADF, ENOTSOCK, EOPNOTSUPP, EINVAL.
 * What is left of the copy is read from fd0 before anything else.
 *
 * SSP_IOC_RESULT says how the last transfer of @fd0 went or how far it is, and
 * changes nothing.  It is kept until the next one, or until the socket closes.
 */
struct ssp_result {
	__u32 size;
	__u32 flags;
	__s32 fd0;
	__s32 fd1;
	__u32 status;
	__u32 cause;
	__u32 error;
	__u32 unread;
	__u64 moved01;
	__u64 moved10;
	__u64 copied;
};

/**
 * struct ssp_info - argument of SSP_IOC_INFO
 * @version:  SSP_VERSION
 * @flags:    all flags of this header that the module knows
 * @active:   transfers under way, in all of the system
 * @reserved: 0
 */
struct ssp_info {
	__u32 version;
	__u32 flags;
	__u32 active;
	__u32 reserved;
};

#define SSP_IOC_MAGIC		0xF2
#define SSP_IOC_INFO		_IOR(SSP_IOC_MAGIC, 0, struct ssp_info)
#define SSP_IOC_SPLICE		_IOWR(SSP_IOC_MAGIC, 1, struct ssp_splice)
#define SSP_IOC_UNSPLICE	_IOWR(SSP_IOC_MAGIC, 2, struct ssp_result)
#define SSP_IOC_RESULT		_IOWR(SSP_IOC_MAGIC, 3, struct ssp_result)

#endif
