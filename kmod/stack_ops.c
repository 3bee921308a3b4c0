// SPDX-License-Identifier: GPL-2.0
/* Layers on a socket: the operations of struct proto_ops. See doc/layers.md. */

#include <linux/module.h>
#include <linux/slab.h>
#include <linux/splice.h>
#include <net/tcp.h>
#include "stack_priv.h"

#define FLT_FROM_TOP	U32_MAX

/*
 * The newest layer older than @seq that has the operation at @offset. By number and
 * not by link: the layer that asks may have been removed while its operation slept.
 * A call that @blocks holds the owner, so that rmmod says EBUSY; an owner that is
 * being unloaded waits for nobody and is passed by. Under rcu_read_lock().
 */
static __always_inline struct flt_layer *flt_layer_enter(struct flt_stack *st, u32 seq,
							 size_t offset, bool blocks)
{
	struct flt_layer *layer;

	list_for_each_entry_rcu(layer, &st->layers, list) {
		if (layer->seq >= seq || !*(void **)((char *)layer->ops + offset))
			continue;
		if (blocks && !try_module_get(layer->ops->owner))
			continue;
		if (refcount_inc_not_zero(&layer->users))
			return layer;
		if (blocks)
			module_put(layer->ops->owner);
	}
	return NULL;
}

static struct flt_layer *flt_layer_below(struct flt_stack *st, u32 seq, size_t offset, bool blocks)
{
	struct flt_layer *layer;

	rcu_read_lock();
	layer = flt_layer_enter(st, seq, offset, blocks);
	rcu_read_unlock();
	return layer;
}

/* New layers come on top: what has none below it has none for good. */
static bool flt_layer_is_lowest(const struct flt_layer *layer)
{
	return READ_ONCE(layer->list.next) == &layer->stack->layers;
}

static void flt_layer_leave(struct flt_layer *layer, bool blocks)
{
	struct module *owner = layer->ops->owner;

	flt_layer_put(layer);
	if (blocks)
		module_put(owner);
}

#define FLT_BELOW(st, seq, op, blocks) \
	flt_layer_below(st, seq, offsetof(struct flt_layer_ops, op), blocks)

/* The operations of one socket, for the time of one call. */
struct flt_call {
	struct flt_stack *st;
	const struct proto_ops *real;
	bool pinned;
};

/*
 * A stack holds this module, and the call the stack. Without a stack (sock->ops was
 * read just before it went, or kernel_accept() copied the listener's pointer after us)
 * put TCP's own back and hold the module itself.
 */
static noinline void flt_call_astray(struct flt_call *call, struct sock *sk)
{
	call->pinned = try_module_get(THIS_MODULE);
	write_lock_bh(&sk->sk_callback_lock);
	rcu_read_lock();
	if (!flt_stack_lookup(sk))
		flt_base_set_ops(sk, false);
	rcu_read_unlock();
	write_unlock_bh(&sk->sk_callback_lock);
}

static void flt_call_begin(struct flt_call *call, struct sock *sk)
{
	call->real = flt_base(sk)->real_ops;
	call->pinned = false;
	call->st = flt_stack_get(sk);
	if (unlikely(!call->st))
		flt_call_astray(call, sk);
}

static void flt_call_end(struct flt_call *call)
{
	if (call->st)
		flt_stack_put(call->st);
	if (call->pinned)
		module_put(THIS_MODULE);
}

/*
 * The first layer that has the operation at @offset, or NULL: then it goes on by flt_call_begin().
 * Who is in a layer needs nothing else: that holds the stack, and the stack this module.
 */
static __always_inline struct flt_layer *flt_enter(struct sock *sk, size_t offset, bool blocks)
{
	struct flt_layer *layer = NULL;
	struct flt_stack *st;

	/* Not to be preempted is a reader, too, and a third of the instructions. */
	rcu_read_lock_sched();
	st = flt_stack_lookup(sk);
	if (likely(st))
		layer = flt_layer_enter(st, FLT_FROM_TOP, offset, blocks);
	rcu_read_unlock_sched();
	return layer;
}

#define FLT_ENTER(sk, op, blocks) flt_enter(sk, offsetof(struct flt_layer_ops, op), blocks)

static void flt_call_returned(struct flt_call *call, struct socket *sock, enum flt_op op, int ret)
{
	struct flt_layer *layer;
	u32 seq = FLT_FROM_TOP;

	if (!call->st)
		return;
	while ((layer = FLT_BELOW(call->st, seq, returned, false))) {
		layer->ops->returned(layer, sock, op, ret);
		seq = layer->seq;
		flt_layer_leave(layer, false);
	}
}

/* --- operations that a layer may answer --- */

static noinline int flt_recvmsg_below(struct flt_layer *layer, struct socket *sock,
				      struct msghdr *msg, size_t len, int flags)
{
	bool blocks = !(flags & MSG_DONTWAIT);
	struct flt_layer *next = FLT_BELOW(layer->stack, layer->seq, recvmsg, blocks);
	int ret;

	if (!next)
		return flt_base(sock->sk)->real_ops->recvmsg(sock, msg, len, flags);
	ret = next->ops->recvmsg(next, sock, msg, len, flags);
	flt_layer_leave(next, blocks);
	return ret;
}

int flt_layer_next_recvmsg(struct flt_layer *layer, struct socket *sock, struct msghdr *msg,
			   size_t len, int flags)
{
	if (likely(flt_layer_is_lowest(layer)))
		return flt_base(sock->sk)->real_ops->recvmsg(sock, msg, len, flags);
	return flt_recvmsg_below(layer, sock, msg, len, flags);
}
EXPORT_SYMBOL_GPL(flt_layer_next_recvmsg);

static noinline int flt_recvmsg_bare(struct socket *sock, struct msghdr *msg, size_t len, int flags)
{
	struct flt_call call;
	int ret;

	flt_call_begin(&call, sock->sk);
	ret = call.real->recvmsg(sock, msg, len, flags);
	flt_call_end(&call);
	return ret;
}

static int flt_on_recvmsg(struct socket *sock, struct msghdr *msg, size_t len, int flags)
{
	bool blocks = !(flags & MSG_DONTWAIT);
	struct flt_layer *layer = FLT_ENTER(sock->sk, recvmsg, blocks);
	int ret;

	if (unlikely(!layer))
		return flt_recvmsg_bare(sock, msg, len, flags);
	ret = layer->ops->recvmsg(layer, sock, msg, len, flags);
	flt_layer_leave(layer, blocks);
	return ret;
}

static noinline int flt_sendmsg_below(struct flt_layer *layer, struct socket *sock,
				      struct msghdr *msg, size_t len)
{
	bool blocks = !(msg->msg_flags & MSG_DONTWAIT);
	struct flt_layer *next = FLT_BELOW(layer->stack, layer->seq, sendmsg, blocks);
	int ret;

	if (!next)
		return flt_base(sock->sk)->real_ops->sendmsg(sock, msg, len);
	ret = next->ops->sendmsg(next, sock, msg, len);
	flt_layer_leave(next, blocks);
	return ret;
}

int flt_layer_next_sendmsg(struct flt_layer *layer, struct socket *sock, struct msghdr *msg,
			   size_t len)
{
	if (likely(flt_layer_is_lowest(layer)))
		return flt_base(sock->sk)->real_ops->sendmsg(sock, msg, len);
	return flt_sendmsg_below(layer, sock, msg, len);
}
EXPORT_SYMBOL_GPL(flt_layer_next_sendmsg);

static noinline int flt_sendmsg_bare(struct socket *sock, struct msghdr *msg, size_t len)
{
	struct flt_call call;
	int ret;

	flt_call_begin(&call, sock->sk);
	ret = call.real->sendmsg(sock, msg, len);
	flt_call_end(&call);
	return ret;
}

static int flt_on_sendmsg(struct socket *sock, struct msghdr *msg, size_t len)
{
	bool blocks = !(msg->msg_flags & MSG_DONTWAIT);
	struct flt_layer *layer = FLT_ENTER(sock->sk, sendmsg, blocks);
	int ret;

	if (unlikely(!layer))
		return flt_sendmsg_bare(sock, msg, len);
	ret = layer->ops->sendmsg(layer, sock, msg, len);
	flt_layer_leave(layer, blocks);
	return ret;
}

static ssize_t flt_splice_read_below(struct flt_stack *st, u32 seq, struct socket *sock,
				     loff_t *ppos, struct pipe_inode_info *pipe, size_t len,
				     unsigned int flags)
{
	bool blocks = !(flags & SPLICE_F_NONBLOCK);
	struct flt_layer *layer;
	ssize_t ret;

	layer = st ? FLT_BELOW(st, seq, splice_read, blocks) : NULL;
	if (!layer)
		return flt_base(sock->sk)->real_ops->splice_read(sock, ppos, pipe, len, flags);
	ret = layer->ops->splice_read(layer, sock, ppos, pipe, len, flags);
	flt_layer_leave(layer, blocks);
	return ret;
}

ssize_t flt_layer_next_splice_read(struct flt_layer *layer, struct socket *sock, loff_t *ppos,
				   struct pipe_inode_info *pipe, size_t len, unsigned int flags)
{
	return flt_splice_read_below(layer->stack, layer->seq, sock, ppos, pipe, len, flags);
}
EXPORT_SYMBOL_GPL(flt_layer_next_splice_read);

static ssize_t flt_on_splice_read(struct socket *sock, loff_t *ppos, struct pipe_inode_info *pipe,
				  size_t len, unsigned int flags)
{
	struct flt_call call;
	ssize_t ret;

	flt_call_begin(&call, sock->sk);
	ret = flt_splice_read_below(call.st, FLT_FROM_TOP, sock, ppos, pipe, len, flags);
	flt_call_returned(&call, sock, FLT_OP_SPLICE_READ, ret);
	flt_call_end(&call);
	return ret;
}

static __poll_t flt_poll_below(struct flt_stack *st, u32 seq, struct file *file,
			       struct socket *sock, struct poll_table_struct *wait)
{
	struct flt_layer *layer = FLT_BELOW(st, seq, poll, false);
	__poll_t ret;

	if (!layer)
		return flt_base(sock->sk)->real_ops->poll(file, sock, wait);
	ret = layer->ops->poll(layer, file, sock, wait);
	flt_layer_leave(layer, false);
	return ret;
}

__poll_t flt_layer_next_poll(struct flt_layer *layer, struct file *file, struct socket *sock,
			     struct poll_table_struct *wait)
{
	if (flt_layer_is_lowest(layer))
		return flt_base(sock->sk)->real_ops->poll(file, sock, wait);
	return flt_poll_below(layer->stack, layer->seq, file, sock, wait);
}
EXPORT_SYMBOL_GPL(flt_layer_next_poll);

static noinline __poll_t flt_poll_bare(struct file *file, struct socket *sock,
				       struct poll_table_struct *wait)
{
	struct flt_call call;
	__poll_t ret;

	flt_call_begin(&call, sock->sk);
	ret = call.real->poll(file, sock, wait);
	flt_call_end(&call);
	return ret;
}

static __poll_t flt_on_poll(struct file *file, struct socket *sock, struct poll_table_struct *wait)
{
	struct flt_layer *layer = FLT_ENTER(sock->sk, poll, false);
	__poll_t ret;

	if (unlikely(!layer))
		return flt_poll_bare(file, sock, wait);
	ret = layer->ops->poll(layer, file, sock, wait);
	flt_layer_leave(layer, false);
	return ret;
}

void flt_layer_changed(struct sock *sk, const struct flt_layer_ops *ops)
{
	struct flt_layer *layer;
	struct flt_stack *st;

	rcu_read_lock();
	st = flt_stack_lookup(sk);
	if (st) {
		list_for_each_entry_rcu(layer, &st->layers, list)
			if (layer->ops != ops && layer->ops->changed)
				layer->ops->changed(layer, sk);
	}
	rcu_read_unlock();
}
EXPORT_SYMBOL_GPL(flt_layer_changed);

static int flt_shutdown_below(struct flt_stack *st, u32 seq, struct socket *sock, int how)
{
	struct flt_layer *layer;
	int ret;

	layer = st ? FLT_BELOW(st, seq, shutdown, false) : NULL;
	if (!layer)
		return flt_base(sock->sk)->real_ops->shutdown(sock, how);
	ret = layer->ops->shutdown(layer, sock, how);
	flt_layer_leave(layer, false);
	return ret;
}

int flt_layer_next_shutdown(struct flt_layer *layer, struct socket *sock, int how)
{
	return flt_shutdown_below(layer->stack, layer->seq, sock, how);
}
EXPORT_SYMBOL_GPL(flt_layer_next_shutdown);

static int flt_on_shutdown(struct socket *sock, int how)
{
	struct flt_call call;
	int ret;

	flt_call_begin(&call, sock->sk);
	ret = flt_shutdown_below(call.st, FLT_FROM_TOP, sock, how);
	flt_call_end(&call);
	return ret;
}

/* --- operations that a layer hears of --- */

static int flt_on_release(struct socket *sock)
{
	struct flt_layer *layer;
	u32 seq = FLT_FROM_TOP;
	struct flt_call call;
	int ret;

	if (!sock->sk)
		return 0;	/* an accept() that failed */
	flt_call_begin(&call, sock->sk);
	while (call.st && (layer = FLT_BELOW(call.st, seq, release, false))) {
		layer->ops->release(layer, sock);
		seq = layer->seq;
		flt_layer_leave(layer, false);
	}
	ret = call.real->release(sock);
	flt_call_end(&call);
	return ret;
}

static int flt_on_connect(struct socket *sock, struct sockaddr *addr, int len, int flags)
{
	struct flt_call call;
	int ret;

	flt_call_begin(&call, sock->sk);
	ret = call.real->connect(sock, addr, len, flags);
	flt_call_returned(&call, sock, FLT_OP_CONNECT, ret);
	flt_call_end(&call);
	return ret;
}

static int flt_on_listen(struct socket *sock, int backlog)
{
	struct flt_call call;
	int ret;

	flt_call_begin(&call, sock->sk);
	ret = call.real->listen(sock, backlog);
	flt_call_returned(&call, sock, FLT_OP_LISTEN, ret);
	flt_call_end(&call);
	return ret;
}

/*
 * TCP's own or ours, as the layers of now want it; a ULP that was set keeps what it has. While a
 * call may be setting one they are TCP's own: @ulp is 1 before such a call, -1 after it, else 0.
 */
static void flt_ops_settle(struct sock *sk, int ulp)
{
	struct flt_stack *st;

	write_lock_bh(&sk->sk_callback_lock);
	rcu_read_lock();
	st = flt_stack_lookup(sk);
	if (st) {
		/* The stack may be younger than the call. */
		if (ulp > 0 || st->ulp_calls)
			st->ulp_calls += ulp;
		st->no_ops = st->ulp_calls || inet_csk_has_ulp(sk);
	}
	flt_base_set_ops(sk, st && !st->no_ops && (flt_stack_needs(st) & FLT_NEED_OPS));
	rcu_read_unlock();
	write_unlock_bh(&sk->sk_callback_lock);
}

static int flt_on_accept(struct socket *sock, struct socket *newsock, struct proto_accept_arg *arg)
{
	struct flt_layer *layer;
	u32 seq = FLT_FROM_TOP;
	struct flt_stack *child;
	struct flt_call call;
	int ret;

	flt_call_begin(&call, sock->sk);
	ret = call.real->accept(sock, newsock, arg);
	if (ret) {
		/* No socket, no stack: its release must not depend on this module. */
		newsock->ops = call.real;
		goto out;
	}
	/* The child came with the listener's operations, and nobody can call them yet. */
	flt_ops_settle(newsock->sk, 0);
	child = flt_stack_get(newsock->sk);
	if (child) {
		while ((layer = FLT_BELOW(child, seq, accepted, false))) {
			layer->ops->accepted(layer, newsock);
			seq = layer->seq;
			flt_layer_leave(layer, false);
		}
		flt_stack_put(child);
	}
out:
	flt_call_returned(&call, sock, FLT_OP_ACCEPT, ret);
	flt_call_end(&call);
	return ret;
}

static int flt_on_setsockopt(struct socket *sock, int level, int optname, sockptr_t optval,
			     unsigned int optlen)
{
	bool ulp = level == SOL_TCP && optname == TCP_ULP;
	struct flt_call call;
	int ret;

	flt_call_begin(&call, sock->sk);
	/* kTLS makes its own tables from sock->ops once, and keeps them for good. */
	if (ulp)
		flt_ops_settle(sock->sk, 1);
	ret = call.real->setsockopt(sock, level, optname, optval, optlen);
	/* IPV6_ADDRFORM has put in IPv4's. */
	if (ulp || (level == SOL_IPV6 && optname == IPV6_ADDRFORM))
		flt_ops_settle(sock->sk, ulp ? -1 : 0);
	flt_call_returned(&call, sock, FLT_OP_SETSOCKOPT, ret);
	flt_call_end(&call);
	return ret;
}

static int flt_on_getsockopt(struct socket *sock, int level, int optname, char __user *optval,
			     int __user *optlen)
{
	struct flt_call call;
	int ret;

	flt_call_begin(&call, sock->sk);
	ret = call.real->getsockopt(sock, level, optname, optval, optlen);
	flt_call_returned(&call, sock, FLT_OP_GETSOCKOPT, ret);
	flt_call_end(&call);
	return ret;
}

static int flt_on_set_rcvlowat(struct sock *sk, int val)
{
	struct socket *sock = sk->sk_socket;
	struct flt_call call;
	int ret;

	flt_call_begin(&call, sk);
	ret = call.real->set_rcvlowat(sk, val);
	if (sock)
		flt_call_returned(&call, sock, FLT_OP_RCVLOWAT, ret);
	flt_call_end(&call);
	return ret;
}

static const struct proto_ops flt_ops_ours = {
	.recvmsg = flt_on_recvmsg,
	.sendmsg = flt_on_sendmsg,
	.poll = flt_on_poll,
	.shutdown = flt_on_shutdown,
	.release = flt_on_release,
	.connect = flt_on_connect,
	.listen = flt_on_listen,
	.accept = flt_on_accept,
	.setsockopt = flt_on_setsockopt,
	.splice_read = flt_on_splice_read,
	.getsockopt = flt_on_getsockopt,
	.set_rcvlowat = flt_on_set_rcvlowat,
};

/* A copy of TCP's own with ours where we have one, but for @poll; family and owner stay TCP's. */
const struct proto_ops *flt_ops_make(const struct proto_ops *real, bool poll)
{
	const size_t at_poll = offsetof(struct proto_ops, poll) / sizeof(unsigned long);
	const unsigned long *ours = (const unsigned long *)&flt_ops_ours;
	unsigned long *made = kmemdup(real, sizeof(*real), GFP_KERNEL);
	size_t i;

	if (!made)
		return NULL;
	for (i = 0; i < sizeof(*real) / sizeof(*made); i++)
		if (ours[i] && (poll || i != at_poll))
			made[i] = ours[i];
	return (const struct proto_ops *)made;
}
