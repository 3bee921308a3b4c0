// SPDX-License-Identifier: GPL-2.0
/* A channel's socket: made, watched, ended. */

#include <linux/file.h>
#include <linux/memcontrol.h>
#include <linux/random.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/tcp.h>
#include <net/sock.h>
#include <net/tcp.h>
#include "adopt.h"
#include "auth.h"
#include "chan.h"
#include "compat/sock.h"
#include "linkwork.h"

/* Privileged, and not those where most well-known services are. */
#define FLT_PORT_FIRST	665
#define FLT_PORT_LAST	(PROT_SOCK - 1)

void flt_sock_abort(struct socket *sock)
{
	sock_no_linger(sock->sk);
	if (!sock->file) {
		sock_release(sock);
		return;
	}
	/*
	 * TLS: tlshd may still hold the file, which must not hold the connection.
	 * Our reference must go now, not by and by: the namespace may be next.
	 */
	tcp_abort(sock->sk, ECONNABORTED);
	__fput_sync(sock->file);
}

void flt_chan_fail(struct flt_chan *chan, enum flt_why why)
{
	if (!cmpxchg(&chan->why, FLT_WHY_NONE, why))
		flt_link_kick(chan->link);
}

/* Until the handshake is done, tlshd sleeps on the socket in the ordinary way. */
static bool flt_chan_is_lent(const struct flt_chan *chan)
{
	return READ_ONCE(chan->state) <= FLT_CHAN_SECURING;
}

static void flt_chan_data_ready(struct sock *sk)
{
	struct flt_chan *chan;

	read_lock_bh(&sk->sk_callback_lock);
	chan = sk->sk_user_data;
	if (likely(chan)) {
		if (unlikely(flt_chan_is_lent(chan)))
			chan->old_data_ready(sk);
		queue_work(flt_msg_wq, &chan->rx_work);
	}
	read_unlock_bh(&sk->sk_callback_lock);
}

static void flt_chan_write_space(struct sock *sk)
{
	struct flt_chan *chan;

	read_lock_bh(&sk->sk_callback_lock);
	chan = sk->sk_user_data;
	if (likely(chan) && unlikely(flt_chan_is_lent(chan))) {
		chan->old_write_space(sk);
	} else if (likely(chan) && sk_stream_is_writeable(sk)) {
		clear_bit(SOCK_NOSPACE, &sk->sk_socket->flags);
		queue_work(flt_msg_wq, &chan->tx_work);
	}
	read_unlock_bh(&sk->sk_callback_lock);
}

static void flt_chan_state_change(struct sock *sk)
{
	struct flt_chan *chan;

	read_lock_bh(&sk->sk_callback_lock);
	chan = sk->sk_user_data;
	if (likely(chan)) {
		if (flt_chan_is_lent(chan))
			chan->old_state_change(sk);
		/* What was received before the end is still read, by the receive work. */
		if (READ_ONCE(chan->state) == FLT_CHAN_CONNECTING)
			flt_link_kick(chan->link);
		else
			queue_work(flt_msg_wq, &chan->rx_work);
	}
	read_unlock_bh(&sk->sk_callback_lock);
}

static void flt_chan_attach(struct flt_chan *chan, struct socket *sock)
{
	struct sock *sk = sock->sk;

	tcp_sock_set_nodelay(sk);
	/* Messages of card.ko are written back on the way of memory reclaim. */
	sk->sk_allocation = GFP_NOIO;
	sk->sk_use_task_frag = false;

	chan->sock = sock;
	write_lock_bh(&sk->sk_callback_lock);
	chan->old_data_ready = sk->sk_data_ready;
	chan->old_write_space = sk->sk_write_space;
	chan->old_state_change = sk->sk_state_change;
	sk->sk_user_data = chan;
	sk->sk_data_ready = flt_chan_data_ready;
	sk->sk_write_space = flt_chan_write_space;
	sk->sk_state_change = flt_chan_state_change;
	write_unlock_bh(&sk->sk_callback_lock);
}

static void flt_chan_detach(struct flt_chan *chan)
{
	struct sock *sk = chan->sock->sk;

	write_lock_bh(&sk->sk_callback_lock);
	sk->sk_user_data = NULL;
	/* kTLS may sit on top of ours; its own end puts ours back, which then do nothing. */
	if (sk->sk_data_ready == flt_chan_data_ready)
		sk->sk_data_ready = chan->old_data_ready;
	if (sk->sk_write_space == flt_chan_write_space)
		sk->sk_write_space = chan->old_write_space;
	if (sk->sk_state_change == flt_chan_state_change)
		sk->sk_state_change = chan->old_state_change;
	write_unlock_bh(&sk->sk_callback_lock);
}

static struct flt_chan *flt_chan_alloc(void)
{
	struct flt_chan *chan = kzalloc(sizeof(*chan), FLT_GFP);

	if (chan && flt_chan_rx_init(chan)) {
		kfree(chan);
		chan = NULL;
	}
	return chan;
}

/**
 * flt_chan_new - a channel without a socket
 * @link: whose
 * @fn:   its namespace
 *
 * Return: a channel to be ended by flt_chan_stop() and flt_chan_put(), or NULL.
 */
struct flt_chan *flt_chan_new(struct flt_link *link, struct flt_net *fn)
{
	struct mem_cgroup *old = set_active_memcg(link->memcg);
	struct flt_chan *chan = flt_chan_alloc();

	set_active_memcg(old);
	if (!chan)
		return NULL;
	chan->link = link;
	chan->fn = fn;
	chan->auth = READ_ONCE(link->node->auth);
	chan->key = READ_ONCE(link->node->key);
	chan->since = jiffies;
	chan->heard = jiffies;
	init_completion(&chan->answered);
	kref_init(&chan->ref);
	flt_chan_tx_init(chan);
	return chan;
}

static void flt_chan_release(struct kref *ref)
{
	struct flt_chan *chan = container_of(ref, struct flt_chan, ref);

	flt_chan_tx_free(chan);
	flt_chan_rx_free(chan);
	kfree_rcu(chan, rcu);
}

void flt_chan_put(struct flt_chan *chan)
{
	kref_put(&chan->ref, flt_chan_release);
}

bool flt_sock_is_privileged(struct socket *sock)
{
	union flt_addr from = {};

	/* sin_port and sin6_port are in the same place. */
	return kernel_getpeername(sock, &from.sa) >= 0 && ntohs(from.v4.sin_port) < PROT_SOCK;
}

/*
 * Bind to a port that only root can have: where links are not authenticated the peer takes no
 * other, and where they are it lets nobody else stand in the way. As sunrpc does it.
 */
static int flt_chan_bind(struct socket *sock, union flt_addr *from, int len)
{
	unsigned int nr = FLT_PORT_LAST - FLT_PORT_FIRST + 1, i;
	unsigned int begin = get_random_u32_below(nr);
	int err = -EADDRINUSE;

	/* Links to several nodes share a port, and servers that come later can have it. */
	sock_set_reuseaddr(sock->sk);
	for (i = 0; i < nr && err == -EADDRINUSE; i++) {
		from->v4.sin_port = htons(FLT_PORT_FIRST + (begin + i) % nr);
		err = kernel_bind(sock, (struct flt_sockaddr *)&from->sa, len);
	}
	return err;
}

/* The buffers of a socket, too, that nothing has been sent or received by. */
static void flt_chan_charge(const struct flt_link *link, struct sock *sk)
{
#ifdef CONFIG_MEMCG
	struct mem_cgroup *memcg = link->memcg;

	if (!mem_cgroup_sockets_enabled || sk->sk_memcg || !memcg || !parent_mem_cgroup(memcg) ||
	    !css_tryget(&memcg->css))
		return;
	lock_sock(sk);
	sk->sk_memcg = memcg;	/* its end puts the reference */
	/* As accept() does it for a program: what has come meanwhile, too. */
	flt_sock_charge(sk, sk_mem_pages(sk->sk_forward_alloc + atomic_read(&sk->sk_rmem_alloc)));
	release_sock(sk);
#endif
}

/**
 * flt_chan_connect - begin to connect; does not wait
 * @chan:  without a socket
 * @to:    the node
 * @local: this node, has an address of the same family
 *
 * Return: 0 under way (flt_chan_connected() says when), or an errno.
 */
int flt_chan_connect(struct flt_chan *chan, const union flt_addr *to,
		     const struct flt_local *local)
{
	bool v4 = to->sa.sa_family == AF_INET;
	union flt_addr from = {}, target = *to;
	int len = v4 ? sizeof(to->v4) : sizeof(to->v6);
	struct socket *sock;
	int err;

	if (v4)
		from.v4 = local->v4;
	else
		from.v6 = local->v6;
	err = sock_create_kern(chan->fn->net, to->sa.sa_family, SOCK_STREAM, IPPROTO_TCP, &sock);
	if (err)
		return err;
	flt_chan_charge(chan->link, sock->sk);
	err = flt_auth_prepare(chan, sock);
	if (err)
		return err;
	chan->outbound = true;
	flt_chan_enter(chan, FLT_CHAN_CONNECTING);
	flt_chan_attach(chan, sock);
	/* The peer knows us by our address. */
	err = flt_chan_bind(sock, &from, len);
	if (err)
		return err;
	err = kernel_connect(sock, (struct flt_sockaddr *)&target.sa, len, O_NONBLOCK);
	return err == -EINPROGRESS ? 0 : err;
}

/**
 * flt_chan_take - use an accepted socket
 * @chan: without a socket
 * @sock: taken in any case
 *
 * Return: 0 or an errno.
 */
int flt_chan_take(struct flt_chan *chan, struct socket *sock)
{
	int err = flt_auth_prepare(chan, sock);

	if (err)
		return err;
	chan->privileged = flt_sock_is_privileged(sock);
	flt_chan_charge(chan->link, sock->sk);
	flt_chan_attach(chan, sock);
	return 0;
}

/* 1: connected; 0: not yet; negative errno: it will not be. */
int flt_chan_connected(struct flt_chan *chan)
{
	struct sock *sk = chan->sock->sk;

	switch (inet_sk_state_load(sk)) {
	case TCP_ESTABLISHED:
	case TCP_CLOSE_WAIT:
		return 1;
	case TCP_SYN_SENT:
		return 0;
	default:
		return sock_error(sk) ?: -ECONNREFUSED;
	}
}

/* From here on messages to send are taken. */
void flt_chan_open(struct flt_chan *chan)
{
	chan->pinged = jiffies;
	chan->watched = jiffies;
	/* What it has said so far it may have said long ago: it waited for its place. */
	chan->heard = jiffies;
	chan->whole = jiffies;
	spin_lock_bh(&chan->tx_lock);
	flt_chan_enter(chan, FLT_CHAN_OPEN);
	spin_unlock_bh(&chan->tx_lock);
}

/* From here on received messages are delivered. */
void flt_chan_deliver(struct flt_chan *chan)
{
	spin_lock_bh(&chan->tx_lock);
	flt_chan_enter(chan, FLT_CHAN_UP);
	spin_unlock_bh(&chan->tx_lock);
	/* Bytes after the HELLO may be waiting, and will not announce themselves again. */
	queue_work(flt_msg_wq, &chan->rx_work);
}

/**
 * flt_chan_stop - end the channel: nothing is sent or delivered after this
 * @chan: with or without a socket; its reference stays with the caller
 *
 * Waits for a message handler that is running.
 */
void flt_chan_stop(struct flt_chan *chan)
{
	struct socket *sock;

	might_sleep();
	spin_lock_bh(&chan->tx_lock);
	flt_chan_enter(chan, FLT_CHAN_DEAD);
	spin_unlock_bh(&chan->tx_lock);
	if (!chan->sock)
		return;
	flt_auth_cancel(chan);
	flt_auth_unwatch(chan);
	flt_chan_detach(chan);
	disable_work_sync(&chan->rx_work);
	disable_work_sync(&chan->tx_work);
	flt_chan_rx_end(chan);
	/* A sender that saw UP is inside this mutex; no lock of a file's end may depend on it. */
	mutex_lock(&chan->tx_mutex);
	sock = chan->sock;
	chan->sock = NULL;
	mutex_unlock(&chan->tx_mutex);
	flt_sock_abort(sock);
}
