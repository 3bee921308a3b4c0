/* SPDX-License-Identifier: GPL-2.0 */
/* Counters of this room; what each one means is in README.md. */
#ifndef AFPA_COUNTER_H
#define AFPA_COUNTER_H

#include "kmod/stats.h"

#include "net.h"

enum afpa_stat {
	AFPA_STAT_HITS,
	AFPA_STAT_HITS_SOFTIRQ,
	AFPA_STAT_HITS_ACCEPT,
	AFPA_STAT_HITS_WORKER,
	AFPA_STAT_HEADS,
	AFPA_STAT_MISSES,
	AFPA_STAT_DEFERRED,
	AFPA_STAT_TAKEN,
	AFPA_STAT_PARTIAL,
	AFPA_STAT_BYTES,
	AFPA_STAT_READS,
	AFPA_STAT_READ_ERRORS,
	AFPA_STAT_ABSENT,
	AFPA_STAT_CONTINUED,
	AFPA_STAT_CLOSED,
	AFPA_STAT_BURSTS,
	AFPA_STAT_NO_MEMORY,
	AFPA_STAT_FLUSHED,
	AFPA_STAT_RESET_STALLED,
	AFPA_STAT_RESET_SITE,
	AFPA_STAT_RESET_FILE,
	AFPA_STAT_LOCKED,
	AFPA_STAT_REFUSED,
	AFPA_STAT_LOGGED,
	AFPA_STAT_LOG_LOST,
	AFPA_STAT_PUTS,
	AFPA_STAT_REPLACED,
	AFPA_STAT_DELETED,
	AFPA_STAT_BANNED,
	AFPA_STAT_STALE,
	AFPA_STAT_EVICTED,
	AFPA_STAT_EXPIRED,
	AFPA_STAT_SHRUNK,
	AFPA_STAT_SHRUNK_AUTOMATIC,
	AFPA_STAT_MAX
};

static inline void afpa_count(struct afpa_net *an, enum afpa_stat stat)
{
	flt_stats_inc(an->stats, stat);
}

static inline void afpa_count_add(struct afpa_net *an, enum afpa_stat stat, u64 n)
{
	flt_stats_add(an->stats, stat, n);
}

int afpa_stats_register(void);
void afpa_stats_unregister(void);

#endif
