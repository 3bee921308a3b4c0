// SPDX-License-Identifier: GPL-2.0
/* Layers on a socket: the operations of struct proto_ops. See doc/layers.md. */

#include <linux/module.h>
#include <linux/slab.h>
#include <linux/splice.h>
#include <net/tcp.h>
#include "compat/sock.h"
#include "stack_priv.h"

#define FLT_FROM_TOP	U32_MAX

/*
 * Who may sleep for as long as its program likes, in TCP's own operation or for want of a page of
 * the program's, has no layer's function beneath it: a call keeps its stack, and with it this
 * module, and looks its layers up before and after. So a layer's module never waits for a program.
 */

/*
 * The newest layer older than @seq that has the operation at @offset. By number and not by link:
 * the one before may have been removed meanwhile. Under rcu_read_lock().
 */
static __always_inline struct flt_layer *flt_layer_enter(struct flt_stack *st, u32 seq,
							 size_t offset)
{
	struct flt_layer *layer;

	list_for_each_entry_rcu(layer, &st->layers, list) {
		if (layer->seq >= seq || !*(void **)((char *)layer->ops + offset))
			continue;
		if (refcount_inc_not_zero(&layer->users))
			return layer;
	}
	return NULL;
}

static struct flt_layer *flt_layer_below(struct flt_stack *st, u32 seq, size_t offset)
{
	struct flt_layer *layer;

	rcu_read_lock();
	layer = flt_layer_enter(st, seq, offset);
	rcu_read_unlock();
	return layer;
}

/* New layers come on top: what has none below it has none for good. */
static bool flt_layer_is_lowest(const struct flt_layer *layer)
{
	return READ_ONCE(layer->list.next) == &layer->stack->layers;
}

#define FLT_BELOW(st, seq, op) flt_layer_below(st, seq, offsetof(struct flt_layer_ops, op))

/*
 * A layer that answers itself holds its owner, so that rmmod says EBUSY; one whose owner is being
 * unloaded has no answer any more. Under rcu_read_lock().
 */
static bool flt_layer_hold(struct flt_layer *layer)
{
	if (!try_module_get(layer->ops->owner))
		return false;
	if (refcount_inc_not_zero(&layer->users))
		return true;
	module_put(layer->ops->owner);
	return false;
}

static void flt_layer_let_go(struct flt_layer *layer)
{
	struct module *owner = layer->ops->owner;

	flt_layer_put(layer);
	module_put(owner);
}

typedef int (*flt_asked)(struct flt_layer *layer, struct sock *sk, int how);

/*
 * What the layers older than @seq say to an operation, by their members at @offset: 0, a negative
 * errno, or FLT_ANSWER and who it is. Under rcu_read_lock().
 */
static __always_inline int flt_ask(struct flt_stack *st, struct sock *sk, u32 seq, size_t offset,
				   int how, struct flt_layer **who)
{
	struct flt_layer *layer;
	flt_asked ask;
	int say;

	list_for_each_entry_rcu(layer, &st->layers, list) {
		ask = *(const flt_asked *)((const char *)layer->ops + offset);
		if (!ask || layer->seq >= seq)
			continue;
		say = ask(layer, sk, how);
		if (say < 0)
			return say;
		if (say == FLT_ANSWER && flt_layer_hold(layer)) {
			*who = layer;
			return say;
		}
	}
	return 0;
}

/* The operations of one socket, for the time of one call. */
struct flt_call {
	struct flt_stack *st;
	const struct proto_ops *real;
	bool pinned;
};

/*
 * A stack holds this module, and the call the stack. Without a stack (sock->ops was
 * read just before it went, or kernel_accept() copied the listener's pointer after us)
 * put TCP's own back and hold the module itself. It can still be held: a stack that goes
 * keeps it for those who are on their way here (flt_stack_tasks_put()), if they do not
 * sleep on it. do_accept() does, when memory is short: see SECURITY.md.
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

/* flt_call_begin(), and what all layers say. */
static __always_inline int flt_call_ask(struct flt_call *call, struct sock *sk, size_t offset,
					int how, struct flt_layer **who)
{
	struct flt_stack *st;
	int say = 0;

	call->real = flt_base(sk)->real_ops;
	call->pinned = false;
	/* Not to be preempted is a reader, too, and a third of the instructions. */
	rcu_read_lock_sched();
	st = flt_stack_lookup(sk);
	if (likely(st && refcount_inc_not_zero(&st->users)))
		say = flt_ask(st, sk, FLT_FROM_TOP, offset, how, who);
	else
		st = NULL;
	rcu_read_unlock_sched();
	call->st = st;
	if (unlikely(!st))
		flt_call_astray(call, sk);
	return say;
}

#define FLT_CALL_ASK(call, sk, op, how, who) \
	flt_call_ask(call, sk, offsetof(struct flt_layer_ops, op), how, who)

/* What is below @layer says, which has had its turn. */
static int flt_ask_below(struct flt_call *call, struct sock *sk, size_t offset, int how,
			 struct flt_layer **layer)
{
	u32 seq = (*layer)->seq;
	int say;

	flt_layer_let_go(*layer);
	rcu_read_lock();
	say = flt_ask(call->st, sk, seq, offset, how, layer);
	rcu_read_unlock();
	return say;
}

#define FLT_ASK_BELOW(call, sk, op, how, layer) \
	flt_ask_below(call, sk, offsetof(struct flt_layer_ops, op), how, layer)

typedef void (*flt_told)(struct flt_layer *layer, struct socket *sock, int ret);

/*
 * The layers of now hear how it went, by their members at @offset. If all went meanwhile and others
 * came, these have a new stack.
 */
static __always_inline void flt_call_tell(struct flt_call *call, struct socket *sock, size_t offset,
					  int ret)
{
	struct flt_stack *st = call->st;
	struct flt_layer *layer;
	flt_told tell;

	rcu_read_lock();
	if (unlikely(!st || READ_ONCE(st->dead)))
		st = flt_stack_lookup(sock->sk);
	if (unlikely(!st))
		goto out;
	list_for_each_entry_rcu(layer, &st->layers, list) {
		tell = *(const flt_told *)((const char *)layer->ops + offset);
		if (tell)
			tell(layer, sock, ret);
	}
out:
	rcu_read_unlock();
}

#define FLT_CALL_TELL(call, sock, op, ret) \
	flt_call_tell(call, sock, offsetof(struct flt_layer_ops, op), ret)

static void flt_call_returned(struct flt_call *call, struct socket *sock, enum flt_op op, int ret)
{
	struct flt_layer *layer;
	u32 seq = FLT_FROM_TOP;

	if (!call->st)
		return;
	while ((layer = FLT_BELOW(call->st, seq, returned))) {
		layer->ops->returned(layer, sock, op, ret);
		seq = layer->seq;
		flt_layer_put(layer);
	}
}

/* --- operations that a layer may forbid or answer --- */

static noinline int flt_recvmsg_answered(struct flt_call *call, struct flt_layer *layer,
					 struct socket *sock, struct msghdr *msg, size_t len,
					 int flags)
{
	int ret;

	do {
		ret = layer->ops->recvmsg(layer, sock, msg, len, flags);
		if (ret != FLT_PASS) {
			flt_layer_let_go(layer);
			return ret;
		}
		ret = FLT_ASK_BELOW(call, sock->sk, may_recv, flags, &layer);
	} while (ret == FLT_ANSWER);
	return ret ?: call->real->recvmsg(sock, msg, len, flags);
}

static int flt_on_recvmsg(struct socket *sock, struct msghdr *msg, size_t len, int flags)
{
	struct flt_layer *layer;
	struct flt_call call;
	int ret;

	ret = FLT_CALL_ASK(&call, sock->sk, may_recv, flags, &layer);
	if (likely(!ret))
		ret = call.real->recvmsg(sock, msg, len, flags);
	else if (ret == FLT_ANSWER)
		ret = flt_recvmsg_answered(&call, layer, sock, msg, len, flags);
	FLT_CALL_TELL(&call, sock, received, ret);
	flt_call_end(&call);
	return ret;
}

static int flt_on_sendmsg(struct socket *sock, struct msghdr *msg, size_t len)
{
	struct flt_layer *layer;
	struct flt_call call;
	int ret;

	ret = FLT_CALL_ASK(&call, sock->sk, may_send, msg->msg_flags, &layer);
	if (likely(!ret))
		ret = call.real->sendmsg(sock, msg, len);
	FLT_CALL_TELL(&call, sock, sent, ret);
	flt_call_end(&call);
	return ret;
}

static ssize_t flt_splice_read_answered(struct flt_call *call, struct flt_layer *layer,
					struct socket *sock, loff_t *ppos,
					struct pipe_inode_info *pipe, size_t len,
					unsigned int flags)
{
	ssize_t ret;
	int say;

	do {
		ret = layer->ops->splice_read(layer, sock, ppos, pipe, len, flags);
		if (ret != FLT_PASS) {
			flt_layer_let_go(layer);
			return ret;
		}
		say = FLT_ASK_BELOW(call, sock->sk, may_splice_read, flags, &layer);
	} while (say == FLT_ANSWER);
	return say ?: call->real->splice_read(sock, ppos, pipe, len, flags);
}

static ssize_t flt_on_splice_read(struct socket *sock, loff_t *ppos, struct pipe_inode_info *pipe,
				  size_t len, unsigned int flags)
{
	struct flt_layer *layer;
	struct flt_call call;
	ssize_t ret;

	ret = FLT_CALL_ASK(&call, sock->sk, may_splice_read, flags, &layer);
	if (!ret)
		ret = call.real->splice_read(sock, ppos, pipe, len, flags);
	else if (ret == FLT_ANSWER)
		ret = flt_splice_read_answered(&call, layer, sock, ppos, pipe, len, flags);
	flt_call_returned(&call, sock, FLT_OP_SPLICE_READ, ret);
	flt_call_end(&call);
	return ret;
}

static int flt_on_shutdown(struct socket *sock, int how)
{
	struct flt_layer *layer;
	struct flt_call call;
	int ret;

	ret = FLT_CALL_ASK(&call, sock->sk, may_shutdown, how, &layer);
	if (!ret)
		ret = call.real->shutdown(sock, how);
	flt_call_returned(&call, sock, FLT_OP_SHUTDOWN, ret);
	flt_call_end(&call);
	return ret;
}

/* --- poll: neither TCP's own nor a layer's sleeps for a program --- */

static __poll_t flt_poll_below(struct flt_stack *st, u32 seq, struct file *file,
			       struct socket *sock, struct poll_table_struct *wait)
{
	struct flt_layer *layer = FLT_BELOW(st, seq, poll);
	__poll_t ret;

	if (!layer)
		return flt_base(sock->sk)->real_ops->poll(file, sock, wait);
	ret = layer->ops->poll(layer, file, sock, wait);
	flt_layer_put(layer);
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

/* Who is in a layer needs nothing else: that holds the stack, and the stack this module. */
static __poll_t flt_on_poll(struct file *file, struct socket *sock, struct poll_table_struct *wait)
{
	struct flt_layer *layer = NULL;
	struct flt_stack *st;
	__poll_t ret;

	rcu_read_lock_sched();
	st = flt_stack_lookup(sock->sk);
	if (likely(st))
		layer = flt_layer_enter(st, FLT_FROM_TOP, offsetof(struct flt_layer_ops, poll));
	rcu_read_unlock_sched();
	if (unlikely(!layer))
		return flt_poll_bare(file, sock, wait);
	ret = layer->ops->poll(layer, file, sock, wait);
	flt_layer_put(layer);
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
	while (call.st && (layer = FLT_BELOW(call.st, seq, release))) {
		layer->ops->release(layer, sock);
		seq = layer->seq;
		flt_layer_put(layer);
	}
	ret = call.real->release(sock);
	flt_call_end(&call);
	return ret;
}

static int flt_on_connect(struct socket *sock, struct flt_sockaddr *addr, int len, int flags)
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

void flt_layer_take_ops(struct sock *sk)
{
	flt_ops_settle(sk, 0);
}
EXPORT_SYMBOL_GPL(flt_layer_take_ops);

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
		while ((layer = FLT_BELOW(child, seq, accepted))) {
			layer->ops->accepted(layer, newsock);
			seq = layer->seq;
			flt_layer_put(layer);
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
	struct flt_layer *layer;
	struct flt_call call;
	int ret = 0;

	if (level == SOL_TCP && optname == TCP_ZEROCOPY_RECEIVE) {
		ret = FLT_CALL_ASK(&call, sock->sk, may_recv, 0, &layer);
		if (ret == FLT_ANSWER) {
			flt_layer_let_go(layer);
			ret = -EOPNOTSUPP;
		}
	} else {
		flt_call_begin(&call, sock->sk);
	}
	ret = ret ?: call.real->getsockopt(sock, level, optname, optval, optlen);
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

static bool flt_ops_chosen(size_t offset, unsigned int parts)
{
	switch (offset) {
	case offsetof(typeof(flt_ops_ours), poll):
		return parts & FLT_OPS_POLL;
	case offsetof(typeof(flt_ops_ours), recvmsg):
	case offsetof(typeof(flt_ops_ours), sendmsg):
		return parts & FLT_OPS_DATA;
	default:
		return true;
	}
}

/* A copy of TCP's own with ours where we have one and it is chosen; family and owner stay TCP's. */
const struct proto_ops *flt_ops_make(const struct proto_ops *real, unsigned int parts)
{
	const unsigned long *ours = (const unsigned long *)&flt_ops_ours;
	unsigned long *made = kmemdup(real, sizeof(*real), GFP_KERNEL);
	size_t i;

	if (!made)
		return NULL;
	for (i = 0; i < sizeof(*real) / sizeof(*made); i++)
		if (ours[i] && flt_ops_chosen(i * sizeof(*made), parts))
			made[i] = ours[i];
	return (const struct proto_ops *)made;
}
