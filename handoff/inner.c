// SPDX-License-Identifier: GPL-2.0
/* What a packet in a tunnel says of itself: anybody may have made it. */

#include <linux/ip.h>
#include <net/ip.h>
#include <net/ipv6.h>

#include "inner.h"

/* The offset behind its headers, negative when they are broken. */
static int hof_inner_read4(const struct iphdr *iph, unsigned int at, struct hof_inner *inner,
			   bool *fragment)
{
	inner->tuple.family = AF_INET;
	memcpy(inner->tuple.client, &iph->saddr, sizeof(iph->saddr));
	memcpy(inner->tuple.server, &iph->daddr, sizeof(iph->daddr));
	inner->protocol = iph->protocol;
	*fragment = iph->frag_off & htons(IP_OFFSET);
	return iph->ihl < 5 ? -1 : (int)at + iph->ihl * 4;
}

static int hof_inner_read6(const struct sk_buff *skb, unsigned int at, struct hof_inner *inner,
			   bool *fragment)
{
	const struct ipv6hdr *ip6h;
	struct ipv6hdr _ip6h;
	__be16 offset;
	int end;

	ip6h = skb_header_pointer(skb, at, sizeof(_ip6h), &_ip6h);
	if (!ip6h)
		return -1;
	inner->tuple.family = AF_INET6;
	memcpy(inner->tuple.client, &ip6h->saddr, sizeof(ip6h->saddr));
	memcpy(inner->tuple.server, &ip6h->daddr, sizeof(ip6h->daddr));
	inner->protocol = ip6h->nexthdr;
	end = ipv6_skip_exthdr(skb, at + sizeof(*ip6h), &inner->protocol, &offset);
	*fragment = offset & htons(IP6_OFFSET);
	return end;
}

enum hof_inner_kind hof_inner_read(const struct sk_buff *skb, unsigned int at,
				   struct hof_inner *inner)
{
	const struct iphdr *iph;
	bool fragment = false;
	const __be16 *ports;
	struct iphdr _iph;
	__be16 _ports[2];
	int end;

	*inner = (struct hof_inner){};
	iph = skb_header_pointer(skb, at, sizeof(_iph), &_iph);
	if (!iph)
		return HOF_INNER_CUT;
	if (iph->version == 4)
		end = hof_inner_read4(iph, at, inner, &fragment);
	else
		end = hof_inner_read6(skb, at, inner, &fragment);
	if (fragment)
		return HOF_INNER_FRAGMENT;
	if (end < 0)
		return HOF_INNER_BROKEN;
	if (inner->protocol != IPPROTO_TCP && inner->protocol != IPPROTO_UDP)
		return HOF_INNER_OTHER;
	ports = skb_header_pointer(skb, end, sizeof(_ports), _ports);
	if (!ports)
		return HOF_INNER_BROKEN;
	inner->tuple.client_port = ports[0];
	inner->tuple.server_port = ports[1];
	return HOF_INNER_PORTS;
}
