// SPDX-License-Identifier: GPL-2.0
/* Which SYNs go to which node, and what becomes of those that come from one. */

#include <linux/memcontrol.h>
#include <linux/netfilter.h>
#include <linux/rculist.h>
#include <linux/sched/mm.h>
#include <linux/skbuff.h>
#include <net/tcp.h>

#include "kmod/node.h"
#include "kmod/service.h"

#include "counter.h"
#include "forward.h"
#include "path.h"
#include "redirect.h"
#include "standby.h"
#include "table.h"
#include "trace.h"

struct hof_redirect *hof_redirect_find(struct hof_net *hn, const struct flt_tuple *tuple)
{
	struct hof_redirect *r;

	list_for_each_entry_rcu(r, &hn->redirects, node, lockdep_is_held(&hn->redirect_lock))
		if (r->at.server_port == tuple->server_port && r->at.family == tuple->family &&
		    !memcmp(r->at.server, tuple->server, sizeof(tuple->server)))
			return r;
	return NULL;
}

void hof_redirect_count(struct hof_redirect *r, enum hof_redirect_stat stat)
{
	flt_stats_inc(r->stats, stat);
	hof_count(r->hn, HOF_STAT_REDIRECT + stat);
}

/* It stays here, or is dropped: told, and counted. */
static unsigned int hof_redirect_not(struct hof_redirect *r, const struct flt_tuple *tuple,
				     enum hof_redirect_stat why, unsigned int verdict)
{
	hof_redirect_count(r, why);
	trace_hof_redirect(tuple, READ_ONCE(r->load), 0, why);
	return verdict;
}

/* --- the mark --- */

static bool hof_redirect_is_marked(const struct tcphdr *th)
{
	return !th->urg && th->urg_ptr == htons(HOF_REDIRECT_MARK);
}

static bool hof_redirect_write_mark(struct sk_buff *skb, const struct tcphdr *syn, __be16 mark)
{
	unsigned int offset = (const u8 *)syn - skb->data;
	struct tcphdr *th;

	if (skb_ensure_writable(skb, offset + sizeof(*th)))
		return false;
	th = (void *)skb->data + offset;
	inet_proto_csum_replace2(&th->check, skb, th->urg_ptr, mark, false);
	th->urg_ptr = mark;
	return true;
}

/* --- from another node --- */

/*
 * Of another node: from here on as the client has sent it. What has a socket here is that's
 * business, whatever we take now.
 */
static unsigned int hof_redirect_take(struct hof_redirect *r, const struct flt_tuple *tuple,
				      const struct tcphdr *th, struct sk_buff *skb, int dif)
{
	struct hof_net *hn = r->hn;
	struct sock *sk = hof_standby_sock(hn, tuple, dif);
	enum hof_redirect_stat what = HOF_REDIRECT_TAKEN;

	if (sk)
		sock_gen_put(sk);
	else if (!READ_ONCE(r->take) || !READ_ONCE(hn->tunables.adopt) ||
		 flt_service_permit(hn->net, tuple) != FLT_REFUSE_NONE ||
		 !hof_redirect_listener(r, tuple->client_port, dif))
		what = HOF_REDIRECT_REFUSED;
	if (what == HOF_REDIRECT_TAKEN && !hof_redirect_write_mark(skb, th, 0))
		return NF_DROP;
	return hof_redirect_not(r, tuple, what,
				what == HOF_REDIRECT_TAKEN ? NF_ACCEPT : NF_DROP);
}

/* --- to another node --- */

static struct hof_offer *hof_redirect_pick(const struct hof_redirect *r,
					   enum hof_redirect_stat *why)
{
	u64 load, least = 0, ours = READ_ONCE(r->load);
	struct hof_offer *o, *best = NULL;

	*why = HOF_REDIRECT_NONE;
	list_for_each_entry_rcu(o, &r->offers, node) {
		if (!hof_offer_stands(r->hn, o) || hof_offer_rests(o))
			continue;
		*why = HOF_REDIRECT_HEAVY;
		load = hof_offer_load(o);
		if (READ_ONCE(o->busy) || load + READ_ONCE(r->hysteresis) >= ours)
			continue;
		if (!best || load < least) {
			best = o;
			least = load;
		}
	}
	return best;
}

/* Room for one more, or false. */
static bool hof_redirect_reserve(struct hof_net *hn)
{
	if (atomic_inc_return(&hn->nr_redirected) > READ_ONCE(hn->tunables.redirect_max))
		goto undo;
	if (atomic_inc_return(&hn->nr_unopened) <= READ_ONCE(hn->tunables.redirect_syn_max))
		return true;
	atomic_dec(&hn->nr_unopened);
undo:
	atomic_dec(&hn->nr_redirected);
	return false;
}

static void hof_redirect_release(struct hof_net *hn)
{
	atomic_dec(&hn->nr_unopened);
	atomic_dec(&hn->nr_redirected);
}

/*
 * The entry of the connection, with its packets going to @peer from now on. NULL: there is none,
 * and nothing is left of it.
 */
static struct hof_entry *hof_redirect_enter(struct hof_redirect *r, const struct flt_tuple *tuple,
					    struct hof_peer *peer)
{
	int downs = atomic_read(&peer->downs);
	struct hof_net *hn = r->hn;
	struct mem_cgroup *old;
	struct hof_entry *e;

	old = set_active_memcg(r->memcg);
	e = hof_entry_alloc_redirect(tuple, hn, peer);
	set_active_memcg(old);
	if (!e)
		return NULL;
	if (hof_entry_insert(hn, e)) {
		hof_entry_free(e);
		return NULL;
	}
	/* Pairs with hof_peer_lose(): either it sees the entry or we see the node go. */
	smp_mb();
	if (atomic_read(&peer->downs) == downs)
		return e;
	/* From here on its counts are the entry's. */
	atomic_inc(&hn->nr_unopened);
	atomic_inc(&hn->nr_redirected);
	hof_entry_remove(hn, e);
	return NULL;
}

static unsigned int hof_redirect_send(struct hof_redirect *r, const struct flt_tuple *tuple,
				      struct hof_offer *o, const struct tcphdr *th,
				      struct sk_buff *skb)
{
	struct hof_net *hn = r->hn;
	struct hof_peer *peer = o->peer;
	struct hof_entry *e;

	if (!hof_path_get(peer) || !refcount_inc_not_zero(&peer->ref))
		return hof_redirect_not(r, tuple, HOF_REDIRECT_NO_ROUTE, NF_ACCEPT);
	if (!hof_redirect_reserve(hn)) {
		hof_peer_put(peer);
		return hof_redirect_not(r, tuple, HOF_REDIRECT_FULL, NF_ACCEPT);
	}
	e = hof_redirect_enter(r, tuple, peer);
	hof_peer_put(peer);
	if (!e) {
		hof_redirect_release(hn);
		/* Somebody was faster with a copy of it: that one is answered. */
		if (hof_entry_find_tuple(hn, tuple))
			return NF_DROP;
		return hof_redirect_not(r, tuple, HOF_REDIRECT_FULL, NF_ACCEPT);
	}
	if (!hof_redirect_write_mark(skb, th, htons(HOF_REDIRECT_MARK))) {
		hof_entry_remove(hn, e);
		return NF_DROP;
	}
	atomic_inc(&o->sent);
	hof_redirect_count(r, HOF_REDIRECT_SENT);
	trace_hof_redirect(tuple, READ_ONCE(r->load), peer->node->id, HOF_REDIRECT_SENT);
	hof_forward_packet(hn, e, skb);
	return NF_STOLEN;
}

unsigned int hof_redirect_syn(struct hof_net *hn, const struct flt_tuple *tuple,
			      const struct tcphdr *th, struct sk_buff *skb,
			      const struct nf_hook_state *state)
{
	struct hof_redirect *r = hof_redirect_find(hn, tuple);
	enum hof_redirect_stat why;
	struct hof_offer *o;
	struct sock *sk;

	if (!r)
		return NF_ACCEPT;
	if (hof_redirect_is_marked(th))
		return hof_redirect_take(r, tuple, th, skb, state->in->ifindex);
	/* What says something where the mark would be goes nowhere else. */
	if (!READ_ONCE(r->active) || !READ_ONCE(hn->tunables.handoff) || th->urg_ptr || th->urg)
		return NF_ACCEPT;
	/* A client on this machine would get the answer with its own address as source. */
	if (state->in->flags & IFF_LOOPBACK ||
	    flt_service_permit(hn->net, tuple) == FLT_REFUSE_CLIENT)
		return NF_ACCEPT;
	/* Sent again, of a connection that began here. */
	sk = hof_standby_sock(hn, tuple, state->in->ifindex);
	if (sk) {
		sock_gen_put(sk);
		return NF_ACCEPT;
	}
	o = hof_redirect_pick(r, &why);
	if (!o)
		return hof_redirect_not(r, tuple, why, NF_ACCEPT);
	return hof_redirect_send(r, tuple, o, th, skb);
}

/* --- once there is an entry --- */

/* What its node has said of the service; NULL: nothing, or not any more. */
static struct hof_offer *hof_redirect_offer(const struct hof_redirect *r,
					    const struct hof_entry *e)
{
	const struct hof_peer *peer = READ_ONCE(e->peer);
	struct hof_offer *o;

	if (!r)
		return NULL;
	list_for_each_entry_rcu(o, &r->offers, node)
		if (o->peer == peer)
			return o;
	return NULL;
}

/* The way there may be broken though the link is not, and each client waits for seconds. */
static void hof_redirect_silent(struct hof_offer *o)
{
	u32 mute = READ_ONCE(o->mute);

	WRITE_ONCE(o->mute_at, jiffies);
	if (mute < HOF_REDIRECT_MUTE)
		WRITE_ONCE(o->mute, mute + 1);
}

static void hof_redirect_answered(struct hof_net *hn, struct hof_entry *e)
{
	struct flt_tuple tuple;
	struct hof_offer *o;

	hof_redirect_open(hn, e);
	hof_entry_tuple(e, &tuple);
	o = hof_redirect_offer(hof_redirect_find(hn, &tuple), e);
	if (o && READ_ONCE(o->mute))
		WRITE_ONCE(o->mute, 0);
}

/* This one and the next: as hof_redirect_forwards(). */
static bool hof_redirect_again(struct hof_net *hn, struct hof_entry *e, const struct tcphdr *th,
			       struct sk_buff *skb, unsigned int *verdict)
{
	bool spent = READ_ONCE(e->syns) >= HOF_REDIRECT_TRIES;
	struct hof_redirect *r;
	struct flt_tuple tuple;
	struct hof_offer *o;

	hof_entry_tuple(e, &tuple);
	r = hof_redirect_find(hn, &tuple);
	o = hof_redirect_offer(r, e);
	/*
	 * Its ISN is known there, perhaps, so that it goes to no third node: there as long as that
	 * may answer, and then nowhere but here. Those count, too, that get lost on our side.
	 */
	if (READ_ONCE(e->redirect) == HOF_REDIRECT_PENDING &&
	    (spent || !o || !hof_offer_stands(hn, o))) {
		if (hof_entry_remove(hn, e) && spent && o)
			hof_redirect_silent(o);
		if (r)
			hof_redirect_not(r, &tuple, HOF_REDIRECT_SILENT, NF_ACCEPT);
		*verdict = NF_ACCEPT;
		return false;
	}
	if (READ_ONCE(e->redirect) == HOF_REDIRECT_OPEN)
		hof_redirect_doubt(hn, e);
	else
		WRITE_ONCE(e->syns, READ_ONCE(e->syns) + 1);
	if (!hof_redirect_write_mark(skb, th, htons(HOF_REDIRECT_MARK))) {
		*verdict = NF_DROP;
		return false;
	}
	if (r)
		hof_redirect_count(r, HOF_REDIRECT_AGAIN);
	return true;
}

/*
 * Another node has begun it anew, with us: it ends its way here. But anybody can write the mark,
 * and would end what goes on there: it is taken when it comes again and that is known to be over.
 */
static bool hof_redirect_crosses(struct hof_net *hn, struct hof_entry *e, unsigned int *verdict)
{
	struct hof_redirect *r;
	struct flt_tuple tuple;

	hof_entry_tuple(e, &tuple);
	r = hof_redirect_find(hn, &tuple);
	if (READ_ONCE(e->redirect) == HOF_REDIRECT_OPEN)
		hof_redirect_doubt(hn, e);
	if (r)
		hof_redirect_not(r, &tuple, HOF_REDIRECT_REFUSED, NF_DROP);
	*verdict = NF_DROP;
	return false;
}

bool hof_redirect_forwards(struct hof_net *hn, struct hof_entry *e, const struct tcphdr *th,
			   struct sk_buff *skb, unsigned int *verdict)
{
	if (hof_redirect_opens(th))
		return hof_redirect_is_marked(th) ? hof_redirect_crosses(hn, e, verdict) :
						    hof_redirect_again(hn, e, th, skb, verdict);
	if (unlikely(READ_ONCE(e->redirect) == HOF_REDIRECT_PENDING) && th->ack && !th->rst)
		hof_redirect_answered(hn, e);
	return true;
}
