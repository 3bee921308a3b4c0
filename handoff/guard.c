// SPDX-License-Identifier: GPL-2.0
/*
 * Who may send us packets in tunnels. The kernel's tunnel devices take them from anybody, with
 * whatever inner source is written there: past each filter that keeps forged addresses out. So
 * those that are for our services must come from a node.
 */

#include <linux/netfilter_ipv4.h>
#include <linux/netfilter_ipv6.h>
#include <linux/tcp.h>
#include <linux/udp.h>
#include <net/ip.h>
#include <net/ipv6.h>

#include "kmod/service.h"

#include "counter.h"
#include "guard.h"
#include "net.h"
#include "peer.h"

static bool hof_guard_same(const union flt_addr *have, u8 family, const void *addr)
{
	if (have->sa.sa_family != family)
		return false;
	if (family == AF_INET)
		return !memcmp(&have->v4.sin_addr, addr, sizeof(have->v4.sin_addr));
	return !memcmp(&have->v6.sin6_addr, addr, sizeof(have->v6.sin6_addr));
}

static bool hof_guard_is(struct flt_node *node, u8 family, const void *addr)
{
	union flt_addr forward;

	if (hof_guard_same(&node->addr, family, addr))
		return true;
	flt_node_fwd_addr(node, &forward);
	return hof_guard_same(&forward, family, addr);
}

/* Few nodes are front-ends, and packets come in trains: mostly it is the same as before. */
static bool hof_guard_knows(struct hof_net *hn, u8 family, const void *addr)
{
	struct hof_peer *peer = xa_load(&hn->peers, READ_ONCE(hn->guard_last));
	unsigned long id;

	if (likely(peer && hof_guard_is(peer->node, family, addr)))
		return true;
	xa_for_each(&hn->peers, id, peer) {
		if (hof_guard_is(peer->node, family, addr)) {
			WRITE_ONCE(hn->guard_last, id);
			return true;
		}
	}
	/* One whose link was up before we were loaded has told us nothing yet. */
	return flt_node_any(hn->net, hof_guard_is, family, addr);
}

/* Is what a tunnel carries for a service, or another tunnel that hides it? Broken: as if. */
static bool hof_guard_reaches(struct hof_net *hn, const struct sk_buff *skb, unsigned int at)
{
	struct flt_tuple tuple = {};
	const struct ipv6hdr *ip6h;
	const struct iphdr *iph;
	const __be16 *ports;
	struct ipv6hdr _ip6h;
	struct iphdr _iph;
	__be16 _ports[2];
	__be16 fragment;
	u8 protocol;
	int end;

	iph = skb_header_pointer(skb, at, sizeof(_iph), &_iph);
	if (!iph)
		return true;
	if (iph->version == 4) {
		tuple.family = AF_INET;
		memcpy(tuple.client, &iph->saddr, sizeof(iph->saddr));
		memcpy(tuple.server, &iph->daddr, sizeof(iph->daddr));
		protocol = iph->protocol;
		fragment = iph->frag_off & htons(IP_OFFSET);
		end = at + iph->ihl * 4;
	} else {
		ip6h = skb_header_pointer(skb, at, sizeof(_ip6h), &_ip6h);
		if (!ip6h)
			return true;
		tuple.family = AF_INET6;
		memcpy(tuple.client, &ip6h->saddr, sizeof(ip6h->saddr));
		memcpy(tuple.server, &ip6h->daddr, sizeof(ip6h->daddr));
		protocol = ip6h->nexthdr;
		end = ipv6_skip_exthdr(skb, at + sizeof(*ip6h), &protocol, &fragment);
		fragment &= htons(IP6_OFFSET);
	}
	/* Nothing comes of it without the first one, which is looked at. */
	if (fragment)
		return false;
	if (end < 0 || protocol == IPPROTO_IPIP || protocol == IPPROTO_IPV6)
		return true;
	if (protocol != IPPROTO_TCP && protocol != IPPROTO_UDP)
		return false;
	ports = skb_header_pointer(skb, end, sizeof(_ports), _ports);
	if (!ports)
		return true;
	if (protocol == IPPROTO_UDP)
		return ports[1] == htons(FLT_FORWARD_UDP_PORT);
	tuple.client_port = ports[0];
	tuple.server_port = ports[1];
	return flt_service_permit(hn->net, &tuple) != FLT_REFUSE_SERVICE;
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
	if (!READ_ONCE(hn->tunables.from_nodes) || hof_guard_knows(hn, family, from))
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
