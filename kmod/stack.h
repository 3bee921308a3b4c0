/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Layers on a socket: several rooms replace the callbacks and the operations
 * of the same socket, come and go in any order, and their modules unload.
 *
 * The stack owns the socket's saved pointers. A room adds a struct flt_layer;
 * the socket's callbacks then run the layers from the newest to the oldest and
 * last the original. Removing a layer anywhere in the order only unlinks it.
 * With the last layer gone the original pointers return, unless someone else
 * has put theirs on top meanwhile: then the trampolines stay, pass everything
 * through, and keep flotilla.ko loaded until the socket dies.
 */
#ifndef FLT_STACK_H
#define FLT_STACK_H

#include <linux/net.h>
#include <net/sock.h>

struct flt_layer;

/**
 * struct flt_layer_ops - what a room wants to hear of or answer
 * @owner:        module, for the reference a layer holds
 * @name:         for the dump
 * @data_ready, @write_space, @state_change, @error_report: in the context of
 *	the callback they replace (softirq or process, with sk_callback_lock held
 *	as usual). Return true to pass the event on to the next layer, false to
 *	swallow it.
 * @destruct:     the socket is being destroyed; the layer is unlinked already.
 *	Softirq or RCU context, must not sleep.
 * @inherit:      a child was cloned from this listener and is about to be
 *	hashed; return true to put the same layer_ops on it (a new struct
 *	flt_layer is allocated with @priv_size and initialised by @init_child).
 *	NULL: children start bare.
 * @recvmsg, @sendmsg, @poll, @shutdown, @release: NULL, or an override of the
 *	operation of struct proto_ops; call flt_layer_next_*() for what is below.
 */
struct flt_layer_ops {
	struct module *owner;
	const char *name;
	bool (*data_ready)(struct flt_layer *layer, struct sock *sk);
	bool (*write_space)(struct flt_layer *layer, struct sock *sk);
	bool (*state_change)(struct flt_layer *layer, struct sock *sk);
	bool (*error_report)(struct flt_layer *layer, struct sock *sk);
	void (*destruct)(struct flt_layer *layer, struct sock *sk);
	bool (*inherit)(struct flt_layer *listener_layer, struct sock *child);
	void (*init_child)(struct flt_layer *listener_layer, struct flt_layer *child_layer);
	size_t priv_size;
	int (*recvmsg)(struct flt_layer *layer, struct socket *sock, struct msghdr *msg,
		       size_t len, int flags);
	int (*sendmsg)(struct flt_layer *layer, struct socket *sock, struct msghdr *msg,
		       size_t len);
	__poll_t (*poll)(struct flt_layer *layer, struct file *file, struct socket *sock,
			 struct poll_table_struct *wait);
	int (*shutdown)(struct flt_layer *layer, struct socket *sock, int how);
	int (*release)(struct flt_layer *layer, struct socket *sock);
};

/**
 * flt_layer_add - put a layer on a socket
 * @sk:   TCP socket, IPv4 or IPv6; accepted, connected, listening or not yet
 *	  accepted; the caller holds a reference
 * @ops:  at most one layer of the same ops on one socket
 * @gfp:  GFP_ATOMIC in softirq
 *
 * Return: the layer with a zeroed private area of @ops->priv_size bytes;
 * ERR_PTR(-EEXIST), -EOPNOTSUPP (not TCP, kTLS, sockmap), -ESHUTDOWN (stack is
 * being unloaded), -ENOMEM.
 */
struct flt_layer *flt_layer_add(struct sock *sk, const struct flt_layer_ops *ops, gfp_t gfp);

/* The layer of @ops on @sk or NULL; valid under RCU or as long as the caller owns it. */
struct flt_layer *flt_layer_find(const struct sock *sk, const struct flt_layer_ops *ops);
void *flt_layer_priv(struct flt_layer *layer);
struct sock *flt_layer_sock(const struct flt_layer *layer);

/*
 * Unlink; on return no callback of the layer runs or will run. Process context,
 * may sleep. Not from within one of the layer's own callbacks.
 */
void flt_layer_remove(struct flt_layer *layer);

/* Remove every layer of @ops from every socket of every namespace (module exit). */
void flt_layer_remove_all(const struct flt_layer_ops *ops);

int flt_layer_next_recvmsg(struct flt_layer *layer, struct socket *sock, struct msghdr *msg,
			   size_t len, int flags);
int flt_layer_next_sendmsg(struct flt_layer *layer, struct socket *sock, struct msghdr *msg,
			   size_t len);
__poll_t flt_layer_next_poll(struct flt_layer *layer, struct file *file, struct socket *sock,
			     struct poll_table_struct *wait);
int flt_layer_next_shutdown(struct flt_layer *layer, struct socket *sock, int how);

#endif
