// SPDX-License-Identifier: GPL-2.0
/* Layers on a socket: what poll() says of it, and what passes them by. See doc/layers.md. */

#include <linux/export.h>
#include <net/tcp.h>
#include "stack_priv.h"

/*
 * What tcp_poll() says of most connections at most times: established both ways, nobody else's,
 * without error or urgent data, and with room. Else it is asked itself; it arms SOCK_NOSPACE too.
 */
static bool flt_poll_plain(const struct sock *sk, __poll_t *mask)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	if (inet_sk_state_load(sk) != TCP_ESTABLISHED || READ_ONCE(sk->sk_shutdown) ||
	    READ_ONCE(sk->sk_err) || READ_ONCE(tp->urg_data) || READ_ONCE(sk->sk_rcvlowat) > 1 ||
	    READ_ONCE(sk->sk_prot)->sock_is_readable ||
	    !skb_queue_empty_lockless(&sk->sk_error_queue) || !__sk_stream_is_writeable(sk, 1))
		return false;
	*mask = EPOLLOUT | EPOLLWRNORM;
	if (tcp_epollin_ready(sk, 1))
		*mask |= EPOLLIN | EPOLLRDNORM;
	return true;
}

/* Another layer that has a say. Nobody is held: without a poll table nobody sleeps. */
static struct flt_layer *flt_layer_answering(const struct flt_layer *asker)
{
	struct flt_layer *layer;

	list_for_each_entry_rcu(layer, &asker->stack->layers, list)
		if (layer != asker && layer->ops->poll)
			return layer;
	return NULL;
}

__poll_t flt_layer_poll(struct flt_layer *asker, struct socket *sock)
{
	struct flt_layer *layer = flt_layer_answering(asker);
	__poll_t mask;

	if (layer)
		return layer->ops->poll(layer, sock->file, sock, NULL);
	if (flt_poll_plain(sock->sk, &mask))
		return mask;
	return flt_base(sock->sk)->real_ops->poll(sock->file, sock, NULL);
}
EXPORT_SYMBOL_GPL(flt_layer_poll);

__poll_t flt_layer_poll_input(struct flt_layer *asker, struct socket *sock, __poll_t was)
{
	const __poll_t in = EPOLLIN | EPOLLRDNORM, out = EPOLLOUT | EPOLLWRNORM;
	struct sock *sk = sock->sk;

	if ((was & ~in) != out || READ_ONCE(tcp_sk(sk)->urg_data) || flt_layer_answering(asker))
		return flt_layer_poll(asker, sock);
	return tcp_epollin_ready(sk, sock_rcvlowat(sk, 0, INT_MAX)) ? in | out : out;
}
EXPORT_SYMBOL_GPL(flt_layer_poll_input);

void flt_layer_skip_poll(struct flt_layer *layer, struct socket *sock,
			 bool (*may)(struct flt_layer *layer))
{
	struct sock *sk = sock->sk;

	/* Who adds a layer, and who has one to be asked again, comes after us and sees it. */
	write_lock_bh(&sk->sk_callback_lock);
	rcu_read_lock();
	if (!flt_layer_answering(layer) && may(layer))
		flt_base_set_part(sk, FLT_OPS_POLL, false);
	rcu_read_unlock();
	write_unlock_bh(&sk->sk_callback_lock);
}
EXPORT_SYMBOL_GPL(flt_layer_skip_poll);

void flt_layer_want_poll(struct sock *sk)
{
	write_lock_bh(&sk->sk_callback_lock);
	flt_base_set_part(sk, FLT_OPS_POLL, true);
	write_unlock_bh(&sk->sk_callback_lock);
}
EXPORT_SYMBOL_GPL(flt_layer_want_poll);

/* Another layer that is asked of what is received or sent, or told of it. */
static bool flt_layer_is_heard(const struct flt_layer *asker)
{
	const struct flt_layer *layer;

	list_for_each_entry_rcu(layer, &asker->stack->layers, list)
		if (layer != asker && (layer->ops->may_recv || layer->ops->may_send ||
				       layer->ops->received || layer->ops->sent))
			return true;
	return false;
}

void flt_layer_skip_data(struct flt_layer *layer, struct socket *sock,
			 bool (*may)(struct flt_layer *layer))
{
	struct sock *sk = sock->sk;

	rcu_read_lock();
	/* Said after each receive, while another wants to hear them: no lock for that. */
	if (flt_layer_is_heard(layer))
		goto out;
	/* As flt_layer_skip_poll(). */
	write_lock_bh(&sk->sk_callback_lock);
	if (!flt_layer_is_heard(layer) && may(layer))
		flt_base_set_part(sk, FLT_OPS_DATA, false);
	write_unlock_bh(&sk->sk_callback_lock);
out:
	rcu_read_unlock();
}
EXPORT_SYMBOL_GPL(flt_layer_skip_data);

void flt_layer_want_data(struct sock *sk)
{
	write_lock_bh(&sk->sk_callback_lock);
	flt_base_set_part(sk, FLT_OPS_DATA, true);
	write_unlock_bh(&sk->sk_callback_lock);
}
EXPORT_SYMBOL_GPL(flt_layer_want_data);
