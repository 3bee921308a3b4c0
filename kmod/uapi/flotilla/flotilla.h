/* SPDX-License-Identifier: (GPL-2.0 WITH Linux-syscall-note) OR MIT */
/*
 * Generic netlink family "flotilla": the node table, the links between nodes,
 * connections, counters and events of one network namespace.
 *
 * A cluster node is described to the kernel in four steps:
 *
 *   1. FLT_CMD_LOCAL_SET gives this node its name and the address its links
 *      use.  From then on it listens for links.
 *   2. FLT_CMD_NODE_NEW names each peer.  Of two nodes that list each other,
 *      the one with the lower address connects, the other waits.
 *   3. The peer's state becomes FLT_NODE_UP once both have exchanged a HELLO;
 *      the "events" multicast group says so.
 *   4. FLT_CMD_SERVICE_NEW says for which services connections of other nodes are taken.
 *      They are taken over authenticated links only (FLT_A_NODE_AUTH), unless
 *      FLT_A_LOCAL_INSECURE says otherwise.
 *
 * Everything belongs to the network namespace of the netlink socket and goes
 * with it.  Writing needs CAP_NET_ADMIN in the user namespace that owns it;
 * reading needs nothing.  The same contract in machine-readable form is
 * kmod/uapi/flotilla.yaml.  Numbers are never reused once released.
 */
#ifndef _UAPI_FLOTILLA_FLOTILLA_H
#define _UAPI_FLOTILLA_FLOTILLA_H

#include <linux/types.h>

#define FLT_GENL_NAME		"flotilla"
#define FLT_GENL_VERSION	1
#define FLT_GENL_MCGRP_EVENTS	"events"

/* Longest node name, with its terminating NUL. */
#define FLT_NAME_MAX		32

/* Longest version that a node tells, longest list of what is wrong with it, each with its NUL. */
#define FLT_VERSION_MAX		24
#define FLT_WRONG_MAX		192

/* TCP port of the links between nodes, unless FLT_A_LOCAL_PORT says otherwise. */
#define FLT_LINK_PORT		7471

/* UDP port on which back-ends receive FLT_FORWARD_UDP packets (kernel FOU). */
#define FLT_FORWARD_UDP_PORT	7472

/**
 * struct flt_tuple - one client connection, seen from the server side
 * @family:      AF_INET or AF_INET6
 * @client_port: network byte order
 * @server_port: network byte order; the port of the service
 * @pad:         zero
 * @client:      IPv6 address, or an IPv4 one in the first four bytes and zeros
 * @server:      the service's (virtual) address, in the same form
 */
struct flt_tuple {
	__u16	family;
	__be16	client_port;
	__be16	server_port;
	__u16	pad;
	__u8	client[16];
	__u8	server[16];
};

/**
 * enum flt_node_state - what the link to a node says about it
 * @FLT_NODE_DOWN:       no link; the last attempt failed or heartbeats stopped
 * @FLT_NODE_CONNECTING: TCP connection or HELLO exchange under way
 * @FLT_NODE_UP:         HELLOs exchanged, heartbeats arriving
 */
enum flt_node_state {
	FLT_NODE_DOWN,
	FLT_NODE_CONNECTING,
	FLT_NODE_UP,
};

/**
 * enum flt_node_admin - what the operator wants of a node
 * @FLT_ADMIN_ACTIVE:      takes new connections when up
 * @FLT_ADMIN_DRAIN:       keeps what it has, gets nothing new
 * @FLT_ADMIN_MAINTENANCE: as DRAIN, and its state is not watched
 */
enum flt_node_admin {
	FLT_ADMIN_ACTIVE,
	FLT_ADMIN_DRAIN,
	FLT_ADMIN_MAINTENANCE,
};

/**
 * enum flt_node_role - what a peer is to this node
 * @FLT_ROLE_BACKEND:  may be given connections
 * @FLT_ROLE_FRONTEND: gives connections; never chosen by a policy
 */
enum flt_node_role {
	FLT_ROLE_BACKEND,
	FLT_ROLE_FRONTEND,
};

/**
 * enum flt_forward - how packets of handed-off connections reach a node
 * @FLT_FORWARD_DIRECT: same Ethernet segment; only the MAC header is new
 * @FLT_FORWARD_IPIP:   IP in IP (protocol 4 or 41)
 * @FLT_FORWARD_UDP:    IP in UDP to FLT_FORWARD_UDP_PORT (FOU)
 */
enum flt_forward {
	FLT_FORWARD_DIRECT,
	FLT_FORWARD_IPIP,
	FLT_FORWARD_UDP,
};

/**
 * enum flt_auth - how a link proves who is at its other end
 * @FLT_AUTH_NONE: by source address and privileged port only; gives and takes no connections
 *	unless FLT_A_LOCAL_INSECURE says so
 * @FLT_AUTH_PSK:  TLS 1.3 with a pre-shared key (FLT_A_NODE_KEY: key serial)
 * @FLT_AUTH_X509: TLS 1.3 with certificates that tlshd is configured with
 */
enum flt_auth {
	FLT_AUTH_NONE,
	FLT_AUTH_PSK,
	FLT_AUTH_X509,
};

/**
 * enum flt_feature - what a node says in its HELLO that it knows: bits, never used again
 * @FLT_FEATURE_SECTIONS: checkpoints made of sections
 * @FLT_FEATURE_SENDQUEUE: checkpoints with what the client has not acknowledged
 * @FLT_FEATURE_CLAIM: a connection that is handed on is forwarded by who had it first, straight
 * @FLT_FEATURE_TLS: checkpoints with the keys of a TLS connection
 * @FLT_FEATURE_TAKEOVER: another front-end asks for the connections of a service address
 * @FLT_FEATURE_RELOCATE: a front-end has it hand on connections that it gave to it
 * @FLT_FEATURE_NOTIFY: who refuses surplus connections says when there is room
 * @FLT_FEATURE_REDIRECT: nodes tell each other their loads, and what is still there
 * @FLT_FEATURE_REPORT: nodes tell each other their version, their clock and what is wrong with them
 * @FLT_FEATURE_LARGE: checkpoints of up to 4 MiB each way, messages of up to 8 MiB and 64 KiB
 * @FLT_FEATURE_CACHE: commands of other nodes for the cache of afpa.ko, and the answer that it is
 *	not loaded
 * @FLT_FEATURE_HALFCLOSED: checkpoints of connections on which the server has sent its FIN
 * @FLT_FEATURE_OOO: checkpoints with what the client has sent out of order
 */
enum flt_feature {
	FLT_FEATURE_SECTIONS	= 1 << 0,
	FLT_FEATURE_SENDQUEUE	= 1 << 1,
	FLT_FEATURE_CLAIM	= 1 << 2,
	FLT_FEATURE_TLS		= 1 << 3,
	FLT_FEATURE_TAKEOVER	= 1 << 4,
	FLT_FEATURE_RELOCATE	= 1 << 5,
	FLT_FEATURE_NOTIFY	= 1 << 6,
	FLT_FEATURE_REDIRECT	= 1 << 7,
	FLT_FEATURE_REPORT	= 1 << 8,
	FLT_FEATURE_LARGE	= 1 << 9,
	FLT_FEATURE_CACHE	= 1 << 10,
	FLT_FEATURE_HALFCLOSED	= 1 << 11,
	FLT_FEATURE_OOO		= 1 << 12,
};

/**
 * struct flt_tls_way - one direction of a TLS connection
 * @key:     of the cipher; zeros behind it
 * @iv:      TLS 1.3: the write IV; what the kernel's interface calls salt is the beginning of it
 * @rec_seq: number of the next record, network byte order
 */
struct flt_tls_way {
	__u8	key[32];
	__u8	iv[12];
	__u8	rec_seq[8];
};

/**
 * struct flt_tls - the keys of a TLS connection whose handshake is over
 * @version: TLS_1_3_VERSION of linux/tls.h
 * @cipher:  TLS_CIPHER_AES_GCM_128, _AES_GCM_256 or _CHACHA20_POLY1305
 * @port:    of the listener that takes it, if not the connection's own; 0: the same
 * @pad:     zero
 * @tx:      from the server
 * @rx:      from the client: of the first record that is unread in TCP
 */
struct flt_tls {
	__u16	version;
	__u16	cipher;
	__u16	port;
	__u16	pad;
	struct flt_tls_way tx;
	struct flt_tls_way rx;
};

/**
 * enum flt_refusal - why an endpoint could not be taken out, moved or adopted
 *
 * 1 to 31: the socket cannot move.  32 to 63: the target would not have it.
 * 64 and up: the way between them failed.  0 is success.
 */
enum flt_refusal {
	FLT_REFUSE_NONE		= 0,
	FLT_REFUSE_NOTTCP	= 1,	/* not a TCP socket over IPv4 or IPv6 */
	FLT_REFUSE_STATE	= 2,	/* not connected; its FIN is sent, and the target is old */
	FLT_REFUSE_SENDQUEUE	= 3,	/* unacknowledged data, and the target takes none */
	FLT_REFUSE_OOO		= 4,	/* out-of-order data, and the target takes none */
	FLT_REFUSE_URGENT	= 5,	/* urgent data pending */
	FLT_REFUSE_ULP		= 6,	/* kTLS or another upper-layer protocol */
	FLT_REFUSE_MPTCP	= 7,
	FLT_REFUSE_PSOCK	= 8,	/* in a sockmap or under strparser */
	FLT_REFUSE_MD5		= 9,	/* TCP MD5 or TCP-AO keys */
	FLT_REFUSE_IPOPTIONS	= 10,
	FLT_REFUSE_FASTOPEN	= 11,
	FLT_REFUSE_REPAIR	= 12,	/* already in repair mode */
	FLT_REFUSE_TOOMUCH	= 13,	/* more data than a checkpoint holds */
	FLT_REFUSE_FOREIGN	= 14,	/* private struct proto (SMC, another module) */
	FLT_REFUSE_SHARED	= 15,	/* several processes use the socket */
	FLT_REFUSE_BUSY		= 16,	/* a handoff of it, or a record of its TLS */
	FLT_REFUSE_CHANGED	= 17,	/* ended, or else changed, between checkpoint and commit */
	FLT_REFUSE_FINRECV	= 18,	/* the client has closed its side */
	FLT_REFUSE_SCOPE	= 19,	/* a link-local address means nothing elsewhere */
	FLT_REFUSE_ACCECN	= 20,	/* it counts congestion by AccECN */

	FLT_REFUSE_NOLISTENER	= 32,	/* nobody listens on that address and port */
	FLT_REFUSE_FULL		= 33,	/* accept queue full */
	FLT_REFUSE_DUPLICATE	= 34,	/* the target already has this connection */
	FLT_REFUSE_NOROUTE	= 35,	/* no route back to the client */
	FLT_REFUSE_NOMEM	= 36,
	FLT_REFUSE_VERSION	= 37,	/* it needs what the target does not know */
	FLT_REFUSE_MALFORMED	= 38,	/* checkpoint with impossible content */
	FLT_REFUSE_NOTLOCAL	= 39,	/* the service address is not one of the target's */
	FLT_REFUSE_POLICY	= 40,	/* target disabled, or a security module said no */
	FLT_REFUSE_INSECURE	= 41,	/* nobody has authenticated the link */
	FLT_REFUSE_SERVICE	= 42,	/* not one of the services that the target takes */
	FLT_REFUSE_CLIENT	= 43,	/* no client has that address */
	FLT_REFUSE_ROLE		= 44,	/* the giver's role does not let it give that */
	FLT_REFUSE_KEYS		= 45,	/* keys go over a link that is encrypted, or not at all */
	FLT_REFUSE_KTLS		= 46,	/* the target's kernel does no such TLS */

	FLT_REFUSE_NODEDOWN	= 64,	/* no link to the node */
	FLT_REFUSE_TIMEOUT	= 65,	/* the node did not answer in time */
	FLT_REFUSE_ABORTED	= 66,	/* the dispatcher took it back */
	FLT_REFUSE_TABLEFULL	= 67,	/* no room in the forwarding table */
	FLT_REFUSE_NONODE	= 68,	/* no such node in the node table */
};

/**
 * enum flt_cmd - commands and notifications
 * @FLT_CMD_LOCAL_GET: this node: FLT_A_LOCAL_*
 * @FLT_CMD_LOCAL_SET: set FLT_A_LOCAL_NAME, _ADDR4 or _ADDR6, _PORT; (re)starts
 *	the listener.  EADDRNOTAVAIL: not an address of this machine.  And, alone or with
 *	these, FLT_A_LOCAL_INSECURE
 * @FLT_CMD_NODE_GET: one node (FLT_A_NODE_NAME or _ID) or a dump of all
 * @FLT_CMD_NODE_NEW: needs FLT_A_NODE_NAME and an address; EEXIST, EINVAL
 * @FLT_CMD_NODE_SET: change what is given of an existing node; ENOENT
 * @FLT_CMD_NODE_DEL: forget it; its link closes and its connections are reset
 * @FLT_CMD_CONN_GET: dump of the connections handed off (FLT_A_CONN_*); needs
 *	CAP_NET_ADMIN since it names clients
 * @FLT_CMD_STATS_GET: dump of all counters of all rooms loaded (FLT_A_STAT_*)
 * @FLT_CMD_EVENT: notification only: FLT_A_EVENT_TYPE and the object concerned
 * @FLT_CMD_SERVICE_GET: dump of the services that connections are taken for (FLT_A_SERVICE_*)
 * @FLT_CMD_SERVICE_NEW: take connections of other nodes for FLT_A_SERVICE_ADDR4 or _ADDR6, and
 *	only for FLT_A_SERVICE_PORT when that is given. Nothing is taken for a service that is
 *	not listed.  EEXIST; ENOSPC after 256; EINVAL: loopback, multicast, ...
 * @FLT_CMD_SERVICE_DEL: no more, named as it was added; what was taken goes on. ENOENT
 * @FLT_CMD_POLICY_GET: dump of the services whose requests a policy decides on, a message for each
 *	of their counters (FLT_A_SERVICE_*, FLT_A_POLICY_*, FLT_A_STAT_NAME, _VALUE)
 * @FLT_CMD_POLICY_SET: a service (FLT_A_SERVICE_*, the port too) gets the policy FLT_A_POLICY_NAME,
 *	or that instead of another, at once. ENOENT: no such policy; EINVAL: an argument;
 *	EOPNOTSUPP: handoff.ko is not loaded
 * @FLT_CMD_POLICY_DEL: it has none. ENOENT
 * @FLT_CMD_REDIRECT_GET: dump of the services whose SYNs go to lighter nodes, a message for each of
 *	their numbers (FLT_A_SERVICE_*, FLT_A_STAT_NAME, _VALUE), and one for each node that takes
 *	them (FLT_A_NODE_NAME, too)
 * @FLT_CMD_REDIRECT_SET: a service (FLT_A_SERVICE_*, the port too) gets a rule, or what
 *	FLT_A_POLICY_ARGS say of it is changed: above=NUMBER|off, queue=PERCENT|off,
 *	hysteresis=NUMBER, take=0|1, hint=NUMBER|auto. EINVAL, ERANGE: one of these; ENOSPC: 64
 *	have one; EOPNOTSUPP: handoff.ko is not loaded
 * @FLT_CMD_REDIRECT_DEL: it has none; what was redirected goes on. ENOENT
 * @FLT_CMD_REPORT_SET: what somebody who examined this node found: FLT_A_REPORT_FAULTS, _WARNINGS
 *	and, if anything, _WRONG. Peers with FLT_FEATURE_REPORT hear it within about a second and
 *	a heartbeat, over links that are authenticated (or with FLT_A_LOCAL_INSECURE). EINVAL
 */
enum flt_cmd {
	FLT_CMD_UNSPEC,
	FLT_CMD_LOCAL_GET,
	FLT_CMD_LOCAL_SET,
	FLT_CMD_NODE_GET,
	FLT_CMD_NODE_NEW,
	FLT_CMD_NODE_SET,
	FLT_CMD_NODE_DEL,
	FLT_CMD_CONN_GET,
	FLT_CMD_STATS_GET,
	FLT_CMD_EVENT,
	FLT_CMD_SERVICE_GET,
	FLT_CMD_SERVICE_NEW,
	FLT_CMD_SERVICE_DEL,
	FLT_CMD_POLICY_GET,
	FLT_CMD_POLICY_SET,
	FLT_CMD_POLICY_DEL,
	FLT_CMD_REDIRECT_GET,
	FLT_CMD_REDIRECT_SET,
	FLT_CMD_REDIRECT_DEL,
	FLT_CMD_REPORT_SET,
	__FLT_CMD_MAX
};

#define FLT_CMD_MAX (__FLT_CMD_MAX - 1)

/**
 * enum flt_event - what FLT_CMD_EVENT reports
 * @FLT_EVENT_NODE_ADDED:   node attributes follow
 * @FLT_EVENT_NODE_REMOVED: node name and id follow
 * @FLT_EVENT_NODE_CHANGED: weight, admin state, ... changed; attributes follow
 * @FLT_EVENT_NODE_UP:      its link came up
 * @FLT_EVENT_NODE_DOWN:    its link went down
 * @FLT_EVENT_DISPATCH:     a sysfs attribute of the dispatch device changed
 */
enum flt_event {
	FLT_EVENT_UNSPEC,
	FLT_EVENT_NODE_ADDED,
	FLT_EVENT_NODE_REMOVED,
	FLT_EVENT_NODE_CHANGED,
	FLT_EVENT_NODE_UP,
	FLT_EVENT_NODE_DOWN,
	FLT_EVENT_DISPATCH,
};

/**
 * enum flt_attr - attributes; one flat space, which command takes which is
 * said at the command
 */
enum flt_attr {
	FLT_A_UNSPEC,
	FLT_A_PAD,

	FLT_A_LOCAL_NAME,	/* string, 1 to FLT_NAME_MAX - 1 of [A-Za-z0-9._-] */
	FLT_A_LOCAL_ADDR4,	/* u32, network order */
	FLT_A_LOCAL_ADDR6,	/* 16 bytes */
	FLT_A_LOCAL_PORT,	/* u16, host order; default FLT_LINK_PORT */

	FLT_A_NODE_ID,		/* u32, given by the kernel, unique in the namespace, never 0 */
	FLT_A_NODE_NAME,	/* string, as FLT_A_LOCAL_NAME */
	FLT_A_NODE_ADDR4,	/* u32, network order: its link address */
	FLT_A_NODE_ADDR6,	/* 16 bytes */
	FLT_A_NODE_PORT,	/* u16: its link port */
	FLT_A_NODE_WEIGHT,	/* u32, 0 to 65535, default 100; 0: nothing new */
	FLT_A_NODE_STATE,	/* u8, enum flt_node_state; read only */
	FLT_A_NODE_ADMIN,	/* u8, enum flt_node_admin */
	FLT_A_NODE_ROLE,	/* u8, enum flt_node_role */
	FLT_A_NODE_FORWARD,	/* u8, enum flt_forward */
	FLT_A_NODE_FWD_ADDR4,	/* u32: where packets are forwarded; default the link address */
	FLT_A_NODE_FWD_ADDR6,	/* 16 bytes */
	FLT_A_NODE_AUTH,	/* u8, enum flt_auth */
	FLT_A_NODE_KEY,		/* s32, serial of a key; only with FLT_AUTH_PSK */
	FLT_A_NODE_LOAD,	/* u32: connections it now serves for us; read only */
	FLT_A_NODE_RTT_US,	/* u32: last heartbeat round trip; read only */
	FLT_A_NODE_UPTIME_MS,	/* u64: since the link came up; read only */
	FLT_A_NODE_RECONNECTS,	/* u32; read only */

	FLT_A_CONN_TUPLE,	/* struct flt_tuple */
	FLT_A_CONN_NODE,	/* string: the owner's name */
	FLT_A_CONN_STATE,	/* string: HOLD, FORWARD, REDIRECT or LINGER */
	FLT_A_CONN_PACKETS,	/* u64 forwarded */
	FLT_A_CONN_BYTES,	/* u64 forwarded */
	FLT_A_CONN_AGE_MS,	/* u64 */

	FLT_A_STAT_ROOM,	/* string: flotilla, handoff, ... */
	FLT_A_STAT_NAME,	/* string: HandoffDone, ... */
	FLT_A_STAT_VALUE,	/* u64 */

	FLT_A_EVENT_TYPE,	/* u8, enum flt_event */

	FLT_A_NODE_REASON,	/* string: why its link is not up, or last went down; read only */

	FLT_A_LOCAL_INSECURE,	/* u8: 1: give and take over links without authentication, too */
	FLT_A_NODE_PROVEN,	/* u8: 1: its link is up and authenticated; read only */

	FLT_A_SERVICE_ADDR4,	/* u32, network order */
	FLT_A_SERVICE_ADDR6,	/* 16 bytes */
	FLT_A_SERVICE_PORT,	/* u16, host order; absent: every port */

	FLT_A_NODE_FEATURES,	/* u64, enum flt_feature: what it said; 0: nothing; read only */

	FLT_A_POLICY_NAME,	/* string, up to 15 characters */
	FLT_A_POLICY_ARGS,	/* string, up to 511: nodes, NAME=NUMBER; absent: none */

	/*
	 * What a node says of itself, over the link that is up: shown, and believed in nothing.
	 * Read only; the REPORT ones are absent where nobody has examined it, and are also what
	 * FLT_CMD_REPORT_SET takes.
	 */
	FLT_A_NODE_VERSION,	/* string, printable ASCII: of its modules */
	FLT_A_NODE_CLOCK_US,	/* s64: how far its clock is ahead of this node's */
	FLT_A_NODE_CLOCK_ERROR_US, /* u32: and by how much that may be wrong, either way */
	FLT_A_REPORT_FAULTS,	/* u32 */
	FLT_A_REPORT_WARNINGS,	/* u32 */
	FLT_A_REPORT_WRONG,	/* string, up to 191, printable ASCII: names of what is wrong */
	FLT_A_REPORT_AGE_S,	/* u32: seconds since it was examined; read only */

	__FLT_A_MAX
};

#define FLT_A_MAX (__FLT_A_MAX - 1)

#endif /* _UAPI_FLOTILLA_FLOTILLA_H */
