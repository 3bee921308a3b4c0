// SPDX-License-Identifier: GPL-2.0
/*
 * Who may send us packets in tunnels. The kernel's tunnel devices take them from anybody, with
 * whatever inner source is written there: past each filter that keeps forged addresses out. So
 * those that are for our services must come from a node.
 */

#include <linux/netfilter_ipv4.h>
#include <linux/netfilter_ipv6.h>
#include <linux/udp.h>
#include <net/ip.h>
#include <net/ipv6.h>

#include "kmod/node.h"
#include "kmod/service.h"

#include "counter.h"
#include "guard.h"
#include "inner.h"
#include "net.h"

/* Is what a tunnel carries for a service, or another tunnel that hides it? Broken: as if. */
static bool hof_guard_reaches(struct hof_net *hn, const struct sk_buff *skb, unsigned int at)
{
	struct hof_inner inner;

	switch (hof_inner_read(skb, at, &inner)) {
	case HOF_INNER_FRAGMENT:
		/* Nothing comes of it without the first one, which is looked at. */
		return false;
	case HOF_INNER_OTHER:
		return inner.protocol == IPPROTO_IPIP || inner.protocol == IPPROTO_IPV6;
	case HOF_INNER_PORTS:
		if (inner.protocol == IPPROTO_UDP)
			return inner.tuple.server_port == htons(FLT_FORWARD_UDP_PORT);
		return flt_service_permit(hn->net, &inner.tuple) != FLT_REFUSE_SERVICE;
	default:
		return true;
	}
}

static unsigned int hof_guard(struct hof_net *hn, struct sk_buff *skb, u8 family, u8 protocol,
			      unsigned int at, const void *from)
{
	const struct udphdr *uh;
	struct udphdr _uh;

	if (protocol == IPPROTO_UDP) {
		uh = skb_header_pointer(skb, at, sizeof(_uh), &_uh);
		if (!uh || uh->dest != htons(FLT_FORWARD_UDP_PORT))
			return NF_ACCEPT;
	} else if (protocol != IPPROTO_IPIP && protocol != IPPROTO_IPV6) {
		return NF_ACCEPT;
	}
	if (!READ_ONCE(hn->tunables.from_nodes) ||
	    flt_node_has_addr(hn->net, family, from))
		return NF_ACCEPT;
	if (protocol != IPPROTO_UDP && !hof_guard_reaches(hn, skb, at))
		return NF_ACCEPT;
	hof_count(hn, HOF_STAT_FORWARD_STRANGER);
	if (family == AF_INET)
		pr_warn_ratelimited("a packet in a tunnel from %pI4, no node's address, is dropped\n",
				    from);
	else
		pr_warn_ratelimited("a packet in a tunnel from %pI6c, no node's address, is dropped\n",
				    from);
	return NF_DROP;
}

/* Local input: put together, if it came in fragments. */
static unsigned int hof_guard4(void *priv, struct sk_buff *skb,
			       const struct nf_hook_state *state)
{
	const struct iphdr *iph = ip_hdr(skb);

	return hof_guard(priv, skb, AF_INET, iph->protocol, ip_hdrlen(skb), &iph->saddr);
}

/* Fragments may come here one by one; the first tells. */
static unsigned int hof_guard6(void *priv, struct sk_buff *skb,
			       const struct nf_hook_state *state)
{
	const struct ipv6hdr *ip6h = ipv6_hdr(skb);
	u8 protocol = ip6h->nexthdr;
	__be16 fragment;
	int at;

	if (likely(protocol == IPPROTO_TCP))
		return NF_ACCEPT;
	at = ipv6_skip_exthdr(skb, sizeof(*ip6h), &protocol, &fragment);
	if (at < 0 || fragment & htons(IP6_OFFSET))
		return NF_ACCEPT;
	return hof_guard(priv, skb, AF_INET6, protocol, at, &ip6h->saddr);
}

int hof_guard_hook(struct hof_net *hn)
{
	int err = 0;

	/* Once they are there they stay until the namespace ends. */
	if (likely(smp_load_acquire(&hn->guarded)))
		return 0;
	mutex_lock(&hn->hook_lock);
	if (!hn->guarded) {
		hn->guards[0] = (struct nf_hook_ops) {
			.hook = hof_guard4,
			.priv = hn,
			.pf = NFPROTO_IPV4,
			.hooknum = NF_INET_LOCAL_IN,
			.priority = NF_IP_PRI_FIRST,
		};
		hn->guards[1] = (struct nf_hook_ops) {
			.hook = hof_guard6,
			.priv = hn,
			.pf = NFPROTO_IPV6,
			.hooknum = NF_INET_LOCAL_IN,
			.priority = NF_IP6_PRI_FIRST,
		};
		err = nf_register_net_hooks(hn->net, hn->guards, ARRAY_SIZE(hn->guards));
		/* Pairs with the look at the top. */
		smp_store_release(&hn->guarded, !err);
	}
	mutex_unlock(&hn->hook_lock);
	return err;
}

void hof_guard_unhook(struct hof_net *hn)
{
	mutex_lock(&hn->hook_lock);
	if (hn->guarded) {
		nf_unregister_net_hooks(hn->net, hn->guards, ARRAY_SIZE(hn->guards));
		synchronize_net();	/* they may be running still */
	}
	WRITE_ONCE(hn->guarded, false);
	mutex_unlock(&hn->hook_lock);
}
