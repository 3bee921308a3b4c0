// SPDX-License-Identifier: GPL-2.0
/* Building a SYN-ACK without a socket, reading what comes back, and answering a probe. */

#include <linux/unaligned.h>
#include <net/ip.h>
#include <net/netfilter/nf_conntrack.h>
#include <net/route.h>
#include <net/tcp.h>

#include "kmod/compat/cookie.h"
#include "kmod/opening.h"

#include "cookie.h"
#include "net.h"

/* The low bits of the timestamp of a SYN-ACK, as TCP's syncookies.c has them. */
#define HOF_TS_BITS		6
#define HOF_TS_NO_SCALE		0xf
#define HOF_TS_SCALE		0xf
#define HOF_TS_SACK		BIT(4)

/**
 * struct hof_synack - what one says, or an ACK behind it
 * @syn:    it is one
 * @seq:    the cookie; of an ACK: one more
 * @ack:    what the client sends next
 * @tsval:  with @timestamp
 * @echo:   the same
 * @window: as it is sent
 * @mss:    ours; with @syn
 * @scale:  with @wscale
 * @wscale: it has that option; with @syn
 * @sack:   the same
 * @timestamp: the same
 */
struct hof_synack {
	bool syn;
	u32 seq;
	u32 ack;
	u32 tsval;
	u32 echo;
	u16 window;
	u16 mss;
	u8 scale;
	bool wscale;
	bool sack;
	bool timestamp;
};

static u32 hof_cookie_clock(void)
{
	return tcp_clock_ts(false);
}

/* Never later than the clock: what follows has the clock's. */
static u32 hof_cookie_tsval(const struct tcp_options_received *opt)
{
	u32 now = hof_cookie_clock(), options, tsval;

	options = opt->wscale_ok ? opt->snd_wscale : HOF_TS_NO_SCALE;
	if (opt->sack_ok)
		options |= HOF_TS_SACK;
	tsval = (now & ~(BIT(HOF_TS_BITS) - 1)) | options;
	return after(tsval, now) ? tsval - BIT(HOF_TS_BITS) : tsval;
}

static void hof_synack_make(struct hof_net *hn, const struct flt_door *door,
			    const struct sk_buff *syn, struct hof_synack *s)
{
	const struct tcphdr *th = tcp_hdr(syn);
	struct tcp_options_received opt = {};
	u16 mss;

	opt.mss_clamp = TCP_MSS_DEFAULT;
	tcp_parse_options(hn->net, syn, &opt, 0, NULL);
	/* Without timestamps there is no place to remember the others. */
	if (!opt.saw_tstamp)
		tcp_clear_options(&opt);
	mss = opt.mss_clamp;
	s->syn = true;
	s->ack = ntohl(th->seq) + 1;
	s->seq = flt_compat_cookie(ip_hdr(syn), th, &mss);
	/* Of the MSS that the cookie tells: it is all that is known of it later. */
	s->window = flt_door_window(door, mss);
	s->timestamp = opt.saw_tstamp;
	s->wscale = opt.wscale_ok;
	s->scale = door->scale;
	s->sack = opt.sack_ok;
	if (s->timestamp) {
		s->tsval = hof_cookie_tsval(&opt) +
			   flt_compat_ts_off(hn->net, ip_hdr(syn), th);
		s->echo = opt.rcv_tsval;
	}
}

static unsigned int hof_synack_size(const struct hof_synack *s)
{
	return sizeof(struct tcphdr) + (s->syn ? TCPOLEN_MSS : 0) +
	       (s->timestamp ? TCPOLEN_TSTAMP_ALIGNED : 0) +
	       (s->wscale ? TCPOLEN_WSCALE_ALIGNED : 0);
}

/* In TCP's order. @sack comes with @timestamp only. */
static void hof_synack_options(const struct hof_synack *s, __be32 *at)
{
	if (s->syn)
		*at++ = htonl(TCPOPT_MSS << 24 | TCPOLEN_MSS << 16 | s->mss);
	if (s->timestamp) {
		*at++ = s->sack ? htonl(TCPOPT_SACK_PERM << 24 | TCPOLEN_SACK_PERM << 16 |
					TCPOPT_TIMESTAMP << 8 | TCPOLEN_TIMESTAMP) :
				  htonl(TCPOPT_NOP << 24 | TCPOPT_NOP << 16 |
					TCPOPT_TIMESTAMP << 8 | TCPOLEN_TIMESTAMP);
		*at++ = htonl(s->tsval);
		*at++ = htonl(s->echo);
	}
	if (s->wscale)
		*at++ = htonl(TCPOPT_NOP << 24 | TCPOPT_WINDOW << 16 | TCPOLEN_WINDOW << 8 |
			      s->scale);
}

static struct sk_buff *hof_synack_build(struct hof_net *hn, const struct hof_synack *s,
					const struct sk_buff *to, struct dst_entry *dst)
{
	const struct iphdr *from = ip_hdr(to);
	unsigned int size = hof_synack_size(s);
	struct sk_buff *skb;
	struct tcphdr *th;
	struct iphdr *iph;

	skb = alloc_skb(LL_RESERVED_SPACE(dst->dev) + sizeof(*iph) + size,
			GFP_ATOMIC | __GFP_NOWARN);
	if (!skb)
		return NULL;
	skb_reserve(skb, LL_RESERVED_SPACE(dst->dev));
	iph = skb_put(skb, sizeof(*iph));
	skb_reset_network_header(skb);
	*iph = (struct iphdr){
		.version = 4,
		.ihl = sizeof(*iph) / 4,
		.frag_off = htons(IP_DF),
		.ttl = READ_ONCE(hn->net->ipv4.sysctl_ip_default_ttl),
		.protocol = IPPROTO_TCP,
		.saddr = from->daddr,
		.daddr = from->saddr,
	};
	th = skb_put(skb, size);
	skb_set_transport_header(skb, sizeof(*iph));
	*th = (struct tcphdr){
		.source = tcp_hdr(to)->dest,
		.dest = tcp_hdr(to)->source,
		.seq = htonl(s->seq),
		.ack_seq = htonl(s->ack),
		.doff = size / 4,
		.syn = s->syn,
		.ack = 1,
		.window = htons(s->window),
	};
	hof_synack_options(s, (__be32 *)(th + 1));
	th->check = ~tcp_v4_check(size, iph->saddr, iph->daddr, 0);
	skb->ip_summed = CHECKSUM_PARTIAL;
	skb->csum_start = (u8 *)th - skb->head;
	skb->csum_offset = offsetof(struct tcphdr, check);
	skb->protocol = htons(ETH_P_IP);
	skb->dev = dst->dev;
	nf_ct_set(skb, NULL, IP_CT_UNTRACKED);
	return skb;
}

/* Back to the client, as a socket of the listener would send it. */
static struct rtable *hof_cookie_route(struct hof_net *hn, const struct sk_buff *to)
{
	struct flowi4 fl4 = {
		.flowi4_proto = IPPROTO_TCP,
		.flowi4_flags = FLOWI_FLAG_ANYSRC,
		.saddr = ip_hdr(to)->daddr,
		.daddr = ip_hdr(to)->saddr,
		.fl4_sport = tcp_hdr(to)->dest,
		.fl4_dport = tcp_hdr(to)->source,
	};

	return ip_route_output_key(hn->net, &fl4);
}

static bool hof_cookie_send(struct hof_net *hn, struct hof_synack *s, const struct sk_buff *to)
{
	struct sk_buff *skb = NULL;
	struct rtable *rt;

	rt = hof_cookie_route(hn, to);
	if (IS_ERR(rt))
		return false;
	/* A source that is no other machine's: TCP knows what to do with it. */
	if (rt->rt_type == RTN_UNICAST) {
		s->mss = clamp_t(u32, dst_metric_advmss(&rt->dst), TCP_MIN_MSS, U16_MAX);
		skb = hof_synack_build(hn, s, to, &rt->dst);
	}
	if (!skb) {
		ip_rt_put(rt);
		return false;
	}
	skb_dst_set(skb, &rt->dst);
	ip_local_out(hn->net, NULL, skb);
	return true;
}

bool hof_cookie_answer(struct hof_net *hn, const struct flt_door *door, struct sk_buff *syn)
{
	struct hof_synack s = {};

	hof_synack_make(hn, door, syn, &s);
	return hof_cookie_send(hn, &s, syn);
}

/* What the timestamp of the SYN-ACK says, which has come back; false: that was not ours. */
static bool hof_cookie_options(struct hof_net *hn, const struct sk_buff *ack,
			       struct flt_opening *o)
{
	struct tcp_options_received opt = {};
	u32 off, options;

	tcp_parse_options(hn->net, ack, &opt, 0, NULL);
	o->timestamp = opt.saw_tstamp;
	if (!opt.saw_tstamp)
		return true;
	if (!opt.rcv_tsecr)
		return false;
	off = flt_compat_ts_off(hn->net, ip_hdr(ack), tcp_hdr(ack));
	options = opt.rcv_tsecr - off;
	o->ts_recent = opt.rcv_tsval;
	o->tsval = hof_cookie_clock() + off;
	o->sack = options & HOF_TS_SACK;
	o->wscale = (options & HOF_TS_SCALE) != HOF_TS_NO_SCALE;
	o->snd_wscale = o->wscale ? options & HOF_TS_SCALE : 0;
	return o->snd_wscale <= TCP_MAX_WSCALE;
}

/* As if the number of its first byte were @seq. */
static bool hof_cookie_read_at(struct hof_net *hn, const struct flt_door *door,
			       const struct sk_buff *ack, u32 seq, struct flt_opening *o)
{
	const struct iphdr *iph = ip_hdr(ack);
	struct tcphdr head = *tcp_hdr(ack), *th = &head;

	th->seq = htonl(seq);
	*o = (struct flt_opening){
		.tuple.family = AF_INET,
		.tuple.client_port = th->source,
		.tuple.server_port = th->dest,
		.mss = flt_compat_cookie_check(iph, th),
		.seq = seq,
		.ack = ntohl(th->ack_seq),
	};
	if (!o->mss || !hof_cookie_options(hn, ack, o))
		return false;
	memcpy(o->tuple.client, &iph->saddr, sizeof(iph->saddr));
	memcpy(o->tuple.server, &iph->daddr, sizeof(iph->daddr));
	o->window = (u32)ntohs(th->window) << o->snd_wscale;
	o->promised = flt_door_window(door, o->mss);
	o->scale = o->wscale ? door->scale : 0;
	o->clamp = o->wscale ? door->clamp : min_t(u32, door->clamp, U16_MAX);
	return true;
}

bool hof_cookie_read(struct hof_net *hn, const struct flt_door *door, const struct sk_buff *ack,
		     struct flt_opening *o)
{
	return hof_cookie_read_at(hn, door, ack, ntohl(tcp_hdr(ack)->seq), o);
}

bool hof_cookie_read_probe(struct hof_net *hn, const struct flt_door *door,
			   const struct sk_buff *probe, struct flt_opening *o)
{
	return hof_cookie_read_at(hn, door, probe, ntohl(tcp_hdr(probe)->seq) + 1, o);
}

bool hof_cookie_answer_probe(struct hof_net *hn, const struct flt_opening *o,
			     const struct sk_buff *probe)
{
	struct hof_synack s = {
		.seq = o->ack,
		.ack = o->seq,
		.window = o->promised >> o->scale,
		.timestamp = o->timestamp,
		.tsval = o->tsval,
		.echo = o->ts_recent,
	};

	return hof_cookie_send(hn, &s, probe);
}

bool hof_cookie_is_behind(const struct sk_buff *skb, u32 number)
{
	struct tcphdr head = *tcp_hdr(skb);

	/* No client sends more than that before it has heard what its window is. */
	if (ntohl(head.seq) - number - 1 > U16_MAX)
		return false;
	head.seq = htonl(number + 1);
	return flt_compat_cookie_check(ip_hdr(skb), &head);
}
