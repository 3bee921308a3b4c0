// SPDX-License-Identifier: GPL-2.0
/* Sites: their listeners, and the connections that these have made. */

#include <linux/mm.h>
#include <linux/slab.h>
#include <net/inet_hashtables.h>
#include <net/ip.h>
#include <net/ipv6.h>
#include <net/tcp.h>

#include "kmod/socklock.h"

#include "conn.h"
#include "counter.h"
#include "layer.h"
#include "protocol.h"
#include "site.h"

/* Sites of one namespace. */
#define AFPA_SITES_MAX		1024
/* Listeners that get a layer in one go: each may wait for a grace period, or for its program. */
#define AFPA_SCAN_MOST		128
/* Listeners of one site: as many as may share an address by SO_REUSEPORT are fewer. */
#define AFPA_LISTENERS_MAX	65536

void afpa_place_put(struct afpa_place *place)
{
	if (!refcount_dec_and_test(&place->users))
		return;
	afpa_protocol_put(place->protocol);
	kfree(place);
}

static struct afpa_place *afpa_site_find(struct afpa_net *an, const struct afpa_site *at)
{
	struct afpa_place *place;

	lockdep_assert_held(&an->lock);
	list_for_each_entry(place, &an->sites, list)
		if (!memcmp(&place->at, at, sizeof(*at)))
			return place;
	return NULL;
}

u32 afpa_site_id(struct afpa_net *an, const struct afpa_site *at)
{
	struct afpa_place *place;
	u32 id;

	mutex_lock(&an->lock);
	place = afpa_site_find(an, at);
	id = place ? place->id : 0;
	mutex_unlock(&an->lock);
	return id;
}

const struct afpa_protocol *afpa_site_protocol(struct afpa_net *an, const struct afpa_site *at,
					       u32 *id)
{
	const struct afpa_protocol *protocol = NULL;
	struct afpa_place *place;

	mutex_lock(&an->lock);
	place = afpa_site_find(an, at);
	if (place) {
		protocol = place->protocol;
		afpa_protocol_hold(protocol);
		*id = place->id;
	}
	mutex_unlock(&an->lock);
	return protocol;
}

int afpa_site_at(struct afpa_net *an, u32 id, struct afpa_site *at)
{
	struct afpa_place *place;
	int err = -ENOENT;

	mutex_lock(&an->lock);
	list_for_each_entry(place, &an->sites, list) {
		if (place->id == id) {
			*at = place->at;
			err = 0;
		}
	}
	mutex_unlock(&an->lock);
	return err;
}

static int afpa_site_check(const struct afpa_site *at)
{
	unsigned int i, used;

	if (at->family == AF_INET)
		used = sizeof(struct in_addr);
	else if (at->family == AF_INET6 && IS_ENABLED(CONFIG_IPV6))
		used = sizeof(struct in6_addr);
	else
		return -EINVAL;
	for (i = used; i < sizeof(at->addr); i++)
		if (at->addr[i])
			return -EINVAL;
	return at->port ? 0 : -EINVAL;
}

/* --- listeners --- */

bool afpa_site_is_of(const struct afpa_place *place, const struct sock *sk)
{
	/* Bound to a device, or to a VRF, it may be another one's with the same address. */
	if (sk->sk_state != TCP_LISTEN || sk->sk_family != place->at.family ||
	    READ_ONCE(sk->sk_bound_dev_if) ||
	    !net_eq(sock_net(sk), place->an->net) ||
	    inet_sk(sk)->inet_num != ntohs(place->at.port))
		return false;
#if IS_ENABLED(CONFIG_IPV6)
	if (sk->sk_family == AF_INET6)
		return !memcmp(&sk->sk_v6_rcv_saddr, place->at.addr, sizeof(struct in6_addr));
#endif
	return !memcmp(&sk->sk_rcv_saddr, place->at.addr, sizeof(struct in_addr));
}

static struct inet_listen_hashbucket *afpa_site_bucket(const struct afpa_place *place)
{
	struct net *net = place->an->net;
	u16 port = ntohs(place->at.port);
	struct in6_addr v6;
	__be32 v4;
	u32 hash;

	if (place->at.family == AF_INET6) {
		memcpy(&v6, place->at.addr, sizeof(v6));
		hash = ipv6_portaddr_hash(net, &v6, port);
	} else {
		memcpy(&v4, place->at.addr, sizeof(v4));
		hash = ipv4_portaddr_hash(net, v4, port);
	}
	return inet_lhash2_bucket(net->ipv4.tcp_death_row.hashinfo, hash);
}

/* With a reference on each of the first @room; how many there are. */
static unsigned int afpa_site_listeners(const struct afpa_place *place, struct sock **listeners,
					unsigned int room)
{
	struct inet_listen_hashbucket *bucket = afpa_site_bucket(place);
	struct hlist_nulls_node *node;
	unsigned int n = 0;
	struct sock *sk;

	local_bh_disable();
	spin_lock(&bucket->lock);
	sk_nulls_for_each(sk, node, &bucket->nulls_head) {
		if (!afpa_site_is_of(place, sk))
			continue;
		if (n < room) {
			if (!refcount_inc_not_zero(&sk->sk_refcnt))
				continue;
			listeners[n] = sk;
		}
		n++;
	}
	spin_unlock(&bucket->lock);
	local_bh_enable();
	return n;
}

/* The list is the caller's, as are the references; NULL: none, or no memory (@n is not 0 then). */
static struct sock **afpa_site_hold_listeners(const struct afpa_place *place, unsigned int *n)
{
	struct sock **listeners;

	*n = min(afpa_site_listeners(place, NULL, 0), AFPA_LISTENERS_MAX);
	if (!*n)
		return NULL;
	listeners = kvmalloc_array(*n, sizeof(*listeners), GFP_KERNEL_ACCOUNT);
	if (listeners)
		*n = min(afpa_site_listeners(place, listeners, *n), *n);
	return listeners;
}

int afpa_site_scan(struct afpa_place *place, struct afpa_site_args *args)
{
	unsigned int n, i, from, tries = 0;
	struct sock **listeners, *sk;
	int err;

	lockdep_assert_held(&place->an->lock);
	place->nr_listeners = 0;
	listeners = afpa_site_hold_listeners(place, &n);
	if (!listeners)
		return n ? -ENOMEM : 0;
	/* Beginning where the last look has ended, so that none is passed over for ever. */
	from = place->scan_from;
	for (i = 0; i < n; i++) {
		sk = listeners[(from + i) % n];
		err = 0;
		if (!afpa_layer_is_on(sk, place)) {
			err = tries++ < AFPA_SCAN_MOST ? afpa_layer_put_on(sk, place) : -EAGAIN;
			if (tries == AFPA_SCAN_MOST)
				place->scan_from = (from + i + 1) % n;
		}
		if (err >= 0) {
			place->nr_listeners++;
		} else if (args && err != -EAGAIN) {
			args->refused++;
			args->error = -err;
			afpa_count(place->an, AFPA_STAT_REFUSED);
		}
		sock_put(sk);
		cond_resched();
	}
	kvfree(listeners);
	if (args)
		args->listeners = place->nr_listeners;
	return 0;
}

static void afpa_site_leave_listeners(struct afpa_place *place)
{
	struct sock **listeners;
	unsigned int n, i;

	/* Without memory they keep the layer, which is of no effect and goes with them. */
	listeners = afpa_site_hold_listeners(place, &n);
	if (!listeners)
		return;
	for (i = 0; i < n; i++) {
		afpa_layer_take_off(listeners[i], place);
		sock_put(listeners[i]);
	}
	kvfree(listeners);
}

/* --- connections --- */

void afpa_site_each_conn(struct afpa_place *place, void (*visit)(struct afpa_conn *conn))
{
	u64 n = READ_ONCE(place->nr_conns);
	struct afpa_conn *conn;
	bool held;

	while (n--) {
		spin_lock_bh(&place->lock);
		conn = list_first_entry_or_null(&place->conns, struct afpa_conn, list);
		held = conn && refcount_inc_not_zero(&conn->sk->sk_refcnt);
		if (held)
			afpa_conn_get(conn);
		if (conn)
			list_move_tail(&conn->list, &place->conns);
		spin_unlock_bh(&place->lock);
		if (!conn)
			break;
		if (!held)
			continue;
		visit(conn);
		sock_put(conn->sk);
		afpa_conn_put(conn);
		cond_resched();
	}
}

static void afpa_site_clear_conn(struct afpa_conn *conn)
{
	afpa_conn_clear(conn);
}

bool afpa_site_clear(struct afpa_place *place)
{
	afpa_site_each_conn(place, afpa_site_clear_conn);
	return !READ_ONCE(place->nr_conns);
}

/* --- sites --- */

static struct afpa_place *afpa_site_make(struct afpa_net *an, const struct afpa_site *at,
					 const struct afpa_protocol *protocol)
{
	struct afpa_place *place;

	lockdep_assert_held(&an->lock);
	if (an->nr_sites >= AFPA_SITES_MAX)
		return ERR_PTR(-ENOSPC);
	place = kzalloc(sizeof(*place), GFP_KERNEL_ACCOUNT);
	if (!place)
		return ERR_PTR(-ENOMEM);
	place->an = an;
	place->at = *at;
	place->protocol = protocol;
	afpa_protocol_hold(protocol);
	place->id = ++an->next_site;
	/* What was said of this site while it was not there has been kept by nobody. */
	afpa_cache_touch_all(&an->cache);
	refcount_set(&place->users, 1);
	spin_lock_init(&place->lock);
	INIT_LIST_HEAD(&place->conns);
	list_add_tail(&place->list, &an->sites);
	WRITE_ONCE(an->nr_sites, an->nr_sites + 1);
	mod_delayed_work(system_unbound_wq, &an->watch, HZ);
	return place;
}

int afpa_site_listen(struct afpa_net *an, struct afpa_site_args *args, const char *name)
{
	const struct afpa_protocol *protocol;
	struct afpa_place *place;
	int err;

	err = afpa_site_check(&args->site);
	if (err)
		return err;
	protocol = afpa_protocol_get(name ?: afpa_http.name);
	if (IS_ERR(protocol))
		return PTR_ERR(protocol);
	mutex_lock(&an->lock);
	place = afpa_site_find(an, &args->site);
	if (!place)
		place = afpa_site_make(an, &args->site, protocol);
	else if (name && place->protocol != protocol)
		place = ERR_PTR(-EEXIST);
	err = PTR_ERR_OR_ZERO(place);
	if (!err)
		err = afpa_site_scan(place, args);
	mutex_unlock(&an->lock);
	afpa_protocol_put(protocol);
	return err;
}

int afpa_site_add(struct afpa_net *an, struct afpa_site_args *args)
{
	return afpa_site_listen(an, args, NULL);
}

int afpa_site_del(struct afpa_net *an, struct afpa_site_args *args)
{
	struct afpa_place *place;

	mutex_lock(&an->lock);
	place = afpa_site_find(an, &args->site);
	if (place) {
		WRITE_ONCE(place->gone, true);
		WRITE_ONCE(an->nr_sites, an->nr_sites - 1);
		list_move_tail(&place->list, &an->dying);
		afpa_site_leave_listeners(place);
		/* Connections that a program has locked are the watch's. */
		afpa_site_clear(place);
		args->objects = afpa_cache_flush(an, place->id);
		mod_delayed_work(system_unbound_wq, &an->watch, 0);
	}
	mutex_unlock(&an->lock);
	return place ? 0 : -ENOENT;
}

int afpa_site_next(struct afpa_net *an, struct afpa_next_site *args)
{
	u32 left = args->index;
	struct afpa_place *place;
	int err = -ENOENT;

	mutex_lock(&an->lock);
	list_for_each_entry(place, &an->sites, list) {
		if (left--)
			continue;
		args->site = place->at;
		args->conns = READ_ONCE(place->nr_conns);
		args->listeners = place->nr_listeners;
		err = 0;
		break;
	}
	mutex_unlock(&an->lock);
	return err;
}

/*
 * Who has the callbacks by now, most of all sockmap, is to be called with the lock. A program that
 * keeps it is waited for by nobody; others who wait for its socket look for themselves.
 */
static void afpa_site_tell(struct sock *sk)
{
	struct socket_wq *wq;

	if (flt_sock_trylock(sk)) {
		if (!sock_flag(sk, SOCK_DEAD))
			sk->sk_data_ready(sk);
		release_sock(sk);
		return;
	}
	rcu_read_lock();
	wq = rcu_dereference(sk->sk_wq);
	if (skwq_has_sleeper(wq))
		wake_up_interruptible_poll(&wq->wait, EPOLLIN | EPOLLRDNORM);
	rcu_read_unlock();
}

/* Nothing of a connection is waited for; its program hears of what is unread. */
static void afpa_site_abandon(struct afpa_place *place)
{
	struct afpa_conn *conn, *next;
	LIST_HEAD(left);

	while (true) {
		spin_lock_bh(&place->lock);
		conn = list_first_entry_or_null(&place->conns, struct afpa_conn, list);
		if (conn && !refcount_inc_not_zero(&conn->sk->sk_refcnt)) {
			/* It dies, and looks for itself here. */
			list_del_init(&conn->list);
			place->nr_conns--;
			spin_unlock_bh(&place->lock);
			continue;
		}
		if (conn)
			afpa_conn_get(conn);
		spin_unlock_bh(&place->lock);
		if (!conn)
			break;
		if (afpa_conn_abandon(conn)) {
			list_add(&conn->list, &left);
			continue;
		}
		/* Whoever was faster is about to take it out of the list. */
		cpu_relax();
		sock_put(conn->sk);
		afpa_conn_put(conn);
		cond_resched();
	}
	if (!list_empty(&left))
		synchronize_rcu();	/* for all sites that have none it would take minutes */
	list_for_each_entry_safe(conn, next, &left, list) {
		list_del_init(&conn->list);
		afpa_site_tell(conn->sk);
		sock_put(conn->sk);
		afpa_conn_put(conn);
	}
}

void afpa_site_leave_all(struct afpa_net *an)
{
	struct afpa_place *place, *next;
	LIST_HEAD(all);

	mutex_lock(&an->lock);
	list_splice_init(&an->sites, &all);
	list_splice_init(&an->dying, &all);
	WRITE_ONCE(an->nr_sites, 0);
	list_for_each_entry(place, &all, list) {
		WRITE_ONCE(place->gone, true);
		afpa_site_leave_listeners(place);
	}
	list_for_each_entry_safe(place, next, &all, list) {
		afpa_site_abandon(place);
		list_del(&place->list);
		afpa_place_put(place);
	}
	mutex_unlock(&an->lock);
	afpa_cache_flush(an, 0);
}
