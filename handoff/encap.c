// SPDX-License-Identifier: GPL-2.0
/*
 * IP in IP, and IP in UDP as kernel FOU and GUE (version 1) receivers take it:
 * for peers that are not on the segment.
 */

#include <linux/udp.h>
#include <net/gso.h>
#include <net/ip.h>
#include <net/ip6_checksum.h>
#include <net/ip6_route.h>
#include <net/ip_tunnels.h>
#include <net/ipv6.h>
#include <net/netfilter/nf_conntrack.h>
#include <net/udp.h>

#include "counter.h"
#include "forward.h"
#include "path.h"

#define HOF_ENCAP_HOPS	64
/* Source ports of a flow's outer packets: one flow, one port, so that links can spread them. */
#define HOF_PORT_MIN	49152
#define HOF_PORT_MAX	65535

static unsigned int hof_encap_overhead(const struct hof_path *path)
{
	return (path->family == AF_INET ? sizeof(struct iphdr) : sizeof(struct ipv6hdr)) +
	       (path->forward == FLT_FORWARD_UDP ? sizeof(struct udphdr) : 0);
}

static int hof_encap_offloads(const struct hof_path *path)
{
	int type = path->family == AF_INET ? SKB_GSO_IPXIP4 : SKB_GSO_IPXIP6;

	if (path->forward != FLT_FORWARD_UDP)
		return type;
	/* UDP over IPv6 has a checksum always. */
	return type | (path->family == AF_INET ? SKB_GSO_UDP_TUNNEL : SKB_GSO_UDP_TUNNEL_CSUM);
}

static void hof_encap_udp(const struct hof_path *path, struct sk_buff *skb, __be16 port)
{
	struct udphdr *uh = skb_push(skb, sizeof(*uh));

	skb_reset_transport_header(skb);
	uh->source = port;
	uh->dest = htons(FLT_FORWARD_UDP_PORT);
	uh->len = htons(skb->len);
	if (path->family == AF_INET)
		udp_set_csum(true, skb, 0, 0, skb->len);
	else
		udp6_set_csum(false, skb, &path->from, &path->to, skb->len);
}

static void hof_encap_ip4(const struct hof_path *path, struct sk_buff *skb, u8 protocol,
			  u8 tos, bool df)
{
	struct iphdr *iph = skb_push(skb, sizeof(*iph));

	skb_reset_network_header(skb);
	memset(IPCB(skb), 0, sizeof(*IPCB(skb)));
	skb->protocol = htons(ETH_P_IP);
	iph->version = 4;
	iph->ihl = sizeof(*iph) / 4;
	iph->tos = tos;
	iph->frag_off = df ? htons(IP_DF) : 0;
	iph->ttl = HOF_ENCAP_HOPS;
	iph->protocol = protocol;
	memcpy(&iph->saddr, &path->from, 4);
	memcpy(&iph->daddr, &path->to, 4);
	__ip_select_ident(path->net, iph, skb_shinfo(skb)->gso_segs ?: 1);
	ip_local_out(path->net, NULL, skb);
}

static void hof_encap_ip6(const struct hof_path *path, struct sk_buff *skb, u8 protocol, u8 tos)
{
	struct ipv6hdr *ip6h = skb_push(skb, sizeof(*ip6h));

	skb_reset_network_header(skb);
	memset(IP6CB(skb), 0, sizeof(*IP6CB(skb)));
	skb->protocol = htons(ETH_P_IPV6);
	ip6_flow_hdr(ip6h, tos, 0);
	ip6h->hop_limit = HOF_ENCAP_HOPS;
	ip6h->nexthdr = protocol;
	ip6h->saddr = path->from;
	ip6h->daddr = path->to;
	ip6_local_out(path->net, NULL, skb);
}

static bool hof_encap_fits(const struct sk_buff *skb, unsigned int mtu)
{
	return likely(skb->len <= mtu) ||
	       (skb_is_gso(skb) && skb_gso_validate_network_len(skb, mtu));
}

/*
 * May the outer packet be cut, by us and by routers: when the inner one may be, when a smaller
 * inner one cannot be had (an IPv6 sender goes no lower than 1280 bytes, and IPv4 routes have a
 * least path MTU), or when path MTU discovery is off.
 */
static bool hof_encap_cut(const struct hof_path *path, const struct sk_buff *skb,
			  unsigned int room)
{
	if (skb->protocol == htons(ETH_P_IP) ? !(ip_hdr(skb)->frag_off & htons(IP_DF)) :
					       room < IPV6_MIN_MTU)
		return true;
	return path->family == AF_INET &&
	       (ip_mtu_locked(path->dst) || READ_ONCE(path->net->ipv4.sysctl_ip_no_pmtu_disc));
}

void hof_encap_xmit(struct hof_net *hn, const struct hof_path *path, struct sk_buff *skb)
{
	bool inner4 = skb->protocol == htons(ETH_P_IP);
	unsigned int room = dst_mtu(path->dst) - hof_encap_overhead(path);
	unsigned int mtu = inner4 ? room : max_t(unsigned int, room, IPV6_MIN_MTU);
	bool cut = hof_encap_cut(path, skb, room);
	u8 protocol = inner4 ? IPPROTO_IPIP : IPPROTO_IPV6;
	u8 tos = inner4 ? ip_hdr(skb)->tos : ipv6_get_dsfield(ipv6_hdr(skb));
	bool df = !inner4 || ip_hdr(skb)->frag_off & htons(IP_DF);
	__be16 port = 0;

	if (df && !hof_encap_fits(skb, mtu)) {
		hof_quote_too_big(hn, skb, mtu);
		return;
	}
	if (path->forward == FLT_FORWARD_UDP)
		port = udp_flow_src_port(path->net, skb, HOF_PORT_MIN, HOF_PORT_MAX, false);
	if (iptunnel_handle_offloads(skb, hof_encap_offloads(path))) {
		hof_count(hn, HOF_STAT_FORWARD_DROPPED);
		kfree_skb(skb);
		return;
	}
	skb_set_inner_ipproto(skb, protocol);
	nf_reset_ct(skb);
	nf_ct_set(skb, NULL, IP_CT_UNTRACKED);	/* the outer flow leaves no entry either */
	skb_dst_drop(skb);
	skb_dst_set_noref(skb, path->dst);
	skb->dev = path->dst->dev;
	skb->ignore_df = cut;
	if (path->forward == FLT_FORWARD_UDP) {
		hof_encap_udp(path, skb, port);
		protocol = IPPROTO_UDP;
	}
	if (path->family == AF_INET)
		hof_encap_ip4(path, skb, protocol, tos, !cut);
	else
		hof_encap_ip6(path, skb, protocol, tos);
}
