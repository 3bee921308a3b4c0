/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What a dispatcher would decide: pure functions, which are compiled into a test of lardd, too
 * (lard/tests/host/lard_mirror.c), beside what they are to agree with.
 */
#ifndef HOF_EARLY_CHOOSE_H
#define HOF_EARLY_CHOOSE_H

#ifdef __KERNEL__
#include <linux/types.h>
#else
#include <stdbool.h>
#include <stddef.h>
#endif
#include <flotilla/early_table.h>

/* Instead of a slot. */
#define HOF_EARLY_MISS	(-1)	/* the target has no node that counts */
#define HOF_EARLY_ASK	(-2)	/* it is the dispatcher's to decide */

/**
 * hof_early_choose - which node gets a connection
 * @p:       the page; the program may be writing it
 * @t:       what is known of the target, NULL nothing
 * @key:     of the target
 * @now_us:  of CLOCK_MONOTONIC
 * @relaxed: out: the loads are so far from every threshold that old ones will do
 *
 * Return: a slot, HOF_EARLY_MISS or HOF_EARLY_ASK.
 */
int hof_early_choose(const struct hof_early_page *p, const struct hof_early_target *t, __u64 key,
		     __u64 now_us, bool *relaxed);

/*
 * The key of the request whose header begins with @text, of @len bytes, which
 * hof_request_is_whole(). False: it is not written as its normal form is, or says too little.
 */
bool hof_early_key(const char *text, size_t len, bool any_host, __u64 *key);

#endif
