// SPDX-License-Identifier: GPL-2.0
/*
 * Parking: the packets of a connection wait below TCP until it is known whose
 * it is. They wait in a netfilter hook, the last one before TCP, and not in
 * the socket's backlog: that would need the socket's lock for as long, and
 * whoever looks at sockets (ss, /proc/net/tcp, BPF iterators, ss -K) or has to
 * leave (rmmod) would sleep until another machine answers.
 *
 * The hook is registered with the namespace's first adoption. As long as
 * nothing is parked it costs a packet one read.
 */
#include <linux/ip.h>
#include <linux/jhash.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/netdevice.h>
#include <linux/netfilter.h>
#include <linux/netfilter_ipv4.h>
#include <linux/netfilter_ipv6.h>
#include <linux/random.h>
#include <linux/sizes.h>
#include <linux/tcp.h>
#include <net/ip.h>
#include <net/ipv6.h>
#include <net/netns/generic.h>
#include "park.h"

/* Of one connection; the client sends again what is beyond. */
#define FLT_PARK_PACKETS	64
#define FLT_PARK_BYTES		SZ_1M
/* Of a namespace: a giver that parks much and commits nothing must not fill the memory. */
#define FLT_PARK_BYTES_ALL	SZ_64M

#define FLT_PARK_BITS		10

/* Rounds of letting go before order is given up: a flood must not keep a worker for ever. */
#define FLT_PARK_ROUNDS		16

/**
 * struct flt_park_net - what is parked in one namespace
 * @net:    it
 * @lock:   orders changes of @heads; leaf, bottom halves off
 * @heads:  struct flt_park by tuple, RCU
 * @nr:     of them
 * @bytes:  memory of all packets that wait
 * @seed:   of the hash: clients choose their ports
 * @hook_lock: orders registration; process context
 * @hooked: registered, READ_ONCE without @hook_lock
 * @hooks:  IPv4 and IPv6
 */
struct flt_park_net {
	struct net *net;
	spinlock_t lock;	/* leaf: heads */
	struct hlist_head heads[1 << FLT_PARK_BITS];
	atomic_t nr;
	atomic_t bytes;
	u32 seed;
	struct mutex hook_lock;	/* hooked, hooks */
	bool hooked;
	struct nf_hook_ops hooks[2];
};

static unsigned int flt_park_id __read_mostly;

static struct hlist_head *flt_park_head(struct flt_park_net *pn, const struct flt_tuple *tuple)
{
	return &pn->heads[jhash(tuple, sizeof(*tuple), pn->seed) >> (32 - FLT_PARK_BITS)];
}

static struct flt_park *flt_park_find(struct flt_park_net *pn, const struct flt_tuple *tuple)
{
	struct flt_park *park;

	hlist_for_each_entry_rcu(park, flt_park_head(pn, tuple), node,
				 lockdep_is_held(&pn->lock))
		if (!memcmp(&park->tuple, tuple, sizeof(*tuple)))
			return park;
	return NULL;
}

static unsigned int flt_park_packet4(void *priv, struct sk_buff *skb,
				     const struct nf_hook_state *state);
static unsigned int flt_park_packet6(void *priv, struct sk_buff *skb,
				     const struct nf_hook_state *state);

/*
 * The hooks behind ours, now: connection tracking confirms there, and would
 * drop the second of two packets that it sees unconfirmed at the same time.
 *
 * Return: 1, @skb may go on; else it is gone.
 */
static int flt_park_finish_hooks(struct sk_buff *skb, const struct nf_hook_state *state)
{
	struct nf_hook_state rest = *state;
	const struct nf_hook_entries *hooks;
	unsigned int i, next;

	if (state->pf == NFPROTO_IPV4)
		hooks = rcu_dereference(state->net->nf.hooks_ipv4[NF_INET_LOCAL_IN]);
	else
		hooks = rcu_dereference(state->net->nf.hooks_ipv6[NF_INET_LOCAL_IN]);
	if (!hooks)
		return 1;
	next = hooks->num_hook_entries;
	for (i = 0; i < hooks->num_hook_entries; i++)
		if (hooks->hooks[i].hook == flt_park_packet4 ||
		    hooks->hooks[i].hook == flt_park_packet6)
			next = i + 1;
	return nf_hook_slow(skb, &rest, hooks, next);
}

/* False: it does not wait. True: it does, or is gone. */
static bool flt_park_hold(struct flt_park *park, struct sk_buff *skb,
			  const struct nf_hook_state *state)
{
	struct flt_park_net *pn = park->home;

	skb_orphan(skb);	/* a socket found early is valid under RCU only */
	spin_lock(&park->lock);
	if (park->open) {
		spin_unlock(&park->lock);
		return false;
	}
	if (skb_queue_len(&park->held) >= FLT_PARK_PACKETS ||
	    park->bytes + skb->truesize > FLT_PARK_BYTES ||
	    atomic_read(&pn->bytes) + skb->truesize > FLT_PARK_BYTES_ALL ||
	    (skb_dst(skb) && !skb_dst_force(skb))) {
		spin_unlock(&park->lock);
		kfree_skb(skb);
		return true;
	}
	/* By number: a reference would keep the device from going as long as the packet waits. */
	skb->dev_scratch = skb->dev->ifindex;
	park->bytes += skb->truesize;
	atomic_add(skb->truesize, &pn->bytes);
	park->okfn = state->okfn;
	__skb_queue_tail(&park->held, skb);
	spin_unlock(&park->lock);
	return true;
}

static unsigned int flt_park_packet(struct flt_park_net *pn, const struct flt_tuple *tuple,
				    struct sk_buff *skb, const struct nf_hook_state *state)
{
	struct flt_park *park = flt_park_find(pn, tuple);

	if (!park || READ_ONCE(park->open))
		return NF_ACCEPT;
	if (flt_park_finish_hooks(skb, state) != 1)
		return NF_STOLEN;
	if (!flt_park_hold(park, skb, state))
		state->okfn(state->net, state->sk, skb);
	return NF_STOLEN;
}

static unsigned int flt_park_packet4(void *priv, struct sk_buff *skb,
				     const struct nf_hook_state *state)
{
	struct flt_tuple tuple = { .family = AF_INET };
	struct flt_park_net *pn = priv;
	const struct tcphdr *th;
	const struct iphdr *iph;

	if (likely(!atomic_read(&pn->nr)) || ip_hdr(skb)->protocol != IPPROTO_TCP)
		return NF_ACCEPT;
	/* Fragments have been put together. */
	if (!pskb_may_pull(skb, ip_hdrlen(skb) + sizeof(*th)))
		return NF_ACCEPT;
	iph = ip_hdr(skb);
	th = (const void *)iph + iph->ihl * 4;
	memcpy(tuple.client, &iph->saddr, sizeof(iph->saddr));
	memcpy(tuple.server, &iph->daddr, sizeof(iph->daddr));
	tuple.client_port = th->source;
	tuple.server_port = th->dest;
	return flt_park_packet(pn, &tuple, skb, state);
}

static unsigned int flt_park_packet6(void *priv, struct sk_buff *skb,
				     const struct nf_hook_state *state)
{
	struct flt_tuple tuple = { .family = AF_INET6 };
	struct flt_park_net *pn = priv;
	unsigned short fragment = 0;
	const struct tcphdr *th;
	unsigned int offset = 0;
	int flags = 0;

	if (likely(!atomic_read(&pn->nr)) ||
	    ipv6_find_hdr(skb, &offset, -1, &fragment, &flags) != IPPROTO_TCP || fragment)
		return NF_ACCEPT;
	if (!pskb_may_pull(skb, offset + sizeof(*th)))
		return NF_ACCEPT;
	memcpy(tuple.client, &ipv6_hdr(skb)->saddr, sizeof(tuple.client));
	memcpy(tuple.server, &ipv6_hdr(skb)->daddr, sizeof(tuple.server));
	th = (const void *)skb->data + offset;
	tuple.client_port = th->source;
	tuple.server_port = th->dest;
	/* These are put together behind us; without the first there is no whole. */
	if ((flags & IP6_FH_F_FRAG) && flt_park_find(pn, &tuple))
		return NF_DROP;
	return flt_park_packet(pn, &tuple, skb, state);
}

static int flt_park_hook(struct flt_park_net *pn)
{
	int err = 0;

	/* Once there they stay until the namespace ends. */
	if (likely(smp_load_acquire(&pn->hooked)))
		return 0;
	mutex_lock(&pn->hook_lock);
	if (!pn->hooked) {
		pn->hooks[0] = (struct nf_hook_ops) {
			.hook = flt_park_packet4,
			.priv = pn,
			.pf = NFPROTO_IPV4,
			.hooknum = NF_INET_LOCAL_IN,
			.priority = NF_IP_PRI_LAST,
		};
		pn->hooks[1] = (struct nf_hook_ops) {
			.hook = flt_park_packet6,
			.priv = pn,
			.pf = NFPROTO_IPV6,
			.hooknum = NF_INET_LOCAL_IN,
			.priority = NF_IP6_PRI_LAST,
		};
		err = nf_register_net_hooks(pn->net, pn->hooks, ARRAY_SIZE(pn->hooks));
		/* Pairs with the look at the top. */
		smp_store_release(&pn->hooked, !err);
	}
	mutex_unlock(&pn->hook_lock);
	return err;
}

enum flt_refusal flt_park_begin(struct net *net, struct flt_park *park,
				const struct flt_tuple *tuple)
{
	struct flt_park_net *pn = net_generic(net, flt_park_id);
	bool taken;

	park->home = pn;
	park->tuple = *tuple;
	spin_lock_init(&park->lock);
	__skb_queue_head_init(&park->held);
	if (flt_park_hook(pn))
		return FLT_REFUSE_NOMEM;
	spin_lock_bh(&pn->lock);
	taken = flt_park_find(pn, tuple);
	if (!taken) {
		hlist_add_head_rcu(&park->node, flt_park_head(pn, tuple));
		atomic_inc(&pn->nr);
	}
	spin_unlock_bh(&pn->lock);
	return taken ? FLT_REFUSE_DUPLICATE : FLT_REFUSE_NONE;
}

/* Takes what waits; under @park->lock. */
static void flt_park_take(struct flt_park *park, struct sk_buff_head *list)
{
	lockdep_assert_held(&park->lock);
	skb_queue_splice_tail_init(&park->held, list);
	atomic_sub(park->bytes, &park->home->bytes);
	park->bytes = 0;
}

static void flt_park_drop(struct sk_buff_head *list)
{
	struct sk_buff *skb;

	while ((skb = __skb_dequeue(list))) {
		skb->dev = NULL;	/* for those who watch drops */
		kfree_skb(skb);
	}
}

static void flt_park_deliver(struct flt_park *park, struct sk_buff_head *list)
{
	struct net *net = park->home->net;
	struct net_device *dev;
	struct sk_buff *skb;

	rcu_read_lock();
	while ((skb = __skb_dequeue(list))) {
		dev = dev_get_by_index_rcu(net, skb->dev_scratch);
		skb->dev = dev;
		if (dev)
			park->okfn(net, NULL, skb);
		else
			kfree_skb(skb);
	}
	rcu_read_unlock();
}

void flt_park_open(struct flt_park *park)
{
	unsigned int rounds = FLT_PARK_ROUNDS;
	struct sk_buff_head list;

	__skb_queue_head_init(&list);
	do {
		spin_lock_bh(&park->lock);
		flt_park_take(park, &list);
		if (skb_queue_empty(&list) || !rounds--)
			WRITE_ONCE(park->open, true);
		spin_unlock_bh(&park->lock);
		local_bh_disable();
		flt_park_deliver(park, &list);
		local_bh_enable();
	} while (!park->open);
}

void flt_park_end(struct flt_park *park)
{
	struct flt_park_net *pn = park->home;
	struct sk_buff_head list;

	spin_lock_bh(&pn->lock);
	hlist_del_rcu(&park->node);
	atomic_dec(&pn->nr);
	spin_unlock_bh(&pn->lock);

	__skb_queue_head_init(&list);
	spin_lock_bh(&park->lock);
	flt_park_take(park, &list);
	WRITE_ONCE(park->open, true);	/* for who has found it already */
	spin_unlock_bh(&park->lock);
	flt_park_drop(&list);
}

static int __net_init flt_park_enter(struct net *net)
{
	struct flt_park_net *pn = net_generic(net, flt_park_id);

	pn->net = net;
	spin_lock_init(&pn->lock);
	mutex_init(&pn->hook_lock);
	pn->seed = get_random_u32();
	return 0;
}

/* A parked child holds its namespace, its maker this module: nothing waits here any more. */
static void __net_exit flt_park_leave(struct net *net)
{
	struct flt_park_net *pn = net_generic(net, flt_park_id);

	WARN_ON_ONCE(atomic_read(&pn->nr));
	if (!pn->hooked)
		return;
	nf_unregister_net_hooks(net, pn->hooks, ARRAY_SIZE(pn->hooks));
	synchronize_net();	/* they may be running still */
}

static struct pernet_operations flt_park_ops = {
	.init = flt_park_enter,
	.exit = flt_park_leave,
	.id = &flt_park_id,
	.size = sizeof(struct flt_park_net),
};

int __init flt_park_init(void)
{
	return register_pernet_subsys(&flt_park_ops);
}

void flt_park_exit(void)
{
	unregister_pernet_subsys(&flt_park_ops);
}
