/* SPDX-License-Identifier: GPL-2.0 */
/* Counters of this room; what each one means is in doc/counters.md. */
#ifndef IOL_COUNTER_H
#define IOL_COUNTER_H

#include <linux/percpu.h>
#include <linux/types.h>

struct attribute_group;

enum iol_counter {
	IOL_CHUNKS_MADE,
	IOL_CHUNKS_FREED,
	IOL_PAGES_SHED,
	IOL_PAGES_FILLED,
	IOL_BUFFERS_MADE,
	IOL_BUFFERS_RECYCLED,
	IOL_BUFFERS_FREED,
	IOL_BUFFERS_LIMBO,
	IOL_BUFFERS_REOPENED,
	IOL_SEALS,
	IOL_WRITE_REVOKES,
	IOL_PTES_READ,
	IOL_PTES_FILL,
	IOL_ZAPS,
	IOL_FAULTS_REFUSED,
	IOL_GRANTS,
	IOL_SLICES_REFUSED,
	IOL_QUOTA_REFUSED,
	IOL_USER_QUOTA_REFUSED,
	IOL_BYTES_BY_REFERENCE,
	IOL_BYTES_INLINE,
	IOL_BYTES_COPIED_RECEIVE,
	IOL_BYTES_COPIED_SEND,
	IOL_BYTES_COPIED_FILE,
	IOL_FILE_HITS,
	IOL_FILE_MISSES,
	IOL_FILE_BYPASSES,
	IOL_FILE_INVALIDATED,
	IOL_FILE_EVICTED,
	IOL_FILE_EVICTED_REFERENCED,
	IOL_FILE_EVICTED_CHOSEN,
	IOL_RECLAIM_LOOKED,
	IOL_RECLAIM_ASKED,
	IOL_RECLAIM_DECLINED,
	IOL_BYTES_SUMMED,
	IOL_BYTES_SUMMED_CACHED,
	IOL_PACKETS_SUMMED,
	IOL_PACKETS_NOT_SUMMED,
	IOL_COUNTER_MAX,
};

struct iol_counters {
	u64 value[IOL_COUNTER_MAX];
};

DECLARE_PER_CPU(struct iol_counters, iol_counters);

static inline void iol_count_add(enum iol_counter id, u64 n)
{
	this_cpu_add(iol_counters.value[id], n);
}

static inline void iol_count(enum iol_counter id)
{
	iol_count_add(id, 1);
}

/* Of the device, once they are made. */
extern const struct attribute_group *iol_counter_groups[];

void iol_counters_init(void);
void iol_counters_exit(void);

#endif
