// SPDX-License-Identifier: GPL-2.0
/* When a transfer is over, and who is told. */

#include <net/tcp.h>

#include "copy.h"
#include "judge.h"
#include "pair.h"
#include "trace.h"

bool ssp_can_send(const struct sock *sk)
{
	return ((1 << sk->sk_state) & (TCPF_ESTABLISHED | TCPF_CLOSE_WAIT)) && !sk->sk_err &&
	       !(sk->sk_shutdown & SEND_SHUTDOWN);
}

bool ssp_is_taken(const struct sock *sk)
{
	uintptr_t data = (uintptr_t)rcu_access_pointer(__sk_user_data(sk));

	return inet_csk_has_ulp(sk) || (data & SK_USER_DATA_PSOCK) || tcp_sk(sk)->repair;
}

static bool ssp_is_dead(const struct sock *sk)
{
	return sk->sk_err || (sk->sk_state == TCP_CLOSE && !sock_flag(sk, SOCK_DONE));
}

/* Nothing more will come out of @sk. */
static bool ssp_is_dry(const struct sock *sk)
{
	return skb_queue_empty(&sk->sk_receive_queue) &&
	       (sk->sk_err || (sk->sk_shutdown & RCV_SHUTDOWN) || sk->sk_state == TCP_CLOSE);
}

static bool ssp_is_at_urgent(const struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	return tp->urg_data && tp->urg_seq == tp->copied_seq &&
	       !skb_queue_empty(&sk->sk_receive_queue);
}

/* Whoever polls this socket looks again. */
static void ssp_tell_sink(struct sock *sk)
{
	if (!sk->sk_socket)
		return;		/* closed; the copy went on without it */
	if (!ssp_can_send(sk)) {
		sk->sk_state_change(sk);
		return;
	}
	/* If it is full now, the ACK that makes room shall tell. */
	set_bit(SOCK_NOSPACE, &sk->sk_socket->flags);
	sk->sk_write_space(sk);
}

static void ssp_tell_source(struct sock *sk)
{
	if (!skb_queue_empty(&sk->sk_receive_queue) || (sk->sk_shutdown & RCV_SHUTDOWN) ||
	    sk->sk_err)
		sk->sk_data_ready(sk);
}

static void ssp_tell(struct ssp_pair *p)
{
	if (ssp_is_bidir(p)) {
		ssp_tell_sink(p->sk[0]);
		ssp_tell_source(p->sk[1]);
	}
	ssp_tell_sink(p->sk[1]);
	ssp_tell_source(p->sk[0]);
}

static bool ssp_is_attached(const struct ssp_pair *p)
{
	return rcu_access_pointer(p->end[0]->pair) == p;
}

/* Nobody can name the pair any more: its destination was closed, or is another connection. */
static bool ssp_is_nameless(const struct ssp_pair *p)
{
	return rcu_access_pointer(p->end[1]->pair) != p;
}

static void ssp_conclude(struct ssp_pair *p, bool tell)
{
	/* The proxy waits for its client's socket only: what befell the source is told there. */
	bool report = tell && p->cause == SSP_CAUSE_SOURCE && !p->sk[1]->sk_err &&
		      p->sk[1]->sk_socket && !ssp_is_nameless(p);

	/* Before the end: who sees that must see why. */
	if (report)
		WRITE_ONCE(p->sk[1]->sk_err, p->error ?: ECONNRESET);
	ssp_pair_ended(p);
	if (!tell)
		return;
	if (report)
		sk_error_report(p->sk[1]);
	/* A socket that was taken over tells us neither of SSP_IOC_UNSPLICE nor of its close. */
	if ((p->flags & SSP_AUTORELEASE) || ssp_is_nameless(p) || p->cause == SSP_CAUSE_TAKEN)
		ssp_pair_detach(p);
	ssp_tell(p);
}

/* All is forwarded; the reader of the copy may still have to come. */
static void ssp_finish(struct ssp_pair *p, u8 cause, int error, bool tell)
{
	p->cause = cause;
	WRITE_ONCE(p->error, error);
	/* Nobody can read it any more. */
	if (cause == SSP_CAUSE_TAKEN && ssp_is_taken(p->sk[0]))
		ssp_copy_drop(p->end[0], p->sk[0]);
	if (!ssp_keeps_copy(p) || !p->end[0]->copy_bytes) {
		ssp_conclude(p, tell);
		return;
	}
	WRITE_ONCE(p->state, SSP_DRAINING);
	trace_ssp_drain(p);
	/* No further byte will announce the rest. */
	if (tell)
		p->sk[0]->sk_data_ready(p->sk[0]);
}

/* @from has ended, so the other one gets its FIN; as shutdown(2) does it. */
static void ssp_pass_fin(struct ssp_pair *p, int from)
{
	struct sock *to = p->sk[!from];

	if (p->fin[from] || !ssp_is_dry(p->sk[from]))
		return;
	p->fin[from] = true;
	if (!ssp_can_send(to))
		return;
	WRITE_ONCE(to->sk_shutdown, to->sk_shutdown | SEND_SHUTDOWN);
	to->sk_prot->shutdown(to, SEND_SHUTDOWN);
	to->sk_state_change(to);
}

static void ssp_judge_bidir(struct ssp_pair *p, bool tell)
{
	int i;

	for (i = 0; i < 2; i++) {
		if (p->unreadable || ssp_is_taken(p->sk[i])) {
			ssp_finish(p, SSP_CAUSE_TAKEN, 0, tell);
			return;
		}
		if (!p->error && p->sk[i]->sk_err)
			WRITE_ONCE(p->error, p->sk[i]->sk_err);
		/* Not by FIN: the reset is passed on by ssp_run(), without these locks. */
		if (ssp_is_dead(p->sk[i]))
			WRITE_ONCE(p->dead, true);
		else
			ssp_pass_fin(p, i);
		if (ssp_is_at_urgent(p->sk[i])) {
			ssp_finish(p, SSP_CAUSE_URGENT, 0, tell);
			return;
		}
	}
	if (p->sk[0]->sk_state == TCP_CLOSE && p->sk[1]->sk_state == TCP_CLOSE)
		ssp_finish(p, SSP_CAUSE_BOTH, p->error, tell);
}

static void ssp_judge_oneway(struct ssp_pair *p, bool tell)
{
	struct sock *src = p->sk[0], *dst = p->sk[1];

	if (p->taken == p->limit) {
		ssp_finish(p, SSP_CAUSE_LIMIT, 0, tell);
	} else if (p->unreadable || ssp_is_taken(src) || (!p->sink_gone && ssp_is_taken(dst))) {
		ssp_finish(p, SSP_CAUSE_TAKEN, 0, tell);
	} else if (!p->sink_gone && !ssp_can_send(dst) && !ssp_keeps_copy(p)) {
		ssp_finish(p, SSP_CAUSE_SINK, dst->sk_err ?: p->error, tell);
	} else if (ssp_is_dry(src)) {
		if (ssp_is_dead(src))
			ssp_finish(p, SSP_CAUSE_SOURCE, src->sk_err, tell);
		else
			ssp_finish(p, SSP_CAUSE_EOF, 0, tell);
	} else if (ssp_is_at_urgent(src)) {
		ssp_finish(p, SSP_CAUSE_URGENT, 0, tell);
	}
}

void ssp_judge(struct ssp_pair *p, bool tell)
{
	ssp_assert_locked(p);
	if (p->state == SSP_RUNNING) {
		if (ssp_is_bidir(p))
			ssp_judge_bidir(p, tell);
		else
			ssp_judge_oneway(p, tell);
	}
	if (p->state == SSP_DRAINING && !p->end[0]->copy_bytes)
		ssp_conclude(p, tell);
}

static void ssp_judge_close(struct ssp_pair *p)
{
	ssp_assert_locked(p);
	if (p->state != SSP_ENDED) {
		p->cause = SSP_CAUSE_CLOSED;
		ssp_conclude(p, true);
	}
	if (ssp_is_attached(p))
		ssp_pair_detach(p);
}

static void ssp_judge_sink_close(struct ssp_pair *p)
{
	struct ssp_outcome *last = &p->end[1]->last;

	ssp_assert_locked(p);
	p->sink_gone = true;
	ssp_pair_outcome(p, last);
	last->status = SSP_DONE;
	last->cause = SSP_CAUSE_CLOSED;
	ssp_pair_lowat(p, 1);
	ssp_end_clear(p->end[1]);
	/* What waits in the source for room in the destination need not wait any more. */
	ssp_pair_queue(p, 0);
}

void ssp_judge_left(struct ssp_pair *p, int side)
{
	ssp_assert_locked(p);
	/* It may have ended meanwhile. */
	if (rcu_access_pointer(p->end[side]->pair) != p)
		return;
	if (ssp_keeps_copy(p) && side == 1 && p->state != SSP_ENDED)
		ssp_judge_sink_close(p);
	else
		ssp_judge_close(p);
}

void ssp_judge_abort(struct ssp_pair *p)
{
	ssp_pair_abort(p);
	/* Who asked meanwhile was told what holds for a transfer. */
	ssp_tell(p);
}

void ssp_judge_lost(struct ssp_pair *p)
{
	int i;

	ssp_assert_locked(p);
	for (i = 0; i < 2; i++)
		if (p->left[i])
			ssp_judge_left(p, i);
	if (!ssp_pair_is_lost(p))
		return;
	if (ssp_is_taken(p->sk[0]) || sock_flag(p->sk[0], SOCK_DEAD))
		ssp_copy_drop(p->end[0], p->sk[0]);
	if (p->state != SSP_ENDED) {
		p->cause = SSP_CAUSE_TAKEN;
		ssp_conclude(p, true);
	}
	if (ssp_is_attached(p))
		ssp_pair_detach(p);
}

void ssp_judge_unsplice(struct ssp_pair *p)
{
	ssp_assert_locked(p);
	/* It may be over for another reason, of which nobody has heard yet. */
	ssp_judge(p, false);
	if (p->state != SSP_ENDED) {
		if (p->state == SSP_RUNNING)
			p->cause = SSP_CAUSE_UNSPLICED;
		ssp_conclude(p, false);
	}
	ssp_pair_detach(p);
	ssp_tell(p);
}
