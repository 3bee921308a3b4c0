/* SPDX-License-Identifier: (GPL-2.0 WITH Linux-syscall-note) OR MIT */
/*
 * Handoff before there is a socket.
 *
 * A dispatcher that listens on an address and port lets the kernel open connections in its place:
 *
 *	__u32 nodes[] = { 1, 2 };
 *	struct hof_early e = { .size = sizeof(e), .family = AF_INET, .port = htons(80),
 *			       .address = { 10, 9, 0, 200 }, .nr_nodes = 2,
 *			       .nodes = (uintptr_t)nodes };
 *	dev = open("/dev/handoff", O_RDWR);
 *	ioctl(dev, HOF_IOC_EARLY, &e);
 *
 * SYNs are then answered with TCP's own cookies and nothing is remembered of them. The client's
 * first segment, if a whole request of HTTP/1 without a body is in it, goes to a node as a
 * checkpoint; the dispatcher hears nothing of it. Everything else goes to the listener, which makes
 * a socket of it as it does of any cookie: a request in several segments, a client that closes at
 * once, a node that refuses. Needs net.ipv4.tcp_syncookies (1, the default, or 2).
 *
 * It lasts as long as the descriptor. Said again, it takes the place of what was said before; with
 * @nr_nodes 0 it ends. Which node: the one with the fewest connections that were given to it here
 * and have not ended, ties in turn, of those that are up, active, and may be given connections. Or,
 * with HOF_EARLY_TABLE, what the policy of the dispatcher says (flotilla/early_table.h).
 *
 * What a client loses: options that do not fit in a cookie. Without timestamps it has neither
 * window scaling nor SACK; its MSS is 536, 1300, 1440 or 1460; there is no ECN. A client that sends
 * nothing for two minutes after its handshake is reset.
 */
#ifndef _UAPI_FLOTILLA_EARLY_H
#define _UAPI_FLOTILLA_EARLY_H

#include <linux/types.h>
#include <linux/ioctl.h>

/* Services of one network namespace, and nodes of one. */
#define HOF_EARLY_MAX		64
#define HOF_EARLY_NODES		64

/*
 * Of struct hof_early: the table of this descriptor chooses. @nodes is by slot, 0: nobody; what is
 * not listed counts as nobody. Needs HOF_FEATURE_EARLY_TABLE.
 */
#define HOF_EARLY_TABLE		(1U << 0)

/**
 * struct hof_early - argument of HOF_IOC_EARLY
 * @size:     sizeof(struct hof_early)
 * @flags:    HOF_EARLY_TABLE or 0
 * @family:   AF_INET
 * @port:     network byte order
 * @nr_nodes: up to HOF_EARLY_NODES; 0: no more
 * @address:  of the service: in the first four bytes, zeros behind it
 * @nodes:    address of @nr_nodes times FLT_A_NODE_ID
 *
 * Returns 0; with HOF_EARLY_TABLE for how many nodes there is no way now: they get nothing until it
 * is said again. Needs CAP_NET_ADMIN of the machine.
 * Errors: EPERM; EFAULT; EINVAL; EAFNOSUPPORT (@family); ENOENT: a node that is not listed, no
 * table, or it ends what was not begun; EBUSY: another descriptor has the service, or a rule of
 * flotilla redirect, which is refused so in turn; ENOSPC: HOF_EARLY_MAX; EHOSTUNREACH: there is no
 * way to a node, without a table; EOPNOTSUPP: this kernel's cookies are out of reach; ENOMEM.
 */
struct hof_early {
	__u32	size;
	__u32	flags;
	__u16	family;
	__be16	port;
	__u32	nr_nodes;
	__u8	address[16];
	__aligned_u64 nodes;
};

/* Of /dev/handoff. */
#define HOF_IOC_EARLY	_IOW(0xF1, 18, struct hof_early)

#endif
