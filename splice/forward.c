// SPDX-License-Identifier: GPL-2.0
/* The engine: bytes go from one socket's receive queue to the other's send queue. */

#include <linux/sched/clock.h>
#include <net/tcp.h>

#include "kmod/socklock.h"

#include "copy.h"
#include "counter.h"
#include "forward.h"
#include "gather.h"
#include "judge.h"
#include "send.h"
#include "trace.h"
#include "tunable.h"
#include "user.h"

/* The longest that a transfer without memory waits until it tries again. */
#define SSP_BACKOFF_MAX	max(HZ / 4, 1)

/* Bytes that go to TCP in one call, and packets' ends after them: what a packet can hold. */
#define SSP_PORTION	SZ_64K

/**
 * struct ssp_pass - one pass over a receive queue
 * @p:      the pair
 * @from:   the end that is read
 * @budget: bytes that may still be forwarded in this pass, looked at between packets
 * @done:   bytes that were
 * @ahead:  bytes behind these that went with them, and have yet to be taken off the queue
 * @clones: of the packets that they are in, for the copy
 */
struct ssp_pass {
	struct ssp_pair *p;
	int from;
	unsigned int budget;
	unsigned int done;
	unsigned int ahead;
	struct sk_buff_head clones;
};

static int ssp_stop(struct ssp_pass *pass, enum ssp_stat why)
{
	ssp_count(pass->p->net, why);
	if (why == SSP_STAT_NO_MEMORY)
		pass->p->retry = true;
	else if (why == SSP_STAT_COPY_HELD)
		WRITE_ONCE(pass->p->held, true);
	else if (why == SSP_STAT_BUDGET)
		pass->p->again |= BIT(pass->from);
	return 0;
}

/* @dst takes no more: an ACK will make room and call us, if there is anything to be ACKed. */
static int ssp_stop_full(struct ssp_pass *pass, struct sock *dst)
{
	if (!sk_stream_memory_free(dst)) {
		set_bit(SOCK_NOSPACE, &dst->sk_socket->flags);
		if (!tcp_rtx_and_write_queues_empty(dst))
			return ssp_stop(pass, SSP_STAT_FULL);
	}
	return ssp_stop(pass, SSP_STAT_NO_MEMORY);
}

/* Whether the packet behind @skb is sure to be sent in this pass, @len bytes after what was. */
static bool ssp_follows(const struct ssp_pass *pass, const struct sock *src,
			const struct sk_buff *skb, unsigned int len)
{
	const struct ssp_pair *p = pass->p;
	const struct sk_buff *next;

	if (pass->budget <= len || p->limit - p->taken <= len || tcp_sk(src)->urg_data ||
	    skb_queue_is_last(&src->sk_receive_queue, skb) ||
	    !ssp_has_room(p->sk[!pass->from], len))
		return false;
	next = skb_queue_next(&src->sk_receive_queue, skb);
	/* A segment that was sent again may begin within the one before it. */
	return next->len && skb_frags_readable(next) &&
	       TCP_SKB_CB(next)->seq == TCP_SKB_CB(skb)->seq + skb->len;
}

/* The copy of a packet that is to go ahead has to be there before it goes. */
static bool ssp_clone_ahead(struct ssp_pass *pass, struct sock *src, struct sk_buff *skb,
			    unsigned int len)
{
	struct ssp_pair *p = pass->p;
	struct sk_buff *clone;

	if (ssp_copy_room(p->end[0], p->max2cache) < len ||
	    !sk_rmem_schedule(src, skb, skb->truesize))
		return false;
	clone = ssp_copy_make(p->end[0], src, skb);
	if (clone)
		__skb_queue_tail(&pass->clones, clone);
	return clone;
}

/*
 * How much goes to TCP at once: the last @len bytes of @skb, and the packets behind it. Each
 * packet by itself would leave as one, though its neighbour is here. @more: TCP shall wait
 * with the last segment, which is left to a timer if nothing comes after it.
 */
static unsigned int ssp_portion(struct ssp_pass *pass, struct sock *src, struct sk_buff *skb,
				unsigned int len, bool *more)
{
	const struct ssp_pair *p = pass->p;
	unsigned int all = len, n;

	while (all < SSP_PORTION && ssp_follows(pass, src, skb, all)) {
		skb = skb_queue_next(&src->sk_receive_queue, skb);
		n = min_t(u64, skb->len, p->limit - p->taken - all);
		if (ssp_keeps_copy(p) && !ssp_clone_ahead(pass, src, skb, all + n))
			break;
		all += n;
		if (n < skb->len)
			break;
	}
	*more = !ssp_keeps_copy(p) && ssp_follows(pass, src, skb, all);
	return all;
}

/* Part of a packet that went ahead is taken off the queue. */
static void ssp_catch_up(struct ssp_pass *pass, unsigned int len)
{
	struct ssp_pair *p = pass->p;

	pass->ahead -= len;
	if (ssp_keeps_copy(p))
		ssp_copy_append(p->end[0], __skb_dequeue(&pass->clones), 0, len);
}

/* Of what did not go ahead in the end. */
static void ssp_drop_clones(struct ssp_pass *pass)
{
	struct sk_buff *clone;

	while ((clone = __skb_dequeue(&pass->clones)))
		ssp_copy_free(pass->p->end[0], pass->p->sk[0], clone);
}

/* @len bytes of the queue are done with. */
static int ssp_took(struct ssp_pass *pass, unsigned int len)
{
	struct ssp_pair *p = pass->p;

	if (!p->sink_gone)
		p->moved[pass->from] += len;
	if (!pass->from)
		p->taken += len;
	pass->budget -= min(pass->budget, len);
	pass->done += len;
	return len;
}

static int ssp_actor(read_descriptor_t *desc, struct sk_buff *skb, unsigned int off, size_t len)
{
	struct ssp_pass *pass = desc->arg.data;
	struct ssp_pair *p = pass->p;
	struct sock *src = p->sk[pass->from], *dst = p->sk[!pass->from];
	/* A begun packet is finished: its rest would be a work item and a send of its own. */
	unsigned int n = pass->budget ? len : 0;
	struct sk_buff *clone = NULL;
	unsigned int all;
	bool more = false;
	int sent;

	if (pass->ahead) {
		n = min_t(unsigned int, len, pass->ahead);
		ssp_catch_up(pass, n);
		return ssp_took(pass, n);
	}
	ssp_drop_clones(pass);
	if (!ssp_is_bidir(p))
		n = min_t(u64, n, p->limit - p->taken);
	else if (p->fin[pass->from])
		return 0;
	if (!n)
		return p->limit == p->taken ? 0 : ssp_stop(pass, SSP_STAT_BUDGET);
	if (unlikely(!skb_frags_readable(skb))) {
		p->unreadable = true;
		return 0;
	}
	if (ssp_keeps_copy(p)) {
		n = min(n, ssp_copy_room(p->end[0], p->max2cache));
		if (!n)
			return ssp_stop(pass, SSP_STAT_COPY_HELD);
		if (!ssp_copy_extends(p->end[0], skb, off)) {
			clone = ssp_copy_make(p->end[0], src, skb);
			/* Its reader may be who gives the memory back. */
			if (!clone) {
				WRITE_ONCE(p->held, true);
				return ssp_stop(pass, SSP_STAT_NO_MEMORY);
			}
		}
	}

	if (p->sink_gone) {
		sent = n;
	} else if (sk_stream_memory_free(dst)) {
		all = n == len ? ssp_portion(pass, src, skb, n, &more) : n;
		sent = ssp_send(dst, skb, off, all, more, pass->from ? NULL : &p->head, p->net);
	} else {
		sent = -EAGAIN;
	}
	if (sent <= 0) {
		if (clone)
			ssp_copy_free(p->end[0], src, clone);
		if (sent == -EAGAIN)
			return ssp_stop_full(pass, dst);
		/* TCP has told us the connection's error and forgotten it. */
		WRITE_ONCE(p->error, -sent);
		return ssp_can_send(dst) ? ssp_stop(pass, SSP_STAT_NO_MEMORY) : 0;
	}

	if (sent > (int)n) {
		pass->ahead = sent - n;
		sent = n;
	}
	if (ssp_keeps_copy(p))
		ssp_copy_append(p->end[0], clone, off, sent);
	if (sent != skb->len)
		ssp_count(p->net, SSP_STAT_PARTIAL);
	return ssp_took(pass, sent);
}

/* Forward what @from has received. */
static void ssp_forward(struct ssp_pair *p, int from, enum ssp_where where)
{
	struct sock *src = p->sk[from], *dst = p->sk[!from];
	struct ssp_pass pass = {
		.p = p,
		.from = from,
		.budget = max(READ_ONCE(ssp_fwd_budget), 1U),
	};
	read_descriptor_t desc = { .arg.data = &pass, .count = 1 };

	if (skb_queue_empty(&src->sk_receive_queue))
		return;
	if (!p->sink_gone && !ssp_can_send(dst)) {
		if (!ssp_keeps_copy(p))
			return;
		p->sink_gone = true;
		ssp_count(p->net, SSP_STAT_COPY_ONLY);
		trace_ssp_sink_gone(p);
	}
	WRITE_ONCE(p->held, false);
	__skb_queue_head_init(&pass.clones);
	tcp_read_sock(src, &desc, ssp_actor);
	/* As recv(2) does, which tcp_read_sock() leaves to its caller. */
	if (!ssp_keeps_copy(p))
		sk_peek_offset_bwd(src, pass.done);
	WARN_ON_ONCE(pass.ahead);
	ssp_drop_clones(&pass);
	/* Nothing could go with it. */
	if (!from && p->head.size)
		ssp_send(dst, NULL, 0, 0, false, &p->head, p->net);
	if (!pass.done)
		return;
	p->backoff = 0;
	if (!from)
		WRITE_ONCE(p->forwarded, tcp_sk(src)->tcp_mstamp);
	ssp_count_add(p->net, SSP_STAT_BYTES + where, pass.done);
	if (ssp_keeps_copy(p))
		ssp_count_add(p->net, SSP_STAT_COPY_BYTES, pass.done);
	trace_ssp_forward(p, from, pass.done, where);
}

void ssp_advance(struct ssp_pair *p, unsigned int dirs, enum ssp_where where, bool tell)
{
	u64 begin = local_clock();
	bool had;

	ssp_assert_locked(p);
	if (p->state == SSP_ENDED)
		return;

	ssp_gather_end(p);
	p->busy = true;
	p->again = 0;
	p->retry = false;
	had = ssp_copy_readable(p);
	if (p->state == SSP_RUNNING) {
		if (dirs & SSP_FROM0)
			ssp_forward(p, 0, where);
		if (ssp_is_bidir(p) && (dirs & SSP_FROM1))
			ssp_forward(p, 1, where);
	}
	/* What is called from here on passes on to the program. */
	p->telling = true;
	if (tell && !had && ssp_copy_readable(p))
		p->sk[0]->sk_data_ready(p->sk[0]);
	ssp_judge(p, tell);
	p->telling = false;
	p->busy = false;
	if (where != SSP_CALL)
		ssp_user_spend(p->user, local_clock() - begin);

	if (p->state == SSP_ENDED)
		return;
	ssp_gather_hear(p);
	if (p->dead) {
		ssp_pair_queue(p, 0);
	} else if (p->retry) {
		/* Thousands that each try at each tick would take a processor. */
		p->backoff = clamp(2 * p->backoff, 1, SSP_BACKOFF_MAX);
		ssp_pair_queue(p, p->backoff);
	} else if (p->again) {
		ssp_pair_queue(p, 0);
	}
}

/* Its user has had his share of the time that nobody pays for: later, then. */
static bool ssp_pauses(struct ssp_pair *p)
{
	if (likely(!ssp_user_is_over(p->user)))
		return false;
	/* It has its turn, or will ask for one when it runs. */
	if (!delayed_work_pending(&p->work)) {
		ssp_count(p->net, SSP_STAT_PAUSED);
		ssp_pair_queue(p, ssp_user_turn(p->user));
	}
	return true;
}

void ssp_kick(struct ssp_pair *p, struct sock *sk, unsigned int dirs)
{
	struct sock *other = p->sk[!ssp_side(p, sk)];

	/* Called from within: who holds both locks sees to it. */
	if (p->busy) {
		p->again |= dirs;
		return;
	}
	/* A program holds the socket and lets it work off its backlog, or is in a call. */
	if (sock_owned_by_user(sk) || !READ_ONCE(ssp_softirq)) {
		ssp_pair_queue(p, 0);
		return;
	}
	if (ssp_pauses(p))
		return;
	/*
	 * The other CPU may be forwarding the opposite way, from @other's lock to this:
	 * never wait.
	 */
	if (!spin_trylock(&other->sk_lock.slock)) {
		ssp_count(p->net, SSP_STAT_TRYLOCK_MISSED);
		ssp_pair_queue(p, 0);
		return;
	}
	if (sock_owned_by_user(other)) {
		ssp_count(p->net, SSP_STAT_OWNED);
		ssp_pair_queue(p, 0);
	} else {
		ssp_advance(p, dirs, SSP_SOFTIRQ, true);
	}
	spin_unlock(&other->sk_lock.slock);
}

/* SSP_BIDIR: one connection is dead, so the other one is reset. False: a program has one. */
static bool ssp_pass_reset(struct ssp_pair *p)
{
	bool ours;
	int i;

	if (!ssp_trylock_socks(p->sk[0], p->sk[1]))
		return false;
	/* Who has left meanwhile may have made his socket another connection. */
	ours = p->state == SSP_RUNNING;
	for (i = 0; ours && i < 2; i++)
		flt_sock_abort(p->sk[i], READ_ONCE(p->error) ?: ECONNRESET);
	ssp_unlock_socks(p->sk[0], p->sk[1]);
	return true;
}

bool ssp_run_light(struct ssp_pair *p, enum ssp_where where)
{
	struct sock *a = min(p->sk[0], p->sk[1]), *b = max(p->sk[0], p->sk[1]);
	bool mine;

	if (where != SSP_CALL && ssp_pauses(p))
		return true;
	local_bh_disable();
	bh_lock_sock(a);
	spin_lock_nested(&b->sk_lock.slock, SINGLE_DEPTH_NESTING);
	mine = !sock_owned_by_user(a) && !sock_owned_by_user(b);
	if (mine)
		ssp_advance(p, SSP_FROM0 | SSP_FROM1, where, true);
	bh_unlock_sock(b);
	bh_unlock_sock(a);
	local_bh_enable();
	return mine;
}

bool ssp_run(struct ssp_pair *p, enum ssp_where where)
{
	if (!ssp_run_light(p, where)) {
		ssp_count(p->net, SSP_STAT_WORK_SLOW);
		return false;
	}
	if (READ_ONCE(p->dead) && READ_ONCE(p->state) == SSP_RUNNING)
		return ssp_pass_reset(p);
	return true;
}
