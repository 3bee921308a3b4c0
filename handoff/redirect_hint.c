// SPDX-License-Identifier: GPL-2.0
/*
 * Load hints: what this node says of its services, and what others have said. Each node tells all
 * of its services that take SYNs, with their loads, at intervals and when one was changed; what was
 * not told again for some intervals, or is left out, is taken back.
 */

#include <linux/export.h>
#include <linux/netdevice.h>
#include <linux/rculist.h>
#include <linux/slab.h>
#include <net/inet_hashtables.h>
#include <net/tcp.h>

#include "kmod/compat/lookup.h"
#include "kmod/link.h"
#include "kmod/service.h"

#include "counter.h"
#include "hint.h"
#include "message.h"
#include "move.h"
#include "peer.h"
#include "redirect.h"

/* Hints that are set one after the other are told together. */
#define HOF_HINT_SOON		msecs_to_jiffies(10)
/* What is not told again for so many intervals, and so many ms, is too old. */
#define HOF_HINT_INTERVALS	4
#define HOF_HINT_LIFE_MIN	2000
#define HOF_HINT_LIFE_MAX	60000

/* Buckets that are looked through at a time. */
#define HOF_HINT_STRIDE		1024

/* --- what others have said --- */

bool hof_offer_stands(const struct hof_net *hn, const struct hof_offer *o)
{
	const struct flt_node *node = o->peer->node;

	return time_before(jiffies, READ_ONCE(o->until)) && flt_node_is_up(node) &&
	       READ_ONCE(node->admin) == FLT_ADMIN_ACTIVE && READ_ONCE(node->weight) &&
	       (flt_node_is_proven(node) || flt_service_insecure(hn->net));
}

bool hof_offer_rests(const struct hof_offer *o)
{
	return READ_ONCE(o->mute) >= HOF_REDIRECT_MUTE &&
	       time_before(jiffies, READ_ONCE(o->mute_at) + HOF_REDIRECT_PAUSE);
}

u64 hof_offer_load(const struct hof_offer *o)
{
	return (u64)READ_ONCE(o->load) + atomic_read(&o->sent);
}

/* Peers are freed after a grace period, so that who sees the offer still sees its peer. */
void hof_offer_drop(struct hof_offer *o)
{
	list_del_rcu(&o->node);
	hof_peer_put(o->peer);
	kfree_rcu(o, rcu);
}

static struct hof_offer *hof_offer_find(struct hof_redirect *r, const struct hof_peer *peer)
{
	struct hof_offer *o;

	lockdep_assert_held(&r->hn->redirect_lock);
	list_for_each_entry(o, &r->offers, node)
		if (o->peer == peer)
			return o;
	return NULL;
}

static struct hof_offer *hof_offer_have(struct hof_redirect *r, struct hof_peer *peer)
{
	struct hof_offer *o = hof_offer_find(r, peer);

	if (o)
		return o;
	o = kzalloc(sizeof(*o), GFP_KERNEL_ACCOUNT);
	if (!o)
		return NULL;
	refcount_inc(&peer->ref);
	o->peer = peer;
	o->until = jiffies;
	list_add_tail_rcu(&o->node, &r->offers);
	return o;
}

static bool hof_hint_is_of(const struct hof_msg_hint *hint, const struct hof_redirect *r)
{
	return hint->family == cpu_to_be16(r->at.family == AF_INET ? 4 : 6) &&
	       hint->port == r->at.server_port &&
	       !memcmp(hint->server, r->at.server, sizeof(hint->server));
}

static void hof_hint_note(struct hof_redirect *r, struct hof_peer *peer,
			  const struct hof_msg_hints *head, unsigned int nr, unsigned long life)
{
	const struct hof_msg_hint *hint = NULL;
	struct hof_offer *o;
	unsigned int i;

	for (i = 0; i < nr && !hint; i++)
		if (hof_hint_is_of(&head->hint[i], r))
			hint = &head->hint[i];
	o = hint ? hof_offer_have(r, peer) : hof_offer_find(r, peer);
	if (!o)
		return;
	if (hint) {
		WRITE_ONCE(o->load, be32_to_cpu(hint->load));
		WRITE_ONCE(o->busy, hint->flags & cpu_to_be32(HOF_HINT_BUSY));
		atomic_set(&o->sent, 0);
	}
	WRITE_ONCE(o->until, hint ? jiffies + life : jiffies);
}

int hof_hint_receive(struct hof_net *hn, struct flt_node *node, const struct flt_msg *msg)
{
	const struct hof_msg_hints *head = msg->body;
	struct hof_redirect *r;
	struct hof_peer *peer;
	unsigned int nr;
	u32 ms;

	if (msg->len < sizeof(*head) || (msg->len - sizeof(*head)) % sizeof(head->hint[0]))
		return -EBADMSG;
	nr = (msg->len - sizeof(*head)) / sizeof(head->hint[0]);
	if (nr > HOF_REDIRECT_MAX)
		return -EBADMSG;
	if (!flt_node_is_proven(node) && !flt_service_insecure(hn->net)) {
		hof_count(hn, HOF_STAT_HINT_REFUSED);
		return 0;
	}
	hof_count(hn, HOF_STAT_HINT_TAKEN);
	/* The way there is as the node table says now; without one this counts for nothing. */
	peer = hof_peer_get(hn, node);
	if (IS_ERR(peer))
		return 0;
	ms = clamp_t(u32, be32_to_cpu(head->life_ms), 1, HOF_HINT_LIFE_MAX);
	mutex_lock(&hn->redirect_lock);
	/* Who has left the node table offers nothing any more, see hof_hint_forget(). */
	if (!READ_ONCE(peer->removed))
		list_for_each_entry(r, &hn->redirects, node)
			hof_hint_note(r, peer, head, nr, msecs_to_jiffies(ms));
	mutex_unlock(&hn->redirect_lock);
	hof_peer_put(peer);
	return 0;
}

void hof_hint_forget(struct hof_net *hn, const struct hof_peer *peer)
{
	struct hof_redirect *r;
	struct hof_offer *o;

	mutex_lock(&hn->redirect_lock);
	list_for_each_entry(r, &hn->redirects, node) {
		o = hof_offer_find(r, peer);
		if (o)
			hof_offer_drop(o);
	}
	mutex_unlock(&hn->redirect_lock);
}

/* --- what there is here --- */

/* A port that is far from the threshold again ends it. */
static bool hof_hint_is_over(const struct hof_redirect *r)
{
	u32 end = r->above > r->hysteresis ? r->above - r->hysteresis : 0;
	bool loaded = r->above != HOF_REDIRECT_NEVER && r->load > (r->active ? end : r->above);
	bool queued = r->queue != HOF_REDIRECT_NEVER && r->share > r->queue;

	return loaded || queued;
}

void hof_hint_judge(struct hof_redirect *r)
{
	u32 told = READ_ONCE(r->told);

	lockdep_assert_held(&r->hn->redirect_lock);
	if (r->fixed != HOF_REDIRECT_NEVER)
		WRITE_ONCE(r->load, r->fixed);
	else if (told != HOF_REDIRECT_NEVER)
		WRITE_ONCE(r->load, told);
	WRITE_ONCE(r->active, hof_hint_is_over(r));
}

static bool hof_hint_is_counted(const struct hof_redirect *r)
{
	return r->fixed == HOF_REDIRECT_NEVER && READ_ONCE(r->told) == HOF_REDIRECT_NEVER;
}

/* A connection of the service? A look without a lock: it may be about to end. */
static bool hof_hint_counts(const struct hof_redirect *r, const struct sock *sk)
{
	u8 state = READ_ONCE(sk->sk_state);
	__be32 addr;

	if ((state != TCP_ESTABLISHED && state != TCP_CLOSE_WAIT) ||
	    READ_ONCE(sk->sk_num) != ntohs(r->at.server_port))
		return false;
#if IS_ENABLED(CONFIG_IPV6)
	if (r->at.family == AF_INET6)
		return sk->sk_family == AF_INET6 &&
		       !memcmp(&sk->sk_v6_rcv_saddr, r->at.server, sizeof(struct in6_addr));
	if (sk->sk_family == AF_INET6 && !ipv6_addr_v4mapped(&sk->sk_v6_rcv_saddr))
		return false;
#endif
	memcpy(&addr, r->at.server, sizeof(addr));
	return sk->sk_rcv_saddr == addr;
}

static void hof_hint_count_bucket(struct hof_net *hn, struct inet_ehash_bucket *head)
{
	const struct hlist_nulls_node *pos;
	struct hof_redirect *r;
	struct sock *sk;

	sk_nulls_for_each_rcu(sk, pos, &head->chain) {
		if (!net_eq(sock_net(sk), hn->net))
			continue;
		list_for_each_entry(r, &hn->redirects, node)
			r->counted += hof_hint_counts(r, sk);
	}
}

/* The connections of all services, in one go through the machine's. */
static void hof_hint_count(struct hof_net *hn)
{
	struct inet_hashinfo *info = hn->net->ipv4.tcp_death_row.hashinfo;
	struct hof_redirect *r;
	bool needed = false;
	unsigned int i;

	lockdep_assert_held(&hn->redirect_lock);
	list_for_each_entry(r, &hn->redirects, node) {
		r->counted = 0;
		needed |= hof_hint_is_counted(r);
	}
	if (!needed)
		return;
	rcu_read_lock();
	for (i = 0; i <= info->ehash_mask; i++) {
		if (!hlist_nulls_empty(&info->ehash[i].chain))
			hof_hint_count_bucket(hn, &info->ehash[i]);
		if (i % HOF_HINT_STRIDE == HOF_HINT_STRIDE - 1) {
			rcu_read_unlock();
			cond_resched();
			rcu_read_lock();
		}
	}
	rcu_read_unlock();
	list_for_each_entry(r, &hn->redirects, node)
		if (hof_hint_is_counted(r))
			WRITE_ONCE(r->load, r->counted);
}

/* A listener is freed after a grace period: its reference is not needed. */
struct sock *hof_redirect_listener(const struct hof_redirect *r, __be16 client, int dif)
{
	u16 port = ntohs(r->at.server_port);
	struct net *net = r->hn->net;
	__be32 addr;

	if (r->at.family == AF_INET) {
		memcpy(&addr, r->at.server, sizeof(addr));
		return flt_compat_listener4(net, NULL, 0, 0, client, addr, port, dif);
	}
#if IS_ENABLED(CONFIG_IPV6)
	return flt_compat_listener6(net, NULL, 0, &in6addr_any, client,
				    (const struct in6_addr *)r->at.server, port, dif);
#else
	return NULL;
#endif
}

/*
 * Of several listeners of a port that share it, one of them, another each time. One that is bound
 * to a device is found by packets of that only.
 */
static struct sock *hof_hint_listener(const struct hof_redirect *r)
{
	__be16 client = htons(get_random_u32_below(U16_MAX) + 1);
	struct sock *sk = hof_redirect_listener(r, client, 0);
	struct net_device *dev;

	if (sk)
		return sk;
	for_each_netdev_rcu(r->hn->net, dev) {
		sk = hof_redirect_listener(r, client, dev->ifindex);
		if (sk)
			break;
	}
	return sk;
}

static void hof_hint_look_at_queue(struct hof_redirect *r)
{
	const struct sock *sk;
	u32 share = 0;

	rcu_read_lock();
	sk = hof_hint_listener(r);
	if (sk)
		share = 100ULL * READ_ONCE(sk->sk_ack_backlog) /
			max(READ_ONCE(sk->sk_max_ack_backlog), 1U);
	r->listens = sk;
	r->full = sk && sk_acceptq_is_full(sk);
	rcu_read_unlock();
	WRITE_ONCE(r->share, share);
}

static void hof_hint_look(struct hof_net *hn)
{
	struct hof_redirect *r;

	hof_hint_count(hn);
	list_for_each_entry(r, &hn->redirects, node) {
		hof_hint_look_at_queue(r);
		hof_hint_judge(r);
	}
}

/* --- what this node says --- */

static u32 hof_hint_interval(const struct hof_net *hn)
{
	return READ_ONCE(hn->tunables.redirect_hint_ms);
}

static unsigned int hof_hint_fill(struct hof_net *hn, struct hof_msg_hints *head)
{
	struct hof_msg_hint *hint = head->hint;
	struct hof_redirect *r;

	lockdep_assert_held(&hn->redirect_lock);
	head->life_ms = cpu_to_be32(clamp_t(u32, HOF_HINT_INTERVALS * hof_hint_interval(hn),
					    HOF_HINT_LIFE_MIN, HOF_HINT_LIFE_MAX));
	list_for_each_entry(r, &hn->redirects, node) {
		/* What nobody listens for, or is being drained, has the least load of all. */
		if (!r->take || !r->listens || !READ_ONCE(hn->tunables.adopt) ||
		    hof_move_drains(hn->net, &r->at) ||
		    !flt_service_has(hn->net, r->at.family, r->at.server, r->at.server_port))
			continue;
		hint->family = cpu_to_be16(r->at.family == AF_INET ? 4 : 6);
		hint->port = r->at.server_port;
		hint->load = cpu_to_be32(r->load);
		hint->flags = cpu_to_be32(r->active || r->full ? HOF_HINT_BUSY : 0);
		memcpy(hint->server, r->at.server, sizeof(hint->server));
		hint++;
	}
	return (u8 *)hint - (u8 *)head;
}

static void hof_hint_tell(struct hof_net *hn, struct hof_msg_hints *head, unsigned int len)
{
	struct kvec vec = { .iov_base = head, .iov_len = len };
	struct flt_node *node;
	u32 id = 1;

	while ((node = flt_node_walk(hn->net, &id))) {
		/* Who cannot be told now is told at the next turn. */
		if (flt_node_is_up(node) && READ_ONCE(node->features) & FLT_FEATURE_REDIRECT &&
		    (flt_node_is_proven(node) || flt_service_insecure(hn->net)) &&
		    !flt_link_send(node, HOF_MSG_HINT, &vec, 1, GFP_KERNEL))
			hof_count(hn, HOF_STAT_HINT_SENT);
		flt_node_put(node);
	}
}

static void hof_hint_work(struct work_struct *work)
{
	struct hof_net *hn = container_of(work, struct hof_net, hint.work);
	struct hof_msg_hints *head;
	unsigned int len = 0;

	clear_bit(HOF_HINT_KICKED, &hn->hint_flags);
	head = kzalloc(struct_size(head, hint, HOF_REDIRECT_MAX), GFP_KERNEL);
	mutex_lock(&hn->redirect_lock);
	hof_hint_look(hn);
	if (head)
		len = hof_hint_fill(hn, head);
	/* The last time with none, so that what was said before is taken back. */
	if (hn->nr_redirects)
		queue_delayed_work(system_unbound_wq, &hn->hint,
				   msecs_to_jiffies(hof_hint_interval(hn)));
	mutex_unlock(&hn->redirect_lock);
	if (head)
		hof_hint_tell(hn, head, len);
	kfree(head);
}

void hof_hint_kick(struct hof_net *hn)
{
	if (!test_and_set_bit(HOF_HINT_KICKED, &hn->hint_flags))
		mod_delayed_work(system_unbound_wq, &hn->hint, HOF_HINT_SOON);
}

int hof_hint_set(struct net *net, const struct flt_tuple *at, u32 load)
{
	struct hof_net *hn = hof_net(net);
	struct hof_redirect *r;
	bool found = false;

	rcu_read_lock();
	list_for_each_entry_rcu(r, &hn->redirects, node) {
		if (at && (r->at.family != at->family || r->at.server_port != at->server_port ||
			   memcmp(r->at.server, at->server, sizeof(at->server))))
			continue;
		WRITE_ONCE(r->told, load);
		found = true;
	}
	/* Under RCU: hof_hint_stop() waits for who has found one. */
	if (found)
		hof_hint_kick(hn);
	rcu_read_unlock();
	return found ? 0 : -ENOENT;
}
EXPORT_SYMBOL_GPL(hof_hint_set);

void hof_hint_net_init(struct hof_net *hn)
{
	INIT_DELAYED_WORK(&hn->hint, hof_hint_work);
}

/* There is no rule any more. */
void hof_hint_stop(struct hof_net *hn)
{
	synchronize_rcu();
	cancel_delayed_work_sync(&hn->hint);
}
