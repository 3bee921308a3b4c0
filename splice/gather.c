// SPDX-License-Identifier: GPL-2.0
/*
 * Waiting for more bytes: few large sends cost less than many small ones.
 *
 * A process that relays is woken, and until it runs more packets come; it passes them on in
 * few large sends and acknowledges them at once. A softirq that passes on each packet as it
 * comes pays for each: a send, the client's wake-up, both ACKs. So, as Nagle's algorithm
 * has it, while the client still has something to acknowledge, what comes for it waits, though
 * a moment only. A client next door acknowledges sooner than there is much to send: what comes
 * within that moment after a send waits as well.
 */

#include <net/tcp.h>

#include "kmod/compat/compat.h"

#include "counter.h"
#include "forward.h"
#include "gather.h"
#include "tunable.h"

/* As long as one of the sockets is locked the other's numbers are a hint. */
static bool ssp_gather_pays(const struct ssp_pair *p)
{
	const struct tcp_sock *from = tcp_sk(p->sk[0]), *to = tcp_sk(p->sk[1]);
	u32 queued = READ_ONCE(from->rcv_nxt) - READ_ONCE(from->copied_seq);
	u32 enough = READ_ONCE(ssp_gather_bytes);

	if (ssp_is_bidir(p) || p->sink_gone)
		return false;
	/* Both are times at which the source received something: no clock is read. */
	if (!READ_ONCE(to->packets_out) &&
	    READ_ONCE(from->tcp_mstamp) - READ_ONCE(p->forwarded) >= READ_ONCE(ssp_gather_us))
		return false;
	/* The sender shall not come to the end of the window that it has. */
	enough = min(enough, tcp_receive_window(from));
	if (ssp_keeps_copy(p))
		enough = min(enough, p->max2cache - min(p->max2cache,
							READ_ONCE(p->end[0]->copy_bytes)));
	return queued < enough && p->limit - p->taken > queued && !from->urg_data &&
	       !(READ_ONCE(p->sk[0]->sk_shutdown) & RCV_SHUTDOWN) && !READ_ONCE(p->sk[0]->sk_err);
}

static enum hrtimer_restart ssp_gather_timeout(struct hrtimer *timer)
{
	struct ssp_pair *p = container_of(timer, struct ssp_pair, gather);

	if (!ssp_run_light(p, SSP_SOFTIRQ)) {
		ssp_count(p->net, SSP_STAT_OWNED);
		ssp_pair_queue(p, 0);
	}
	ssp_pair_put(p);
	return HRTIMER_NORESTART;
}

void ssp_gather_init(struct ssp_pair *p)
{
	flt_compat_hrtimer_setup(&p->gather, ssp_gather_timeout, HRTIMER_MODE_REL_PINNED_SOFT);
}

bool ssp_gather(struct ssp_pair *p, const struct sock *sk)
{
	u64 ns = READ_ONCE(ssp_gather_us) * (u64)NSEC_PER_USEC;

	if (p->busy || sock_owned_by_user_nocheck(sk) || !READ_ONCE(ssp_softirq) ||
	    !ssp_gather_pays(p))
		return false;
	ssp_count(p->net, SSP_STAT_GATHERED);
	if (hrtimer_is_queued(&p->gather))
		return true;
	if (!refcount_inc_not_zero(&p->users))
		return false;
	hrtimer_start_range_ns(&p->gather, ns_to_ktime(ns), ns / 8, HRTIMER_MODE_REL_PINNED_SOFT);
	return true;
}

bool ssp_gathers(struct ssp_pair *p)
{
	return hrtimer_is_queued(&p->gather) && ssp_gather_pays(p);
}

void ssp_gather_end(struct ssp_pair *p)
{
	ssp_assert_locked(p);
	/* Who calls us holds the pair too. */
	if (hrtimer_is_queued(&p->gather) && hrtimer_try_to_cancel(&p->gather) > 0)
		ssp_pair_put(p);
}

void ssp_gather_hear(struct ssp_pair *p)
{
	struct sock *dst = p->sk[1];

	ssp_assert_locked(p);
	if (p->state == SSP_RUNNING && !ssp_is_bidir(p) && READ_ONCE(ssp_gather_bytes) &&
	    tcp_sk(dst)->packets_out && dst->sk_socket)
		set_bit(SOCK_NOSPACE, &dst->sk_socket->flags);
}
