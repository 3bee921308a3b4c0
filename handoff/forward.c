// SPDX-License-Identifier: GPL-2.0
/*
 * The forwarding hook. An ACK of a connection that moved costs here one hash
 * lookup, a few stores into the flow's own entry and the cached Ethernet
 * header; nothing shared between flows is written.
 */

#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/netfilter_ipv4.h>
#include <linux/netfilter_ipv6.h>
#include <linux/tcp.h>
#include <net/gso.h>
#include <net/ip.h>
#include <net/ipv6.h>
#include <net/neighbour.h>
#include <net/tcp.h>

#include "counter.h"
#include "early.h"
#include "forward.h"
#include "hold.h"
#include "path.h"
#include "redirect.h"
#include "reset.h"
#include "standby.h"
#include "table.h"

/* Behind defragmentation, if that is loaded, and before everything that keeps state. */
#define HOF_PRIORITY4	(NF_IP_PRI_CONNTRACK_DEFRAG + 1)
#define HOF_PRIORITY6	(NF_IP6_PRI_CONNTRACK_DEFRAG + 1)

static void hof_forward_drop(struct hof_net *hn, struct sk_buff *skb)
{
	hof_count(hn, HOF_STAT_FORWARD_DROPPED);
	kfree_skb(skb);
}

/* The hop counts: two nodes that each think the other has it must not play for ever. */
static bool hof_forward_hop(struct sk_buff *skb)
{
	if (skb->protocol == htons(ETH_P_IP)) {
		if (ip_hdr(skb)->ttl <= 1)
			return false;
		ip_decrease_ttl(ip_hdr(skb));
	} else {
		if (ipv6_hdr(skb)->hop_limit <= 1)
			return false;
		ipv6_hdr(skb)->hop_limit--;
	}
	return true;
}

static bool hof_forward_fits(const struct sk_buff *skb, unsigned int mtu)
{
	if (likely(skb->len <= mtu))
		return true;
	return skb_is_gso(skb) && skb_gso_validate_network_len(skb, mtu);
}

static void hof_forward_direct(struct hof_net *hn, const struct hof_path *path,
			       struct sk_buff *skb)
{
	struct neighbour *neigh = path->neigh;
	unsigned int mtu = READ_ONCE(neigh->dev->mtu);

	if (unlikely(!hof_forward_fits(skb, mtu))) {
		hof_quote_too_big(hn, skb, mtu);
		return;
	}
	skb->dev = neigh->dev;
	/* The cached header names the protocol of the node's address, which may be the other. */
	neigh_output(neigh, skb, skb->protocol != neigh->tbl->protocol);
}

void hof_forward_packet(struct hof_net *hn, struct hof_entry *e, struct sk_buff *skb)
{
	const struct hof_path *path = hof_path_get(READ_ONCE(e->peer));
	unsigned int len = skb->len;

	if (unlikely(!path)) {
		hof_count(hn, HOF_STAT_FORWARD_NO_ROUTE);
		kfree_skb(skb);
		return;
	}
	/* Tells also whether the headers are ours to change. */
	if (unlikely(skb_cow_head(skb, path->headroom) || skb_warn_if_lro(skb))) {
		hof_forward_drop(hn, skb);
		return;
	}
	if (unlikely(!hof_forward_hop(skb))) {
		hof_count(hn, HOF_STAT_FORWARD_TTL_EXPIRED);
		kfree_skb(skb);
		return;
	}
	WRITE_ONCE(e->packets, e->packets + 1);
	WRITE_ONCE(e->bytes, e->bytes + len);
	hof_count(hn, HOF_STAT_FORWARD_PACKETS);
	hof_count_add(hn, HOF_STAT_FORWARD_BYTES, len);

	skb_forward_csum(skb);
	skb_clear_tstamp(skb);
	if (likely(path->forward == FLT_FORWARD_DIRECT))
		hof_forward_direct(hn, path, skb);
	else
		hof_encap_xmit(hn, path, skb);
}

/* What a TCP header tells about the connection; nothing here can be trusted. */
static void hof_forward_note(struct hof_entry *e, const struct tcphdr *th)
{
	unsigned long now = jiffies;

	if (likely(th->ack))
		WRITE_ONCE(e->acked, ntohl(th->ack_seq));
	if (unlikely(th->fin | th->rst))
		WRITE_ONCE(e->seen, e->seen | (th->fin ? HOF_SAW_FIN : 0) |
				    (th->rst ? HOF_SAW_RST : 0));
	if (READ_ONCE(e->used) != now)
		WRITE_ONCE(e->used, now);
}

/* The client has nobody to talk to: tell it, unless it is a RST that says so. */
static unsigned int hof_forward_dead(struct hof_net *hn, struct hof_entry *e,
				     const struct tcphdr *th, struct sk_buff *skb)
{
	struct flt_tuple tuple;

	if (th->rst) {
		hof_forward_packet(hn, e, skb);	/* the node may be alive behind a dead link */
		return NF_STOLEN;
	}
	hof_entry_tuple(e, &tuple);
	if (th->ack)
		hof_reset_client(hn, &tuple, ntohl(th->ack_seq));
	kfree_skb(skb);
	return NF_STOLEN;
}

/*
 * The client uses its port again, and its old connection has not ended here. The
 * owner must not get the SYN: if it has just lost that connection its listener would
 * take a new one that nobody here knows. From an ACK it tells the client what it has,
 * or that it has nothing; the client resets what is left and sends its SYN again.
 */
static bool hof_forward_syn_to_ack(struct hof_entry *e, const struct tcphdr *syn,
				   struct sk_buff *skb)
{
	unsigned int offset = (const u8 *)syn - skb->data;
	struct tcphdr *th;
	__be32 flags, ack;

	/* Fast open: sent again without data. */
	if (skb->len > offset + syn->doff * 4 || skb_ensure_writable(skb, offset + sizeof(*th)))
		return false;
	th = (void *)skb->data + offset;
	flags = (tcp_flag_word(th) & ~(TCP_FLAG_SYN | TCP_FLAG_ECE | TCP_FLAG_CWR)) | TCP_FLAG_ACK;
	ack = htonl(READ_ONCE(e->acked));
	inet_proto_csum_replace4(&th->check, skb, tcp_flag_word(th), flags, false);
	inet_proto_csum_replace4(&th->check, skb, th->ack_seq, ack, false);
	tcp_flag_word(th) = flags;
	th->ack_seq = ack;
	return true;
}

/* A SYN with the addresses of an entry that has just gone. RCU. */
static unsigned int hof_forward_anew(struct hof_net *hn, const struct hof_entry *e,
				     const struct tcphdr *th, struct sk_buff *skb,
				     const struct nf_hook_state *state)
{
	struct flt_tuple tuple;

	hof_entry_tuple(e, &tuple);
	if (hof_redirect_is(hn) && hof_redirect_find(hn, &tuple))
		return hof_redirect_syn(hn, &tuple, th, skb, state);
	return e->family == AF_INET && hof_early_is(hn) ?
	       hof_early_packet(hn, &e->key.v4, skb, state) : NF_ACCEPT;
}

static unsigned int hof_forward_tcp(struct hof_net *hn, struct hof_entry *e,
				    const struct tcphdr *th, struct sk_buff *skb,
				    const struct nf_hook_state *state)
{
	bool opens = hof_redirect_opens(th);
	unsigned int verdict;
	u8 now = hof_entry_state(e);

	if (now == HOF_HOLD) {
		/* Sent again when it is decided whose it is. */
		if (opens) {
			hof_count(hn, HOF_STAT_FORWARD_SYN_EARLY);
			hof_forward_drop(hn, skb);
			return NF_STOLEN;
		}
		hof_forward_note(e, th);
		if (hof_hold_packet(hn, e, skb, state))
			return NF_STOLEN;
		now = hof_entry_state(e);
	}
	switch (now) {
	case HOF_FORWARD:
		hof_forward_note(e, th);
		if (unlikely(READ_ONCE(e->redirect))) {
			if (!hof_redirect_forwards(hn, e, th, skb, &verdict))
				return verdict;
		} else if (opens) {
			hof_count(hn, HOF_STAT_FORWARD_SYN_EARLY);
			if (!hof_forward_syn_to_ack(e, th, skb)) {
				hof_forward_drop(hn, skb);
				return NF_STOLEN;
			}
		}
		break;
	case HOF_LINGER:
	case HOF_DEAD:
		/* The client uses its port again; the old connection is over for it. */
		if (opens) {
			hof_count(hn, HOF_STAT_FORWARD_SYN_REUSE);
			hof_entry_remove(hn, e);
			return hof_forward_anew(hn, e, th, skb, state);
		}
		if (now == HOF_DEAD)
			return hof_forward_dead(hn, e, th, skb);
		hof_count(hn, HOF_STAT_FORWARD_LINGER);
		break;
	default:
		return NF_ACCEPT;
	}
	hof_forward_packet(hn, e, skb);
	return NF_STOLEN;
}

/* False: no rule has its service. */
static bool hof_forward_opens4(struct hof_net *hn, const struct hof_key4 *key,
			       const struct tcphdr *th, struct sk_buff *skb,
			       const struct nf_hook_state *state, unsigned int *verdict)
{
	struct flt_tuple tuple = {
		.family = AF_INET,
		.client_port = key->client_port,
		.server_port = key->server_port,
	};

	memcpy(tuple.client, &key->client, 4);
	memcpy(tuple.server, &key->server, 4);
	if (!hof_redirect_find(hn, &tuple))
		return false;
	*verdict = hof_redirect_syn(hn, &tuple, th, skb, state);
	return true;
}

static unsigned int hof_forward_ip4(void *priv, struct sk_buff *skb,
				    const struct nf_hook_state *state)
{
	const struct iphdr *iph = ip_hdr(skb);
	struct hof_net *hn = priv;
	const struct tcphdr *th;
	unsigned int verdict;
	struct hof_entry *e;
	struct hof_key4 key;

	if (unlikely(iph->protocol != IPPROTO_TCP)) {
		if (iph->protocol == IPPROTO_ICMP)
			return hof_quote4(hn, skb);
		return NF_ACCEPT;
	}
	if (unlikely(ip_is_fragment(iph))) {
		/* As defragmentation does, and so for whoever comes behind, too. */
		if (!hof_entry_count(hn))
			return NF_ACCEPT;
		if (ip_defrag(state->net, skb, IP_DEFRAG_VS_IN))
			return NF_STOLEN;
		skb->ignore_df = 1;
		hof_count(hn, HOF_STAT_FORWARD_FRAGMENTS);
	}
	if (unlikely(!pskb_may_pull(skb, ip_hdrlen(skb) + sizeof(*th))))
		return NF_ACCEPT;
	iph = ip_hdr(skb);
	th = (const void *)iph + iph->ihl * 4;
	key.client = iph->saddr;
	key.server = iph->daddr;
	key.client_port = th->source;
	key.server_port = th->dest;
	e = hof_entry_find4(hn, &key);
	if (!e && hof_redirect_is(hn) && hof_redirect_opens(th) &&
	    hof_forward_opens4(hn, &key, th, skb, state, &verdict))
		return verdict;
	if (!e && hof_early_is(hn)) {
		verdict = hof_early_packet(hn, &key, skb, state);
		if (verdict != NF_ACCEPT)
			return verdict;
		th = (const void *)ip_hdr(skb) + ip_hdrlen(skb);
	}
	if (!e)
		return hof_standby_is(hn) ?
		       hof_standby_packet4(hn, &key, th, state->in->ifindex) : NF_ACCEPT;
	return hof_forward_tcp(hn, e, th, skb, state);
}

static unsigned int hof_forward_opens6(struct hof_net *hn, const struct hof_key6 *key,
				       const struct tcphdr *th, struct sk_buff *skb,
				       const struct nf_hook_state *state)
{
	struct flt_tuple tuple = {
		.family = AF_INET6,
		.client_port = key->client_port,
		.server_port = key->server_port,
	};

	memcpy(tuple.client, &key->client, 16);
	memcpy(tuple.server, &key->server, 16);
	return hof_redirect_syn(hn, &tuple, th, skb, state);
}

/* Be it one of several or the only one, behind whatever other header. */
static bool hof_forward_is_fragment6(const struct sk_buff *skb)
{
	unsigned int offset = 0;

	return ipv6_find_hdr(skb, &offset, NEXTHDR_FRAGMENT, NULL, NULL) >= 0;
}

static unsigned int hof_forward_ip6(void *priv, struct sk_buff *skb,
				    const struct nf_hook_state *state)
{
	unsigned int offset = sizeof(struct ipv6hdr);
	u8 protocol = ipv6_hdr(skb)->nexthdr;
	struct hof_net *hn = priv;
	const struct tcphdr *th;
	unsigned short fragment = 0;
	struct hof_entry *e;
	struct hof_key6 key;
	bool whole = true;

	if (unlikely(protocol != IPPROTO_TCP)) {
		int found;

		if (!ipv6_ext_hdr(protocol) && protocol != IPPROTO_ICMPV6)
			return NF_ACCEPT;
		offset = 0;
		found = ipv6_find_hdr(skb, &offset, -1, &fragment, NULL);
		if (found == IPPROTO_ICMPV6 && !fragment)
			return hof_quote6(hn, skb, offset);
		if (found != IPPROTO_TCP || fragment)
			return NF_ACCEPT;
		whole = !hof_forward_is_fragment6(skb);
	}
	if (unlikely(!pskb_may_pull(skb, offset + sizeof(*th))))
		return NF_ACCEPT;
	th = (const void *)skb->data + offset;
	key.client = ipv6_hdr(skb)->saddr;
	key.server = ipv6_hdr(skb)->daddr;
	key.client_port = th->source;
	key.server_port = th->dest;
	e = hof_entry_find6(hn, &key);
	/* Whose SYN comes as a fragment would not be followed by what is forwarded. */
	if (!e && whole && hof_redirect_is(hn) && hof_redirect_opens(th))
		return hof_forward_opens6(hn, &key, th, skb, state);
	if (!e)
		return hof_standby_is(hn) ?
		       hof_standby_packet6(hn, &key, th, state->in->ifindex) : NF_ACCEPT;
	if (unlikely(!whole)) {
		/* The stack would put it together above us and answer with a RST. */
		hof_count(hn, HOF_STAT_FORWARD_FRAGMENTS);
		return NF_DROP;
	}
	return hof_forward_tcp(hn, e, th, skb, state);
}

bool hof_forward_is_hook(nf_hookfn *hook)
{
	return hook == hof_forward_ip4 || hook == hof_forward_ip6;
}

int hof_forward_hook(struct hof_net *hn)
{
	int err = 0;

	/* Once they are there they stay until the namespace ends. */
	if (likely(smp_load_acquire(&hn->hooked)))
		return 0;
	mutex_lock(&hn->hook_lock);
	if (!hn->hooked) {
		hn->hooks[0] = (struct nf_hook_ops) {
			.hook = hof_forward_ip4,
			.priv = hn,
			.pf = NFPROTO_IPV4,
			.hooknum = NF_INET_PRE_ROUTING,
			.priority = HOF_PRIORITY4,
		};
		hn->hooks[1] = (struct nf_hook_ops) {
			.hook = hof_forward_ip6,
			.priv = hn,
			.pf = NFPROTO_IPV6,
			.hooknum = NF_INET_PRE_ROUTING,
			.priority = HOF_PRIORITY6,
		};
		err = nf_register_net_hooks(hn->net, hn->hooks, ARRAY_SIZE(hn->hooks));
		/* Pairs with the look at the top. */
		smp_store_release(&hn->hooked, !err);
	}
	mutex_unlock(&hn->hook_lock);
	return err;
}

void hof_forward_unhook(struct hof_net *hn)
{
	mutex_lock(&hn->hook_lock);
	if (hn->hooked) {
		nf_unregister_net_hooks(hn->net, hn->hooks, ARRAY_SIZE(hn->hooks));
		synchronize_net();	/* they may be running still */
	}
	WRITE_ONCE(hn->hooked, false);
	mutex_unlock(&hn->hook_lock);
}
