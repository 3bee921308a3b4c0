// SPDX-License-Identifier: GPL-2.0
/* Gates begin at listeners: which ones have the address and port of a service with a policy? */

#include <linux/module.h>
#include <linux/slab.h>
#include <net/inet_hashtables.h>
#include <net/ip.h>
#include <net/ipv6.h>
#include <net/tcp.h>

#include "kmod/stack.h"

#include "admit.h"
#include "assign.h"
#include "gate.h"
#include "gate_priv.h"
#include "net.h"
#include "ticket.h"
#include "transfer.h"

/* Listeners that have come are found so much later at most. */
#define HOF_GATE_WATCH	HZ
/* Of one service and one address: as many get a layer in one go. */
#define HOF_LISTENERS_MAX	256

/* With a reference on each; under hof_policy_lock. To give back what was set needs no memory. */
static struct sock *hof_listeners[HOF_LISTENERS_MAX];

/* Those that a service's connections may come by: of its address, or of all of a family. */
struct hof_door {
	u16 family;
	struct in6_addr v6;
	__be32 v4;
};

static unsigned int hof_doors(const struct flt_tuple *at, struct hof_door doors[3])
{
	unsigned int n = 0;

	memset(doors, 0, 3 * sizeof(*doors));
	doors[n].family = at->family;
	if (at->family == AF_INET6)
		memcpy(&doors[n].v6, at->server, sizeof(doors[n].v6));
	else
		memcpy(&doors[n].v4, at->server, sizeof(doors[n].v4));
	n++;
	if (at->family == AF_INET)
		doors[n++].family = AF_INET;
	if (IS_ENABLED(CONFIG_IPV6))
		doors[n++].family = AF_INET6;
	return n;
}

/* Whatever device it is bound to. */
static bool hof_door_leads_to(const struct hof_door *door, const struct net *net, __be16 port,
			      const struct sock *sk)
{
	if (sk->sk_state != TCP_LISTEN || sk->sk_family != door->family ||
	    !net_eq(sock_net(sk), net) || inet_sk(sk)->inet_num != ntohs(port))
		return false;
#if IS_ENABLED(CONFIG_IPV6)
	if (sk->sk_family == AF_INET6)
		return ipv6_addr_equal(&sk->sk_v6_rcv_saddr, &door->v6);
#endif
	return sk->sk_rcv_saddr == door->v4;
}

static bool hof_door_is(const struct hof_door *door, const struct net *net, __be16 port,
			const struct sock *sk)
{
	return !READ_ONCE(sk->sk_bound_dev_if) && hof_door_leads_to(door, net, port, sk);
}

static struct inet_listen_hashbucket *hof_door_bucket(const struct hof_door *door,
						      const struct net *net, u16 port)
{
	u32 hash = door->family == AF_INET6 ? ipv6_portaddr_hash(net, &door->v6, port) :
					      ipv4_portaddr_hash(net, door->v4, port);

	return inet_lhash2_bucket(net->ipv4.tcp_death_row.hashinfo, hash);
}

static bool hof_listener_has_room(const struct sock *sk)
{
	return READ_ONCE(sk->sk_ack_backlog) <= READ_ONCE(sk->sk_max_ack_backlog) / 2;
}

bool hof_gate_has_room(struct net *net, const struct flt_tuple *at)
{
	struct inet_listen_hashbucket *bucket;
	struct hlist_nulls_node *node;
	struct hof_door doors[3];
	unsigned int d;
	bool room = false;
	struct sock *sk;

	for (d = hof_doors(at, doors); d--;) {
		bucket = hof_door_bucket(&doors[d], net, ntohs(at->server_port));
		local_bh_disable();
		spin_lock(&bucket->lock);
		sk_nulls_for_each(sk, node, &bucket->nulls_head)
			room |= hof_door_is(&doors[d], net, at->server_port, sk) &&
				hof_listener_has_room(sk);
		spin_unlock(&bucket->lock);
		local_bh_enable();
	}
	return room;
}

static bool hof_listener_has(const struct sock *sk)
{
	return flt_layer_find(sk, &hof_gate_layer);
}

/*
 * Those that have a layer, whatever their programs have bound them to since, or those that have
 * none; but for the first @skip of them.
 */
static unsigned int hof_door_listeners(const struct hof_door *door, const struct hof_assigned *s,
				       bool have, unsigned int skip)
{
	struct net *net = s->hn->net;
	__be16 port = s->at.server_port;
	struct inet_listen_hashbucket *bucket = hof_door_bucket(door, net, ntohs(port));
	struct hlist_nulls_node *node;
	unsigned int n = 0;
	struct sock *sk;

	local_bh_disable();
	spin_lock(&bucket->lock);
	sk_nulls_for_each(sk, node, &bucket->nulls_head) {
		if (n == HOF_LISTENERS_MAX)
			break;
		if (!hof_door_leads_to(door, net, port, sk) || hof_listener_has(sk) != have ||
		    (!have && READ_ONCE(sk->sk_bound_dev_if)))
			continue;
		if (skip)
			skip--;
		else if (refcount_inc_not_zero(&sk->sk_refcnt))
			hof_listeners[n++] = sk;
	}
	spin_unlock(&bucket->lock);
	local_bh_enable();
	return n;
}

static void hof_listener_add(struct sock *sk)
{
	struct flt_layer *layer = flt_layer_add_soon(sk, &hof_gate_layer);

	/* Else again, when it is looked for again. */
	if (PTR_ERR_OR_ZERO(layer) == -EOPNOTSUPP)
		pr_warn_ratelimited("a listener has callbacks of somebody else: its connections have no policy\n");
}

static void hof_listener_drop(struct sock *sk)
{
	struct flt_layer *layer = flt_layer_find(sk, &hof_gate_layer);

	if (!layer)
		return;
	hof_admit_fit(sk, hof_gate_queue_of(layer), NULL);
	flt_layer_detach(layer);
}

static bool hof_assigned_listens(const struct hof_assigned *s, const struct sock *sk)
{
	struct hof_door doors[3];
	bool is = false;
	unsigned int d;

	for (d = hof_doors(&s->at, doors); d--;)
		is |= hof_door_is(&doors[d], s->hn->net, s->at.server_port, sk);
	return is;
}

/* Others that have it may want more. */
static void hof_listener_fit(struct sock *sk)
{
	struct flt_layer *layer;

	rcu_read_lock();
	layer = flt_layer_find(sk, &hof_gate_layer);
	if (layer)
		hof_admit_fit(sk, hof_gate_queue_of(layer), hof_assigned_listens);
	rcu_read_unlock();
}

static void hof_assigned_each_listener(const struct hof_assigned *s, bool have,
				       void (*act)(struct sock *sk))
{
	unsigned int n, i, d, skip;
	struct hof_door doors[3];

	lockdep_assert_held(&hof_policy_lock);
	for (d = hof_doors(&s->at, doors); d--;) {
		skip = 0;
		do {
			n = hof_door_listeners(&doors[d], s, have, skip);
			for (i = 0; i < n; i++) {
				act(hof_listeners[i]);
				/* Else the next go does not see it anyway. */
				skip += hof_listener_has(hof_listeners[i]) == have;
				sock_put(hof_listeners[i]);
				cond_resched();
			}
			/* Layers take their time: the others get theirs a second later. */
		} while (have && n == HOF_LISTENERS_MAX);
	}
}

/* The listeners of services that have, or had, admission. */
static void hof_gate_fit(struct hof_net *hn)
{
	struct hof_assigned *s;

	lockdep_assert_held(&hof_policy_lock);
	list_for_each_entry(s, &hn->assigned, here)
		if (s->admits)
			hof_assigned_each_listener(s, true, hof_listener_fit);
}

static void hof_gate_fit_work(struct work_struct *work)
{
	struct hof_net *hn = container_of(work, struct hof_net, admit_size.work);

	mutex_lock(&hof_policy_lock);
	hof_gate_fit(hn);
	mutex_unlock(&hof_policy_lock);
}

static void hof_gate_watch_work(struct work_struct *work)
{
	struct hof_net *hn = container_of(work, struct hof_net, gate_watch.work);
	struct hof_assigned *s;
	bool any = false;

	mutex_lock(&hof_policy_lock);
	list_for_each_entry(s, &hn->assigned, here) {
		hof_assigned_each_listener(s, false, hof_listener_add);
		any = true;
	}
	hof_gate_fit(hn);
	if (any)
		queue_delayed_work(system_unbound_wq, &hn->gate_watch, HOF_GATE_WATCH);
	mutex_unlock(&hof_policy_lock);
}

void hof_gate_watch(struct hof_net *hn)
{
	mod_delayed_work(system_unbound_wq, &hn->gate_watch, 0);
}

void hof_gate_settle(struct hof_net *hn)
{
	flush_delayed_work(&hn->gate_watch);
}

/* A listener may be another service's as well: that one finds it again. */
void hof_gate_leave(const struct hof_assigned *s)
{
	hof_assigned_each_listener(s, true, hof_listener_drop);
}

int hof_gate_begin(struct hof_net *hn)
{
	lockdep_assert_held(&hof_policy_lock);
	if (hn->gates)
		return 0;
	hn->gates = hof_file_create(hn);
	if (!hn->gates)
		return -ENOMEM;
	hn->gates->tell = hof_gate_tell;
	return 0;
}

void hof_gate_net_init(struct hof_net *hn)
{
	INIT_LIST_HEAD(&hn->assigned);
	INIT_DELAYED_WORK(&hn->gate_watch, hof_gate_watch_work);
	INIT_DELAYED_WORK(&hn->admit_size, hof_gate_fit_work);
}

void hof_gate_net_exit(struct hof_net *hn)
{
	cancel_delayed_work_sync(&hn->gate_watch);
	cancel_delayed_work_sync(&hn->admit_size);
	if (!hn->gates)
		return;
	hof_transfer_file_closed(hn->gates);
	hof_file_close(hn->gates);
	hof_file_put(hn->gates);
	hn->gates = NULL;
}

int __init hof_gate_init(void)
{
	hof_gate_wq = alloc_workqueue("hof_gate", WQ_UNBOUND, 0);
	return hof_gate_wq ? 0 : -ENOMEM;
}

void hof_gate_exit(void)
{
	struct net *net;

	down_read(&net_rwsem);
	for_each_net(net)
		cancel_delayed_work_sync(&hof_net(net)->gate_watch);
	up_read(&net_rwsem);
	flt_layer_remove_all(&hof_gate_layer);
	/* A work may just be giving one away: that is undone, and a work hears of it. */
	hof_gate_drain();
	down_read(&net_rwsem);
	for_each_net(net)
		if (hof_net(net)->gates)
			hof_transfer_file_closed(hof_net(net)->gates);
	up_read(&net_rwsem);
	hof_gate_drain();
	destroy_workqueue(hof_gate_wq);
}
