/* SPDX-License-Identifier: GPL-2.0 */
/* Adoptions that their givers have not decided, and those given up for that. */
#ifndef HOF_PENDING_H
#define HOF_PENDING_H

#include <linux/types.h>

struct flt_node;
struct flt_tuple;
struct hof_adoption;
struct hof_net;

void hof_pending_net_init(struct hof_net *hn);

/* All of these with hn->adopt_lock held; which reference goes where is said in adopt.h. */

/* From now on it waits, for no longer than until its @until. */
void hof_pending_add(struct hof_adoption *a);
/* Who takes it out decides it, and gets the list's reference. */
void hof_pending_take(struct hof_adoption *a);

/*
 * It was given up, and the giver may still decide otherwise; takes a reference.
 * Return: of the same giver the one given up longest ago (about: resync.c turns the list),
 * forgotten now, when it has too many: to be put.
 */
struct hof_adoption *hof_pending_remember(struct hof_adoption *a);
/* One that was given up is decided, or of no interest any more; the caller gets the reference. */
void hof_pending_forget(struct hof_adoption *a);

/*
 * Of those that wait, one of these addresses that was handed on and whose origin is @node, when
 * that has not given it itself; NULL: there is none.
 */
struct hof_adoption *hof_pending_handed(struct hof_net *hn, const struct flt_node *node,
					const struct flt_tuple *tuple);

/* Of those that wait, or with @late of those given up; NULL: there is none. */
struct hof_adoption *hof_pending_find(struct hof_net *hn, const struct flt_node *node, u64 id,
				      bool late);

/* One whose time is over; NULL: none. */
struct hof_adoption *hof_pending_over(struct hof_net *hn);
/* One to be asked about now, and not again for a while; NULL: none. */
struct hof_adoption *hof_pending_to_ask(struct hof_net *hn);
/* Jiffies from now until one of these two has something to say; @nr_pending is not 0. */
unsigned long hof_pending_next(struct hof_net *hn);

#endif
