/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What two nodes say to each other about a connection:
 *
 *	giver				taker
 *	HANDOFF{id, checkpoint}	->
 *				<-	ACK{id} or NAK{id, refusal}
 *	COMMIT{id} or ABORT{id}	->
 *				<-	QUERY{id}	no COMMIT for a while
 *	ABORT{id}		->			not under way any more
 *				<-	LIFE{id, tuple, what} ...
 *
 * The giver owns the connection until it has sent COMMIT. Ids are the giver's,
 * unique in the life of its namespace. Numbers are in network byte order.
 */
#ifndef HOF_MESSAGE_H
#define HOF_MESSAGE_H

#include "kmod/link.h"

struct hof_net;

enum hof_msg_type {
	HOF_MSG_HANDOFF	= FLT_MSG_HANDOFF,
	HOF_MSG_ACK,
	HOF_MSG_NAK,
	HOF_MSG_COMMIT,
	HOF_MSG_ABORT,
	HOF_MSG_QUERY,
	HOF_MSG_LIFE,
};

/* Followed by the checkpoint. */
struct hof_msg_handoff {
	__be64 id;
	__be32 flags;
	__be32 pad;
};

/* ACK, COMMIT, ABORT and QUERY; in NAK with the reason. */
struct hof_msg_id {
	__be64 id;
	__be32 refusal;
	__be32 pad;
};

enum hof_life {
	HOF_LIFE_CLOSED	= 0,
	HOF_LIFE_IDLE	= 1,
	HOF_LIFE_BUSY	= 2,
};

/* LIFE is as many of these as its length says. */
struct hof_msg_life {
	__be64 id;
	__be16 family;		/* 4 or 6 */
	__be16 what;
	__be16 client_port;
	__be16 server_port;
	u8 client[16];
	u8 server[16];
};

#define HOF_LIFE_MAX	64	/* records in one message */

int hof_message_register(void);
void hof_message_unregister(void);

/* As flt_link_send(). */
int hof_message_send(struct flt_node *node, enum hof_msg_type type, u64 id,
		     enum flt_refusal why, gfp_t gfp);
int hof_message_send_handoff(struct flt_node *node, u64 id, u32 flags,
			     const void *wire, u32 len);

#endif
