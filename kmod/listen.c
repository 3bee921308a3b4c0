// SPDX-License-Identifier: GPL-2.0
/* This node's name and addresses, and the listening sockets for its links. */

#include <linux/slab.h>
#include <linux/tcp.h>
#include <net/ipv6.h>
#include <net/sock.h>
#include "chan.h"
#include "compat/sock.h"
#include "counter.h"
#include "linkwork.h"
#include "listen.h"
#include "table.h"
#include "trace.h"

#define FLT_LISTEN_BACKLOG	128
/* Sockets accepted before the worker lets others run. */
#define FLT_LISTEN_BUDGET	32

/**
 * struct flt_listener - a listening socket
 * @fn:   namespace
 * @sock: the socket
 * @addr: where, with port
 * @work: accepts
 * @old_data_ready: what the socket had; its children are born with ours
 */
struct flt_listener {
	struct flt_net *fn;
	struct socket *sock;
	union flt_addr addr;
	struct work_struct work;
	void (*old_data_ready)(struct sock *sk);
};

static void flt_listener_data_ready(struct sock *sk)
{
	struct flt_listener *listener;

	read_lock_bh(&sk->sk_callback_lock);
	/* A child has this callback too, until it is accepted, but no user data. */
	listener = __locked_read_sk_user_data_with_flags(sk, 0);
	if (listener && sk->sk_state == TCP_LISTEN)
		queue_work(flt_link_wq, &listener->work);
	read_unlock_bh(&sk->sk_callback_lock);
}

static void flt_listen_refuse(struct flt_net *fn, struct socket *sock, const union flt_addr *from,
			      enum flt_why why)
{
	flt_count(fn, why == FLT_WHY_PORT ? FLT_REFUSED_PORT : FLT_REFUSED_STRANGER);
	trace_flt_link_refused(fn->net, from, why);
	flt_sock_abort(sock);
}

static void flt_listen_one(struct flt_listener *listener, struct socket *sock)
{
	struct flt_net *fn = listener->fn;
	struct sock *sk = sock->sk;
	union flt_addr from = {};
	struct flt_node *node;

	write_lock_bh(&sk->sk_callback_lock);
	sk->sk_data_ready = listener->old_data_ready;
	sk->sk_user_data = NULL;
	write_unlock_bh(&sk->sk_callback_lock);

	if (kernel_getpeername(sock, &from.sa) < 0) {
		flt_sock_abort(sock);
		return;
	}
	node = flt_node_by_addr(fn, &from);
	if (!node) {
		flt_listen_refuse(fn, sock, &from, FLT_WHY_STRANGER);
		return;
	}
	/* Without authentication any user of that machine could speak for it. */
	if (READ_ONCE(node->auth) == FLT_AUTH_NONE && !flt_sock_is_privileged(sock)) {
		pr_warn_ratelimited("a connection from the address of node %s is refused: %s\n",
				    node->name, flt_why_name(FLT_WHY_PORT));
		flt_listen_refuse(fn, sock, &from, FLT_WHY_PORT);
		flt_node_put(node);
		return;
	}
	flt_count(fn, FLT_LINK_ACCEPTS);
	flt_link_offer(node->link, sock);
	flt_node_put(node);
}

static void flt_listen_work(struct work_struct *work)
{
	struct flt_listener *listener = container_of(work, struct flt_listener, work);
	int budget = FLT_LISTEN_BUDGET;
	struct socket *sock;

	while (!kernel_accept(listener->sock, &sock, O_NONBLOCK)) {
		flt_listen_one(listener, sock);
		if (!--budget) {
			queue_work(flt_link_wq, work);
			break;
		}
	}
}

static void flt_listener_free(struct flt_listener *listener)
{
	struct sock *sk;

	if (!listener)
		return;
	sk = listener->sock->sk;
	write_lock_bh(&sk->sk_callback_lock);
	if (sk->sk_data_ready == flt_listener_data_ready)
		sk->sk_data_ready = listener->old_data_ready;
	rcu_assign_sk_user_data(sk, NULL);
	write_unlock_bh(&sk->sk_callback_lock);
	disable_work_sync(&listener->work);
	sock_release(listener->sock);
	kfree(listener);
}

static int flt_listener_bind(struct flt_listener *listener)
{
	bool v4 = listener->addr.sa.sa_family == AF_INET;
	struct socket *sock = listener->sock;
	struct sock *sk = sock->sk;
	int err;

	sock_set_reuseaddr(sk);
	if (!v4)
		ip6_sock_set_v6only(sk);
	err = kernel_bind(sock, (struct flt_sockaddr *)&listener->addr.sa,
			  v4 ? sizeof(listener->addr.v4) : sizeof(listener->addr.v6));
	if (err)
		return err;

	write_lock_bh(&sk->sk_callback_lock);
	listener->old_data_ready = sk->sk_data_ready;
	__rcu_assign_sk_user_data_with_flags(sk, listener, SK_USER_DATA_NOCOPY);
	sk->sk_data_ready = flt_listener_data_ready;
	write_unlock_bh(&sk->sk_callback_lock);
	return kernel_listen(sock, FLT_LISTEN_BACKLOG);
}

static struct flt_listener *flt_listener_new(struct flt_net *fn, const union flt_addr *addr)
{
	struct flt_listener *listener;
	int err;

	listener = kzalloc(sizeof(*listener), FLT_GFP);
	if (!listener)
		return ERR_PTR(-ENOMEM);
	listener->fn = fn;
	listener->addr = *addr;
	INIT_WORK(&listener->work, flt_listen_work);
	err = sock_create_kern(fn->net, addr->sa.sa_family, SOCK_STREAM, IPPROTO_TCP,
			       &listener->sock);
	if (err) {
		kfree(listener);
		return ERR_PTR(err);
	}
	err = flt_listener_bind(listener);
	if (err) {
		flt_listener_free(listener);
		return ERR_PTR(err);
	}
	return listener;
}

/* Is one of the listed nodes what this node wants to be. */
static int flt_listen_clash(struct flt_net *fn, const struct flt_local *local,
			    struct netlink_ext_ack *extack)
{
	union flt_addr addr[2] = { { .v4 = local->v4 }, { .v6 = local->v6 } };
	struct flt_node *node;
	int i;

	node = flt_node_by_name(fn->net, local->name);
	flt_node_put(node);
	if (node) {
		NL_SET_ERR_MSG(extack, "a listed node has that name");
		return -EEXIST;
	}
	for (i = 0; i < 2; i++) {
		if (!addr[i].sa.sa_family)
			continue;
		node = flt_node_by_addr(fn, &addr[i]);
		flt_node_put(node);
		if (node) {
			NL_SET_ERR_MSG(extack, "a listed node has that address");
			return -EEXIST;
		}
	}
	return 0;
}

/* New listeners where they differ from the old ones; on success the changed ones are swapped. */
static int flt_listen_swap(struct flt_net *fn, const struct flt_local *local,
			   struct flt_listener *old[2], struct netlink_ext_ack *extack)
{
	union flt_addr addr[2] = { { .v4 = local->v4 }, { .v6 = local->v6 } };
	struct flt_listener *fresh[2] = {};
	bool keep[2] = {};
	int i, err;

	lockdep_assert_held(&fn->lock);
	addr[0].v4.sin_port = htons(local->port);
	addr[1].v6.sin6_port = htons(local->port);
	for (i = 0; i < 2; i++) {
		if (!addr[i].sa.sa_family)
			continue;
		keep[i] = fn->listener[i] &&
			  !memcmp(&fn->listener[i]->addr, &addr[i], sizeof(addr[i]));
		if (keep[i])
			continue;
		fresh[i] = flt_listener_new(fn, &addr[i]);
		if (IS_ERR(fresh[i])) {
			err = PTR_ERR(fresh[i]);
			fresh[i] = NULL;
			goto undo;
		}
	}
	for (i = 0; i < 2; i++) {
		old[i] = NULL;
		if (keep[i])
			continue;
		old[i] = fn->listener[i];
		fn->listener[i] = fresh[i];
	}
	return 0;

undo:
	flt_listener_free(fresh[0]);
	if (err == -EADDRNOTAVAIL)
		NL_SET_ERR_MSG(extack, "not an address of this machine");
	else if (err == -EADDRINUSE)
		NL_SET_ERR_MSG(extack, "another program listens on that address and port");
	else
		NL_SET_ERR_MSG(extack, "cannot listen on that address");
	return err;
}

int flt_listen_set(struct flt_net *fn, const struct flt_local *local,
		   struct netlink_ext_ack *extack)
{
	struct flt_listener *old[2] = {};
	struct flt_local *fresh, *was;
	bool same;
	int err;

	fresh = kmemdup(local, sizeof(*local), FLT_GFP);
	if (!fresh)
		return -ENOMEM;

	mutex_lock(&fn->lock);
	was = rcu_dereference_protected(fn->local, lockdep_is_held(&fn->lock));
	same = was && !memcmp(was, fresh, offsetof(struct flt_local, rcu));
	err = same ? 0 : flt_listen_clash(fn, fresh, extack);
	if (!err && !same)
		err = flt_listen_swap(fn, fresh, old, extack);
	if (!err && !same)
		rcu_assign_pointer(fn->local, fresh);
	mutex_unlock(&fn->lock);
	if (err || same) {
		kfree(fresh);
		return err;
	}
	kfree_rcu(was, rcu);
	flt_listener_free(old[0]);
	flt_listener_free(old[1]);
	flt_table_wake(fn);
	return 0;
}

void flt_listen_stop(struct flt_net *fn)
{
	struct flt_listener *old[2];

	mutex_lock(&fn->lock);
	memcpy(old, fn->listener, sizeof(old));
	memset(fn->listener, 0, sizeof(fn->listener));
	mutex_unlock(&fn->lock);
	flt_listener_free(old[0]);
	flt_listener_free(old[1]);
}
