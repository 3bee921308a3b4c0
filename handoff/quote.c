// SPDX-License-Identifier: GPL-2.0
/*
 * ICMP errors: those about packets that an owner sent come to us, because we
 * have its address, and belong to the owner (or path MTU discovery breaks
 * there); those about our tunnels are for pmtu.c; those about a client's
 * packet that does not fit we send.
 */

#include <linux/icmp.h>
#include <linux/icmpv6.h>
#include <net/icmp.h>
#include <net/ip.h>
#include <net/ipv6.h>
#include <net/route.h>

#include "counter.h"
#include "forward.h"
#include "pmtu.h"
#include "table.h"

static bool hof_quote_is_error4(u8 type)
{
	return type == ICMP_DEST_UNREACH || type == ICMP_TIME_EXCEEDED ||
	       type == ICMP_PARAMETERPROB || type == ICMP_SOURCE_QUENCH;
}

/* An entry on HOLD has its socket here still: the error is for that. */
static unsigned int hof_quote_forward(struct hof_net *hn, struct hof_entry *e,
				      struct sk_buff *skb)
{
	u8 state = e ? hof_entry_state(e) : HOF_GONE;

	if (state != HOF_FORWARD && state != HOF_LINGER)
		return NF_ACCEPT;
	hof_count(hn, HOF_STAT_FORWARD_ICMP);
	hof_forward_packet(hn, e, skb);
	return NF_STOLEN;
}

unsigned int hof_quote4(struct hof_net *hn, struct sk_buff *skb)
{
	unsigned int offset = ip_hdrlen(skb);
	const struct icmphdr *icmph;
	const struct iphdr *iph;
	struct icmphdr _icmph;
	struct iphdr _iph;
	struct hof_key4 key;
	const __be16 *ports;
	__be16 _ports[2];

	if (ip_is_fragment(ip_hdr(skb)))
		return NF_ACCEPT;
	icmph = skb_header_pointer(skb, offset, sizeof(_icmph), &_icmph);
	if (!icmph || !hof_quote_is_error4(icmph->type))
		return NF_ACCEPT;
	offset += sizeof(*icmph);
	iph = skb_header_pointer(skb, offset, sizeof(_iph), &_iph);
	if (!iph || iph->version != 4 || iph->ihl < 5)
		return NF_ACCEPT;
	if (iph->protocol != IPPROTO_TCP) {
		hof_pmtu4(hn, skb, ip_hdrlen(skb));
		return NF_ACCEPT;
	}
	if (iph->frag_off & htons(IP_OFFSET))
		return NF_ACCEPT;
	ports = skb_header_pointer(skb, offset + iph->ihl * 4, sizeof(_ports), _ports);
	if (!ports)
		return NF_ACCEPT;
	/* The quoted packet went to the client. */
	key.client = iph->daddr;
	key.server = iph->saddr;
	key.client_port = ports[1];
	key.server_port = ports[0];
	return hof_quote_forward(hn, hof_entry_find4(hn, &key), skb);
}

unsigned int hof_quote6(struct hof_net *hn, struct sk_buff *skb, unsigned int offset)
{
	const struct icmp6hdr *icmp6h;
	const struct ipv6hdr *ip6h;
	struct icmp6hdr _icmp6h;
	struct ipv6hdr _ip6h;
	struct hof_key6 key;
	const __be16 *ports;
	__be16 _ports[2];
	__be16 fragment;
	u8 protocol;
	int at;

	icmp6h = skb_header_pointer(skb, offset, sizeof(_icmp6h), &_icmp6h);
	if (!icmp6h || icmp6h->icmp6_type < ICMPV6_DEST_UNREACH ||
	    icmp6h->icmp6_type > ICMPV6_PARAMPROB)
		return NF_ACCEPT;
	offset += sizeof(*icmp6h);
	ip6h = skb_header_pointer(skb, offset, sizeof(_ip6h), &_ip6h);
	if (!ip6h || ip6h->version != 6)
		return NF_ACCEPT;
	key.client = ip6h->daddr;
	key.server = ip6h->saddr;
	protocol = ip6h->nexthdr;
	at = ipv6_skip_exthdr(skb, offset + sizeof(*ip6h), &protocol, &fragment);
	if (at < 0 || fragment & htons(IP6_OFFSET))
		return NF_ACCEPT;
	if (protocol != IPPROTO_TCP) {
		hof_pmtu6(hn, skb, offset - sizeof(*icmp6h));
		return NF_ACCEPT;
	}
	ports = skb_header_pointer(skb, at, sizeof(_ports), _ports);
	if (!ports)
		return NF_ACCEPT;
	key.client_port = ports[1];
	key.server_port = ports[0];
	return hof_quote_forward(hn, hof_entry_find6(hn, &key), skb);
}

void hof_quote_too_big(struct hof_net *hn, struct sk_buff *skb, unsigned int mtu)
{
	hof_count(hn, HOF_STAT_FORWARD_TOO_BIG);
	if (skb->protocol == htons(ETH_P_IPV6)) {
		icmpv6_send(skb, ICMPV6_PKT_TOOBIG, 0, mtu);
	} else if (ip_hdr(skb)->frag_off & htons(IP_DF)) {
		/* icmp_send() wants the route that the packet would have had here. */
		if (skb_dst(skb) ||
		    !ip_route_input_noref(skb, ip_hdr(skb)->daddr, ip_hdr(skb)->saddr,
					  ip_hdr(skb)->tos, skb->dev))
			icmp_send(skb, ICMP_DEST_UNREACH, ICMP_FRAG_NEEDED, htonl(mtu));
	}
	kfree_skb(skb);
}
