/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Links: one TCP connection between two nodes that list each other, kept up by
 * the kernel, carrying framed messages both ways in order.
 */
#ifndef FLT_LINK_H
#define FLT_LINK_H

#include <linux/bvec.h>
#include <linux/sizes.h>
#include <linux/uio.h>
#include "node.h"

/* Bytes of one message's body; a node without FLT_FEATURE_LARGE takes FLT_MSG_SMALL. */
#define FLT_MSG_MAX	(SZ_8M + SZ_64K)
#define FLT_MSG_SMALL	SZ_2M

/*
 * Message types: a room owns a range of 16. They are wire numbers: never
 * renumbered.
 */
enum flt_msg_range {
	FLT_MSG_LINK	= 0x00,		/* HELLO, heartbeats */
	FLT_MSG_HANDOFF	= 0x10,
	FLT_MSG_CARD	= 0x20,
	FLT_MSG_AFPA	= 0x30,
	FLT_MSG_REDIRECT = 0x40,	/* handoff's, too */
	FLT_MSG_TEST	= 0xf0,
};

/*
 * What a room sends with this type of its range is secret: wiped where it has been, on both sides.
 */
#define FLT_MSG_SECRET	0x0f

static inline bool flt_msg_is_secret(u8 type)
{
	return type >= FLT_MSG_HANDOFF && (type & 0x0f) == FLT_MSG_SECRET;
}

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
 * struct flt_sink - where the data of a bulk message goes
 * @iter: set by the handler, at least the data's length, ITER_DEST; left alone,
 *	  the data is thrown away
 * @type: of the message; set by the link
 * @priv: the handler's
 */
struct flt_sink {
	struct iov_iter iter;
	u8 type;
	void *priv;
};

/**
 * struct flt_msg_handler - who receives a range of message types
 * @range:  first type of the 16
 * @owner:  module
 * @handle: process context (one ordered worker for each link), may sleep but
 *	    then delays everything behind it on that link. @node is referenced for
 *	    the call. A negative return (EPROTO, EBADMSG) closes the link.
 * @bulk:      bit for each type of the range that is bulk: a head of @bulk_head bytes,
 *	       then data that is received straight to where it belongs, not through @handle
 * @bulk_head: bytes, 1 to FLT_BULK_HEAD_MAX; a message without data goes to @handle
 * @sink:   like @handle, once the head of a bulk message is there: @msg->body is the
 *	    head, @msg->len the whole message; says where the data goes
 * @absent: may be NULL; the peer has no room that takes messages of the range, and has thrown one
 *	    of @type away. Context and @node as for @handle
 * @sunk:   after each @sink that returned 0: the data is there, or @err: the link has
 *	    ended before it was. Process context, with the same @node.  A negative
 *	    return closes the link.
 */
struct flt_msg_handler {
	u8 range;
	struct module *owner;
	int (*handle)(struct flt_node *node, const struct flt_msg *msg);
	u16 bulk;
	u16 bulk_head;
	int (*sink)(struct flt_node *node, const struct flt_msg *msg, struct flt_sink *sink);
	int (*sunk)(struct flt_node *node, struct flt_sink *sink, int err);
	void (*absent)(struct flt_node *node, u8 type);
};

#define FLT_BULK_HEAD_MAX	256

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

/**
 * flt_link_send_secret - as flt_link_send(), by a link that nobody can listen to
 * @node:  target
 * @type:  FLT_MSG_SECRET of the room's range
 * @vec:   parts of the body, copied before return
 * @nr:    number of parts
 * @clear: or by any: somebody has said so loudly
 *
 * Context: process, may sleep.
 * Return: as flt_link_send(); -EPERM the link is not encrypted.
 */
int flt_link_send_secret(struct flt_node *node, u8 type, const struct kvec *vec,
			 unsigned int nr, bool clear);

/**
 * flt_node_pays - what is allocated with __GFP_ACCOUNT from here on is paid as the node's link is
 * @node: referenced until that has ended
 *
 * By who added the node: for what a peer has this node keep.
 *
 * Context: process.
 * Return: for set_active_memcg(), to end it.
 */
struct mem_cgroup *flt_node_pays(struct flt_node *node);

/**
 * struct flt_bulk - data at the end of a message, sent from where it lies
 * @bvec: parts, in pages of which TCP takes references: never of a slab
 * @nr:   number of parts
 * @len:  bytes of all parts
 * @done: called once, when the link is through with @bvec; TCP may still hold
 *	  references, so the pages must not change until only the caller's are left.
 *	  Any context but hard interrupt; neither sleeps nor sends.
 */
struct flt_bulk {
	const struct bio_vec *bvec;
	unsigned int nr;
	u32 len;
	void (*done)(struct flt_bulk *bulk);
};

/**
 * flt_link_send_bulk - queue a message whose end is not copied
 * @node: target
 * @type: message type
 * @vec:  parts of the head, copied before return
 * @nr:   number of parts
 * @bulk: the rest; stays valid until its done() is called, which may be at once
 * @gfp:  as flt_link_send()
 *
 * The data does not count in what a link may queue: it takes none of the link's memory.
 *
 * Context: as flt_link_send().
 * Return: as flt_link_send(); then done() is not called.
 */
int flt_link_send_bulk(struct flt_node *node, u8 type, const struct kvec *vec,
		       unsigned int nr, struct flt_bulk *bulk, gfp_t gfp);

/**
 * flt_link_bulked - data of flt_link_send_bulk() that waits for a node to take it
 * @node: target
 *
 * For who has to bound it: the link does not. What TCP has taken already is not in it.
 *
 * Context: any but hard interrupt.
 * Return: bytes; 0 also when the link is not up.
 */
u32 flt_link_bulked(const struct flt_node *node);

/**
 * flt_link_queue - queue a message and leave it to flt_link_flush() to send it
 * @node: target
 * @type: message type
 * @vec:  parts of the body, or of the head, copied before return
 * @nr:   number of parts
 * @bulk: as flt_link_send_bulk(), or NULL
 * @gfp:  as flt_link_send()
 *
 * For who has several messages, or knows better than the link when to send. Whatever else
 * is sent to that node takes it along.
 *
 * Context: as flt_link_send().
 * Return: as flt_link_send(); unless it is 0, done() of @bulk is not called.
 */
int flt_link_queue(struct flt_node *node, u8 type, const struct kvec *vec, unsigned int nr,
		   struct flt_bulk *bulk, gfp_t gfp);

/**
 * flt_link_flush - send what flt_link_queue() has left
 * @node: target
 * @now:  by this task, which takes no wake-up; else by the link's worker, with what
 *	  comes until it runs
 *
 * In a message handler it does nothing: what handlers queue leaves when they are through.
 *
 * Context: process with @now, else any but hard interrupt; not with a socket's lock held.
 */
void flt_link_flush(struct flt_node *node, bool now);

#endif
