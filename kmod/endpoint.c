// SPDX-License-Identifier: GPL-2.0
/* TCP endpoints, the giving side: may it move, what is its state, let it go; why not. */
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/skmsg.h>
#include <net/ipv6.h>
#include <net/mptcp.h>
#include <net/tcp.h>
#include <net/transp_v6.h>
#include "checkpoint.h"
#include "compat/done.h"
#include "compat/sock.h"
#include "endpoint.h"
#include "freeze.h"
#include "ktls_face.h"
#include "ktls_move.h"

#define CREATE_TRACE_POINTS
#include "endpoint_trace.h"

static bool flt_sock_is_mapped(const struct sock *sk)
{
#if IS_ENABLED(CONFIG_IPV6)
	return sk->sk_family == AF_INET6 && ipv6_addr_v4mapped(&sk->sk_v6_daddr);
#else
	return false;
#endif
}

void flt_tuple_from_sock(const struct sock *sk, struct flt_tuple *tuple)
{
	const struct inet_sock *inet = inet_sk(sk);

	memset(tuple, 0, sizeof(*tuple));
	tuple->client_port = inet->inet_dport;
	tuple->server_port = inet->inet_sport;
	if (sk->sk_family == AF_INET || flt_sock_is_mapped(sk)) {
		tuple->family = AF_INET;
		memcpy(tuple->client, &inet->inet_daddr, sizeof(inet->inet_daddr));
		memcpy(tuple->server, &inet->inet_rcv_saddr, sizeof(inet->inet_rcv_saddr));
		return;
	}
#if IS_ENABLED(CONFIG_IPV6)
	tuple->family = AF_INET6;
	memcpy(tuple->client, &sk->sk_v6_daddr, sizeof(sk->sk_v6_daddr));
	memcpy(tuple->server, &sk->sk_v6_rcv_saddr, sizeof(sk->sk_v6_rcv_saddr));
#endif
}
EXPORT_SYMBOL_GPL(flt_tuple_from_sock);

static bool flt_sock_is_plain(const struct sock *sk)
{
#if IS_ENABLED(CONFIG_IPV6)
	if (sk->sk_prot == &tcpv6_prot)
		return true;
#endif
	return sk->sk_prot == &tcp_prot;
}

static bool flt_sock_is_signed(const struct tcp_sock *tp)
{
#ifdef CONFIG_TCP_MD5SIG
	if (rcu_access_pointer(tp->md5sig_info))
		return true;
#endif
#ifdef CONFIG_TCP_AO
	if (rcu_access_pointer(tp->ao_info))
		return true;
#endif
	return false;
}

static bool flt_sock_has_ip_options(struct sock *sk)
{
	const struct ip_options_rcu *opt;

	opt = rcu_dereference_protected(inet_sk(sk)->inet_opt, lockdep_sock_is_held(sk));
	if (opt && opt->opt.optlen)
		return true;
#if IS_ENABLED(CONFIG_IPV6)
	if (sk->sk_family == AF_INET6 && rcu_access_pointer(inet6_sk(sk)->opt))
		return true;
#endif
	return false;
}

static bool flt_sock_is_link_local(const struct sock *sk)
{
#if IS_ENABLED(CONFIG_IPV6)
	return sk->sk_family == AF_INET6 &&
	       ((ipv6_addr_type(&sk->sk_v6_daddr) | ipv6_addr_type(&sk->sk_v6_rcv_saddr)) &
		IPV6_ADDR_LINKLOCAL);
#else
	return false;
#endif
}

static bool flt_sock_has_psock(const struct sock *sk)
{
	bool has;

	rcu_read_lock();
	has = sk_psock(sk);
	rcu_read_unlock();
	return has;
}

/* Everything that makes a socket more, or less, than one plain TCP connection. */
static enum flt_refusal flt_sock_kind(struct sock *sk)
{
	if ((sk->sk_family != AF_INET && sk->sk_family != AF_INET6) ||
	    sk->sk_type != SOCK_STREAM || sk->sk_protocol != IPPROTO_TCP)
		return sk->sk_protocol == IPPROTO_MPTCP ? FLT_REFUSE_MPTCP : FLT_REFUSE_NOTTCP;
	if (sk_is_mptcp(sk))
		return FLT_REFUSE_MPTCP;
	if (inet_csk(sk)->icsk_ulp_ops && !flt_ktls_is_ours(sk))
		return FLT_REFUSE_ULP;
	if (flt_sock_has_psock(sk))
		return FLT_REFUSE_PSOCK;
	if (!flt_sock_is_plain(sk) && !flt_ktls_is_ours(sk))
		return FLT_REFUSE_FOREIGN;
	return FLT_REFUSE_NONE;
}

/*
 * Has it said its last word, so that only its program can still read? LAST_ACK is like CLOSING, but
 * that it leaves no TIME_WAIT.
 */
static bool flt_sock_has_ended(const struct sock *sk)
{
	return (1 << sk->sk_state) & (TCPF_FIN_WAIT1 | TCPF_FIN_WAIT2 | TCPF_CLOSING |
				      TCPF_LAST_ACK);
}

/* Where its FIN is; FLT_END_NONE: it is not there, since there was no memory for it. */
static enum flt_end flt_sock_end(struct sock *sk)
{
	const struct sk_buff *skb = tcp_write_queue_tail(sk);
	enum flt_end end = FLT_END_QUEUED;

	if (sk->sk_state == TCP_FIN_WAIT2)
		return FLT_END_ACKED;
	if (!skb) {
		skb = skb_rb_last(&sk->tcp_rtx_queue);
		end = FLT_END_SENT;
	}
	return skb && TCP_SKB_CB(skb)->tcp_flags & TCPHDR_FIN ? end : FLT_END_NONE;
}

static bool flt_sock_is_open(struct sock *sk, unsigned int flags)
{
	if (sk->sk_state == TCP_ESTABLISHED || sk->sk_state == TCP_CLOSE_WAIT)
		return true;
	/* Closed, it is TCP's to end. */
	return flags & FLT_CHECKPOINT_END && flt_sock_has_ended(sk) &&
	       !sock_flag(sk, SOCK_DEAD) && flt_sock_end(sk) != FLT_END_NONE;
}

static enum flt_refusal flt_sock_movable(struct sock *sk, unsigned int flags, u32 send)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (rcu_access_pointer(tp->fastopen_rsk) || tp->fastopen_req)
		return FLT_REFUSE_FASTOPEN;
	if (!flt_sock_is_open(sk, flags))
		return FLT_REFUSE_STATE;
	if (tp->repair)
		return FLT_REFUSE_REPAIR;
	if (flt_sock_is_signed(tp))
		return FLT_REFUSE_MD5;
	if (flt_sock_has_ip_options(sk))
		return FLT_REFUSE_IPOPTIONS;
	if (flt_sock_is_link_local(sk))
		return FLT_REFUSE_SCOPE;
	if (flt_compat_has_accecn(tp))
		return FLT_REFUSE_ACCECN;
	/* Non-zero also between reading the urgent byte and passing its place. */
	if (tp->urg_data)
		return FLT_REFUSE_URGENT;
	if (tp->snd_una != tp->write_seq || !tcp_rtx_queue_empty(sk)) {
		if (!send)
			return FLT_REFUSE_SENDQUEUE;
		/* The server's own urgent byte, under way. */
		if (tp->snd_up != tp->snd_una)
			return FLT_REFUSE_URGENT;
	}
	/* Its bytes were SACKed: dropping them would make the client wait for a time-out. */
	if (!(flags & FLT_CHECKPOINT_OOO) && !RB_EMPTY_ROOT(&tp->out_of_order_queue))
		return FLT_REFUSE_OOO;
	return FLT_REFUSE_NONE;
}

static u32 flt_state_flags(const struct sock *sk)
{
	const struct tcp_options_received *opt = &tcp_sk(sk)->rx_opt;
	u32 flags = 0;

	if (opt->wscale_ok)
		flags |= FLT_WIRE_WSCALE;
	if (opt->sack_ok)
		flags |= FLT_WIRE_SACK;
	if (opt->tstamp_ok)
		flags |= FLT_WIRE_TIMESTAMP;
	if (opt->tstamp_ok && tcp_sk(sk)->tcp_usec_ts)
		flags |= FLT_WIRE_USEC_TS;
	if ((1 << sk->sk_state) & (TCPF_CLOSE_WAIT | TCPF_CLOSING | TCPF_LAST_ACK))
		flags |= FLT_WIRE_FIN;
	if (inet_csk_ack_scheduled(sk) || tcp_sk(sk)->compressed_ack)
		flags |= FLT_WIRE_ACK_PENDING;
	return flags;
}

static void flt_state_times(const struct tcp_sock *tp, struct flt_state *state)
{
	if (tp->rx_opt.tstamp_ok) {
		time64_t age = ktime_get_seconds() - tp->rx_opt.ts_recent_stamp;

		state->ts_recent = tp->rx_opt.ts_recent;
		state->ts_recent_age = clamp_t(time64_t, age, 0, S32_MAX);
		state->tsval = flt_tsval(tp);
	}
	if (tp->srtt_us) {
		state->srtt_us = min_t(u32, tp->srtt_us, S32_MAX);
		state->mdev_us = min_t(u32, tp->mdev_us, S32_MAX);
		state->rttvar_us = min_t(u32, tp->rttvar_us, S32_MAX);
		state->rtt_min_us = min_t(u32, minmax_get(&tp->rtt_min), S32_MAX);
	}
}

/* While the window is being lowered it is on its way to the threshold, and may be far below. */
static void flt_state_congestion(const struct sock *sk, struct flt_state *state)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	u32 cwnd = tcp_in_cwnd_reduction(sk) ? tp->snd_ssthresh : tcp_snd_cwnd(tp);

	state->snd_cwnd = min_t(u32, cwnd, U16_MAX << TCP_MAX_WSCALE);
	state->snd_ssthresh = min_t(u32, tp->snd_ssthresh, TCP_INFINITE_SSTHRESH);
	state->sent_age_ms = min_t(u32, jiffies_to_msecs(tcp_jiffies32 - tp->lsndtime), S32_MAX);
}

/*
 * The window to claim as promised. A delayed acknowledgment or a keep-alive
 * probe may still go out between checkpoint and release and promise more than
 * was promised so far, by no more than tcp_select_window() could make of this.
 * An edge that is too far right costs the target a little buffer; one that is
 * too far left would take back what the client was told.
 */
static u32 flt_rcv_window(const struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	u32 room = clamp_t(int, tcp_space(sk), 0, U16_MAX << tp->rx_opt.rcv_wscale);
	u32 most = max(min(room, tp->rcv_ssthresh), tcp_receive_window(tp));

	return ALIGN(most, 1U << tp->rx_opt.rcv_wscale) + tp->rcv_nxt - tp->rcv_wup;
}

/**
 * struct flt_ooo - a walk over what came out of order
 * @end:    sequence number behind the last range
 * @fin:    that was the client's FIN: what seems to be behind it is nothing
 * @ranges: so far
 * @ranged: their bytes
 * @head:   where the ranges go; NULL: they are counted
 * @data:   where their bytes go
 */
struct flt_ooo {
	u32 end;
	bool fin;
	u32 ranges;
	u32 ranged;
	void *head;
	void *data;
};

static bool flt_ooo_add(struct flt_ooo *ooo, const struct sk_buff *skb)
{
	bool fin = TCP_SKB_CB(skb)->tcp_flags & TCPHDR_FIN;
	u32 seq = TCP_SKB_CB(skb)->seq, skip = 0;
	struct flt_wire_range range = {};

	if (ooo->ranges && before(seq, ooo->end))
		skip = ooo->end - seq;
	if (ooo->fin || skip >= skb->len + fin)
		return true;
	if (!ooo->ranges || after(seq, ooo->end))
		ooo->ranges++;
	ooo->end = seq + skb->len + fin;
	ooo->fin = fin;
	if (ooo->head) {
		void *at = ooo->head + (ooo->ranges - 1) * sizeof(range);
		u32 more = skb->len - min(skip, skb->len);

		if (skb_copy_bits(skb, skb->len - more, ooo->data + ooo->ranged, more))
			return false;
		memcpy(&range, at, sizeof(range));
		if (!range.len && !range.flags)
			range.seq = cpu_to_be32(seq);
		be32_add_cpu(&range.len, more);
		range.flags = cpu_to_be32(fin ? FLT_RANGE_FIN : 0);
		memcpy(at, &range, sizeof(range));
	}
	ooo->ranged += skb->len - min(skip, skb->len);
	return true;
}

/* The queue is in order, but buffers may overlap, or touch. False: what was counted has changed. */
static bool flt_ooo_walk(const struct sock *sk, struct flt_ooo *ooo)
{
	const struct rb_node *node;

	for (node = rb_first(&tcp_sk(sk)->out_of_order_queue); node; node = rb_next(node))
		if (!flt_ooo_add(ooo, rb_to_skb(node)))
			return false;
	return true;
}

static bool flt_ooo_copy(const struct sock *sk, const struct flt_state *state,
			 struct flt_wire *wire)
{
	struct flt_ooo ooo = { .head = flt_wire_ranges(wire, state) };
	u32 len = state->ranges * sizeof(struct flt_wire_range);

	ooo.data = ooo.head + len + sizeof(struct flt_section);
	memset(ooo.head, 0, len);
	return flt_ooo_walk(sk, &ooo) && ooo.ranges == state->ranges && ooo.ranged == state->ranged;
}

/* The server's FIN, which is no byte. */
static void flt_state_capture_end(struct sock *sk, struct flt_state *state)
{
	if (!flt_sock_has_ended(sk))
		return;
	state->end = flt_sock_end(sk);
	if (state->end != FLT_END_QUEUED && state->end != FLT_END_SENT)
		return;
	state->write_seq--;
	if (state->end == FLT_END_SENT)
		state->snd_nxt--;
}

/* What comes next in each direction, and what the client was promised. */
static void flt_state_capture_progress(struct sock *sk, struct flt_state *state)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct flt_ooo ooo = {};
	u32 end = tp->rcv_nxt;

	flt_tuple_from_sock(sk, &state->tuple);
	state->flags = flt_state_flags(sk);
	state->snd_una = tp->snd_una;
	state->snd_nxt = tp->snd_nxt;
	state->write_seq = tp->write_seq;
	flt_state_capture_end(sk, state);
	flt_ooo_walk(sk, &ooo);
	state->ranges = ooo.ranges;
	state->ranged = ooo.ranged;
	state->snd_wnd = tp->snd_wnd;
	/* A FIN takes a number but is no byte; the program may have read past it. */
	if (state->flags & FLT_WIRE_FIN)
		end--;
	state->rcv_start = before(tp->copied_seq, end) ? tp->copied_seq : end;
	state->unread = end - state->rcv_start;
	state->rcv_wup = tp->rcv_wup;
	state->rcv_wnd = flt_rcv_window(sk);
}

/* What is to be known of @sk, into a zeroed @state; the caller has found that it can move. */
static void flt_state_capture(struct sock *sk, struct flt_state *state)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	flt_state_capture_progress(sk, state);
	state->mss_clamp = tp->rx_opt.mss_clamp;
	state->snd_wscale = tp->rx_opt.snd_wscale;
	state->rcv_wscale = tp->rx_opt.rcv_wscale;
	if (tp->ecn_flags & FLT_TCP_ECN_OK)
		state->ecn_flags = tp->ecn_flags & (FLT_TCP_ECN_OK | TCP_ECN_QUEUE_CWR |
						    TCP_ECN_DEMAND_CWR | TCP_ECN_SEEN);

	state->max_window = max(tp->max_window, tp->snd_wnd);
	/* Older than half the sequence space, it would look like the future. */
	state->snd_wl1 = tp->snd_wl1;
	if (tp->rcv_nxt - tp->snd_wl1 > BIT(30))
		state->snd_wl1 = tp->rcv_nxt - 1;
	state->rcv_ssthresh = tp->rcv_ssthresh;
	state->window_clamp = tp->window_clamp;
	flt_state_times(tp, state);
	flt_state_congestion(sk, state);
}

/* Copy the unread bytes to @data; false when the queue is not what the numbers say. */
static bool flt_unread_copy(struct sock *sk, const struct flt_state *state, u8 *data)
{
	u32 done = 0;
	struct sk_buff *skb;

	skb_queue_walk(&sk->sk_receive_queue, skb) {
		u32 skip = state->rcv_start + done - TCP_SKB_CB(skb)->seq;

		if (skip >= skb->len)
			continue;
		if (skb->len - skip > state->unread - done ||
		    skb_copy_bits(skb, skip, data + done, skb->len - skip))
			return false;
		done += skb->len - skip;
	}
	return done == state->unread;
}

/* What of @skb follows the @done bytes that are there already; false: that is too much. */
static bool flt_sent_copy_one(const struct sk_buff *skb, const struct flt_state *state, u8 *data,
			      u32 *done)
{
	u32 skip = state->snd_una + *done - TCP_SKB_CB(skb)->seq;

	if (skip >= skb->len)
		return true;
	if (skb->len - skip > flt_state_queued(state) - *done ||
	    skb_copy_bits(skb, skip, data + *done, skb->len - skip))
		return false;
	*done += skb->len - skip;
	return true;
}

/* The same for what the server has written: sent, from snd_una on, and not sent. */
static bool flt_sent_copy(struct sock *sk, const struct flt_state *state, u8 *data)
{
	struct sk_buff *skb;
	u32 done = 0;

	for (skb = tcp_rtx_queue_head(sk); skb; skb = skb_rb_next(skb))
		if (!flt_sent_copy_one(skb, state, data, &done))
			return false;
	if (done != flt_state_flying(state))
		return false;
	skb_queue_walk(&sk->sk_write_queue, skb)
		if (!flt_sent_copy_one(skb, state, data, &done))
			return false;
	return done == flt_state_queued(state);
}

static enum flt_refusal flt_checkpoint_make(struct sock *sk, const struct flt_state *state,
					    u32 unread, u32 send, struct flt_checkpoint **out)
{
	struct flt_checkpoint *ckpt;
	struct flt_wire *wire;
	size_t len;

	unread = min(unread, FLT_CHECKPOINT_MAX);
	if (state->unread > unread || state->ranged > unread - state->unread ||
	    state->ranges > FLT_RANGES_MAX ||
	    flt_state_queued(state) > min(send, FLT_CHECKPOINT_MAX))
		return FLT_REFUSE_TOOMUCH;
	len = flt_wire_len(state);
	ckpt = kvmalloc(struct_size(ckpt, wire, len), GFP_KERNEL_ACCOUNT);
	if (!ckpt)
		return FLT_REFUSE_NOMEM;
	ckpt->tuple = state->tuple;
	ckpt->len = len;
	wire = (struct flt_wire *)ckpt->wire;
	if (!flt_unread_copy(sk, state, (u8 *)(wire + 1)) ||
	    (flt_state_queued(state) && !flt_sent_copy(sk, state, flt_wire_sent(wire, state))) ||
	    (state->ranges && !flt_ooo_copy(sk, state, wire))) {
		kvfree(ckpt);
		return FLT_REFUSE_CHANGED;
	}
	flt_wire_encode(wire, state);
	*out = ckpt;
	return FLT_REFUSE_NONE;
}

enum flt_refusal flt_endpoint_checkpoint(struct sock *sk, unsigned int flags, u32 unread, u32 send,
					 struct flt_tls *tls, struct flt_checkpoint **out)
{
	struct flt_state state = {};
	enum flt_refusal why;

	sock_owned_by_me(sk);

	if (tls)
		tls->version = 0;
	why = flt_sock_kind(sk);
	if (why == FLT_REFUSE_NOTTCP)
		return why;
	/* Somebody is giving it away, and its queues are elsewhere. */
	if (!why && flt_endpoint_is_frozen(sk))
		why = FLT_REFUSE_BUSY;
	if (!why)
		why = flt_sock_movable(sk, flags, send);
	if (!why && flt_ktls_is_ours(sk))
		why = tls ? flt_ktls_checkpoint(sk, tls) : FLT_REFUSE_ULP;
	if (!why) {
		flt_state_capture(sk, &state);
		why = flt_checkpoint_make(sk, &state, unread, send, out);
	} else if (why != FLT_REFUSE_MPTCP) {
		flt_tuple_from_sock(sk, &state.tuple);
	}
	trace_flt_endpoint_checkpoint(&state.tuple, state.unread, why);
	return why;
}
EXPORT_SYMBOL_GPL(flt_endpoint_checkpoint);

bool flt_endpoint_unchanged(struct sock *sk, const struct flt_checkpoint *ckpt)
{
	struct flt_state then, now = {};
	struct flt_streams data;

	sock_owned_by_me(sk);

	if (flt_sock_kind(sk) ||
	    flt_sock_movable(sk, FLT_CHECKPOINT_END | FLT_CHECKPOINT_OOO, FLT_CHECKPOINT_MAX) ||
	    (flt_ktls_is_ours(sk) && flt_ktls_checkpoint(sk, NULL)))
		return false;
	if (flt_wire_decode(ckpt->wire, ckpt->len, &then, &data))
		return false;
	flt_state_capture_progress(sk, &now);
	/* An acknowledgment may have gone out meanwhile, see flt_rcv_window(). */
	return !memcmp(&then.tuple, &now.tuple, sizeof(now.tuple)) &&
	       !((then.flags ^ now.flags) & FLT_WIRE_FIN) &&
	       then.snd_una == now.snd_una &&
	       then.snd_nxt == now.snd_nxt &&
	       then.write_seq == now.write_seq &&
	       then.rcv_start == now.rcv_start &&
	       then.end == now.end &&
	       then.ranges == now.ranges && then.ranged == now.ranged &&
	       flt_state_rcv_nxt(&then) == flt_state_rcv_nxt(&now) &&
	       !after(flt_state_rcv_edge(&now), flt_state_rcv_edge(&then)) &&
	       then.snd_wnd == now.snd_wnd;
}
EXPORT_SYMBOL_GPL(flt_endpoint_unchanged);

/*
 * What the server has written is the target's to send. tcp_done() would leave it until the
 * program closes its descriptor. What tcp_write_queue_purge() does, which is not exported.
 */
static void flt_sock_purge_sent(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct sk_buff *skb;

	while ((skb = __skb_dequeue(&sk->sk_write_queue))) {
		tcp_skb_tsorted_anchor_cleanup(skb);
		tcp_wmem_free_skb(sk, skb);
	}
	tp->highest_sack = NULL;
	while ((skb = tcp_rtx_queue_head(sk))) {
		tcp_rtx_queue_unlink(skb, sk);
		tcp_wmem_free_skb(sk, skb);
	}
	INIT_LIST_HEAD(&tp->tsorted_sent_queue);
	tcp_clear_all_retrans_hints(tp);
	tp->packets_out = 0;
	inet_csk(sk)->icsk_backoff = 0;
	/* Nothing is outstanding, for who asks (SIOCOUTQ). */
	tp->snd_una = tp->write_seq;
	WRITE_ONCE(tp->snd_nxt, tp->write_seq);
}

u32 flt_endpoint_tsval(const struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	sock_owned_by_me(sk);
	if (!tp->rx_opt.tstamp_ok)
		return 0;
	return flt_tsval(tp) ?: 1;
}
EXPORT_SYMBOL_GPL(flt_endpoint_tsval);

/*
 * tcp_done() is the path that an arriving RST takes: nothing is sent, waiting
 * readers and pollers are woken and find end of file, timers stop, and the
 * four-tuple leaves the hash without a TIME_WAIT. A packet that is already in
 * the backlog is dropped by release_sock() in silence, since the state is
 * CLOSE. EstabResets grows by one.
 */
void flt_endpoint_release(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct flt_tuple tuple;
	struct rb_node *node;

	sock_owned_by_me(sk);
	if (sk->sk_state == TCP_CLOSE || sk->sk_state == TCP_LISTEN)
		return;
	flt_tuple_from_sock(sk, &tuple);
	trace_flt_endpoint_release(&tuple, tp->rcv_nxt - tp->copied_seq, FLT_REFUSE_NONE);

	__skb_queue_purge(&sk->sk_receive_queue);
	while ((node = rb_first(&tp->out_of_order_queue))) {
		rb_erase(node, &tp->out_of_order_queue);
		kfree_skb(rb_to_skb(node));
	}
	tp->ooo_last_skb = NULL;
	flt_sock_purge_sent(sk);
	WRITE_ONCE(tp->urg_data, 0);
	WRITE_ONCE(tp->copied_seq, tp->rcv_nxt);
	/* End of file, as after a FIN, for the readers that look at this first. */
	sock_set_flag(sk, SOCK_DONE);

	flt_compat_tcp_done(sk, GFP_KERNEL | __GFP_NOFAIL);
	if (flt_ktls_is_ours(sk))
		flt_ktls_leave(sk);
	sk_wake_async(sk, SOCK_WAKE_WAITD, POLL_HUP);
}
EXPORT_SYMBOL_GPL(flt_endpoint_release);

static const char *const flt_refusal_names[] = {
	[FLT_REFUSE_NONE] = "none",
	[FLT_REFUSE_NOTTCP] = "nottcp",
	[FLT_REFUSE_STATE] = "state",
	[FLT_REFUSE_SENDQUEUE] = "sendqueue",
	[FLT_REFUSE_OOO] = "ooo",
	[FLT_REFUSE_URGENT] = "urgent",
	[FLT_REFUSE_ULP] = "ulp",
	[FLT_REFUSE_MPTCP] = "mptcp",
	[FLT_REFUSE_PSOCK] = "psock",
	[FLT_REFUSE_MD5] = "md5",
	[FLT_REFUSE_IPOPTIONS] = "ipoptions",
	[FLT_REFUSE_FASTOPEN] = "fastopen",
	[FLT_REFUSE_REPAIR] = "repair",
	[FLT_REFUSE_TOOMUCH] = "toomuch",
	[FLT_REFUSE_FOREIGN] = "foreign",
	[FLT_REFUSE_SHARED] = "shared",
	[FLT_REFUSE_BUSY] = "busy",
	[FLT_REFUSE_CHANGED] = "changed",
	[FLT_REFUSE_FINRECV] = "finrecv",
	[FLT_REFUSE_SCOPE] = "scope",
	[FLT_REFUSE_ACCECN] = "accecn",
	[FLT_REFUSE_NOLISTENER] = "nolistener",
	[FLT_REFUSE_FULL] = "full",
	[FLT_REFUSE_DUPLICATE] = "duplicate",
	[FLT_REFUSE_NOROUTE] = "noroute",
	[FLT_REFUSE_NOMEM] = "nomem",
	[FLT_REFUSE_VERSION] = "version",
	[FLT_REFUSE_MALFORMED] = "malformed",
	[FLT_REFUSE_NOTLOCAL] = "notlocal",
	[FLT_REFUSE_POLICY] = "policy",
	[FLT_REFUSE_INSECURE] = "insecure",
	[FLT_REFUSE_SERVICE] = "service",
	[FLT_REFUSE_CLIENT] = "client",
	[FLT_REFUSE_ROLE] = "role",
	[FLT_REFUSE_KEYS] = "keys",
	[FLT_REFUSE_KTLS] = "ktls",
	[FLT_REFUSE_NODEDOWN] = "nodedown",
	[FLT_REFUSE_TIMEOUT] = "timeout",
	[FLT_REFUSE_ABORTED] = "aborted",
	[FLT_REFUSE_TABLEFULL] = "tablefull",
	[FLT_REFUSE_NONODE] = "nonode",
};

enum flt_refusal flt_endpoint_peek(const void *wire, u32 len, struct flt_peek *peek)
{
	struct flt_state state;
	enum flt_refusal why;
	struct flt_streams data = {};
	struct flt_tls tls;

	why = flt_wire_decode(wire, len, &state, &data);
	*peek = (struct flt_peek){ .tuple = state.tuple, .tls = data.tls };
	if (why != FLT_REFUSE_NONE || !data.tls)
		return why;
	why = flt_wire_tls_read(data.tls, &tls);
	peek->port = tls.port ? htons(tls.port) : state.tuple.server_port;
	memzero_explicit(&tls, sizeof(tls));
	return why;
}
EXPORT_SYMBOL_GPL(flt_endpoint_peek);

const char *flt_refusal_name(enum flt_refusal why)
{
	if (why >= ARRAY_SIZE(flt_refusal_names) || !flt_refusal_names[why])
		return "unknown";
	return flt_refusal_names[why];
}
EXPORT_SYMBOL_GPL(flt_refusal_name);
