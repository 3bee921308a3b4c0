/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Layers on a socket: several rooms replace the callbacks and the operations
 * of the same socket, come and go in any order, and their modules unload.
 *
 * The stack owns the socket's pointers. A room adds a struct flt_layer; the
 * socket's callbacks then run the layers from the newest to the oldest and last
 * TCP's own. Removing a layer anywhere in the order only unlinks it. With the
 * last layer gone TCP's own pointers return, unless someone else (sockmap, kTLS)
 * has saved ours meanwhile: then they stay, pass everything through, and keep
 * flotilla.ko loaded until the socket dies. See doc/layers.md.
 */
#ifndef FLT_STACK_H
#define FLT_STACK_H

#include <linux/err.h>
#include <linux/net.h>
#include <net/sock.h>

struct flt_layer;

/**
 * enum flt_op - operations that are reported by @returned once they have returned
 */
enum flt_op {
	FLT_OP_CONNECT,
	FLT_OP_ACCEPT,
	FLT_OP_LISTEN,
	FLT_OP_SETSOCKOPT,
	FLT_OP_SPLICE_READ,
	FLT_OP_GETSOCKOPT,	/* TCP_ZEROCOPY_RECEIVE reads */
	FLT_OP_RCVLOWAT,	/* SO_RCVLOWAT; with the socket's lock held */
	FLT_OP_SHUTDOWN,
};

/* From @may_*: the layer's own operation answers. */
#define FLT_ANSWER	1

/* From such an operation: not after all; what is below is asked. No errno. */
#define FLT_PASS	(-MAX_ERRNO - 1)

/**
 * struct flt_layer_ops - what a room wants to hear of or answer
 * @owner:        module; a layer that answers (FLT_ANSWER) holds a reference, so that rmmod
 *	says EBUSY instead of waiting. A layer as such holds none, nor does a call that is in
 *	TCP's own operation: the module's exit calls flt_layer_remove_all().
 * @name:         for traces
 * @data_ready, @write_space, @state_change, @error_report: in the context of
 *	the callback they replace (softirq or process) and under rcu_read_lock().
 *	Return true to pass the event on to the next layer, false to swallow it.
 * @destruct:     the socket is being destroyed; the layer is unlinked already.
 *	Softirq, RCU callback or process context; must not sleep.
 * @free:         the layer's memory is about to go, once for each layer, whether it
 *	was removed or its socket died; nothing of the layer runs. Must not sleep.
 * @inherit:      a child was cloned from this listener; it is locked and nothing has
 *	happened on it. Return true to put the same layer_ops on it (a new struct
 *	flt_layer is allocated with @priv_size and initialised by @init_child).
 *	Softirq. NULL: children start bare.
 * @accepted:     the child got its struct socket by accept(); it has no descriptor yet.
 * @may_recv, @may_send, @may_splice_read, @may_shutdown: before the operation; @how is its flags.
 *	  @may_recv is asked for TCP_ZEROCOPY_RECEIVE, too, which FLT_ANSWER makes -EOPNOTSUPP.
 *	0 lets it go to the next layer and TCP, a negative errno refuses it, FLT_ANSWER (not of
 *	@may_send and @may_shutdown) has it answered by @recvmsg or @splice_read. With
 *	preemption off; must not sleep.
 * @recvmsg, @splice_read: the layer's answer, or FLT_PASS; may sleep.
 * @received, @sent: the operation has returned @ret, whoever answered. Under rcu_read_lock(),
 *	must not sleep: of a layer that is on the socket when it returns, not when it was called.
 * @poll: NULL, or instead of TCP's own; call flt_layer_next_poll() for what is below. With a
 *	NULL poll table it comes from flt_layer_poll(): any context, must not sleep.
 * @changed:      another layer says by flt_layer_changed() that its @poll answers differently
 *	now; its context, under rcu_read_lock(); must not sleep
 * @release:      the last descriptor is being closed; the close itself follows. Any
 *	layer may be removed from here by flt_layer_detach().
 * @returned:        @op of the socket has returned @ret
 *
 * No program is waited for in @poll, @accepted, @release and @returned (but with a reference on
 * @owner): its socket may be locked by a call whose memory does not come, and rmmod waits for them.
 *
 * What is NULL costs nothing: a callback or the operations are replaced only on
 * sockets with a layer that wants them.
 */
struct flt_layer_ops {
	struct module *owner;
	const char *name;
	bool (*data_ready)(struct flt_layer *layer, struct sock *sk);
	bool (*write_space)(struct flt_layer *layer, struct sock *sk);
	bool (*state_change)(struct flt_layer *layer, struct sock *sk);
	bool (*error_report)(struct flt_layer *layer, struct sock *sk);
	void (*destruct)(struct flt_layer *layer, struct sock *sk);
	void (*free)(struct flt_layer *layer);
	bool (*inherit)(struct flt_layer *listener_layer, struct sock *child);
	void (*init_child)(struct flt_layer *listener_layer, struct flt_layer *child_layer,
			   struct sock *child);
	void (*accepted)(struct flt_layer *child_layer, struct socket *sock);
	size_t priv_size;
	int (*may_recv)(struct flt_layer *layer, struct sock *sk, int how);
	int (*may_send)(struct flt_layer *layer, struct sock *sk, int how);
	int (*may_splice_read)(struct flt_layer *layer, struct sock *sk, int how);
	int (*may_shutdown)(struct flt_layer *layer, struct sock *sk, int how);
	int (*recvmsg)(struct flt_layer *layer, struct socket *sock, struct msghdr *msg,
		       size_t len, int flags);
	ssize_t (*splice_read)(struct flt_layer *layer, struct socket *sock, loff_t *ppos,
			       struct pipe_inode_info *pipe, size_t len, unsigned int flags);
	void (*received)(struct flt_layer *layer, struct socket *sock, int ret);
	void (*sent)(struct flt_layer *layer, struct socket *sock, int ret);
	__poll_t (*poll)(struct flt_layer *layer, struct file *file, struct socket *sock,
			 struct poll_table_struct *wait);
	void (*changed)(struct flt_layer *layer, struct sock *sk);
	void (*release)(struct flt_layer *layer, struct socket *sock);
	void (*returned)(struct flt_layer *layer, struct socket *sock, enum flt_op op, int ret);
};

/**
 * flt_layer_add - put a layer on a socket
 * @sk:   TCP socket, IPv4 or IPv6; accepted, connected, listening or not yet
 *	  accepted; the caller holds a reference
 * @ops:  at most one layer of the same ops on one socket
 * @gfp:  GFP_KERNEL: takes the socket's lock, which the caller must not hold.
 *	  GFP_ATOMIC: takes no lock but sk_callback_lock; the caller holds the
 *	  socket's lock or no program can reach the socket yet.
 *
 * Events before the return are not reported: look at the socket's state after
 * adding. Not from within a callback of a socket.
 *
 * Return: the layer with a zeroed private area of @ops->priv_size bytes;
 * ERR_PTR(-EEXIST); -EOPNOTSUPP (not TCP, kTLS or another ULP, sockmap, a
 * kernel user that has its own callbacks on it); -EINVAL (GFP_ATOMIC for a
 * listener; GFP_ATOMIC, or a socket without a descriptor, for a layer that
 * overrides operations: such layers are inherited); -ESHUTDOWN (flotilla.ko is
 * being unloaded); -ENOMEM.
 */
struct flt_layer *flt_layer_add(struct sock *sk, const struct flt_layer_ops *ops, gfp_t gfp);

/**
 * flt_layer_add_soon - the same for somebody else's socket
 * @sk:  as for flt_layer_add()
 * @ops: the same
 *
 * Its program may have the socket locked for as long as it likes.
 *
 * Context: process, no socket's lock held.
 * Return: as flt_layer_add() with GFP_KERNEL; ERR_PTR(-EBUSY): the lock was not to be had for some
 * milliseconds.
 */
struct flt_layer *flt_layer_add_soon(struct sock *sk, const struct flt_layer_ops *ops);

/* The layer of @ops on @sk or NULL; valid under RCU or as long as the caller owns it. */
struct flt_layer *flt_layer_find(const struct sock *sk, const struct flt_layer_ops *ops);
/* No other room has a layer on its socket. Under RCU or as flt_layer_find(). */
bool flt_layer_is_alone(const struct flt_layer *layer);
/* The same, but for layers of its own module; the caller has the socket's lock, or is in RCU. */
bool flt_layer_is_among_own(const struct flt_layer *layer);
void *flt_layer_priv(struct flt_layer *layer);
struct sock *flt_layer_sock(const struct flt_layer *layer);

/**
 * flt_layer_remove - take a layer off its socket and wait
 * @layer: its socket is alive: the caller holds a reference to it, not its lock
 *
 * On return no callback of the layer runs or will run, and its memory is gone.
 * Waits for operations that are inside the layer: end those that block in the
 * layer itself first. Not from within the layer.
 *
 * Context: process, may sleep.
 */
void flt_layer_remove(struct flt_layer *layer);

/**
 * flt_layer_detach - take a layer off its socket without waiting
 * @layer: as for flt_layer_remove(), but the socket's lock may be held
 *
 * Callbacks of the layer may still run until the end of a grace period; then
 * @free is called and the memory goes. TCP's own pointers return a moment later.
 *
 * Context: any; also from within the layer.
 */
void flt_layer_detach(struct flt_layer *layer);

/**
 * flt_layer_remove_all - remove every layer of @ops from every socket of every namespace
 * @ops: nobody adds or removes layers of it any more
 *
 * For module exit. On return nothing of @ops runs or will run. Layers get @free,
 * not @destruct.
 */
void flt_layer_remove_all(const struct flt_layer_ops *ops);

/* What is below @layer, which is in its @poll, says. */
__poll_t flt_layer_next_poll(struct flt_layer *layer, struct file *file, struct socket *sock,
			     struct poll_table_struct *wait);

/**
 * flt_layer_poll - what would a program's poll() of the socket say now
 * @layer: who asks; its own @poll is passed by
 * @sock:  the layer's socket, not an orphan
 *
 * Whoever changes in his @poll what TCP itself would say, tells the others by running
 * the socket's callbacks (sk_data_ready, sk_write_space, sk_state_change), not by waking
 * its wait queue alone; where no program need be woken, by flt_layer_changed().
 *
 * Context: any, under rcu_read_lock() or with interrupts off.
 */
__poll_t flt_layer_poll(struct flt_layer *layer, struct socket *sock);

/**
 * flt_layer_poll_input - the same, when only what can be read may have changed
 * @layer: who asks
 * @sock:  the layer's socket, not an orphan
 * @was:   what was said of it last. The asker has asked again since for each event but
 *	   @data_ready, and for each operation but a receive and a send that left room
 *
 * Of a plain connection only its queue is looked at: errors, shutdowns and states come with
 * events of their own, urgent data with @data_ready.
 *
 * Context: as for flt_layer_poll().
 */
__poll_t flt_layer_poll_input(struct flt_layer *layer, struct socket *sock, __poll_t was);

/**
 * flt_layer_skip_poll - while @may says so, poll() of the socket need not come to this layer
 * @layer: in its @poll, with a poll table
 * @sock:  the layer's
 * @may:   under sk_callback_lock: would @poll only pass on what is below
 *
 * Unless another layer has a @poll, the socket is asked at TCP's own cost from now on,
 * until flt_layer_want_poll(). So a layer may stay on its socket when it has nothing to
 * do: a program that looks at all its sockets pays for each look at each.
 *
 * Context: process, sk_callback_lock not held.
 */
void flt_layer_skip_poll(struct flt_layer *layer, struct socket *sock,
			 bool (*may)(struct flt_layer *layer));

/**
 * flt_layer_want_poll - poll() comes to the layers of @sk again
 * @sk: whose layer says so; its @may was true before, and is false by now
 *
 * Context: any but hard interrupts, sk_callback_lock not held.
 */
void flt_layer_want_poll(struct sock *sk);

/**
 * flt_layer_skip_data - while @may says so, recvmsg and sendmsg need not come to this layer
 * @layer: in its @received or @sent
 * @sock:  the layer's
 * @may:   under sk_callback_lock: would @received and @sent do nothing. What it notes down itself
 *	   holds from then on: if it says so, the socket may be read and written unseen
 *
 * Unless another layer is asked or told of these, they are TCP's own from now on, until
 * flt_layer_want_data() or the next layer that is added. The other operations stay ours.
 *
 * Context: process, sk_callback_lock not held.
 */
void flt_layer_skip_data(struct flt_layer *layer, struct socket *sock,
			 bool (*may)(struct flt_layer *layer));

/**
 * flt_layer_want_data - recvmsg and sendmsg come to the layers of @sk again
 * @sk: whose layer says so; its @may was true before, and is false by now
 *
 * Calls that are under way in TCP's own end there, unseen.
 *
 * Context: any but hard interrupts, sk_callback_lock not held.
 */
void flt_layer_want_data(struct sock *sk);

/**
 * flt_layer_changed - what poll() says of the socket has changed without an event
 * @sk:  any socket
 * @ops: whose doing it is; the other layers get @changed
 *
 * Context: any.
 */
void flt_layer_changed(struct sock *sk, const struct flt_layer_ops *ops);

/**
 * flt_layer_take_ops - the operations of a child come to its layers
 * @sk: accepted, of a listener that had layers when the handshake ended
 *
 * An accept() that began before its listener had a layer ends as TCP's own: its child has TCP's
 * operations, and no layer gets @accepted. Whoever needs to hear of its program says so here.
 *
 * Context: any but hard interrupts, sk_callback_lock not held.
 */
void flt_layer_take_ops(struct sock *sk);

/**
 * flt_sock_data_ready - what is to be called for a program to hear of what lies unread
 * @sk: with a layer
 *
 * With kTLS of ours (tls.md) that is below it: kTLS itself says each record once.
 */
void (*flt_sock_data_ready(const struct sock *sk))(struct sock *sk);

/* For main.c. */
int flt_stack_init(void);
void flt_stack_exit(void);

#endif
