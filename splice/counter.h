/* SPDX-License-Identifier: GPL-2.0 */
/* Counters of this room; what each one means is in doc/counters.md. */
#ifndef SSP_COUNTER_H
#define SSP_COUNTER_H

#include "kmod/stats.h"

#include "net.h"

enum ssp_stat {
	SSP_STAT_STARTED,
	SSP_STAT_IN_CALL,
	SSP_STAT_REFUSED_SOCKET,
	SSP_STAT_REFUSED_STATE,
	SSP_STAT_REFUSED_BUSY,
	SSP_STAT_REFUSED_OFF,
	SSP_STAT_REFUSED_DATA,
	SSP_STAT_REFUSED_MEMORY,
	SSP_STAT_REFUSED_LOOP,
	SSP_STAT_REFUSED_USER,
	SSP_STAT_REFUSED_DENIED,
	/* in the order of enum ssp_cause, from SSP_CAUSE_LIMIT on */
	SSP_STAT_ENDED,
	SSP_STAT_ENDED_LAST = SSP_STAT_ENDED + 8,
	/* in the order of enum ssp_where */
	SSP_STAT_BYTES,
	SSP_STAT_BYTES_WORKER,
	SSP_STAT_BYTES_CALL,
	SSP_STAT_BYTES_LINEAR,
	SSP_STAT_SENDS,
	SSP_STAT_PARTIAL,
	SSP_STAT_GATHERED,
	SSP_STAT_FULL,
	SSP_STAT_BUDGET,
	SSP_STAT_NO_MEMORY,
	SSP_STAT_TRYLOCK_MISSED,
	SSP_STAT_OWNED,
	SSP_STAT_WORK_SLOW,
	SSP_STAT_COPY_BYTES,
	SSP_STAT_COPY_HELD,
	SSP_STAT_COPY_ONLY,
	SSP_STAT_BUSY_CALLS,
	SSP_STAT_PAUSED,
	SSP_STAT_MAX
};

static inline void ssp_count(struct ssp_net *sn, enum ssp_stat stat)
{
	flt_stats_inc(sn->stats, stat);
}

static inline void ssp_count_add(struct ssp_net *sn, enum ssp_stat stat, u64 n)
{
	flt_stats_add(sn->stats, stat, n);
}

int ssp_stats_register(void);
void ssp_stats_unregister(void);

#endif
