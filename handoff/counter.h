/* SPDX-License-Identifier: GPL-2.0 */
/* Counters of this room; what each one means is in doc/counters.md. */
#ifndef HOF_COUNTER_H
#define HOF_COUNTER_H

#include <flotilla/flotilla.h>
#include "kmod/stats.h"

#include "assign.h"
#include "net.h"

/* Submission to ownership in powers of two of a microsecond: 1, 2, 4, ... 2^20, more. */
#define HOF_LATENCY_SLOTS	22
/* The codes of enum flt_refusal, and one for those that a newer node may send. */
#define HOF_REFUSAL_SLOTS	41

enum hof_stat {
	HOF_STAT_HANDOFF_SUBMITTED,
	HOF_STAT_HANDOFF_DONE,
	HOF_STAT_HANDOFF_FAILED,
	HOF_STAT_HANDOFF_CLOSED,
	HOF_STAT_HANDOFF_NODE_LOST,
	HOF_STAT_HANDOFF_NO_PATH,
	HOF_STAT_HANDOFF_DRAINED,
	HOF_STAT_ADOPT_REQUESTS,
	HOF_STAT_ADOPT_PREPARED,
	HOF_STAT_ADOPT_REFUSED,
	HOF_STAT_ADOPT_DRAINED,
	HOF_STAT_ADOPT_COMMITTED,
	HOF_STAT_ADOPT_COMMIT_FAILED,
	HOF_STAT_ADOPT_ABORTED,
	HOF_STAT_ADOPT_QUERIED,
	HOF_STAT_ADOPT_EXPIRED,
	HOF_STAT_ADOPT_RETURNED,
	HOF_STAT_ADOPT_ENDED,
	HOF_STAT_ADOPT_EVICTED,
	HOF_STAT_CLAIM_SENT,
	HOF_STAT_CLAIM_GRANTED,
	HOF_STAT_CLAIM_REFUSED,
	HOF_STAT_ORIGIN_CLAIMS,
	HOF_STAT_ORIGIN_GRANTED,
	HOF_STAT_ORIGIN_FORGED,
	HOF_STAT_TAKEOVER_TAKEN,
	HOF_STAT_TAKEOVER_REFUSED,
	HOF_STAT_TAKEOVER_HELD,
	HOF_STAT_SUCCESSOR_ASKED,
	HOF_STAT_SUCCESSOR_REFUSED,
	HOF_STAT_SUCCESSOR_GIVEN,
	HOF_STAT_RELOCATE_ASKED,
	HOF_STAT_RELOCATE_REFUSED,
	HOF_STAT_RELOCATE_BEGUN,
	HOF_STAT_LIFE_LOST,
	HOF_STAT_LIFE_LOOKS,
	HOF_STAT_FORWARD_PACKETS,
	HOF_STAT_FORWARD_BYTES,
	HOF_STAT_FORWARD_ICMP,
	HOF_STAT_FORWARD_LINGER,
	HOF_STAT_FORWARD_SYN_EARLY,
	HOF_STAT_FORWARD_SYN_REUSE,
	HOF_STAT_FORWARD_IDLE_EXPIRED,
	HOF_STAT_FORWARD_LINGER_EXPIRED,
	HOF_STAT_FORWARD_LINGER_EVICTED,
	HOF_STAT_FORWARD_NO_ROUTE,
	HOF_STAT_FORWARD_TOO_BIG,
	HOF_STAT_FORWARD_PATH_MTU,
	HOF_STAT_FORWARD_PATH_MTU_REFUSED,
	HOF_STAT_FORWARD_STRANGER,
	HOF_STAT_FORWARD_TTL_EXPIRED,
	HOF_STAT_FORWARD_FRAGMENTS,
	HOF_STAT_FORWARD_DROPPED,
	HOF_STAT_FORWARD_RESETS,
	HOF_STAT_HOLD_QUEUED,
	HOF_STAT_HOLD_DROPPED,
	HOF_STAT_HOLD_FORWARDED,
	HOF_STAT_HOLD_REINJECTED,
	HOF_STAT_ROOM_TOLD,
	HOF_STAT_ROOM_IGNORED,
	HOF_STAT_POLICY,	/* enum hof_policy_stat */
	HOF_STAT_ADMIT = HOF_STAT_POLICY + HOF_POLICY_STATS,	/* enum hof_admit_stat */
	HOF_STAT_REFUSED = HOF_STAT_ADMIT + HOF_ADMIT_STATS,
	HOF_STAT_LATENCY = HOF_STAT_REFUSED + HOF_REFUSAL_SLOTS,
	HOF_STAT_LATENCY_SUM = HOF_STAT_LATENCY + HOF_LATENCY_SLOTS,
	HOF_STAT_MAX,
};

static inline void hof_count(struct hof_net *hn, enum hof_stat stat)
{
	flt_stats_inc(hn->stats, stat);
}

static inline void hof_count_add(struct hof_net *hn, enum hof_stat stat, u64 n)
{
	flt_stats_add(hn->stats, stat, n);
}

/* One more refusal for @why. */
void hof_count_refusal(struct hof_net *hn, enum flt_refusal why);
/* One more handoff that took @usec. */
void hof_count_latency(struct hof_net *hn, u32 usec);

int hof_stats_net_init(struct hof_net *hn);
void hof_stats_net_exit(struct hof_net *hn);
int hof_stats_register(void);
void hof_stats_unregister(void);

#endif
