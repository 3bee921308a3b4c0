// SPDX-License-Identifier: GPL-2.0
/* The layer on each hooked socket: which events and operations change what is ready. */

#include <linux/module.h>
#include <net/sock.h>
#include "kmod/stack.h"

#include "counter.h"
#include "fd.h"
#include "region.h"
#include "set.h"
#include "sock.h"

/**
 * struct usel_layer - private area of a layer
 * @us: set once with release semantics; NULL for a child that is not yet accepted
 */
struct usel_layer {
	struct usel_sock *us;
};

static struct usel_sock *usel_of(struct flt_layer *layer)
{
	struct usel_layer *priv = flt_layer_priv(layer);

	/* Pairs with usel_layer_publish(): it is whole. */
	return smp_load_acquire(&priv->us);
}

static void usel_layer_publish(struct usel_layer *priv, struct usel_sock *us)
{
	/* Pairs with usel_of(). */
	smp_store_release(&priv->us, us);
}

/* --- events: softirq or process, under RCU --- */

static bool usel_data_ready(struct flt_layer *layer, struct sock *sk)
{
	usel_sock_input(usel_of(layer), USEL_R | USEL_E);
	return true;
}

static bool usel_write_space(struct flt_layer *layer, struct sock *sk)
{
	usel_sock_update(usel_of(layer), USEL_W);
	return true;
}

static bool usel_state_change(struct flt_layer *layer, struct sock *sk)
{
	usel_sock_update(usel_of(layer), USEL_ALL);
	return true;
}

static bool usel_error_report(struct flt_layer *layer, struct sock *sk)
{
	usel_sock_update(usel_of(layer), USEL_ALL);
	return true;
}

/* Another layer, such as splice's, answers for the socket or does no more. */
static void usel_changed(struct flt_layer *layer, struct sock *sk)
{
	usel_sock_update(usel_of(layer), 0);
}

/* --- operations: process context --- */

static bool usel_is_loose(struct flt_layer *layer)
{
	return usel_sock_loosen(usel_of(layer));
}

/* Who wants edges only has no use for what is seen here, and is not made to pay for it again. */
static void usel_received(struct flt_layer *layer, struct socket *sock, int ret)
{
	struct usel_sock *us = usel_of(layer);

	usel_fd_seen(us, sock);
	usel_sock_input(us, 0);
	if (us && usel_sock_edges(us))
		flt_layer_skip_data(layer, sock, usel_is_loose);
}

/*
 * All that sending can change is that there is no room any more. While there is, and the bits say
 * so, there is nothing to write, but for who has the numbers kept.
 */
static bool usel_sent_quietly(const struct usel_sock *us, const struct sock *sk, int ret)
{
	return ret > 0 && us && usel_sock_has_room(us) &&
	       READ_ONCE(sk->sk_state) == TCP_ESTABLISHED && __sk_stream_is_writeable(sk, 1) &&
	       !atomic_read(&usel_regions_counting);
}

static void usel_sent(struct flt_layer *layer, struct socket *sock, int ret)
{
	struct usel_sock *us = usel_of(layer);

	usel_fd_seen(us, sock);
	if (!usel_sent_quietly(us, sock->sk, ret))
		usel_sock_update(us, 0);
}

static __poll_t usel_poll(struct flt_layer *layer, struct file *file, struct socket *sock,
			  struct poll_table_struct *wait)
{
	/* Without a table it is flt_layer_poll() that asks, on our behalf or another's. */
	if (wait) {
		usel_count(sock_net(sock->sk), USEL_STAT_POLLS);
		usel_fd_seen(usel_of(layer), sock);
	}
	return flt_layer_next_poll(layer, file, sock, wait);
}

static void usel_returned(struct flt_layer *layer, struct socket *sock, enum flt_op op, int ret)
{
	/* Called with the socket locked, and not in the way of a descriptor. */
	if (op != FLT_OP_RCVLOWAT)
		usel_fd_seen(usel_of(layer), sock);
	usel_sock_update(usel_of(layer), op == FLT_OP_SHUTDOWN ? USEL_ALL : 0);
}

static void usel_release(struct flt_layer *layer, struct socket *sock)
{
	struct usel_sock *us = usel_of(layer);

	if (us)
		usel_sock_retire(us, USEL_WHY_CLOSE);
}

/* --- life --- */

static bool usel_inherit(struct flt_layer *listener_layer, struct sock *child)
{
	struct usel_sock *us = usel_of(listener_layer);

	return us && usel_sock_is_bound(us);
}

/* Only a registered process's sockets are hooked, be the listener another's as well. */
static void usel_accepted(struct flt_layer *layer, struct socket *sock)
{
	struct usel_layer *priv = flt_layer_priv(layer);
	struct usel_sock *us;

	if (!usel_region_has_current()) {
		flt_layer_detach(layer);
		return;
	}
	us = usel_sock_make(layer, sock->sk);
	if (!us)
		return;
	usel_layer_publish(priv, us);
	usel_count(sock_net(sock->sk), USEL_STAT_HOOKED);
	usel_fd_accepted(us, sock);
}

static void usel_destruct(struct flt_layer *layer, struct sock *sk)
{
	struct usel_sock *us = usel_of(layer);

	if (us)
		usel_sock_retire(us, USEL_WHY_CLOSE);
}

static void usel_free(struct flt_layer *layer)
{
	struct usel_sock *us = usel_of(layer);

	if (us) {
		usel_sock_retire(us, USEL_WHY_END);
		usel_sock_free(us);
	}
}

static const struct flt_layer_ops usel_layer_ops = {
	.owner		= THIS_MODULE,
	.name		= "uselect",
	.data_ready	= usel_data_ready,
	.write_space	= usel_write_space,
	.state_change	= usel_state_change,
	.error_report	= usel_error_report,
	.destruct	= usel_destruct,
	.free		= usel_free,
	.inherit	= usel_inherit,
	.accepted	= usel_accepted,
	.priv_size	= sizeof(struct usel_layer),
	.received	= usel_received,
	.sent		= usel_sent,
	.poll		= usel_poll,
	.changed	= usel_changed,
	.release	= usel_release,
	.returned	= usel_returned,
};

struct usel_sock *usel_sock_find(const struct sock *sk)
{
	struct usel_sock *us = NULL;
	struct flt_layer *layer;

	rcu_read_lock();
	layer = flt_layer_find(sk, &usel_layer_ops);
	if (layer)
		us = usel_of(layer);
	rcu_read_unlock();
	return us;
}

struct usel_sock *usel_sock_add(struct sock *sk)
{
	struct usel_layer *priv;
	struct flt_layer *layer;
	struct usel_sock *us;

	layer = flt_layer_add(sk, &usel_layer_ops, GFP_KERNEL);
	if (IS_ERR(layer)) {
		usel_count(sock_net(sk), USEL_STAT_REFUSED);
		return ERR_CAST(layer);
	}
	us = usel_sock_make(layer, sk);
	if (!us) {
		flt_layer_detach(layer);
		return ERR_PTR(-ENOMEM);
	}
	priv = flt_layer_priv(layer);
	usel_layer_publish(priv, us);
	usel_count(sock_net(sk), USEL_STAT_HOOKED);
	return us;
}

void usel_layer_remove_all(void)
{
	flt_layer_remove_all(&usel_layer_ops);
}
