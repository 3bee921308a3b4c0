// SPDX-License-Identifier: GPL-2.0
/* This room's layer: what TCP and programs do to a listener and to its connections. */

#include <linux/module.h>
#include <net/tcp.h>
#include <flotilla/afpa.h>

#include "kmod/socklock.h"
#include "kmod/stack.h"

#include "conn.h"
#include "counter.h"
#include "engine.h"
#include "layer.h"
#include "queue.h"
#include "site.h"

/**
 * struct afpa_hook - our share of a socket
 * @place: the site, with a reference; of a listener NULL for a moment after the layer was added
 * @conn:  of a connection on which something has happened; set under the socket's lock
 * @none:  it will have no @conn; the same
 * @child: came by a listener; a listener may connect later, which is no connection of the site
 */
struct afpa_hook {
	struct afpa_place *place;
	struct afpa_conn *conn;
	bool none;
	bool child;
};

static struct afpa_hook *afpa_hook(struct flt_layer *layer)
{
	return flt_layer_priv(layer);
}

static const struct flt_layer_ops afpa_layer_ops;

/* --- what TCP says; the socket is locked, RCU is held --- */

/* NULL: the event is not ours. */
static struct afpa_conn *afpa_conn_of(struct flt_layer *layer, struct sock *sk)
{
	struct afpa_hook *hook = afpa_hook(layer);

	if (hook->conn || hook->none)
		return hook->conn;
	WRITE_ONCE(hook->conn, afpa_conn_make(layer, sk, hook->place));
	/* A program that speaks first, or a machine without memory: never mind. */
	if (!hook->conn) {
		hook->none = true;
		/* Of no effect any more; at the module's end afpa_layer_remove_all() has it. */
		if (!READ_ONCE(hook->place->gone))
			flt_layer_detach(layer);
	}
	return hook->conn;
}

static bool afpa_is_threaded(const struct afpa_conn *conn)
{
	return READ_ONCE(conn->place->an->mode) == AFPA_MODE_THREAD;
}

static bool afpa_data_ready(struct flt_layer *layer, struct sock *sk)
{
	struct afpa_conn *conn;
	bool pass;

	/* A listener is not locked; a child that is not accepted yet is looked at then. */
	if (!afpa_hook(layer)->child || sk->sk_state == TCP_LISTEN || !sk->sk_socket)
		return true;
	conn = afpa_conn_of(layer, sk);
	if (!conn)
		return true;
	if (afpa_is_threaded(conn))
		return !afpa_queue_conn(conn, 0) || sk->sk_shutdown & RCV_SHUTDOWN;
	pass = afpa_engine_run(conn, sk, AFPA_IN_EVENT);
	/* Who looks at the queue for himself was told of bytes that are gone. */
	if (!pass && !flt_layer_is_alone(layer))
		flt_layer_changed(sk, &afpa_layer_ops);
	return pass;
}

static bool afpa_write_space(struct flt_layer *layer, struct sock *sk)
{
	struct afpa_conn *conn = afpa_hook(layer)->conn;

	if (!conn || !READ_ONCE(conn->ans.obj) || !sk->sk_socket)
		return true;
	/* From within our own sending: nobody else wants to know. */
	if (conn->busy)
		return false;
	/*
	 * TCP says so in the midst of sending, too (tcp_event_new_data_sent()), with an skb in
	 * its hand that another sending could free: the rest is sent by the work item.
	 */
	clear_bit(SOCK_NOSPACE, &sk->sk_socket->flags);
	return !afpa_queue_conn(conn, 0);
}

static bool afpa_state_change(struct flt_layer *layer, struct sock *sk)
{
	struct afpa_conn *conn = afpa_hook(layer)->conn;

	/* Pages are not kept for who is gone. Errors are not heard: they come without the lock. */
	if (conn && sk->sk_state == TCP_CLOSE && !conn->busy)
		afpa_conn_end_answer(conn);
	return true;
}

static void afpa_destruct(struct flt_layer *layer, struct sock *sk)
{
	struct afpa_conn *conn = afpa_hook(layer)->conn;

	if (conn)
		afpa_conn_die(conn);
}

static void afpa_free(struct flt_layer *layer)
{
	struct afpa_hook *hook = afpa_hook(layer);

	if (hook->conn)
		afpa_conn_put(hook->conn);
	if (hook->place)
		afpa_place_put(hook->place);
}

static bool afpa_inherit(struct flt_layer *layer, struct sock *child)
{
	struct afpa_place *place = READ_ONCE(afpa_hook(layer)->place);

	/* A listener may have been made another one's since. */
	return place && !READ_ONCE(place->gone) &&
	       READ_ONCE(place->an->mode) != AFPA_MODE_OFF &&
	       afpa_site_is_of(place, flt_layer_sock(layer));
}

static void afpa_init_child(struct flt_layer *layer, struct flt_layer *child, struct sock *sk)
{
	struct afpa_place *place = afpa_hook(layer)->place;

	refcount_inc(&place->users);
	afpa_hook(child)->place = place;
	afpa_hook(child)->child = true;
}

/* --- what programs do --- */

/* The program has no descriptor yet, so nobody has the lock for long. */
static void afpa_accepted(struct flt_layer *layer, struct socket *sock)
{
	struct sock *sk = sock->sk;
	struct afpa_conn *conn;

	if (skb_queue_empty_lockless(&sk->sk_receive_queue))
		return;
	if (!flt_sock_lock_soon(sk))
		return;
	conn = afpa_conn_of(layer, sk);
	if (conn && (!afpa_is_threaded(conn) || !afpa_queue_conn(conn, 0)))
		afpa_engine_run(conn, sk, AFPA_IN_ACCEPT);
	release_sock(sk);
}

/*
 * The program writes, or ends the connection, in the midst of an answer: all of that is queued
 * first. No page is copied for it. Must not sleep.
 */
static int afpa_make_way(struct flt_layer *layer, struct sock *sk)
{
	struct afpa_conn *conn = READ_ONCE(afpa_hook(layer)->conn);
	int err = -EAGAIN;

	if (!conn || READ_ONCE(conn->closed))
		return 0;
	spin_lock_bh(&sk->sk_lock.slock);
	if (!sock_owned_by_user(sk))
		err = afpa_conn_flush(conn, sk);
	else if (!conn->ans.obj)
		err = 0;
	/* Else the next request could begin an answer before the program has the lock. */
	if (!err && !sock_owned_by_user(sk)) {
		afpa_conn_leave(conn);
		if (!skb_queue_empty(&sk->sk_receive_queue))
			sk->sk_data_ready(sk);
	}
	spin_unlock_bh(&sk->sk_lock.slock);
	return err;
}

static int afpa_may_send(struct flt_layer *layer, struct sock *sk, int flags)
{
	return afpa_make_way(layer, sk);
}

static int afpa_may_shutdown(struct flt_layer *layer, struct sock *sk, int how)
{
	return (how + 1) & SEND_SHUTDOWN ? afpa_make_way(layer, sk) : 0;
}

/* To its program the connection may have been idle for long. */
static void afpa_release(struct flt_layer *layer, struct socket *sock)
{
	struct afpa_conn *conn = READ_ONCE(afpa_hook(layer)->conn);
	struct sock *sk = sock->sk;

	if (!conn || !READ_ONCE(conn->ans.obj))
		return;
	if (flt_sock_lock_soon(sk)) {
		/* Better none than half of it: tcp_close() resets the connection. */
		if (afpa_conn_flush(conn, sk)) {
			sock_set_flag(sk, SOCK_LINGER);
			sk->sk_lingertime = 0;
		}
		release_sock(sk);
	}
}

static const struct flt_layer_ops afpa_layer_ops = {
	.owner = THIS_MODULE,
	.name = "afpa",
	.data_ready = afpa_data_ready,
	.write_space = afpa_write_space,
	.state_change = afpa_state_change,
	.destruct = afpa_destruct,
	.free = afpa_free,
	.inherit = afpa_inherit,
	.init_child = afpa_init_child,
	.accepted = afpa_accepted,
	.priv_size = sizeof(struct afpa_hook),
	.may_send = afpa_may_send,
	.may_shutdown = afpa_may_shutdown,
	.release = afpa_release,
};

bool afpa_layer_is_on(const struct sock *sk, const struct afpa_place *place)
{
	struct flt_layer *layer;
	bool on;

	rcu_read_lock();
	layer = flt_layer_find(sk, &afpa_layer_ops);
	on = layer && READ_ONCE(afpa_hook(layer)->place) == place;
	rcu_read_unlock();
	return on;
}

int afpa_layer_put_on(struct sock *sk, struct afpa_place *place)
{
	struct afpa_place *old = NULL;
	struct flt_layer *layer;

	layer = flt_layer_find(sk, &afpa_layer_ops);
	if (layer)
		old = afpa_hook(layer)->place;
	if (old == place && old)
		return 0;
	/* Of an address that it has listened on before. */
	if (layer)
		flt_layer_detach(layer);
	layer = flt_layer_add_soon(sk, &afpa_layer_ops);
	if (IS_ERR(layer))
		return PTR_ERR(layer);
	refcount_inc(&place->users);
	/* Children look at it without a lock. */
	smp_store_release(&afpa_hook(layer)->place, place);
	return 1;
}

void afpa_layer_take_off(struct sock *sk, const struct afpa_place *place)
{
	struct flt_layer *layer = flt_layer_find(sk, &afpa_layer_ops);

	if (layer && afpa_hook(layer)->place == place)
		flt_layer_detach(layer);
}

void afpa_layer_remove_all(void)
{
	flt_layer_remove_all(&afpa_layer_ops);
}
