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

#include "counter.h"
#include "path.h"
#include "pmtu.h"
#include "table.h"

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

static struct hof_peer *hof_outer_peer(struct hof_net *hn, const struct hof_outer *outer)
{
	const struct hof_path *path;
	struct hof_peer *peer;
	unsigned long id;

	xa_for_each(&hn->peers, id, peer) {
		path = rcu_dereference(peer->path);
		if (path && hof_outer_is(outer, path))
			return peer;
	}
	return NULL;
}

static const __be16 *hof_outer_ports(const struct sk_buff *skb, unsigned int at, u8 protocol,
				     __be16 ports[2])
{
	return protocol == IPPROTO_TCP ? skb_header_pointer(skb, at, 4, ports) : NULL;
}

static struct hof_entry *hof_outer_entry4(struct hof_net *hn, const struct sk_buff *skb,
					  unsigned int at, const struct iphdr *iph)
{
	const __be16 *ports;
	struct hof_key4 key;
	__be16 _ports[2];

	if (iph->ihl < 5 || iph->frag_off & htons(IP_OFFSET))
		return NULL;
	ports = hof_outer_ports(skb, at + iph->ihl * 4, iph->protocol, _ports);
	if (!ports)
		return NULL;
	key.client = iph->saddr;
	key.server = iph->daddr;
	key.client_port = ports[0];
	key.server_port = ports[1];
	return hof_entry_find4(hn, &key);
}

static struct hof_entry *hof_outer_entry6(struct hof_net *hn, const struct sk_buff *skb,
					  unsigned int at)
{
	const struct ipv6hdr *ip6h;
	struct ipv6hdr _ip6h;
	const __be16 *ports;
	struct hof_key6 key;
	__be16 _ports[2];
	__be16 fragment;
	u8 protocol;
	int end;

	ip6h = skb_header_pointer(skb, at, sizeof(_ip6h), &_ip6h);
	if (!ip6h)
		return NULL;
	key.client = ip6h->saddr;
	key.server = ip6h->daddr;
	protocol = ip6h->nexthdr;
	end = ipv6_skip_exthdr(skb, at + sizeof(*ip6h), &protocol, &fragment);
	ports = end < 0 ? NULL : hof_outer_ports(skb, end, protocol, _ports);
	if (!ports)
		return NULL;
	key.client_port = ports[0];
	key.server_port = ports[1];
	return hof_entry_find6(hn, &key);
}

/*
 * Is it a packet that we could have sent to @peer: one of a connection that it has. A
 * router may quote eight bytes behind an IPv4 header and no more; then the outer
 * addresses have to do, as they do for the kernel's own tunnels.
 */
static bool hof_outer_ours(struct hof_net *hn, const struct sk_buff *skb,
			   const struct hof_outer *outer, const struct hof_peer *peer)
{
	unsigned int at = outer->inner;
	const struct iphdr *iph;
	struct hof_entry *e;
	struct iphdr _iph;

	if (outer->protocol == IPPROTO_UDP)
		at += sizeof(struct udphdr);
	iph = skb_header_pointer(skb, at, sizeof(_iph), &_iph);
	if (!iph)
		return outer->family == AF_INET;
	e = iph->version == 4 ? hof_outer_entry4(hn, skb, at, iph) :
				hof_outer_entry6(hn, skb, at);
	return e && e->peer == peer && hof_entry_state(e) != HOF_GONE;
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
	struct hof_peer *peer = hof_outer_peer(hn, outer);
	u8 protocol = outer->family == AF_INET ? IPPROTO_ICMP : IPPROTO_ICMPV6;

	if (peer && hof_outer_ours(hn, skb, outer, peer) &&
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
