/* SPDX-License-Identifier: GPL-2.0 */
/* Regions: what a registered process can read. */
#ifndef USEL_REGION_H
#define USEL_REGION_H

#include <linux/list.h>
#include <linux/refcount.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>
#include <flotilla/uselect.h>

#include "pinned.h"

struct files_struct;
struct mm_struct;
struct net;
struct usel_bind;
struct usel_set;

/**
 * struct usel_region - the tracked descriptors of one descriptor table
 * @node:    in the table of regions, by @files; RCU
 * @files:   whose descriptors; compared, never followed, and only of a region that is in the table
 *	     of regions: a set that has not left has a number in @files (usel_fd_names()), and the
 *	     flush() of that number ends the region before @files goes
 * @mm:      whose memory; held, compared: exec() keeps the table, and ends the registration
 * @removed: no more in the table of regions; under usel_regions_lock
 * @net:     whose counters; a reference
 * @stats:   these
 * @mem:     what is mapped; the following five point into it
 * @traced:  descriptors are followed by probes; never changes
 * @bytes:   keep the numbers of struct usel_fd; set once
 * @edges:   no set wants the bits to be right at all times (USEL_SETUP_EDGES), there are no numbers
 *	     to keep, and descriptors are not guessed; under usel_regions_lock
 * @tight:   no socket is loose, since before a set joined that is here still; the same
 * @nr_levels: sets that want it; the same
 * @lock:    @owner, @dead; interrupts off; inside struct usel_sock's lock
 * @owner:   by descriptor: who has its bit in @active; written under the owner's socket's
 *	     lock and @lock, read under RCU
 * @owners:  where it is
 * @dead:    no new descriptors
 * @sets:    struct usel_set; changed under usel_regions_lock, RCU
 * @nr_sets: their number; under usel_regions_lock
 * @nr_watches: of @sets; under usel_watch_lock
 * @users:   one for each set that is not yet freed
 * @free:    frees after a grace period
 *
 * Lock order: usel_sock's lock, @lock. usel_regions_lock is a leaf.
 */
struct usel_region {
	struct hlist_node node;
	const struct files_struct *files;
	struct mm_struct *mm;
	bool removed;
	struct net *net;
	u64 __percpu *stats;
	struct usel_pinned mem;
	struct usel_region_head *head;
	unsigned long *active;
	unsigned long *read;
	unsigned long *write;
	unsigned long *except;
	struct usel_fd *fds;
	unsigned int nfds;
	bool traced;
	bool bytes;
	bool edges;
	bool tight;
	unsigned int nr_levels;
	spinlock_t lock;	/* @owner, @dead */
	struct usel_bind __rcu **owner;
	struct usel_pinned owners;
	bool dead;
	struct list_head sets;
	unsigned int nr_sets;
	unsigned int nr_watches;
	refcount_t users;
	struct rcu_work free;
};

int usel_region_init(void);
void usel_region_exit(void);

/* The region of the caller's descriptor table and memory or NULL; under RCU. */
struct usel_region *usel_region_current(void);
/* The same, be it of another memory: of a program that exec() has replaced or shares the table. */
struct usel_region *usel_region_of_table(void);
/* Does the caller have one, is it this one? For decisions only. */
bool usel_region_has_current(void);
bool usel_region_is_current(const struct usel_region *region);

/**
 * usel_region_join - a set joins the region of the caller's table, which is made if need be
 * @set:   with @set->mem not yet allocated; gets @set->region
 * @setup: checked; @nfds says how many for a new region
 *
 * Return: 0, -ENOMEM, -EMFILE.
 */
int usel_region_join(struct usel_set *set, const struct usel_setup *setup);

/* A set is here that wants the bits to be right at all times: from now on they are. */
void usel_region_tighten(struct usel_region *region);

/* The set's descriptor is closed in the table it was opened in; the last one ends the region. */
void usel_region_leave(struct usel_set *set);
void usel_region_put(struct usel_region *region);

/* Regions whose numbers are kept. */
extern atomic_t usel_regions_counting;

/* For freeing after a grace period. */
extern struct workqueue_struct *usel_wq;

#endif
