// SPDX-License-Identifier: GPL-2.0
/* Holding packets, and letting them go in order. */

#include <linux/mm.h>
#include <linux/netdevice.h>
#include <net/tcp.h>

#include "counter.h"
#include "forward.h"
#include "hold.h"
#include "ticket.h"

/* Past this many packets the flood is dropped, or a worker would spin in it for ever. */
#define HOF_DRAIN_MAX	4096

void hof_hold_init(struct hof_hold *hold)
{
	__skb_queue_head_init(&hold->queue);
	hold->okfn = NULL;
	hold->ending = false;
}

/* Of the machine's memory. Whoever has a user namespace sets its limits, and may have many. */
#define HOF_HELD_SHARE	32

static atomic_long_t hof_held_all;

static void hof_hold_uncount(struct hof_net *hn, const struct sk_buff *skb)
{
	atomic_long_sub(skb->truesize, &hn->held);
	atomic_long_sub(skb->truesize, &hof_held_all);
}

/*
 * TCP has not looked at these packets, so no receive window bounds them; the sockets whose
 * handoffs are under way do not, either: a client may have many.
 */
static bool hof_hold_count(struct hof_net *hn, const struct sk_buff *skb)
{
	long max = (long)READ_ONCE(hn->tunables.hold_max_kb) << 10;
	long all = (long)(totalram_pages() / HOF_HELD_SHARE) << PAGE_SHIFT;
	bool room = atomic_long_add_return(skb->truesize, &hn->held) <= max;

	room &= atomic_long_add_return(skb->truesize, &hof_held_all) <= all;
	if (!room)
		hof_hold_uncount(hn, skb);
	return room;
}

static struct sk_buff *hof_hold_next(struct hof_net *hn, struct hof_hold *hold)
{
	struct sk_buff *skb = __skb_dequeue(&hold->queue);

	if (skb)
		hof_hold_uncount(hn, skb);
	return skb;
}

/* False: there is no room, and @skb is still whose it was. */
static bool hof_hold_add(struct hof_net *hn, struct hof_hold *hold, struct sk_buff *skb,
			 const struct nf_hook_state *state)
{
	skb_orphan(skb);	/* a socket found early is valid under RCU only */
	if (skb_queue_len(&hold->queue) >= READ_ONCE(hn->tunables.hold_max) ||
	    (skb_dst(skb) && !skb_dst_force(skb)) || !hof_hold_count(hn, skb))
		return false;
	/* By number: a reference would keep the device from going until a node answers. */
	skb->dev_scratch = skb->dev->ifindex;
	hold->okfn = state->okfn;
	__skb_queue_tail(&hold->queue, skb);
	hof_count(hn, HOF_STAT_HOLD_QUEUED);
	return true;
}

bool hof_hold_packet(struct hof_net *hn, struct hof_entry *e, struct sk_buff *skb,
		     const struct nf_hook_state *state)
{
	bool kept;

	spin_lock(&e->lock);
	if (e->state != HOF_HOLD) {
		spin_unlock(&e->lock);
		return false;
	}
	kept = hof_hold_add(hn, e->hold, skb, state);
	spin_unlock(&e->lock);
	if (!kept) {
		hof_count(hn, HOF_STAT_HOLD_DROPPED);
		kfree_skb(skb);
	}
	return true;
}

bool hof_hold_first(struct hof_net *hn, struct hof_hold *hold, struct sk_buff *skb,
		    const struct nf_hook_state *state)
{
	return hof_hold_add(hn, hold, skb, state);
}

struct sk_buff *hof_hold_take(struct hof_net *hn, struct hof_hold *hold)
{
	return hof_hold_next(hn, hold);
}

void hof_hold_drop_first(struct hof_net *hn, struct hof_entry *e)
{
	struct sk_buff *skb;

	spin_lock_bh(&e->lock);
	skb = hof_hold_next(hn, e->hold);
	spin_unlock_bh(&e->lock);
	if (!skb)
		return;
	skb->dev = NULL;
	consume_skb(skb);
}

u8 hof_hold_begin(struct hof_entry *e, struct hof_hold *hold)
{
	u8 was;

	spin_lock_bh(&e->lock);
	was = e->state;
	if (was == HOF_FORWARD) {
		e->hold = hold;
		e->owned = true;
		hof_entry_set_state(e, HOF_HOLD);
	}
	spin_unlock_bh(&e->lock);
	if (was == HOF_FORWARD)
		hof_entry_trace(e, HOF_HOLD);
	return was;
}

/*
 * Go on behind our hook, as if it had accepted the packet just now:
 * nf_reinject() is not exported, and a way through netif_receive_skb() would
 * show the packet twice to taps and, with RPS, lose the order.
 */
static void hof_hold_continue(struct hof_net *hn, u8 pf, struct sk_buff *skb,
			      int (*okfn)(struct net *, struct sock *, struct sk_buff *))
{
	const struct nf_hook_entries *hooks;
	struct nf_hook_state state;
	unsigned int next = 0, i;

	if (pf == NFPROTO_IPV4)
		hooks = rcu_dereference(hn->net->nf.hooks_ipv4[NF_INET_PRE_ROUTING]);
	else
		hooks = rcu_dereference(hn->net->nf.hooks_ipv6[NF_INET_PRE_ROUTING]);
	if (hooks) {
		for (i = 0; i < hooks->num_hook_entries; i++)
			if (hof_forward_is_hook(hooks->hooks[i].hook))
				next = i + 1;
		nf_hook_state_init(&state, NF_INET_PRE_ROUTING, pf, skb->dev, NULL, NULL, hn->net,
				   okfn);
		if (nf_hook_slow(skb, &state, hooks, next) != 1)
			return;
	}
	okfn(hn->net, NULL, skb);
}

static void hof_hold_drain(struct hof_net *hn, struct hof_entry *e, u8 next)
{
	u8 pf = e->family == AF_INET ? NFPROTO_IPV4 : NFPROTO_IPV6;
	unsigned int left = HOF_DRAIN_MAX;
	struct hof_hold *hold = e->hold;
	struct sk_buff *skb;

	local_bh_disable();
	rcu_read_lock();
	spin_lock(&e->lock);
	hold->ending = next == HOF_GONE;
	while ((skb = hof_hold_next(hn, hold)) && left--) {
		spin_unlock(&e->lock);
		skb->dev = dev_get_by_index_rcu(hn->net, skb->dev_scratch);
		if (!skb->dev) {
			kfree_skb(skb);
			hof_count(hn, HOF_STAT_HOLD_DROPPED);
		} else if (next == HOF_FORWARD) {
			hof_forward_packet(hn, e, skb);
			hof_count(hn, HOF_STAT_HOLD_FORWARDED);
		} else {
			hof_hold_continue(hn, pf, skb, hold->okfn);
			hof_count(hn, HOF_STAT_HOLD_REINJECTED);
		}
		spin_lock(&e->lock);
	}
	for (; skb; skb = hof_hold_next(hn, hold)) {
		skb->dev = NULL;	/* for those who watch drops */
		kfree_skb(skb);
		hof_count(hn, HOF_STAT_HOLD_DROPPED);
	}
	e->hold = NULL;
	hof_entry_set_state(e, next);
	spin_unlock(&e->lock);
	rcu_read_unlock();
	local_bh_enable();
}

bool hof_hold_is_ending(struct hof_entry *e)
{
	bool ending;

	spin_lock_bh(&e->lock);
	ending = e->state == HOF_GONE || (e->hold && e->hold->ending);
	spin_unlock_bh(&e->lock);
	return ending;
}

void hof_hold_forward(struct hof_net *hn, struct hof_entry *e)
{
	hof_hold_drain(hn, e, HOF_FORWARD);
	hof_entry_trace(e, HOF_FORWARD);
}

void hof_hold_reinject(struct hof_net *hn, struct hof_entry *e)
{
	hof_hold_drain(hn, e, HOF_GONE);
	hof_entry_unlink(hn, e);
}
