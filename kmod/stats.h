/* SPDX-License-Identifier: GPL-2.0 */
/* Counters: per CPU, per network namespace, one table a room. */
#ifndef FLT_STATS_H
#define FLT_STATS_H

#include <linux/percpu.h>
#include <net/net_namespace.h>

/**
 * struct flt_stats - a room's counters
 * @room:   name in dumps
 * @names:  CamelCase, in the order of the room's enum; never renamed after release
 * @nr:     number of names
 * @values: the array of @nr u64 of a namespace
 * @gauge:  NULL, or gives values that are computed at the time of the dump;
 *	    called with indices from @nr to @nr + @nr_gauges - 1
 */
struct flt_stats {
	const char *room;
	const char *const *names;
	unsigned int nr;
	unsigned int nr_gauges;
	u64 __percpu *(*values)(struct net *net);
	u64 (*gauge)(struct net *net, unsigned int index);
	struct module *owner;
	struct list_head list;
};

int flt_stats_register(struct flt_stats *stats);
void flt_stats_unregister(struct flt_stats *stats);

static inline void flt_stats_add(u64 __percpu *values, unsigned int index, u64 n)
{
	this_cpu_add(values[index], n);
}

static inline void flt_stats_inc(u64 __percpu *values, unsigned int index)
{
	this_cpu_inc(values[index]);
}

#endif
