/* SPDX-License-Identifier: GPL-2.0 */
/* Sets of interest: one open file of the device each. */
#ifndef USEL_SET_H
#define USEL_SET_H

#include <linux/poll.h>
#include <linux/wait.h>

#include "region.h"

/* What became true, as far as the bitmaps distinguish it. */
#define USEL_R		BIT(0)
#define USEL_W		BIT(1)
#define USEL_E		BIT(2)
#define USEL_ALL	(USEL_R | USEL_W | USEL_E)

/**
 * struct usel_set - who wants to know what, and how to tell
 * @list:    in the region's sets; RCU
 * @region:  holds one of its users
 * @out:     read-only to the process: struct usel_set_head and the ring
 * @in:      writable by it: struct usel_want_head and bitmaps; the offsets there are never read
 * @wq:      who sleeps on the descriptor
 * @lock:    @seq, @head, the ring; interrupts off; a leaf but for @wq's
 * @seq:     the kernel's own copy of what is in @out
 * @head:    the same
 * @ring_size: the same
 * @woken:   those on @wq were woken for the ring, and nobody has asked poll() since
 * @edges:   USEL_SETUP_EDGES
 * @left:    the owner has closed it; under usel_regions_lock
 * @watch:   in the table of watches, by @watched; RCU
 * @watched: an epoll; compared, never followed; it and the rest are written under usel_watch_lock
 * @watched_fd: its number
 * @unwatched: it is too late for a watch
 * @free:    frees after a grace period
 */
struct usel_set {
	struct list_head list;
	struct usel_region *region;
	struct usel_pinned out;
	struct usel_pinned in;
	struct usel_set_head *out_head;
	struct usel_want_head *in_head;
	u32 *ring;
	unsigned long *want_read;
	unsigned long *want_write;
	unsigned long *want_except;
	unsigned long *pending;
	u32 *want_rx;
	wait_queue_head_t wq;
	spinlock_t lock;	/* @seq, @head, the ring */
	u64 seq;
	u32 head;
	u32 ring_size;
	bool woken;
	bool edges;
	bool left;
	struct hlist_node watch;
	const struct file *watched;
	unsigned int watched_fd;
	bool unwatched;
	struct rcu_work free;
};

/* Sizes are the caller's to check. ERR_PTR(-ENOMEM). */
struct usel_set *usel_set_open(struct usel_setup *setup);
/* The file is released. */
void usel_set_close(struct usel_set *set);
void usel_set_link(struct usel_set *set);

/* May what happens to this descriptor concern the set? Most sets want nothing of most. */
static inline bool usel_set_listens(const struct usel_set *set, unsigned int fd)
{
	return set->ring && (test_bit(fd, set->want_read) || test_bit(fd, set->want_write) ||
			     test_bit(fd, set->want_except) ||
			     (READ_ONCE(set->in_head->flags) & USEL_WANT_ALL));
}

/**
 * usel_set_tell - something happened to a descriptor
 * @set:      of the region; usel_set_listens()
 * @fd:       below nfds
 * @what:     USEL_*
 * @rx_bytes: unread bytes, or U32_MAX when the number does not matter
 *
 * The caller has set the bits and executed a full barrier since: the process publishes
 * what it wants, executes one, and looks at the bits. Under RCU, or the socket's lock.
 */
void usel_set_tell(struct usel_set *set, unsigned int fd, unsigned int what, u32 rx_bytes);
/* Whatever it waits for, it will not come. */
void usel_set_wake(struct usel_set *set);
__poll_t usel_set_poll(struct usel_set *set, struct file *file, struct poll_table_struct *wait);

#endif
