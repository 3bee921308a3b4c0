// SPDX-License-Identifier: GPL-2.0
/* Sets of interest: one open file of the device each. */

#include <linux/log2.h>
#include <linux/slab.h>

#include "counter.h"
#include "set.h"
#include "trace.h"

static void usel_set_free(struct usel_set *set)
{
	usel_pinned_free(&set->out);
	usel_pinned_free(&set->in);
	usel_region_put(set->region);
	kfree(set);
}

static void usel_set_free_work(struct work_struct *work)
{
	usel_set_free(container_of(to_rcu_work(work), struct usel_set, free));
}

static int usel_set_alloc(struct usel_set *set, struct usel_setup *setup)
{
	size_t map = set->region->nfds / BITS_PER_BYTE, rx;
	bool threshold = setup->flags & USEL_SETUP_THRESHOLD;
	int err;

	rx = PAGE_SIZE + 4 * map;
	setup->set_size = PAGE_ALIGN(PAGE_SIZE + set->ring_size * sizeof(u32));
	setup->want_size = PAGE_ALIGN(rx + (threshold ? set->region->nfds * sizeof(u32) : 0));
	err = usel_pinned_alloc(&set->out, setup->set_size);
	if (!err)
		err = usel_pinned_alloc(&set->in, setup->want_size);
	if (err)
		return err;

	set->out_head = set->out.base;
	set->out_head->ring_size = set->ring_size;
	set->out_head->ring = PAGE_SIZE;
	set->ring = set->out.base + PAGE_SIZE;

	set->in_head = set->in.base;
	set->in_head->read = PAGE_SIZE;
	set->in_head->write = PAGE_SIZE + map;
	set->in_head->except = PAGE_SIZE + 2 * map;
	set->in_head->pending = PAGE_SIZE + 3 * map;
	set->in_head->rx = threshold ? rx : 0;
	set->want_read = set->in.base + PAGE_SIZE;
	set->want_write = set->want_read + map / sizeof(long);
	set->want_except = set->want_write + map / sizeof(long);
	set->pending = set->want_except + map / sizeof(long);
	set->want_rx = threshold ? set->in.base + rx : NULL;
	return 0;
}

struct usel_set *usel_set_open(struct usel_setup *setup)
{
	struct usel_set *set = kzalloc(sizeof(*set), GFP_KERNEL_ACCOUNT);
	int err;

	if (!set)
		return ERR_PTR(-ENOMEM);
	INIT_LIST_HEAD(&set->list);
	init_waitqueue_head(&set->wq);
	spin_lock_init(&set->lock);
	set->ring_size = roundup_pow_of_two(setup->ring);
	set->edges = setup->flags & USEL_SETUP_EDGES;
	err = usel_region_join(set, setup);
	if (err) {
		kfree(set);
		return ERR_PTR(err);
	}
	err = usel_set_alloc(set, setup);
	usel_set_link(set);
	if (err) {
		usel_set_close(set);
		return ERR_PTR(err);
	}
	if (!set->edges)
		usel_region_tighten(set->region);
	setup->ring = set->ring_size;
	setup->nfds = set->region->nfds;
	setup->region_size = set->region->mem.nr_pages << PAGE_SHIFT;
	usel_count(set->region->net, USEL_STAT_SETS_OPENED);
	return set;
}

void usel_set_close(struct usel_set *set)
{
	usel_region_leave(set);
	INIT_RCU_WORK(&set->free, usel_set_free_work);
	queue_rcu_work(usel_wq, &set->free);
}

static void usel_set_publish(struct usel_set *set)
{
	lockdep_assert_held(&set->lock);
	/* Pairs with the process's load-acquire: what was counted can be seen. */
	smp_store_release(&set->out_head->seq, ++set->seq);
}

/* The process says how far it has read; what it says is believed for its own ring only. */
static void usel_set_put(struct usel_set *set, unsigned int fd)
{
	lockdep_assert_held(&set->lock);
	if (set->head - READ_ONCE(set->in_head->tail) >= set->ring_size) {
		WRITE_ONCE(set->out_head->overflows, set->out_head->overflows + 1);
		usel_count(set->region->net, USEL_STAT_RING_OVERFLOWS);
		return;
	}
	WRITE_ONCE(set->ring[set->head & (set->ring_size - 1)], fd);
	/* Pairs with the process's load-acquire: the entry comes before the count. */
	smp_store_release(&set->out_head->head, ++set->head);
}

static bool usel_set_wants(const struct usel_set *set, unsigned int fd, unsigned int what,
			   u32 rx_bytes)
{
	if ((what & USEL_W) && test_bit(fd, set->want_write))
		return true;
	if ((what & USEL_E) && test_bit(fd, set->want_except))
		return true;
	return (what & USEL_R) && test_bit(fd, set->want_read) &&
	       (!set->want_rx || rx_bytes >= READ_ONCE(set->want_rx[fd]));
}

void usel_set_tell(struct usel_set *set, unsigned int fd, unsigned int what, u32 rx_bytes)
{
	u32 flags = READ_ONCE(set->in_head->flags);
	unsigned long irq;
	bool wanted;

	wanted = usel_set_wants(set, fd, what, rx_bytes);
	if (!wanted && !(flags & USEL_WANT_ALL))
		return;
	/* Still there: the reader clears the bit before it looks. */
	if (wanted && (flags & USEL_WANT_RING) && test_and_set_bit(fd, set->pending))
		return;

	spin_lock_irqsave(&set->lock, irq);
	if (wanted && (flags & USEL_WANT_RING))
		usel_set_put(set, fd);
	usel_set_publish(set);
	spin_unlock_irqrestore(&set->lock, irq);

	flt_stats_inc(set->region->stats, USEL_STAT_EVENTS);
	if (!wq_has_sleeper(&set->wq))
		return;
	/* Who was woken has not asked since, and finds this event with the other. */
	if (!(flags & USEL_WANT_RING) || !xchg(&set->woken, true)) {
		trace_usel_wake(fd, what);
		flt_stats_inc(set->region->stats, USEL_STAT_WAKEUPS);
		wake_up_interruptible_sync_poll(&set->wq, EPOLLIN | EPOLLRDNORM);
	}
}

void usel_set_wake(struct usel_set *set)
{
	if (set->out_head) {
		spin_lock_irq(&set->lock);
		usel_set_publish(set);
		spin_unlock_irq(&set->lock);
	}
	wake_up_interruptible_poll(&set->wq, EPOLLIN | EPOLLRDNORM);
}

__poll_t usel_set_poll(struct usel_set *set, struct file *file, struct poll_table_struct *wait)
{
	poll_wait(file, &set->wq, wait);
	WRITE_ONCE(set->woken, false);
	/*
	 * Pairs with wq_has_sleeper() and xchg(): the sequence number is read after we are on the
	 * queue, and after whoever publishes from now on will wake us.
	 */
	smp_mb();
	if (READ_ONCE(set->out_head->seq) != READ_ONCE(set->in_head->seen))
		return EPOLLIN | EPOLLRDNORM;
	return 0;
}
