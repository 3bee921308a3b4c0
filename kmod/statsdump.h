/* SPDX-License-Identifier: GPL-2.0 */
#ifndef FLT_STATSDUMP_H
#define FLT_STATSDUMP_H

#include <net/net_namespace.h>

/*
 * Calls @emit for each counter of each room after the first @skip ones, until
 * it returns non-zero, and returns that; @skip then is where to go on, @change
 * the number of the list's state.
 */
int flt_stats_walk(struct net *net, unsigned long *skip, unsigned int *change,
		   int (*emit)(const char *room, const char *name, u64 value, void *arg),
		   void *arg);

#endif
