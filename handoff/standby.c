// SPDX-License-Identifier: GPL-2.0
/*
 * Between the moment when packets of a service begin to come here and the moment when it is known
 * to whom they go, TCP would answer them with a RST: it has no socket for them. They are dropped
 * instead, for a bounded time, and clients send them again.
 */

#include <linux/slab.h>
#include <net/addrconf.h>
#include <net/ip6_route.h>
#include <net/route.h>
#include <net/sock.h>
#include <flotilla/takeover.h>

#include "kmod/compat/lookup.h"

#include "counter.h"
#include "standby.h"

/**
 * struct hof_standby - one service
 * @node:    in hn->standbys; RCU
 * @service: never changes
 * @begun:   a packet was held back, and @until counts; READ_ONCE
 * @until:   jiffies; written once, before @begun
 * @rcu:     to free it
 */
struct hof_standby {
	struct list_head node;
	struct hof_service service;
	unsigned long begun;
	unsigned long until;
	struct rcu_head rcu;
};

bool hof_service_has(const struct hof_service *service, const struct flt_tuple *tuple)
{
	return service->family == tuple->family &&
	       (!service->port || service->port == tuple->server_port) &&
	       !memcmp(service->addr, tuple->server, sizeof(service->addr));
}

bool hof_service_overlaps(const struct hof_service *a, const struct hof_service *b)
{
	return a->family == b->family && (!a->port || !b->port || a->port == b->port) &&
	       !memcmp(a->addr, b->addr, sizeof(a->addr));
}

/* Under RCU, or hn->takeover_lock. */
static struct hof_standby *hof_standby_find(struct hof_net *hn, const struct hof_service *service)
{
	struct hof_standby *s;

	list_for_each_entry_rcu(s, &hn->standbys, node, lockdep_is_held(&hn->takeover_lock))
		if (!memcmp(&s->service, service, sizeof(*service)))
			return s;
	return NULL;
}

static void hof_standby_drop(struct hof_net *hn, struct hof_standby *s)
{
	list_del_rcu(&s->node);
	WRITE_ONCE(hn->nr_standbys, hn->nr_standbys - 1);
	kfree_rcu(s, rcu);
}

int hof_standby_begin(struct hof_net *hn, const struct hof_service *service)
{
	struct hof_standby *s, *before;

	lockdep_assert_held(&hn->takeover_lock);
	before = hof_standby_find(hn, service);
	if (!before && hn->nr_standbys >= HOF_TAKEOVER_MAX)
		return -ENOSPC;
	s = kzalloc(sizeof(*s), GFP_KERNEL_ACCOUNT);
	if (!s)
		return -ENOMEM;
	s->service = *service;
	/* First, so that there is one at any time. */
	list_add_tail_rcu(&s->node, &hn->standbys);
	WRITE_ONCE(hn->nr_standbys, hn->nr_standbys + 1);
	if (before)
		hof_standby_drop(hn, before);
	return 0;
}

int hof_standby_end(struct hof_net *hn, const struct hof_service *service)
{
	struct hof_standby *s;

	lockdep_assert_held(&hn->takeover_lock);
	s = hof_standby_find(hn, service);
	if (!s)
		return -ENOENT;
	hof_standby_drop(hn, s);
	return 0;
}

/* Its time begins with the first packet that it holds back. */
static bool hof_standby_holds(struct hof_net *hn, struct hof_standby *s)
{
	/* Pairs with the store below. */
	if (!smp_load_acquire(&s->begun)) {
		WRITE_ONCE(s->until, jiffies +
			   msecs_to_jiffies(READ_ONCE(hn->tunables.takeover_hold_ms)));
		/* Pairs with the load above: who sees it sees @until. */
		smp_store_release(&s->begun, 1UL);
		return true;
	}
	return time_before(jiffies, READ_ONCE(s->until));
}

struct sock *hof_standby_sock(struct hof_net *hn, const struct flt_tuple *tuple, int dif)
{
	__be32 client, server;

	if (tuple->family == AF_INET) {
		memcpy(&client, tuple->client, 4);
		memcpy(&server, tuple->server, 4);
		return flt_compat_established4(hn->net, client, tuple->client_port, server,
					       ntohs(tuple->server_port), dif);
	}
#if IS_ENABLED(CONFIG_IPV6)
	return flt_compat_established6(hn->net, (const struct in6_addr *)tuple->client,
				       tuple->client_port, (const struct in6_addr *)tuple->server,
				       ntohs(tuple->server_port), dif);
#else
	return NULL;
#endif
}

/* By a packet of device @dif. RCU. */
static bool hof_standby_found(struct hof_net *hn, const struct flt_tuple *tuple, int dif)
{
	struct sock *sk = hof_standby_sock(hn, tuple, dif);

	if (sk)
		sock_gen_put(sk);
	return sk;
}

/* One that is bound to a device is found by packets of that only. */
bool hof_standby_owned(struct hof_net *hn, const struct flt_tuple *tuple)
{
	struct net_device *dev;
	bool found = false;

	rcu_read_lock();
	for_each_netdev_rcu(hn->net, dev) {
		found = hof_standby_found(hn, tuple, dev->ifindex);
		if (found)
			break;
	}
	rcu_read_unlock();
	return found;
}

/* Who only passes packets on to whoever has the address answers none. */
static bool hof_standby_is_local(struct hof_net *hn, const struct flt_tuple *tuple)
{
	__be32 server;

	if (tuple->family == AF_INET) {
		memcpy(&server, tuple->server, 4);
		return inet_addr_type(hn->net, server) == RTN_LOCAL;
	}
	return ipv6_chk_addr(hn->net, (const struct in6_addr *)tuple->server, NULL, 0);
}

static unsigned int hof_standby_packet(struct hof_net *hn, const struct flt_tuple *tuple, int dif)
{
	struct hof_standby *s;
	bool holds = false;

	list_for_each_entry_rcu(s, &hn->standbys, node)
		if (hof_service_has(&s->service, tuple)) {
			/* Asked of those that match only, and once. */
			if (!holds && (!hof_standby_is_local(hn, tuple) ||
				       hof_standby_found(hn, tuple, dif)))
				return NF_ACCEPT;
			holds |= hof_standby_holds(hn, s);
		}
	if (!holds)
		return NF_ACCEPT;
	hof_count(hn, HOF_STAT_TAKEOVER_HELD);
	return NF_DROP;
}

/* What begins a connection, or is answered by none, is no business of a takeover. */
static bool hof_standby_passes(const struct tcphdr *th)
{
	return (th->syn && !th->ack) || th->rst;
}

unsigned int hof_standby_packet4(struct hof_net *hn, const struct hof_key4 *key,
				 const struct tcphdr *th, int dif)
{
	struct flt_tuple tuple = {
		.family = AF_INET,
		.client_port = key->client_port,
		.server_port = key->server_port,
	};

	if (hof_standby_passes(th))
		return NF_ACCEPT;
	memcpy(tuple.client, &key->client, 4);
	memcpy(tuple.server, &key->server, 4);
	return hof_standby_packet(hn, &tuple, dif);
}

unsigned int hof_standby_packet6(struct hof_net *hn, const struct hof_key6 *key,
				 const struct tcphdr *th, int dif)
{
	struct flt_tuple tuple = {
		.family = AF_INET6,
		.client_port = key->client_port,
		.server_port = key->server_port,
	};

	if (hof_standby_passes(th))
		return NF_ACCEPT;
	memcpy(tuple.client, &key->client, 16);
	memcpy(tuple.server, &key->server, 16);
	return hof_standby_packet(hn, &tuple, dif);
}

void hof_standby_net_init(struct hof_net *hn)
{
	mutex_init(&hn->takeover_lock);
	INIT_LIST_HEAD(&hn->takeovers);
	INIT_LIST_HEAD(&hn->standbys);
}

void hof_standby_net_exit(struct hof_net *hn)
{
	struct hof_standby *s, *next;

	mutex_lock(&hn->takeover_lock);
	list_for_each_entry_safe(s, next, &hn->standbys, node)
		hof_standby_drop(hn, s);
	mutex_unlock(&hn->takeover_lock);
}
