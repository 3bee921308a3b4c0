// SPDX-License-Identifier: GPL-2.0
/*
 * Circles: transfers that would feed themselves.
 *
 * A socket that is spliced into its own peer sends each byte round for ever, in softirq, and no
 * program takes part that could be stopped or made to pay. A circle through another host or another
 * network namespace is not seen here: that one has the user's share of time (user.c).
 */

#include <linux/if.h>
#include <net/inet_hashtables.h>
#include <net/inet6_hashtables.h>
#include <net/tcp.h>

#include "kmod/compat/lookup.h"
#include "layer.h"
#include "loop.h"
#include "pair.h"

#define SSP_CHAIN_MAX	16

static struct sock *ssp_lookup(const struct sock *sk, int dif)
{
	const struct inet_sock *inet = inet_sk(sk);

#if IS_ENABLED(CONFIG_IPV6)
	if (sk->sk_family == AF_INET6 && !ipv6_addr_v4mapped(&sk->sk_v6_daddr))
		return flt_compat_established6(sock_net(sk), &sk->sk_v6_rcv_saddr,
					       inet->inet_sport, &sk->sk_v6_daddr,
					       ntohs(inet->inet_dport), dif);
#endif
	return flt_compat_established4(sock_net(sk), inet->inet_rcv_saddr, inet->inet_sport,
				       inet->inet_daddr, ntohs(inet->inet_dport), dif);
}

/* The other end of the connection, with a reference, if it is here. */
static struct sock *ssp_peer(const struct sock *sk)
{
	int dif = READ_ONCE(sk->sk_bound_dev_if);
	struct sock *peer = ssp_lookup(sk, LOOPBACK_IFINDEX);

	if (!peer && dif && dif != LOOPBACK_IFINDEX)
		peer = ssp_lookup(sk, dif);
	if (peer && !sk_fullsock(peer)) {
		sock_gen_put(peer);
		peer = NULL;
	}
	return peer;
}

/* What comes to @sk goes out of the socket that is returned; NULL: to a program. Under RCU. */
static struct sock *ssp_leads_to(const struct sock *sk)
{
	struct ssp_end *end = ssp_end_find(sk);
	struct ssp_pair *p = end ? rcu_dereference(end->pair) : NULL;
	int side;

	if (!p || READ_ONCE(p->state) == SSP_ENDED)
		return NULL;
	side = ssp_side(p, sk);
	return side && !ssp_is_bidir(p) ? NULL : p->sk[!side];
}

/* What is received on @p->sk[@from]: does it come there again? */
static int ssp_follow(const struct ssp_pair *p, int from)
{
	const struct sock *out = p->sk[!from];
	unsigned int i;
	int err = 0;

	rcu_read_lock();
	for (i = 0; out && !err; i++) {
		struct sock *in = ssp_peer(out);

		if (!in)
			break;
		out = ssp_leads_to(in);
		if (out && (in == p->sk[from] || i == SSP_CHAIN_MAX))
			err = -ELOOP;
		/* @out is held by its transfer, and that by RCU. */
		sock_gen_put(in);
	}
	rcu_read_unlock();
	return err;
}

int ssp_loop_check(struct ssp_pair *p)
{
	int err;

	/* Pairs with the same of another CPU: attached first, then looked. */
	smp_mb();
	err = ssp_follow(p, 0);
	if (!err && ssp_is_bidir(p))
		err = ssp_follow(p, 1);
	return err;
}
