// SPDX-License-Identifier: GPL-2.0
/* Layers that count, for kmod/tests/guest/kmod_stack.py. Never loaded outside a test. */

#include <linux/file.h>
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/prandom.h>
#include <linux/uaccess.h>
#include <net/inet_connection_sock.h>
#include "kmod/stack.h"
#include "flt_stack_test.h"

/**
 * struct flt_test_priv - private area of each layer
 * @magic: FLT_TEST_ALIVE until the layer's end
 * @id:    which layer
 */
struct flt_test_priv {
	u32 magic;
	u32 id;
};

#define FLT_TEST_ALIVE	0x600df17e
#define FLT_TEST_GONE	0xdeadf17e

static const struct flt_layer_ops flt_test_layers[FLT_TEST_LAYERS];
static atomic64_t flt_test_counts[FLT_TEST_LAYERS][FLT_TEST_COUNTS];
static u32 flt_test_swallow[FLT_TEST_LAYERS];
static u32 flt_test_plain[FLT_TEST_LAYERS];	/* FLT_TEST_PLAIN_* */
static int flt_test_says[FLT_TEST_LAYERS];
static u64 flt_test_order;
static struct socket *flt_test_pristine[2];

static void flt_test_count(struct flt_layer *layer, unsigned int what)
{
	struct flt_test_priv *priv = flt_layer_priv(layer);

	/* @id is set after the add returns; an event may come before that. */
	if (READ_ONCE(priv->magic) == FLT_TEST_GONE)
		what = FLT_TEST_AFTER_END;
	atomic64_inc(&flt_test_counts[READ_ONCE(priv->id)][what]);
}

static bool flt_test_event(struct flt_layer *layer, unsigned int what)
{
	struct flt_test_priv *priv = flt_layer_priv(layer);

	flt_test_count(layer, what);
	if (what == FLT_TEST_DATA_READY)
		flt_test_order = flt_test_order << 4 | (priv->id + 1);
	return !(READ_ONCE(flt_test_swallow[priv->id]) & BIT(what));
}

static bool flt_test_data_ready(struct flt_layer *layer, struct sock *sk)
{
	return flt_test_event(layer, FLT_TEST_DATA_READY);
}

static bool flt_test_write_space(struct flt_layer *layer, struct sock *sk)
{
	return flt_test_event(layer, FLT_TEST_WRITE_SPACE);
}

static bool flt_test_state_change(struct flt_layer *layer, struct sock *sk)
{
	return flt_test_event(layer, FLT_TEST_STATE_CHANGE);
}

static bool flt_test_error_report(struct flt_layer *layer, struct sock *sk)
{
	return flt_test_event(layer, FLT_TEST_ERROR_REPORT);
}

static void flt_test_destruct(struct flt_layer *layer, struct sock *sk)
{
	WARN_ON_ONCE(flt_layer_sock(layer) != sk);
	flt_test_count(layer, FLT_TEST_DESTRUCT);
}

static void flt_test_free(struct flt_layer *layer)
{
	struct flt_test_priv *priv = flt_layer_priv(layer);

	flt_test_count(layer, FLT_TEST_FREE);
	WRITE_ONCE(priv->magic, FLT_TEST_GONE);
}

static bool flt_test_inherit(struct flt_layer *layer, struct sock *child)
{
	return true;
}

static void flt_test_init_child(struct flt_layer *from, struct flt_layer *layer,
				struct sock *child)
{
	memcpy(flt_layer_priv(layer), flt_layer_priv(from), sizeof(struct flt_test_priv));
	flt_test_count(layer, FLT_TEST_INIT_CHILD);
}

static void flt_test_accepted(struct flt_layer *layer, struct socket *sock)
{
	flt_test_count(layer, FLT_TEST_ACCEPTED);
}

static int flt_test_may_recv(struct flt_layer *layer, struct sock *sk, int flags)
{
	struct flt_test_priv *priv = flt_layer_priv(layer);

	flt_test_count(layer, FLT_TEST_RECVMSG);
	flt_test_order = flt_test_order << 4 | (priv->id + 1);
	return READ_ONCE(flt_test_says[priv->id]);
}

static int flt_test_recvmsg(struct flt_layer *layer, struct socket *sock, struct msghdr *msg,
			    size_t len, int flags)
{
	flt_test_count(layer, FLT_TEST_ANSWERED);
	return FLT_PASS;
}

static bool flt_test_is_plain(struct flt_layer *layer)
{
	struct flt_test_priv *priv = flt_layer_priv(layer);

	return READ_ONCE(flt_test_plain[priv->id]) & FLT_TEST_PLAIN_POLL;
}

static bool flt_test_is_deaf(struct flt_layer *layer)
{
	struct flt_test_priv *priv = flt_layer_priv(layer);

	return READ_ONCE(flt_test_plain[priv->id]) & FLT_TEST_PLAIN_DATA;
}

static void flt_test_received(struct flt_layer *layer, struct socket *sock, int ret)
{
	flt_test_count(layer, FLT_TEST_RECEIVED);
	flt_layer_skip_data(layer, sock, flt_test_is_deaf);
}

static int flt_test_may_send(struct flt_layer *layer, struct sock *sk, int flags)
{
	flt_test_count(layer, FLT_TEST_SENDMSG);
	return 0;
}

static void flt_test_sent(struct flt_layer *layer, struct socket *sock, int ret)
{
	flt_test_count(layer, FLT_TEST_SENT);
}

static __poll_t flt_test_poll(struct flt_layer *layer, struct file *file, struct socket *sock,
			      struct poll_table_struct *wait)
{
	flt_test_count(layer, FLT_TEST_POLL);
	if (wait)
		flt_layer_skip_poll(layer, sock, flt_test_is_plain);
	return flt_layer_next_poll(layer, file, sock, wait);
}

static int flt_test_may_shutdown(struct flt_layer *layer, struct sock *sk, int how)
{
	flt_test_count(layer, FLT_TEST_SHUTDOWN);
	return 0;
}

static void flt_test_release(struct flt_layer *layer, struct socket *sock)
{
	flt_test_count(layer, FLT_TEST_RELEASE);
}

static void flt_test_returned(struct flt_layer *layer, struct socket *sock, enum flt_op op, int ret)
{
	flt_test_count(layer, FLT_TEST_RETURNED);
}

#define FLT_TEST_COMMON(layer)							\
	.owner = THIS_MODULE, .name = layer, .destruct = flt_test_destruct,	\
	.free = flt_test_free, .inherit = flt_test_inherit,			\
	.init_child = flt_test_init_child, .priv_size = sizeof(struct flt_test_priv)

#define FLT_TEST_HEARS								\
	.data_ready = flt_test_data_ready, .write_space = flt_test_write_space,	\
	.state_change = flt_test_state_change, .error_report = flt_test_error_report

#define FLT_TEST_OPERATIONS							\
	.accepted = flt_test_accepted, .may_recv = flt_test_may_recv,		\
	.recvmsg = flt_test_recvmsg, .received = flt_test_received,		\
	.may_send = flt_test_may_send, .sent = flt_test_sent,			\
	.poll = flt_test_poll, .may_shutdown = flt_test_may_shutdown,		\
	.release = flt_test_release, .returned = flt_test_returned

static const struct flt_layer_ops flt_test_layers[FLT_TEST_LAYERS] = {
	[FLT_TEST_A] = { FLT_TEST_COMMON("a"), FLT_TEST_HEARS },
	[FLT_TEST_B] = { FLT_TEST_COMMON("b"), FLT_TEST_HEARS },
	[FLT_TEST_C] = { FLT_TEST_COMMON("c"), FLT_TEST_HEARS },
	[FLT_TEST_END] = { FLT_TEST_COMMON("end") },
	[FLT_TEST_OPS1] = { FLT_TEST_COMMON("ops1"), FLT_TEST_HEARS, FLT_TEST_OPERATIONS },
	[FLT_TEST_OPS2] = { FLT_TEST_COMMON("ops2"), FLT_TEST_OPERATIONS },
};

static int flt_test_add(struct sock *sk, u32 id, bool atomic)
{
	struct flt_test_priv *priv;
	struct flt_layer *layer;

	if (atomic)
		lock_sock(sk);
	layer = flt_layer_add(sk, &flt_test_layers[id], atomic ? GFP_ATOMIC : GFP_KERNEL);
	if (!IS_ERR(layer)) {
		priv = flt_layer_priv(layer);
		WRITE_ONCE(priv->id, id);
		WRITE_ONCE(priv->magic, FLT_TEST_ALIVE);
		atomic64_inc(&flt_test_counts[id][FLT_TEST_ADDED]);
	}
	if (atomic)
		release_sock(sk);
	return PTR_ERR_OR_ZERO(layer);
}

static int flt_test_take(struct sock *sk, u32 id, bool detach)
{
	struct flt_layer *layer = flt_layer_find(sk, &flt_test_layers[id]);

	if (!layer)
		return -ENOENT;
	if (detach)
		flt_layer_detach(layer);
	else
		flt_layer_remove(layer);
	return 0;
}

static u64 flt_test_pointers(struct sock *sk)
{
	struct sock *own = flt_test_pristine[sk->sk_family == AF_INET6]->sk;
	u64 out = 0;

	out |= (sk->sk_data_ready != own->sk_data_ready) << 0;
	out |= (sk->sk_write_space != own->sk_write_space) << 1;
	out |= (sk->sk_state_change != own->sk_state_change) << 2;
	out |= (sk->sk_error_report != own->sk_error_report) << 3;
	out |= (sk->sk_destruct != own->sk_destruct) << 4;
	out |= (sk->sk_socket->ops != own->sk_socket->ops) << 5;
	out |= (inet_csk(sk)->icsk_af_ops->syn_recv_sock !=
		inet_csk(own)->icsk_af_ops->syn_recv_sock) << 6;
	return out;
}

static void flt_test_set_plain(struct sock *sk, u32 id, u32 plain)
{
	WRITE_ONCE(flt_test_plain[id], plain);
	if (!(plain & FLT_TEST_PLAIN_POLL))
		flt_layer_want_poll(sk);
	if (!(plain & FLT_TEST_PLAIN_DATA))
		flt_layer_want_data(sk);
}

/* Puts layers on and off in an order that @seed decides. */
static int flt_test_hammer(struct sock *sk, u32 rounds, u32 seed)
{
	struct rnd_state rnd;
	u32 i, what, id;
	int err;

	prandom_seed_state(&rnd, seed);
	for (i = 0; i < rounds && !fatal_signal_pending(current); i++) {
		what = prandom_u32_state(&rnd);
		id = what % FLT_TEST_LAYERS;
		if (flt_layer_find(sk, &flt_test_layers[id]))
			err = flt_test_take(sk, id, what & BIT(16));
		else
			err = flt_test_add(sk, id, (what & BIT(17)) && id <= FLT_TEST_END &&
					   sk->sk_state != TCP_LISTEN);
		if (err)
			return err;
		if (what & BIT(18))
			flt_test_set_plain(sk, id, what >> 19 & 3);
		cond_resched();
	}
	for (id = 0; id < FLT_TEST_LAYERS; id++)
		flt_test_take(sk, id, false);
	return 0;
}

static int flt_test_request(struct sock *sk, unsigned int cmd, struct flt_test_arg *arg)
{
	u32 id = arg->layer;
	unsigned int i;

	switch (cmd) {
	case FLT_TEST_IOC_ADD:
		return flt_test_add(sk, id, arg->arg & FLT_TEST_ATOMIC);
	case FLT_TEST_IOC_REMOVE:
		return flt_test_take(sk, id, false);
	case FLT_TEST_IOC_DETACH:
		return flt_test_take(sk, id, true);
	case FLT_TEST_IOC_FIND:
		return flt_layer_find(sk, &flt_test_layers[id]) ? 0 : -ENOENT;
	case FLT_TEST_IOC_READ:
		for (i = 0; i < FLT_TEST_COUNTS; i++)
			arg->out[i] = atomic64_read(&flt_test_counts[id][i]);
		return 0;
	case FLT_TEST_IOC_RESET:
		memset(flt_test_counts, 0, sizeof(flt_test_counts));
		memset(flt_test_swallow, 0, sizeof(flt_test_swallow));
		memset(flt_test_plain, 0, sizeof(flt_test_plain));
		memset(flt_test_says, 0, sizeof(flt_test_says));
		flt_test_order = 0;
		return 0;
	case FLT_TEST_IOC_SWALLOW:
		flt_test_swallow[id] = arg->arg;
		return 0;
	case FLT_TEST_IOC_SAY:
		WRITE_ONCE(flt_test_says[id], (int)arg->arg);
		return 0;
	case FLT_TEST_IOC_ORDER:
		arg->out[0] = flt_test_order;
		flt_test_order = 0;
		return 0;
	case FLT_TEST_IOC_POINTERS:
		arg->out[0] = flt_test_pointers(sk);
		return 0;
	case FLT_TEST_IOC_PLAIN:
		flt_test_set_plain(sk, id, arg->arg);
		return 0;
	case FLT_TEST_IOC_HAMMER:
		return flt_test_hammer(sk, arg->arg, arg->seed);
	}
	return -ENOTTY;
}

static long flt_test_ioctl(struct file *file, unsigned int cmd, unsigned long ptr)
{
	struct flt_test_arg arg;
	struct socket *sock = NULL;
	int err;

	if (copy_from_user(&arg, (void __user *)ptr, sizeof(arg)))
		return -EFAULT;
	if (arg.layer >= FLT_TEST_LAYERS)
		return -EINVAL;
	if (arg.fd >= 0) {
		sock = sockfd_lookup(arg.fd, &err);
		if (!sock)
			return err;
	}
	if (!sock && cmd != FLT_TEST_IOC_READ && cmd != FLT_TEST_IOC_RESET &&
	    cmd != FLT_TEST_IOC_ORDER && cmd != FLT_TEST_IOC_SWALLOW &&
	    cmd != FLT_TEST_IOC_SAY)
		return -EBADF;
	err = flt_test_request(sock ? sock->sk : NULL, cmd, &arg);
	if (sock)
		sockfd_put(sock);
	if (!err && copy_to_user((void __user *)ptr, &arg, sizeof(arg)))
		err = -EFAULT;
	return err;
}

static const struct file_operations flt_test_fops = {
	.owner = THIS_MODULE,
	.unlocked_ioctl = flt_test_ioctl,
};

static struct miscdevice flt_test_device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "flt_stack_test",
	.fops = &flt_test_fops,
};

static int __init flt_test_init(void)
{
	int err;

	err = sock_create_kern(&init_net, AF_INET, SOCK_STREAM, IPPROTO_TCP, &flt_test_pristine[0]);
	if (err)
		return err;
	err = sock_create_kern(&init_net, AF_INET6, SOCK_STREAM, IPPROTO_TCP,
			       &flt_test_pristine[1]);
	if (err)
		goto undo_v4;
	err = misc_register(&flt_test_device);
	if (err)
		goto undo_v6;
	return 0;

undo_v6:
	sock_release(flt_test_pristine[1]);
undo_v4:
	sock_release(flt_test_pristine[0]);
	return err;
}

static void __exit flt_test_exit(void)
{
	unsigned int id;

	misc_deregister(&flt_test_device);
	for (id = 0; id < FLT_TEST_LAYERS; id++)
		flt_layer_remove_all(&flt_test_layers[id]);
	sock_release(flt_test_pristine[1]);
	sock_release(flt_test_pristine[0]);
}

module_init(flt_test_init);
module_exit(flt_test_exit);
MODULE_DESCRIPTION("Flotilla: layers that count, for the stack's tests");
MODULE_LICENSE("GPL");
