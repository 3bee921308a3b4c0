/* SPDX-License-Identifier: GPL-2.0 */
/* Handoffs under way: found by their id, and by the clock when no answer comes. */
#ifndef HOF_FLIGHT_H
#define HOF_FLIGHT_H

#include <linux/hashtable.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>

struct hof_net;
struct hof_transfer;

#define HOF_FLIGHT_BITS	8

/**
 * struct hof_flight - the handoffs of a namespace that wait for an answer
 * @lock:  guards the rest and @inflight of files; softirq too; a leaf
 * @by_id: struct hof_transfer by the low half of their id; each is a reference
 * @nr:    of them; READ_ONCE
 * @armed: @late is going to run, at @at or before
 * @at:    jiffies
 * @late:  ends those whose time is over. One for all: a timer for each would be
 *	   set and taken back for every connection, and hardly ever ring
 */
struct hof_flight {
	spinlock_t lock;	/* the following */
	DECLARE_HASHTABLE(by_id, HOF_FLIGHT_BITS);
	unsigned int nr;
	bool armed;
	unsigned long at;
	struct delayed_work late;
};

int hof_flight_init(void);
void hof_flight_exit(void);
void hof_flight_net_init(struct hof_net *hn);
void hof_flight_net_exit(struct hof_net *hn);

/* From here on others may find it, and it has @timeout_ms; takes a reference. */
void hof_flight_add(struct hof_transfer *t, u32 timeout_ms);
/* It is settled: nobody finds it any more. Gives up the reference. */
void hof_flight_remove(struct hof_transfer *t);

/* By its id, with a reference; NULL: not under way. */
struct hof_transfer *hof_flight_get(struct hof_net *hn, u64 id);

/**
 * hof_flight_next - the next that waits and matches, with a reference
 * @hn:     namespace
 * @bucket: cursor, 0 at first
 * @match:  whether it is wanted; called under the lock
 * @arg:    for @match
 *
 * The caller settles it, or comes across it again.
 */
struct hof_transfer *hof_flight_next(struct hof_net *hn, unsigned int *bucket,
				     bool (*match)(const struct hof_transfer *t, const void *arg),
				     const void *arg);

#endif
