// SPDX-License-Identifier: GPL-2.0
/*
 * The thread of an export, and the three ways of delivering what the disk has read
 * [Olaru 3.9.2]:
 *
 *   event  the thread only submits; the disk's completion raises a softirq work that
 *          sends. (Disks complete in hard interrupts, where nothing may be sent.)
 *   async  the thread submits all that waits, sleeps until the first is done and sends
 *          what is done by then
 *   sync   the thread submits one, sleeps until it is done, sends it
 */

#include <linux/blkdev.h>
#include <linux/kthread.h>
#include <linux/slab.h>
#include <linux/workqueue.h>

#include "counter.h"
#include "thread.h"

/* Requests submitted before finished ones are looked at. */
#define CARD_THREAD_BATCH	64

/**
 * struct card_thread - of one export
 * @export:   it
 * @task:     the thread
 * @lock:     leaf, bottom halves off; guards @queue
 * @queue:    struct card_serve that wait for the thread
 * @writing:  struct card_serve, writes that the disk works on; the thread's own
 * @finished: struct card_serve that the disk is through with, for the thread
 * @ended:    the same, for @work
 * @work:     sends in softirq
 * @wait:     the thread sleeps here
 * @due:      whose answers the thread has queued and not sent; referenced; its own
 */
struct card_thread {
	struct card_export *export;
	struct task_struct *task;
	spinlock_t lock;	/* leaf: queue */
	struct list_head queue;
	struct list_head writing;
	struct llist_head finished;
	struct llist_head ended;
	struct work_struct work;
	wait_queue_head_t wait;
	struct flt_node *due;
};

/* Answers to one node leave together: @due is sent when others are queued for another. */
static void card_thread_due(struct flt_node **due, struct flt_node *node, bool now)
{
	if (*due && *due != node)
		flt_link_flush(*due, now);
	if (*due)
		flt_node_put(*due);
	*due = node;
}

static unsigned int card_thread_finish(struct llist_head *list, struct flt_node **due, bool now)
{
	struct llist_node *all = llist_reverse_order(llist_del_all(list));
	struct card_serve *s, *next;
	unsigned int n = 0;

	llist_for_each_entry_safe(s, next, all, done) {
		if (s->op == CARD_OP_WRITE)
			list_del(&s->list);
		card_thread_due(due, card_serve_finish(s), now);
		n++;
	}
	return n;
}

static void card_thread_work(struct work_struct *work)
{
	struct card_thread *thread = container_of(work, struct card_thread, work);
	struct flt_node *due = NULL;

	card_count_add(thread->export->cn, CARD_STAT_DELIVER_SOFTIRQ,
		       card_thread_finish(&thread->ended, &due, false));
	card_thread_due(&due, NULL, false);
}

void card_thread_disk_done(struct card_serve *s)
{
	struct card_thread *thread = s->export->thread;

	if (s->deliver == CARD_DELIVER_EVENT) {
		if (llist_add(&s->done, &thread->ended))
			queue_work(system_bh_wq, &thread->work);
	} else if (llist_add(&s->done, &thread->finished)) {
		wake_up(&thread->wait);
	}
}

void card_thread_queue(struct card_serve *s)
{
	struct card_thread *thread = s->export->thread;
	bool first;

	spin_lock_bh(&thread->lock);
	first = list_empty(&thread->queue);
	list_add_tail(&s->list, &thread->queue);
	spin_unlock_bh(&thread->lock);
	if (first)
		wake_up(&thread->wait);
}

static struct card_serve *card_thread_next(struct card_thread *thread)
{
	struct card_serve *s;

	spin_lock_bh(&thread->lock);
	s = list_first_entry_or_null(&thread->queue, struct card_serve, list);
	if (s)
		list_del(&s->list);
	spin_unlock_bh(&thread->lock);
	return s;
}

static void card_thread_deliver(struct card_thread *thread)
{
	card_count_add(thread->export->cn, CARD_STAT_DELIVER_THREAD,
		       card_thread_finish(&thread->finished, &thread->due, true));
}

/* What is queued goes before the thread sleeps. */
static void card_thread_flush(struct card_thread *thread)
{
	card_thread_due(&thread->due, NULL, true);
}

static bool card_thread_overlaps(const struct card_thread *thread, const struct card_serve *s)
{
	const struct card_serve *w;

	list_for_each_entry(w, &thread->writing, list)
		if (s->sector < w->sector + (w->bytes >> SECTOR_SHIFT) &&
		    w->sector < s->sector + (s->bytes >> SECTOR_SHIFT))
			return true;
	return false;
}

/*
 * A write that was asked for twice, because the first answer was late, must not reach
 * the disk after a newer one to the same place: such writes go one after the other.
 */
static void card_thread_begin_write(struct card_thread *thread, struct card_serve *s)
{
	while (card_thread_overlaps(thread, s)) {
		card_count(thread->export->cn, CARD_STAT_WRITES_ORDERED);
		card_thread_flush(thread);
		wait_event_idle(thread->wait, !llist_empty(&thread->finished));
		card_thread_deliver(thread);
	}
	list_add(&s->list, &thread->writing);
}

/* True: the disk works on it. */
static bool card_thread_one(struct card_thread *thread, struct card_serve *s)
{
	card_count(s->export->cn, CARD_STAT_SERVE_THREAD);
	/* Somebody else writes now, and waits until what this one has sent is out of the way. */
	if (s->op != CARD_OP_READ && card_session_fenced(s->session)) {
		s->status = -ESTALE;
		card_thread_due(&thread->due, card_serve_finish(s), true);
		return false;
	}
	if (s->op == CARD_OP_READ && card_serve_lookup(s)) {
		card_thread_due(&thread->due, card_serve_finish(s), true);
		return false;
	}
	s->deliver = READ_ONCE(s->export->spec.deliver);
	/* After a write the cache is cleaned, which sleeps. */
	if (s->op != CARD_OP_READ && s->deliver == CARD_DELIVER_EVENT)
		s->deliver = CARD_DELIVER_ASYNC;
	if (s->op == CARD_OP_WRITE)
		card_thread_begin_write(thread, s);
	if (card_serve_submit(s)) {
		card_count(thread->export->cn, CARD_STAT_DELIVER_THREAD);
		card_thread_due(&thread->due, card_serve_finish(s), true);
		return false;
	}
	return true;
}

static bool card_thread_has_work(struct card_thread *thread)
{
	return !llist_empty(&thread->finished) || !list_empty_careful(&thread->queue) ||
	       kthread_should_stop();
}

/*
 * The disk gets all of it together: with a policy a reader's window comes in requests of a
 * block each, which are one to the disk. Sleeping submits what there is.
 */
static void card_thread_batch(struct card_thread *thread)
{
	struct card_serve *s;
	struct blk_plug plug;
	unsigned int n;
	bool sync;

	blk_start_plug(&plug);
	for (n = 0; n < CARD_THREAD_BATCH; n++) {
		s = card_thread_next(thread);
		if (!s)
			break;
		sync = READ_ONCE(s->export->spec.deliver) == CARD_DELIVER_SYNC;
		if (card_thread_one(thread, s) && sync) {
			card_thread_flush(thread);
			wait_event_idle(thread->wait, !llist_empty(&thread->finished));
			break;
		}
	}
	blk_finish_plug(&plug);
}

static int card_thread_main(void *arg)
{
	struct card_thread *thread = arg;
	struct card_net *cn = thread->export->cn;

	while (!kthread_should_stop()) {
		wait_event_idle(thread->wait, card_thread_has_work(thread));
		card_count(cn, CARD_STAT_THREAD_WAKEUPS);
		card_thread_batch(thread);
		card_thread_deliver(thread);
		card_thread_flush(thread);
		cond_resched();
	}
	return 0;
}

struct card_thread *card_thread_start(struct card_export *export)
{
	struct card_thread *thread;

	thread = kzalloc(sizeof(*thread), GFP_KERNEL);
	if (!thread)
		return ERR_PTR(-ENOMEM);
	thread->export = export;
	spin_lock_init(&thread->lock);
	INIT_LIST_HEAD(&thread->queue);
	INIT_LIST_HEAD(&thread->writing);
	init_llist_head(&thread->finished);
	init_llist_head(&thread->ended);
	INIT_WORK(&thread->work, card_thread_work);
	init_waitqueue_head(&thread->wait);
	thread->task = kthread_run(card_thread_main, thread, "card/%s", export->spec.name);
	if (IS_ERR(thread->task)) {
		struct task_struct *task = thread->task;

		kfree(thread);
		return ERR_CAST(task);
	}
	return thread;
}

void card_thread_stop(struct card_thread *thread)
{
	if (!thread)
		return;
	kthread_stop(thread->task);
	cancel_work_sync(&thread->work);
	kfree(thread);
}
