// SPDX-License-Identifier: GPL-2.0
/* Building a RST without a socket and without a packet to answer. */

#include <linux/tcp.h>
#include <net/ip.h>
#include <net/ip6_checksum.h>
#include <net/ip6_route.h>
#include <net/netfilter/nf_conntrack.h>
#include <net/route.h>
#include <net/tcp.h>

#include "counter.h"
#include "net.h"
#include "reset.h"

#define HOF_RESET_HOPS	64

static struct sk_buff *hof_reset_alloc(struct dst_entry *dst, const struct flt_tuple *tuple,
				       u32 seq)
{
	struct tcphdr *th;
	struct sk_buff *skb;

	skb = alloc_skb(LL_RESERVED_SPACE(dst->dev) + sizeof(struct ipv6hdr) + sizeof(*th),
			GFP_ATOMIC);
	if (!skb)
		return NULL;
	skb_reserve(skb, LL_RESERVED_SPACE(dst->dev) + sizeof(struct ipv6hdr));
	th = skb_put_zero(skb, sizeof(*th));
	skb_reset_transport_header(skb);
	th->source = tuple->server_port;
	th->dest = tuple->client_port;
	th->seq = htonl(seq);
	th->doff = sizeof(*th) / 4;
	th->rst = 1;
	skb_dst_set(skb, dst);
	skb->dev = dst->dev;
	nf_ct_set(skb, NULL, IP_CT_UNTRACKED);
	return skb;
}

static void hof_reset_client4(struct hof_net *hn, const struct flt_tuple *tuple, u32 seq)
{
	struct flowi4 fl4 = {
		.flowi4_proto = IPPROTO_TCP,
		.flowi4_flags = FLOWI_FLAG_ANYSRC,
		.fl4_sport = tuple->server_port,
		.fl4_dport = tuple->client_port,
	};
	struct sk_buff *skb;
	struct iphdr *iph;
	struct rtable *rt;

	memcpy(&fl4.saddr, tuple->server, 4);
	memcpy(&fl4.daddr, tuple->client, 4);
	rt = ip_route_output_key(hn->net, &fl4);
	if (IS_ERR(rt))
		return;
	skb = hof_reset_alloc(&rt->dst, tuple, seq);
	if (!skb) {
		ip_rt_put(rt);
		return;
	}
	tcp_hdr(skb)->check = csum_tcpudp_magic(fl4.saddr, fl4.daddr, skb->len, IPPROTO_TCP,
						csum_partial(tcp_hdr(skb), skb->len, 0));
	iph = skb_push(skb, sizeof(*iph));
	memset(iph, 0, sizeof(*iph));
	skb_reset_network_header(skb);
	skb->protocol = htons(ETH_P_IP);
	iph->version = 4;
	iph->ihl = sizeof(*iph) / 4;
	iph->frag_off = htons(IP_DF);
	iph->ttl = HOF_RESET_HOPS;
	iph->protocol = IPPROTO_TCP;
	iph->saddr = fl4.saddr;
	iph->daddr = fl4.daddr;
	ip_local_out(hn->net, NULL, skb);
}

static void hof_reset_client6(struct hof_net *hn, const struct flt_tuple *tuple, u32 seq)
{
	struct flowi6 fl6 = {
		.flowi6_proto = IPPROTO_TCP,
		.fl6_sport = tuple->server_port,
		.fl6_dport = tuple->client_port,
	};
	struct dst_entry *dst;
	struct ipv6hdr *ip6h;
	struct sk_buff *skb;
	unsigned int len;

	memcpy(&fl6.saddr, tuple->server, 16);
	memcpy(&fl6.daddr, tuple->client, 16);
	dst = ip6_route_output(hn->net, NULL, &fl6);
	skb = dst->error ? NULL : hof_reset_alloc(dst, tuple, seq);
	if (!skb) {
		dst_release(dst);
		return;
	}
	len = skb->len;
	tcp_hdr(skb)->check = csum_ipv6_magic(&fl6.saddr, &fl6.daddr, len, IPPROTO_TCP,
					      csum_partial(tcp_hdr(skb), len, 0));
	ip6h = skb_push(skb, sizeof(*ip6h));
	skb_reset_network_header(skb);
	skb->protocol = htons(ETH_P_IPV6);
	ip6_flow_hdr(ip6h, 0, 0);
	ip6h->payload_len = htons(len);
	ip6h->nexthdr = IPPROTO_TCP;
	ip6h->hop_limit = HOF_RESET_HOPS;
	ip6h->saddr = fl6.saddr;
	ip6h->daddr = fl6.daddr;
	ip6_local_out(hn->net, NULL, skb);
}

void hof_reset_client(struct hof_net *hn, const struct flt_tuple *tuple, u32 seq)
{
	hof_count(hn, HOF_STAT_FORWARD_RESETS);
	if (tuple->family == AF_INET)
		hof_reset_client4(hn, tuple, seq);
	else
		hof_reset_client6(hn, tuple, seq);
}
