// SPDX-License-Identifier: GPL-2.0
/* Tickets: from events in the kernel to records of read(2). */

#include <linux/bitops.h>
#include <linux/poll.h>
#include <linux/slab.h>

#include "kmod/compat/work.h"

#include "entry.h"
#include "relay.h"
#include "ticket.h"

/* Events that can wait ring when so many connections have some, or so much later. */
#define HOF_LATER_MAX	8
#define HOF_LATER	msecs_to_jiffies(20)

static void hof_file_wake(struct hof_file *file)
{
	wake_up_interruptible_poll(&file->wait, EPOLLIN | EPOLLRDNORM);
}

static void hof_file_later(struct timer_list *timer)
{
	struct hof_file *file = flt_timer_container_of(file, timer, later);

	/* Most have been read meanwhile, by a dispatcher that was awake. */
	if (READ_ONCE(file->nr_ready))
		hof_file_wake(file);
}

struct hof_file *hof_file_create(struct hof_net *hn)
{
	struct hof_file *file = kzalloc(sizeof(*file), GFP_KERNEL_ACCOUNT);

	if (!file)
		return NULL;
	kref_init(&file->ref);
	file->hn = hn;
	spin_lock_init(&file->lock);
	INIT_LIST_HEAD(&file->ready);
	init_waitqueue_head(&file->wait);
	init_waitqueue_head(&file->landed);
	timer_setup(&file->later, hof_file_later, 0);
	return file;
}

static void hof_file_free(struct kref *ref)
{
	struct hof_file *file = container_of(ref, struct hof_file, ref);

	WARN_ON(!list_empty(&file->ready) || file->inflight);
	kfree(file);
}

void hof_file_put(struct hof_file *file)
{
	kref_put(&file->ref, hof_file_free);
}

void hof_file_close(struct hof_file *file)
{
	struct hof_ticket *t, *next;
	LIST_HEAD(ready);

	spin_lock_bh(&file->lock);
	file->closed = true;
	list_splice_init(&file->ready, &ready);
	file->nr_ready = 0;
	list_for_each_entry(t, &ready, ready)
		t->pending = 0;
	spin_unlock_bh(&file->lock);

	timer_shutdown_sync(&file->later);
	/* A closed file takes no ticket on its list again: these nodes are ours. */
	list_for_each_entry_safe(t, next, &ready, ready) {
		list_del_init(&t->ready);
		hof_ticket_put(t);
	}
}

struct hof_ticket *hof_ticket_create(struct hof_file *file, u64 cookie, u32 node, bool later,
				     gfp_t gfp)
{
	struct hof_ticket *t = kzalloc(sizeof(*t), gfp);

	if (!t)
		return NULL;
	refcount_set(&t->ref, 1);
	INIT_LIST_HEAD(&t->ready);
	kref_get(&file->ref);
	t->file = file;
	t->cookie = cookie;
	t->node = node;
	t->later = later;
	return t;
}

void hof_ticket_put(struct hof_ticket *t)
{
	if (!refcount_dec_and_test(&t->ref))
		return;
	hof_file_put(t->file);
	if (t->relay)
		hof_relay_drop(t->relay);
	kfree(t);
}

/* Mark an event as pending, and the ticket as one that has some. */
static void hof_ticket_add(struct hof_ticket *t, enum hof_event_type type, bool later)
{
	struct hof_file *file = t->file;

	lockdep_assert_held(&file->lock);
	if (file->closed)
		return;
	if (file->tell) {
		file->tell(t, type);
		return;
	}
	t->pending |= BIT(type);
	if (list_empty(&t->ready)) {
		refcount_inc(&t->ref);
		list_add_tail(&t->ready, &file->ready);
		WRITE_ONCE(file->nr_ready, file->nr_ready + 1);
	}
	if (!later || file->nr_ready == HOF_LATER_MAX)
		hof_file_wake(file);
	else if (!timer_pending(&file->later))
		mod_timer(&file->later, jiffies + HOF_LATER);
}

void hof_ticket_done(struct hof_ticket *t, u32 usec)
{
	spin_lock_bh(&t->file->lock);
	t->usec = usec;
	hof_ticket_add(t, HOF_EVENT_DONE, t->later);
	spin_unlock_bh(&t->file->lock);
}

void hof_ticket_failed(struct hof_ticket *t, enum flt_refusal why)
{
	spin_lock_bh(&t->file->lock);
	t->refusal = why;
	hof_ticket_add(t, HOF_EVENT_FAILED, false);
	spin_unlock_bh(&t->file->lock);
}

void hof_ticket_closed(struct hof_ticket *t, enum flt_refusal why)
{
	spin_lock_bh(&t->file->lock);
	t->lost = why;
	hof_ticket_add(t, HOF_EVENT_CLOSED, t->later && why == FLT_REFUSE_NONE);
	spin_unlock_bh(&t->file->lock);
}

void hof_ticket_activity(struct hof_ticket *t, bool idle)
{
	u8 other = BIT(idle ? HOF_EVENT_BUSY : HOF_EVENT_IDLE);

	spin_lock_bh(&t->file->lock);
	if (t->idle != idle) {
		t->idle = idle;
		if (t->pending & other)
			t->pending &= ~other;	/* not told yet: as if neither had been */
		else
			hof_ticket_add(t, idle ? HOF_EVENT_IDLE : HOF_EVENT_BUSY, false);
	}
	spin_unlock_bh(&t->file->lock);
}

static enum hof_event_type hof_ticket_first(const struct hof_ticket *t)
{
	if (t->pending & BIT(HOF_EVENT_DONE))
		return HOF_EVENT_DONE;
	if (t->pending & BIT(HOF_EVENT_FAILED))
		return HOF_EVENT_FAILED;
	if (t->pending & BIT(HOF_EVENT_IDLE))
		return HOF_EVENT_IDLE;
	if (t->pending & BIT(HOF_EVENT_BUSY))
		return HOF_EVENT_BUSY;
	return HOF_EVENT_CLOSED;
}

/* Nothing pending any more (IDLE and BUSY may have met): off the list. */
static bool hof_ticket_retire(struct hof_ticket *t)
{
	lockdep_assert_held(&t->file->lock);
	if (t->pending)
		return false;
	list_del_init(&t->ready);
	WRITE_ONCE(t->file->nr_ready, t->file->nr_ready - 1);
	return true;
}

bool hof_ticket_next(struct hof_file *file, struct hof_event *event, struct hof_ticket **of)
{
	struct hof_ticket *t;

	spin_lock_bh(&file->lock);
	for (;;) {
		t = list_first_entry_or_null(&file->ready, struct hof_ticket, ready);
		if (!t) {
			spin_unlock_bh(&file->lock);
			return false;
		}
		if (!hof_ticket_retire(t))
			break;
		spin_unlock_bh(&file->lock);
		hof_ticket_put(t);
		spin_lock_bh(&file->lock);
	}
	memset(event, 0, sizeof(*event));
	event->cookie = t->cookie;
	event->node = t->node;
	event->type = hof_ticket_first(t);
	if (event->type == HOF_EVENT_DONE)
		event->usec = t->usec;
	else if (event->type == HOF_EVENT_FAILED)
		event->refusal = t->refusal;
	else if (event->type == HOF_EVENT_CLOSED)
		event->refusal = t->lost;
	t->pending &= ~BIT(event->type);
	/* Last one: the list's reference becomes the caller's. */
	if (!hof_ticket_retire(t))
		refcount_inc(&t->ref);
	spin_unlock_bh(&file->lock);
	*of = t;
	return true;
}

void hof_ticket_undo(struct hof_ticket *t, const struct hof_event *event)
{
	const u8 activity = BIT(HOF_EVENT_IDLE) | BIT(HOF_EVENT_BUSY);
	struct hof_file *file = t->file;

	spin_lock_bh(&file->lock);
	t->pending |= BIT(event->type);
	if ((t->pending & activity) == activity)
		t->pending &= ~activity;	/* the opposite came meanwhile */
	if (list_empty(&t->ready)) {
		refcount_inc(&t->ref);
		list_add(&t->ready, &file->ready);
		WRITE_ONCE(file->nr_ready, file->nr_ready + 1);
	}
	spin_unlock_bh(&file->lock);
}

unsigned int hof_ticket_count(struct hof_file *file)
{
	struct hof_ticket *t;
	unsigned int n = 0;

	spin_lock_bh(&file->lock);
	list_for_each_entry(t, &file->ready, ready)
		n += hweight8(t->pending);
	spin_unlock_bh(&file->lock);
	return n;
}
