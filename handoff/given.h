/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Connections that were given before they had a socket, as long as their cookie is good: a copy of
 * the first segment that comes when the entry has gone would begin them once more.
 */
#ifndef HOF_GIVEN_H
#define HOF_GIVEN_H

#include <linux/types.h>

struct flt_opening;
struct hof_given;

/**
 * struct hof_given_mark - one that is remembered
 * @slot:  where
 * @value: what is written there
 */
struct hof_given_mark {
	u32 *slot;
	u32 value;
};

/* For twice so many, of two minutes. NULL: no memory. Process context; charged to the caller. */
struct hof_given *hof_given_alloc(unsigned int entries);
void hof_given_free(struct hof_given *given);

/* All: softirq, no lock. */
bool hof_given_has(const struct hof_given *given, const struct flt_opening *o);
/* 0, -EEXIST or -ENOSPC. Of two at once of the same both may succeed. */
int hof_given_add(struct hof_given *given, const struct flt_opening *o,
		  struct hof_given_mark *mark);
/* It was not given after all. */
void hof_given_forget(const struct hof_given_mark *mark);

#endif
