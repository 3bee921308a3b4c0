/* SPDX-License-Identifier: GPL-2.0 */
/* What a dispatcher is still to be told of one submission. */
#ifndef HOF_TICKET_H
#define HOF_TICKET_H

#include <linux/kref.h>
#include <linux/list.h>
#include <linux/refcount.h>
#include <linux/spinlock.h>
#include <linux/timer.h>
#include <linux/wait.h>
#include <flotilla/flotilla.h>
#include <flotilla/handoff.h>

struct hof_adoption;
struct hof_early_table;
struct hof_net;
struct hof_ticket;

/**
 * struct hof_file - an open /dev/handoff
 * @ref:      the open file and each ticket hold one
 * @hn:       namespace of the opener; valid until the file is closed
 * @lock:     guards what follows and the pending events of the tickets; softirq
 *	      too, a leaf
 * @ready:    tickets with something to tell
 * @nr_ready: length of @ready; READ_ONCE
 * @closed:   nobody reads any more
 * @wait:     readers
 * @later:    wakes them for events that were not worth it by themselves
 * @inflight: transfers under way; under the lock of their table, READ_ONCE
 * @landed:   who closes it waits here until none is under way. Not at @wait: what
 *	      waits there would be woken for each connection
 * @tell:     NULL, or told of each event instead of readers, under @lock until @closed;
 *	      set before the first submission
 * @owner:    for @tell
 * @table:    NULL, or what its policy says (early_table.h); comes once, and goes with the file
 */
struct hof_file {
	struct kref ref;
	struct hof_net *hn;
	spinlock_t lock;	/* the following */
	struct list_head ready;
	unsigned int nr_ready;
	bool closed;
	wait_queue_head_t wait;
	struct timer_list later;
	unsigned int inflight;
	wait_queue_head_t landed;
	void (*tell)(const struct hof_ticket *t, enum hof_event_type type);
	void *owner;
	struct hof_early_table *table;
};

static inline struct hof_early_table *hof_file_table(struct hof_file *file)
{
	/* Pairs with hof_early_table_create(). */
	return smp_load_acquire(&file->table);
}

struct hof_file *hof_file_create(struct hof_net *hn);
/* Nobody will read: forget what is pending. */
void hof_file_close(struct hof_file *file);
void hof_file_put(struct hof_file *file);

/**
 * struct hof_ticket - room for every event that one submission can cause
 * @ref:     the transfer or the entry holds one, and being on @ready is one
 * @file:    who submitted; a counted reference
 * @ready:   in @file->ready when something is pending
 * @cookie:  theirs
 * @node:    target
 * @usec:    of DONE
 * @refusal: of FAILED
 * @lost:    refusal of CLOSED
 * @pending: bits (1 << enum hof_event_type); IDLE and BUSY cancel each other
 * @idle:    what was last told or is pending
 * @later:   DONE and CLOSED wake nobody by themselves
 * @watch:   IDLE and BUSY are wanted
 * @direct:  the client's packets come to us and not by another node
 * @back:    the node gets them itself: it had given us the connection
 * @proof:   that its COMMIT said, to say it again; 0: none
 * @relay:   what was handed on by this, whose origin is to be told of the end; a counted
 *	     reference; under the entry's lock once it has one
 *
 * It is allocated at submission, so that no event can be lost for want of
 * memory, and events that outdate each other take no more room than one.
 */
struct hof_ticket {
	refcount_t ref;
	struct hof_file *file;
	struct list_head ready;
	u64 cookie;
	u32 node;
	u32 usec;
	u16 refusal;
	u16 lost;
	u8 pending;
	bool idle;
	bool later;
	bool watch;
	bool direct;
	bool back;
	u64 proof;
	struct hof_adoption *relay;
};

/* @gfp: HOF_ENTRY_GFP; in softirq less. */
struct hof_ticket *hof_ticket_create(struct hof_file *file, u64 cookie, u32 node, bool later,
				     gfp_t gfp);
void hof_ticket_put(struct hof_ticket *t);

/* Any context but hard interrupt. */
void hof_ticket_done(struct hof_ticket *t, u32 usec);
void hof_ticket_failed(struct hof_ticket *t, enum flt_refusal why);
void hof_ticket_closed(struct hof_ticket *t, enum flt_refusal why);
void hof_ticket_activity(struct hof_ticket *t, bool idle);

/* The next event of a file; false: none. Also a reference to what it is of. */
bool hof_ticket_next(struct hof_file *file, struct hof_event *event, struct hof_ticket **of);
/* It could not be delivered: it is the next one again. */
void hof_ticket_undo(struct hof_ticket *t, const struct hof_event *event);

unsigned int hof_ticket_count(struct hof_file *file);

#endif
