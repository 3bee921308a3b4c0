// SPDX-License-Identifier: GPL-2.0
/* Sockets of registered processes, from socket() on: TCP's own init of a socket is wrapped. */

#include <linux/atomic.h>
#include <linux/module.h>
#include <linux/rcupdate.h>
#include <linux/wait.h>
#include <net/net_namespace.h>
#include <net/sock.h>
#include <net/tcp.h>

#include "hook.h"
#include "region.h"
#include "sock.h"

/**
 * struct usel_hook - one address family's TCP
 * @prot: what its sockets point to; lives as long as the kernel
 * @own:  its own init
 */
struct usel_hook {
	struct proto *prot;
	int (*own)(struct sock *sk);
};

static struct usel_hook usel_hooks[2];
static unsigned int usel_hook_users;
/* Calls that are inside, and who waits for the last. */
static atomic_t usel_hook_inside = ATOMIC_INIT(0);
static DECLARE_WAIT_QUEUE_HEAD(usel_hook_wait);

/* The socket has a struct socket, and no descriptor: nobody else can reach it. */
static __always_inline int usel_hook_run(struct sock *sk, const struct usel_hook *hook)
{
	int err;

	atomic_inc(&usel_hook_inside);
	err = hook->own(sk);
	if (!err && !sk->sk_kern_sock && usel_region_has_current())
		usel_sock_add(sk);
	if (atomic_dec_and_test(&usel_hook_inside))
		wake_up_all(&usel_hook_wait);
	return err;
}

static int usel_init_v4(struct sock *sk)
{
	return usel_hook_run(sk, &usel_hooks[0]);
}

static int usel_init_v6(struct sock *sk)
{
	return usel_hook_run(sk, &usel_hooks[1]);
}

void usel_hook_get(void)
{
	if (usel_hook_users++)
		return;
	WRITE_ONCE(usel_hooks[0].prot->init, usel_init_v4);
	if (usel_hooks[1].prot)
		WRITE_ONCE(usel_hooks[1].prot->init, usel_init_v6);
}

void usel_hook_put(void)
{
	if (--usel_hook_users)
		return;
	WRITE_ONCE(usel_hooks[0].prot->init, usel_hooks[0].own);
	if (usel_hooks[1].prot)
		WRITE_ONCE(usel_hooks[1].prot->init, usel_hooks[1].own);
}

/* By way of a socket: tcpv6_prot is not exported where IPv6 is built in. */
static int usel_hook_learn(struct usel_hook *hook, int family)
{
	struct socket *sock;
	int err;

	err = sock_create_kern(&init_net, family, SOCK_STREAM, IPPROTO_TCP, &sock);
	if (err)
		return err;
	hook->prot = sock->sk->sk_prot;
	hook->own = hook->prot->init;
	sock_release(sock);
	return 0;
}

int usel_hook_init(void)
{
	int err;

	err = usel_hook_learn(&usel_hooks[0], AF_INET);
	if (err)
		return err;
	err = usel_hook_learn(&usel_hooks[1], AF_INET6);
	return err == -EAFNOSUPPORT ? 0 : err;
}

/*
 * No region, so TCP's own are back. A call inside may sleep, which RCU-tasks does not
 * wait for, but is counted; before and after the counting it does not sleep.
 */
void usel_hook_exit(void)
{
	synchronize_rcu_tasks();
	wait_event(usel_hook_wait, !atomic_read(&usel_hook_inside));
	synchronize_rcu_tasks();
}
