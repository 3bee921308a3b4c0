/* SPDX-License-Identifier: GPL-2.0 */
/* Counters of this room; what each one means is in README.md. */
#ifndef CARD_COUNTER_H
#define CARD_COUNTER_H

#include <linux/ktime.h>
#include "kmod/stats.h"

#include "net.h"

enum card_stat {
	/* at the node that has the disk attached */
	CARD_STAT_REQUESTS,
	CARD_STAT_READS,
	CARD_STAT_WRITES,
	CARD_STAT_BYTES_READ,
	CARD_STAT_BYTES_WRITTEN,
	CARD_STAT_FROM_DISK,
	CARD_STAT_FROM_CACHE,
	CARD_STAT_FROM_PEER,
	CARD_STAT_RESENT,
	CARD_STAT_TIMEOUTS,
	CARD_STAT_ERRORS,
	CARD_STAT_LATE,
	CARD_STAT_BAD_CRC,
	CARD_STAT_BAD_REPLY,
	CARD_STAT_ATTACHED,
	CARD_STAT_LOST,
	CARD_STAT_REFUSED,
	CARD_STAT_TOTAL_NS,
	CARD_STAT_COPY_NS,
	CARD_STAT_SERVICE_NS,
	CARD_STAT_REMOTE_DISK_US,
	/* at the exporter */
	CARD_STAT_SERVED,
	CARD_STAT_SERVED_CACHED,
	CARD_STAT_SERVED_DISK,
	CARD_STAT_SERVED_BYTES,
	CARD_STAT_SERVED_CACHED_PAGES,
	CARD_STAT_SERVED_DISK_PAGES,
	CARD_STAT_SERVED_WRITES,
	CARD_STAT_WRITES_ORDERED,
	CARD_STAT_SERVE_INLINE,
	CARD_STAT_SERVE_THREAD,
	CARD_STAT_DELIVER_SOFTIRQ,
	CARD_STAT_DELIVER_THREAD,
	CARD_STAT_THREAD_WAKEUPS,
	CARD_STAT_KEPT_PAGES,
	CARD_STAT_FRESH_PAGES,
	CARD_STAT_FILE_PAGES,
	CARD_STAT_FILE_MISMATCH,
	CARD_STAT_SERVE_NS,
	CARD_STAT_DISK_NS,
	CARD_STAT_DENIED,
	CARD_STAT_STALE,
	CARD_STAT_RANGE,
	CARD_STAT_BUSY,
	CARD_STAT_DISK_ERRORS,
	CARD_STAT_NOT_SENT,
	/* anywhere */
	CARD_STAT_BAD_MESSAGE,
	CARD_STAT_MAX,
};

static inline void card_count(struct card_net *cn, enum card_stat stat)
{
	flt_stats_inc(cn->stats, stat);
}

static inline void card_count_add(struct card_net *cn, enum card_stat stat, u64 n)
{
	flt_stats_add(cn->stats, stat, n);
}

int card_stats_net_init(struct card_net *cn);
void card_stats_net_exit(struct card_net *cn);
int card_stats_register(void);
void card_stats_unregister(void);

#endif
