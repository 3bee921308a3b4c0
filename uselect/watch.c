// SPDX-License-Identifier: GPL-2.0
/*
 * Epolls that sets watch: has anyone changed what they wait for?
 *
 * An epoll is changed through each copy of its descriptor, by each process that has one, and by
 * io_uring. All of that goes through one function, which is traced; so is what gives a number
 * to a file. A set that watches counts both where its process can read it.
 */

#include <linux/fdtable.h>
#include <linux/file.h>
#include <linux/hashtable.h>
#include <linux/sched.h>
#include <linux/spinlock.h>

#include "region.h"
#include "set.h"
#include "watch.h"

/* All that watch an epoll are looked at for each change of it, or of one in the same bucket. */
#define USEL_WATCHES_MAX	64

/* Comings and goings; the table itself is read under RCU. Outside of a descriptor table's lock. */
static DEFINE_SPINLOCK(usel_watch_lock);
static DEFINE_HASHTABLE(usel_watches, 8);

static void usel_watch_count(struct usel_set *set)
{
	atomic_inc((atomic_t *)&set->out_head->changes);
}

void usel_watch_changed(const struct file *file)
{
	struct usel_set *set;

	rcu_read_lock();
	hash_for_each_possible_rcu(usel_watches, set, watch, (unsigned long)file)
		if (READ_ONCE(set->watched) == file)
			usel_watch_count(set);
	rcu_read_unlock();
}

void usel_watch_named(struct usel_region *region, unsigned int fd)
{
	struct usel_set *set;

	if (!READ_ONCE(region->nr_watches))
		return;
	list_for_each_entry_rcu(set, &region->sets, list)
		if (READ_ONCE(set->watched) && READ_ONCE(set->watched_fd) == fd)
			usel_watch_count(set);
}

/*
 * Whoever was replacing the file before the watch could be seen does it under the table's lock
 * (do_dup2()), or after the number was free (fd_install()).
 */
static bool usel_watch_holds(unsigned int fd, const struct file *file)
{
	const struct file *now;

	rcu_read_lock();
	spin_lock(&current->files->file_lock);
	now = files_lookup_fd_raw(current->files, fd);
	spin_unlock(&current->files->file_lock);
	rcu_read_unlock();
	return now == file;
}

static unsigned int usel_watch_number(const struct file *file)
{
	struct usel_set *set;
	unsigned int n = 0;

	lockdep_assert_held(&usel_watch_lock);
	hash_for_each_possible(usel_watches, set, watch, (unsigned long)file)
		n += set->watched == file;
	return n;
}

int usel_watch_begin(struct usel_set *set, unsigned int fd)
{
	struct usel_region *region = set->region;
	int err = 0;

	CLASS(fd, f)(fd);

	if (fd_empty(f))
		return -EBADF;
	if (!region->traced)
		return -EOPNOTSUPP;
	if (!usel_region_is_current(region))
		return -EXDEV;
	spin_lock(&usel_watch_lock);
	if (set->unwatched) {
		err = -ESHUTDOWN;
	} else if (set->watched) {
		/* Who reads the table may stand on its node. */
		err = -EBUSY;
	} else if (usel_watch_number(fd_file(f)) >= USEL_WATCHES_MAX) {
		err = -EUSERS;
	} else {
		/* Compared, never followed: no reference. */
		WRITE_ONCE(set->watched_fd, fd);
		WRITE_ONCE(set->watched, fd_file(f));
		WRITE_ONCE(region->nr_watches, region->nr_watches + 1);
		hash_add_rcu(usel_watches, &set->watch, (unsigned long)fd_file(f));
		if (!usel_watch_holds(fd, fd_file(f)))
			usel_watch_count(set);
	}
	spin_unlock(&usel_watch_lock);
	return err;
}

void usel_watch_end(struct usel_set *set)
{
	spin_lock(&usel_watch_lock);
	set->unwatched = true;
	if (set->watched) {
		hash_del_rcu(&set->watch);
		WRITE_ONCE(set->watched, NULL);
		WRITE_ONCE(set->region->nr_watches, set->region->nr_watches - 1);
		usel_watch_count(set);
	}
	spin_unlock(&usel_watch_lock);
}
