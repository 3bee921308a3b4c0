/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Links: one TCP connection between two nodes that list each other, kept up by
 * the kernel, carrying framed messages both ways in order.
 */
#ifndef FLT_LINK_H
#define FLT_LINK_H

#include <linux/sizes.h>
#include <linux/uio.h>
#include "node.h"

/* Bytes of one message's body. */
#define FLT_MSG_MAX	SZ_2M

/*
 * Message types: a room owns a range of 16. They are wire numbers: never
 * renumbered.
 */
enum flt_msg_range {
	FLT_MSG_LINK	= 0x00,		/* HELLO, heartbeats */
	FLT_MSG_HANDOFF	= 0x10,
	FLT_MSG_CARD	= 0x20,
	FLT_MSG_AFPA	= 0x30,
	FLT_MSG_TEST	= 0xf0,
};

/**
 * struct flt_msg - a received message
 * @type: first number of the range plus the room's own
 * @len:  bytes in @body
 * @body: valid during the call; linear
 */
struct flt_msg {
	u8 type;
	u32 len;
	const void *body;
};

/**
 * struct flt_msg_handler - who receives a range of message types
 * @range:  first type of the 16
 * @owner:  module
 * @handle: process context (one ordered worker for each link), may sleep but
 *	    then delays everything behind it on that link. @node is referenced for
 *	    the call. A negative return (EPROTO, EBADMSG) closes the link.
 */
struct flt_msg_handler {
	u8 range;
	struct module *owner;
	int (*handle)(struct flt_node *node, const struct flt_msg *msg);
};

int flt_msg_handler_register(const struct flt_msg_handler *handler);
/* On return no call of @handler is running or will start. */
void flt_msg_handler_unregister(const struct flt_msg_handler *handler);

/**
 * flt_link_send - queue a message to a node
 * @node: target
 * @type: message type
 * @vec:  parts of the body, copied before return
 * @nr:   number of parts
 * @gfp:  GFP_KERNEL, or GFP_ATOMIC in softirq
 *
 * Queued messages that are sent together share segments. Order is kept.
 *
 * Context: any but hard interrupt; not with a socket's lock held.
 * Return: 0; -ENOTCONN link not up; -EMSGSIZE; -ENOBUFS the peer has not taken
 * what is queued already; -ENOMEM.
 */
int flt_link_send(struct flt_node *node, u8 type, const struct kvec *vec,
		  unsigned int nr, gfp_t gfp);

#endif
