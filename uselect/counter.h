/* SPDX-License-Identifier: GPL-2.0 */
/* Counters of this room; what each one means is in doc/counters.md. */
#ifndef USEL_COUNTER_H
#define USEL_COUNTER_H

#include "kmod/stats.h"

enum usel_stat {
	USEL_STAT_REGIONS_OPENED,
	USEL_STAT_REGIONS_CLOSED,
	USEL_STAT_SETS_OPENED,
	USEL_STAT_SETUPS_REFUSED,
	USEL_STAT_HOOKED,
	USEL_STAT_REFUSED,
	USEL_STAT_TRACKED,
	USEL_STAT_UNTRACKED,
	/* in the order of enum usel_why, without USEL_WHY_CLOSE */
	USEL_STAT_REUSED,
	USEL_STAT_FORGOTTEN,
	USEL_STAT_ENDED,
	USEL_STAT_FOREIGN,
	USEL_STAT_GUESS_WRONG,
	USEL_STAT_GUESSED,
	USEL_STAT_SEARCHED,
	USEL_STAT_POLLS,
	USEL_STAT_EVENTS,
	USEL_STAT_WAKEUPS,
	USEL_STAT_RING_OVERFLOWS,
	USEL_NR_STATS
};

extern unsigned int usel_net_id;

u64 __percpu *usel_stats(const struct net *net);

static inline void usel_count(const struct net *net, enum usel_stat stat)
{
	flt_stats_inc(usel_stats(net), stat);
}

int usel_counter_register(void);
void usel_counter_unregister(void);

#endif
