// SPDX-License-Identifier: GPL-2.0
/* Fill a fresh child: windows, clocks, the bytes of its queues, the client's FIN. */
#include <linux/uio.h>
#include <net/ip6_checksum.h>
#include <net/tcp.h>
#include "adopt.h"
#include "freeze.h"

static void flt_segment_tcp(struct sk_buff *skb, const struct flt_state *state, u8 flags,
			    u32 seq, u32 ack, u16 window)
{
	struct tcphdr *th = skb_push(skb, sizeof(*th));

	skb_reset_transport_header(skb);
	*th = (struct tcphdr){
		.source = state->tuple.client_port,
		.dest = state->tuple.server_port,
		.seq = htonl(seq),
		.ack_seq = htonl(ack),
		.doff = sizeof(*th) / 4,
		.window = htons(window),
	};
	tcp_flag_byte(th) = flags;
}

static void flt_segment_ip(struct sk_buff *skb, const struct flt_tuple *tuple)
{
	if (tuple->family == AF_INET) {
		struct iphdr *iph = skb_push(skb, sizeof(*iph));

		*iph = (struct iphdr){
			.version = 4,
			.ihl = sizeof(*iph) / 4,
			.tot_len = htons(skb->len),
			.ttl = IPDEFTTL,
			.protocol = IPPROTO_TCP,
		};
		memcpy(&iph->saddr, tuple->client, sizeof(iph->saddr));
		memcpy(&iph->daddr, tuple->server, sizeof(iph->daddr));
		skb->protocol = htons(ETH_P_IP);
	} else {
		struct ipv6hdr *ip6h = skb_push(skb, sizeof(*ip6h));

		*ip6h = (struct ipv6hdr){
			.version = 6,
			.payload_len = htons(sizeof(struct tcphdr)),
			.nexthdr = IPPROTO_TCP,
			.hop_limit = IPDEFTTL,
		};
		memcpy(&ip6h->saddr, tuple->client, sizeof(ip6h->saddr));
		memcpy(&ip6h->daddr, tuple->server, sizeof(ip6h->daddr));
		skb->protocol = htons(ETH_P_IPV6);
	}
	skb_reset_network_header(skb);
	skb_reset_mac_header(skb);
}

struct sk_buff *flt_segment(struct net *net, const struct flt_state *state, u8 flags,
			    u32 seq, u32 ack, u16 window)
{
	struct sk_buff *skb = alloc_skb(MAX_TCP_HEADER, GFP_KERNEL);

	if (!skb)
		return NULL;
	skb_reserve(skb, MAX_TCP_HEADER);
	flt_segment_tcp(skb, state, flags, seq, ack, window);
	flt_segment_ip(skb, &state->tuple);
	__skb_pull(skb, skb_transport_offset(skb));

	skb->dev = net->loopback_dev;
	skb->skb_iif = net->loopback_dev->ifindex;
	skb->ip_summed = CHECKSUM_UNNECESSARY;
	memset(TCP_SKB_CB(skb), 0, sizeof(*TCP_SKB_CB(skb)));
	TCP_SKB_CB(skb)->seq = seq;
	TCP_SKB_CB(skb)->end_seq = seq + !!(flags & TCPHDR_FIN);
	TCP_SKB_CB(skb)->ack_seq = ack;
	TCP_SKB_CB(skb)->tcp_flags = flags;
	return skb;
}

/*
 * Room for what the client has been promised, unless the server has fixed the
 * size of the buffer; never more than this machine allows.
 */
static void flt_child_make_room(struct sock *child, const struct flt_state *state)
{
	u32 window = flt_state_rcv_edge(state) - state->rcv_start;
	u32 limit = READ_ONCE(sock_net(child)->ipv4.sysctl_tcp_rmem[2]);
	u64 space;

	if ((child->sk_userlocks & SOCK_RCVBUF_LOCK) || window > S32_MAX)
		return;
	/* tcp_space_from_win() in 64 bits: the scaling ratio is at least 1/256. */
	space = div_u64((u64)window << TCP_RMEM_TO_WIN_SCALE, tcp_sk(child)->scaling_ratio ?: 1);
	if (space > child->sk_rcvbuf)
		WRITE_ONCE(child->sk_rcvbuf, max_t(u32, child->sk_rcvbuf,
						   min_t(u64, space, limit)));
}

/* As much as one call queues: of all of it TCP would make one buffer, in one piece of memory. */
#define FLT_CHILD_PIECE	SZ_64K

/* Repair mode queues bytes as received; no acknowledgment comes of it. */
static enum flt_refusal flt_child_queue(struct sock *child, const void *data, u32 len)
{
	struct tcp_sock *tp = tcp_sk(child);
	struct kvec vec = { .iov_base = (void *)data, .iov_len = len };
	struct msghdr msg = { .msg_flags = MSG_DONTWAIT };
	int rcvbuf = child->sk_rcvbuf;
	int done = 0;

	if (!len)
		return FLT_REFUSE_NONE;
	/* For the time of the filling the limit of the buffer must not matter. */
	WRITE_ONCE(child->sk_rcvbuf, INT_MAX);
	tp->repair = 1;
	tp->repair_queue = TCP_RECV_QUEUE;
	iov_iter_kvec(&msg.msg_iter, ITER_SOURCE, &vec, 1, len);
	while (msg_data_left(&msg)) {
		done = tcp_sendmsg_locked(child, &msg,
					  min_t(size_t, msg_data_left(&msg), FLT_CHILD_PIECE));
		if (done <= 0)
			break;
	}
	tp->repair_queue = TCP_NO_QUEUE;
	tp->repair = 0;
	WRITE_ONCE(child->sk_rcvbuf, rcvbuf);
	return msg_data_left(&msg) ? FLT_REFUSE_NOMEM : FLT_REFUSE_NONE;
}

static void flt_child_ack_clear(struct sock *child)
{
	inet_csk(child)->icsk_ack.pending = 0;
	inet_csk(child)->icsk_ack.quick = 0;
	clear_bit(TCP_ACK_DEFERRED, &child->sk_tsq_flags);
	inet_csk_clear_xmit_timer(child, ICSK_TIME_DACK);
}

/* Only what TCP itself makes of a FIN is exact; what it wants to say about it was said already. */
static enum flt_refusal flt_child_fin(struct sock *child, const struct flt_state *state)
{
	struct tcp_sock *tp = tcp_sk(child);
	struct sk_buff *skb;

	skb = flt_segment(sock_net(child), state, TCPHDR_FIN | TCPHDR_ACK, tp->rcv_nxt,
			  tp->snd_una, state->snd_wnd >> state->snd_wscale);
	if (!skb)
		return FLT_REFUSE_NOMEM;
	/* With nothing unacknowledged the answer is delayed, and can be taken back. */
	tp->rcv_wup = tp->rcv_nxt;
	local_bh_disable();
	child->sk_backlog_rcv(child, skb);
	local_bh_enable();
	flt_child_ack_clear(child);
	return child->sk_state == TCP_CLOSE_WAIT ? FLT_REFUSE_NONE : FLT_REFUSE_NOMEM;
}

/* Of one page each, as many as a buffer has places for. */
#define FLT_RANGE_PIECE	(16 * PAGE_SIZE)

static bool flt_segment_fill(struct sk_buff *skb, const void *data, u32 len)
{
	struct page *page;
	u32 part;
	int i;

	for (i = 0; len; i++, data += part, len -= part) {
		part = min_t(u32, len, PAGE_SIZE);
		page = alloc_page(GFP_KERNEL);
		if (!page)
			return false;
		memcpy(page_address(page), data, part);
		skb_add_rx_frag(skb, i, page, 0, part, PAGE_SIZE);
	}
	return true;
}

/* As the client has sent it. What TCP says to it goes nowhere; its windows are set later. */
static bool flt_child_take(struct sock *child, const struct flt_state *state, u32 seq,
			   const void *data, u32 len, bool fin)
{
	struct tcp_sock *tp = tcp_sk(child);
	struct sk_buff *skb;

	skb = flt_segment(sock_net(child), state, TCPHDR_ACK | (fin ? TCPHDR_FIN : 0), seq,
			  tp->snd_una, state->snd_wnd >> state->snd_wscale);
	if (!skb)
		return false;
	if (!flt_segment_fill(skb, data, len)) {
		kfree_skb(skb);
		return false;
	}
	TCP_SKB_CB(skb)->end_seq += len;
	tp->rcv_wup = tp->rcv_nxt;
	tp->rcv_wnd = (u32)U16_MAX << TCP_MAX_WSCALE;
	local_bh_disable();
	child->sk_backlog_rcv(child, skb);
	local_bh_enable();
	return true;
}

static bool flt_child_take_range(struct sock *child, const struct flt_state *state,
				 const struct flt_wire_range *range, const void *data)
{
	bool fin = be32_to_cpu(range->flags) & FLT_RANGE_FIN;
	u32 seq = be32_to_cpu(range->seq), len = be32_to_cpu(range->len), part;

	do {
		part = min_t(u32, len, FLT_RANGE_PIECE);
		if (!flt_child_take(child, state, seq, data, part, fin && part == len))
			return false;
		seq += part;
		data += part;
		len -= part;
	} while (len);
	return true;
}

/* Short of memory TCP drops what it may drop. */
static bool flt_child_has_ranges(const struct sock *child, const struct flt_state *state)
{
	const struct rb_node *node;
	u32 len = 0;

	for (node = rb_first(&tcp_sk(child)->out_of_order_queue); node; node = rb_next(node))
		len += rb_to_skb(node)->len;
	return len == state->ranged && tcp_sk(child)->rcv_nxt == flt_state_rcv_nxt(state);
}

/*
 * What came out of order comes again, so that TCP itself keeps account of what it acknowledges
 * selectively. Acknowledgments that it delays are of nobody's interest: the client has had them.
 */
static enum flt_refusal flt_child_ranges(struct sock *child, const struct flt_state *state,
					 const struct flt_streams *data)
{
	struct tcp_sock *tp = tcp_sk(child);
	struct flt_wire_range range;
	int rcvbuf = child->sk_rcvbuf;
	u32 i, at = 0;
	bool done = true;

	WRITE_ONCE(child->sk_rcvbuf, INT_MAX);
	for (i = 0; done && i < state->ranges; i++, at += be32_to_cpu(range.len)) {
		memcpy(&range, data->ranges + i * sizeof(range), sizeof(range));
		done = flt_child_take_range(child, state, &range, data->ranged + at);
	}
	WRITE_ONCE(child->sk_rcvbuf, rcvbuf);
	if (hrtimer_try_to_cancel(&tp->compressed_ack_timer) == 1)
		__sock_put(child);
	tp->compressed_ack = 0;
	tp->rx_opt.dsack = 0;
	flt_child_ack_clear(child);
	return done && flt_child_has_ranges(child, state) ? FLT_REFUSE_NONE : FLT_REFUSE_NOMEM;
}

/* Without this the first retransmission would wait three seconds: no SYN-ACK was timed here. */
static void flt_child_seed_rtt(struct sock *child, const struct flt_state *state)
{
	struct tcp_sock *tp = tcp_sk(child);

	if (!state->srtt_us)
		return;
	tp->srtt_us = state->srtt_us;
	tp->mdev_us = state->mdev_us;
	tp->mdev_max_us = max(state->mdev_us, tcp_rto_min_us(child));
	tp->rttvar_us = max(state->rttvar_us, tcp_rto_min_us(child));
	tp->rtt_seq = tp->snd_nxt;
	minmax_reset(&tp->rtt_min, tcp_jiffies32, state->rtt_min_us);
	inet_csk(child)->icsk_rto = __tcp_set_rto(tp);
	tcp_bound_rto(child);
}

/*
 * Without it the child begins as any does, with no less than what is under way. The clock goes
 * on: TCP takes a window back that has not been used for long, when it next sends.
 */
static void flt_child_congestion(struct sock *child, const struct flt_state *state)
{
	struct tcp_sock *tp = tcp_sk(child);

	if (!state->snd_cwnd)
		return;
	tcp_snd_cwnd_set(tp, min(state->snd_cwnd, tp->snd_cwnd_clamp));
	tp->snd_ssthresh = state->snd_ssthresh;
	tp->lsndtime = tcp_jiffies32 - msecs_to_jiffies(state->sent_age_ms);
}

static void flt_child_windows(struct sock *child, const struct flt_state *state)
{
	struct tcp_sock *tp = tcp_sk(child);
	u32 least = 2 * tp->advmss;

	tp->snd_wl1 = state->snd_wl1;
	tp->snd_wnd = state->snd_wnd;
	tp->max_window = state->max_window;
	tp->rcv_wup = state->rcv_wup;
	tp->rcv_wnd = state->rcv_wnd;
	/* TCP never lets these fall lower by itself: the window could not open again. */
	tp->rcv_ssthresh = max(state->rcv_ssthresh, least);
	WRITE_ONCE(tp->window_clamp, max(state->window_clamp, least));
	/* Header prediction holds the send window: off until TCP computes it again. */
	tp->pred_flags = 0;
}

static enum flt_refusal flt_child_queues(struct sock *child, const struct flt_state *state,
					 const struct flt_streams *data)
{
	enum flt_refusal why;

	why = flt_child_queue(child, data->unread, state->unread);
	if (!why && (state->flags & FLT_WIRE_FIN))
		why = flt_child_fin(child, state);
	if (!why && state->ranges)
		why = flt_child_ranges(child, state, data);
	if (!why)
		why = flt_child_queue_sent(child, state, data->sent);
	if (!why)
		why = flt_child_queue_end(child, state);
	return why;
}

/* With the cost of being silent only where TCP would say something. */
static enum flt_refusal flt_child_queues_silent(struct sock *child, const struct flt_state *state,
						const struct flt_streams *data)
{
	enum flt_refusal why;

	if (!state->ranges && !state->end)
		return flt_child_queues(child, state, data);
	if (!flt_silence_begin(child))
		return FLT_REFUSE_POLICY;
	why = flt_child_queues(child, state, data);
	flt_silence_end(child);
	return why;
}

enum flt_refusal flt_child_fill(struct sock *child, const struct flt_state *state,
				const struct flt_streams *data)
{
	struct tcp_sock *tp = tcp_sk(child);
	enum flt_refusal why;

	sock_owned_by_me(child);

	flt_child_make_room(child, state);
	why = flt_child_queues_silent(child, state, data);
	if (why)
		return why;

	flt_child_windows(child, state);
	flt_child_seed_rtt(child, state);
	flt_child_congestion(child, state);
	tp->ecn_flags = state->ecn_flags;
	if (state->flags & FLT_WIRE_TIMESTAMP)
		tp->rx_opt.ts_recent_stamp = ktime_get_seconds() - state->ts_recent_age;
	return FLT_REFUSE_NONE;
}
