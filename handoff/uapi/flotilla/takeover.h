/* SPDX-License-Identifier: (GPL-2.0 WITH Linux-syscall-note) OR MIT */
/*
 * A standby front-end takes over a service address whose front-end has died.
 *
 * The connections that were handed off live on their nodes; what is lost is who forwards to them.
 * The new front-end asks each node for those that it has of the address, and makes an entry of its
 * forwarding table for each. Until it has them, their packets are dropped and not answered with a
 * RST: clients send again. So
 *
 *	struct hof_takeover t = { .size = sizeof(t), .op = HOF_TAKEOVER_PREPARE,
 *				  .family = AF_INET, .address = { 10, 9, 0, 200 } };
 *	dev = open("/dev/handoff", O_RDWR);
 *	ioctl(dev, HOF_IOC_TAKEOVER, &t);	while it is a standby
 *	...					it gets the address: packets begin to come
 *	t.op = HOF_TAKEOVER_ASK;
 *	ioctl(dev, HOF_IOC_TAKEOVER, &t);	returns when the nodes have answered
 *
 * PREPARE outlives the descriptor. It costs nothing while the machine does not have the address;
 * from the first packet on that is held back, it holds for net.flotilla.takeover_hold_ms, and then
 * no more until it is said again. What is held back: packets to the address and port that belong to
 * no entry, to no socket of this machine, and do not begin a connection. ASK prepares too, and ends
 * it when it returns, however that is; so does RELEASE. All of it goes with the module or the
 * network namespace.
 *
 * A signal ends ASK (EINTR): what was taken by then stays. At most HOF_TAKEOVER_MAX services of a
 * network namespace are prepared.
 */
#ifndef _UAPI_FLOTILLA_TAKEOVER_H
#define _UAPI_FLOTILLA_TAKEOVER_H

#include <linux/types.h>
#include <linux/ioctl.h>

#define HOF_TAKEOVER_MAX	64

/* Most nodes that can be told of. */
#define HOF_TAKEOVER_NODES	4096

enum hof_takeover_op {
	HOF_TAKEOVER_PREPARE	= 1,
	HOF_TAKEOVER_ASK	= 2,
	HOF_TAKEOVER_RELEASE	= 3,
};

/**
 * enum hof_takeover_state - what became of one node that was asked
 * @HOF_TAKEOVER_DONE:    it has told of all
 * @HOF_TAKEOVER_REFUSED: it tells nothing, see @refusal
 * @HOF_TAKEOVER_SILENT:  it has not told of all in time
 * @HOF_TAKEOVER_DOWN:    there was no link to it
 */
enum hof_takeover_state {
	HOF_TAKEOVER_DONE	= 1,
	HOF_TAKEOVER_REFUSED	= 2,
	HOF_TAKEOVER_SILENT	= 3,
	HOF_TAKEOVER_DOWN	= 4,
};

/**
 * struct hof_takeover_node - one node of role back-end
 * @node:    FLT_A_NODE_ID
 * @state:   enum hof_takeover_state
 * @refusal: enum flt_refusal: FLT_REFUSE_VERSION it is too old; FLT_REFUSE_INSECURE its link is not
 *	     authenticated, here or there; FLT_REFUSE_ROLE this node is no front-end there;
 *	     FLT_REFUSE_SERVICE the address is not on its list; FLT_REFUSE_POLICY it is told not to
 * @taken:   connections that are forwarded to it now because of this
 * @kept:    that were not taken, since something else here has their addresses, or there is no room
 */
struct hof_takeover_node {
	__u32	node;
	__u16	state;
	__u16	refusal;
	__u32	taken;
	__u32	kept;
};

/**
 * struct hof_takeover - argument of HOF_IOC_TAKEOVER
 * @size:       sizeof(struct hof_takeover)
 * @op:         enum hof_takeover_op
 * @family:     AF_INET or AF_INET6
 * @port:       network byte order; 0: every port of the address
 * @timeout_ms: ASK: how long the nodes may take, 1 to 60000; else 0
 * @address:    of the service: IPv4 in the first four bytes, zeros behind it
 * @nodes:      ASK: address of room for struct hof_takeover_node
 * @nr_nodes:   ASK: how many there is room for; out: how many there are
 * @pad:        0
 *
 * Needs CAP_NET_ADMIN in the user namespace of the device's network namespace.
 * Errors: EPERM, EINVAL, EFAULT; ENOSPC: HOF_TAKEOVER_MAX are prepared, or @nodes is too small;
 * EBUSY: somebody asks for the same service now, or for one that has some of its connections, since
 * a port of an address is a part of all of its ports; ENOENT: RELEASE of what is not prepared;
 * EINTR; ENOMEM.
 */
struct hof_takeover {
	__u32	size;
	__u32	op;
	__u16	family;
	__be16	port;
	__u32	timeout_ms;
	__u8	address[16];
	__aligned_u64 nodes;
	__u32	nr_nodes;
	__u32	pad;
};

/* Of /dev/handoff. */
#define HOF_IOC_TAKEOVER	_IOWR(0xF1, 16, struct hof_takeover)

#endif
