// SPDX-License-Identifier: GPL-2.0
/*
 * Path MTU of tunnels: a router on the way to a peer says that an outer packet is too
 * large for it. The kernel's table of routes remembers that, hof_encap_xmit() reads it
 * there, and tells the client. No socket and no tunnel device has sent the outer packet,
 * so nobody else would listen.
 */

#include <linux/icmp.h>
#include <linux/icmpv6.h>
#include <linux/netfilter.h>
#include <linux/udp.h>
#include <net/ip.h>
#include <net/ip6_route.h>
#include <net/ipv6.h>
#include <net/route.h>

#include "kmod/node.h"

#include "counter.h"
#include "entry.h"
#include "inner.h"
#include "net.h"
#include "path.h"
#include "pmtu.h"

/**
 * struct hof_outer - what an ICMP error quotes
 * @family:   of the addresses
 * @protocol: behind the outer header
 * @from:     outer addresses
 * @to:       the same
 * @inner:    offset of what is behind the outer header
 */
struct hof_outer {
	u8 family;
	u8 protocol;
	const void *from;
	const void *to;
	unsigned int inner;
};

static bool hof_outer_is(const struct hof_outer *outer, const struct hof_path *path)
{
	size_t size = outer->family == AF_INET ? 4 : 16;

	return path->family == outer->family &&
	       path->forward == (outer->protocol == IPPROTO_UDP ? FLT_FORWARD_UDP :
								   FLT_FORWARD_IPIP) &&
	       !memcmp(&path->to, outer->to, size) && !memcmp(&path->from, outer->from, size);
}

/* Do packets to any peer look so? All are looked at only when it names a node's address. */
static bool hof_outer_any(struct hof_net *hn, const struct hof_outer *outer)
{
	const struct hof_path *path;
	struct hof_peer *peer;
	unsigned long id;

	if (!flt_node_has_addr(hn->net, outer->family, outer->to))
		return false;
	xa_for_each(&hn->peers, id, peer) {
		path = rcu_dereference(peer->path);
		if (path && hof_outer_is(outer, path))
			return true;
	}
	return false;
}

/*
 * Is it a packet that we could have sent: one of a connection that a peer has, on the way there. A
 * router may quote eight bytes behind an IPv4 header and no more; then the outer addresses have
 * to do, as they do for the kernel's own tunnels.
 */
static bool hof_outer_ours(struct hof_net *hn, const struct sk_buff *skb,
			   const struct hof_outer *outer)
{
	const struct hof_path *path;
	unsigned int at = outer->inner;
	enum hof_inner_kind kind;
	struct hof_inner inner;
	struct hof_entry *e;

	if (outer->protocol == IPPROTO_UDP)
		at += sizeof(struct udphdr);
	kind = hof_inner_read(skb, at, &inner);
	if (kind == HOF_INNER_CUT)
		return outer->family == AF_INET && hof_outer_any(hn, outer);
	if (kind != HOF_INNER_PORTS || inner.protocol != IPPROTO_TCP)
		return false;
	e = hof_entry_find_tuple(hn, &inner.tuple);
	if (!e || hof_entry_state(e) == HOF_GONE)
		return false;
	path = rcu_dereference(READ_ONCE(e->peer)->path);
	return path && hof_outer_is(outer, path);
}

/* Whether the packet looks like one of a tunnel of ours, whoever may have made it. */
static bool hof_outer_alike(const struct sk_buff *skb, const struct hof_outer *outer)
{
	const struct udphdr *uh;
	struct udphdr _uh;

	if (outer->protocol != IPPROTO_UDP)
		return outer->protocol == IPPROTO_IPIP || outer->protocol == IPPROTO_IPV6;
	uh = skb_header_pointer(skb, outer->inner, sizeof(_uh), &_uh);
	return uh && uh->dest == htons(FLT_FORWARD_UDP_PORT);
}

/*
 * Nobody who is not on the way can know all of this but a client of ours, and what it can do
 * then is to have packets to its own node cut smaller, down to the least that the kernel
 * lets a router say (net.ipv4.route.min_pmtu, 1280 bytes of IPv6).
 */
static bool hof_outer_believed(struct hof_net *hn, struct sk_buff *skb,
			       const struct hof_outer *outer, unsigned int icmp)
{
	u8 protocol = outer->family == AF_INET ? IPPROTO_ICMP : IPPROTO_ICMPV6;

	if (hof_outer_ours(hn, skb, outer) &&
	    !nf_checksum(skb, NF_INET_PRE_ROUTING, icmp, protocol, outer->family))
		return true;
	hof_count(hn, HOF_STAT_FORWARD_PATH_MTU_REFUSED);
	return false;
}

void hof_pmtu4(struct hof_net *hn, struct sk_buff *skb, unsigned int icmp)
{
	unsigned int quoted = icmp + sizeof(struct icmphdr);
	const struct icmphdr *icmph;
	const struct iphdr *iph;
	struct hof_outer outer;

	if (!pskb_may_pull(skb, quoted + sizeof(*iph)))
		return;
	icmph = (const void *)skb->data + icmp;
	iph = (const void *)skb->data + quoted;
	if (icmph->type != ICMP_DEST_UNREACH || icmph->code != ICMP_FRAG_NEEDED ||
	    iph->frag_off & htons(IP_OFFSET))
		return;
	outer = (struct hof_outer){
		.family = AF_INET, .protocol = iph->protocol, .from = &iph->saddr,
		.to = &iph->daddr, .inner = quoted + iph->ihl * 4,
	};
	if (!hof_outer_alike(skb, &outer))
		return;
	/* As icmp_rcv() has it; hof_encap_xmit() does not set DF then. */
	if (READ_ONCE(hn->net->ipv4.sysctl_ip_no_pmtu_disc) ||
	    !hof_outer_believed(hn, skb, &outer, icmp))
		return;
	__skb_pull(skb, quoted);
	ipv4_update_pmtu(skb, hn->net, ntohs(icmph->un.frag.mtu), 0, outer.protocol);
	__skb_push(skb, quoted);
	hof_count(hn, HOF_STAT_FORWARD_PATH_MTU);
}

void hof_pmtu6(struct hof_net *hn, struct sk_buff *skb, unsigned int icmp)
{
	unsigned int quoted = icmp + sizeof(struct icmp6hdr);
	const struct icmp6hdr *icmp6h;
	const struct ipv6hdr *ip6h;
	struct hof_outer outer;
	__be16 fragment;
	int inner;

	if (!pskb_may_pull(skb, quoted + sizeof(*ip6h)))
		return;
	icmp6h = (const void *)skb->data + icmp;
	ip6h = (const void *)skb->data + quoted;
	if (icmp6h->icmp6_type != ICMPV6_PKT_TOOBIG)
		return;
	outer = (struct hof_outer){
		.family = AF_INET6, .protocol = ip6h->nexthdr, .from = &ip6h->saddr,
		.to = &ip6h->daddr,
	};
	inner = ipv6_skip_exthdr(skb, quoted + sizeof(*ip6h), &outer.protocol, &fragment);
	if (inner < 0)
		return;
	outer.inner = inner;
	if (!hof_outer_alike(skb, &outer) || !hof_outer_believed(hn, skb, &outer, icmp))
		return;
	__skb_pull(skb, quoted);
	ip6_update_pmtu(skb, hn->net, icmp6h->icmp6_mtu,
			ipv6_addr_type(&ip6h->daddr) & IPV6_ADDR_LINKLOCAL ? skb->dev->ifindex : 0,
			0, sock_net_uid(hn->net, NULL));
	__skb_push(skb, quoted);
	hof_count(hn, HOF_STAT_FORWARD_PATH_MTU);
}
