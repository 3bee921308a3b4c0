// SPDX-License-Identifier: GPL-2.0
/* Regions: what a registered process can read. */

#include <linux/fdtable.h>
#include <linux/hashtable.h>
#include <linux/module.h>
#include <linux/nsproxy.h>
#include <linux/sched.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <net/net_namespace.h>

#include "kmod/param.h"

#include "counter.h"
#include "fd.h"
#include "hook.h"
#include "region.h"
#include "set.h"
#include "sock.h"
#include "watch.h"

/*
 * Comings and goings of regions and sets; the table itself is read under RCU. What takes long is
 * done without it, and who holds it does not sleep: he may be of a cgroup that has no CPU time
 * left, and all others would wait for him.
 */
static DEFINE_SPINLOCK(usel_regions_lock);
static DEFINE_HASHTABLE(usel_regions, 8);

static unsigned int max_sets = 64;
module_param(max_sets, admin_uint, 0644);
MODULE_PARM_DESC(max_sets, "sets of one descriptor table: each is looked at for each event (default 64)");

struct workqueue_struct *usel_wq;
atomic_t usel_regions_counting = ATOMIC_INIT(0);

struct usel_region *usel_region_of_table(void)
{
	const struct files_struct *files = current->files;
	struct usel_region *region;

	hash_for_each_possible_rcu(usel_regions, region, node, (unsigned long)files)
		if (region->files == files)
			return region;
	return NULL;
}

struct usel_region *usel_region_current(void)
{
	struct usel_region *region = usel_region_of_table();

	return region && region->mm == current->mm ? region : NULL;
}

bool usel_region_has_current(void)
{
	bool has;

	rcu_read_lock();
	has = usel_region_current();
	rcu_read_unlock();
	return has;
}

bool usel_region_is_current(const struct usel_region *region)
{
	bool is;

	rcu_read_lock();
	is = usel_region_current() == region;
	rcu_read_unlock();
	return is;
}

static void usel_region_layout(struct usel_region *region)
{
	struct usel_region_head *head = region->mem.base;
	size_t map = region->nfds / BITS_PER_BYTE;

	head->magic = USEL_MAGIC;
	head->abi = USEL_ABI;
	head->nfds = region->nfds;
	head->active = PAGE_SIZE;
	head->read = head->active + map;
	head->write = head->read + map;
	head->except = head->write + map;
	head->fds = PAGE_ALIGN(head->except + map);
	region->head = head;
	region->active = region->mem.base + head->active;
	region->read = region->mem.base + head->read;
	region->write = region->mem.base + head->write;
	region->except = region->mem.base + head->except;
	region->fds = region->mem.base + head->fds;
}

static size_t usel_region_size(unsigned int nfds)
{
	return PAGE_SIZE + PAGE_ALIGN(4 * nfds / BITS_PER_BYTE) + nfds * sizeof(struct usel_fd);
}

static void usel_region_free(struct usel_region *region)
{
	usel_pinned_free(&region->mem);
	usel_pinned_free(&region->owners);
	put_net(region->net);
	mmdrop(region->mm);
	kfree(region);
}

static struct usel_region *usel_region_make(unsigned int nfds)
{
	struct usel_region *region = kzalloc(sizeof(*region), GFP_KERNEL_ACCOUNT);

	if (!region)
		return NULL;
	region->mm = current->mm;
	mmgrab(region->mm);
	region->net = get_net(current->nsproxy->net_ns);
	region->stats = usel_stats(region->net);
	if (usel_pinned_alloc(&region->owners, nfds * sizeof(*region->owner)) ||
	    usel_pinned_alloc(&region->mem, usel_region_size(nfds))) {
		usel_region_free(region);
		return NULL;
	}
	region->owner = region->owners.base;
	region->files = current->files;
	region->traced = usel_fd_get();
	region->nfds = nfds;
	spin_lock_init(&region->lock);
	INIT_LIST_HEAD(&region->sets);
	refcount_set(&region->users, 1);
	usel_region_layout(region);
	return region;
}

static void usel_region_free_work(struct work_struct *work)
{
	usel_region_free(container_of(to_rcu_work(work), struct usel_region, free));
}

void usel_region_put(struct usel_region *region)
{
	if (!refcount_dec_and_test(&region->users))
		return;
	INIT_RCU_WORK(&region->free, usel_region_free_work);
	queue_rcu_work(usel_wq, &region->free);
}

static struct usel_region *usel_region_find(void)
{
	struct usel_region *region;

	rcu_read_lock();
	region = usel_region_of_table();
	rcu_read_unlock();
	return region;
}

/* Nobody finds it any more. From here on @files may be another process's table. */
static void usel_region_remove(struct usel_region *region)
{
	lockdep_assert_held(&usel_regions_lock);
	region->removed = true;
	hash_del_rcu(&region->node);
	usel_hook_put();
}

static void usel_region_end(struct usel_region *region)
{
	unsigned int fd;

	spin_lock_irq(&region->lock);
	region->dead = true;
	spin_unlock_irq(&region->lock);
	/* Who has found the region just before, and does not look at @dead: hooks. */
	for (fd = 0; fd < region->nfds; fd++) {
		if (rcu_access_pointer(region->owner[fd]))
			usel_sock_evict(region, fd, USEL_WHY_END);
		if (fd % 4096 == 0)
			cond_resched_tasks_rcu_qs();
	}
	WRITE_ONCE(region->head->flags, USEL_REGION_DEAD);
	if (region->bytes)
		atomic_dec(&usel_regions_counting);
	if (region->traced)
		usel_fd_put();
	usel_count(region->net, USEL_STAT_REGIONS_CLOSED);
}

/* A set has come or gone. */
static void usel_region_settle(struct usel_region *region)
{
	lockdep_assert_held(&usel_regions_lock);
	WRITE_ONCE(region->edges, region->traced && !region->bytes && !region->nr_levels);
	if (region->edges)
		WRITE_ONCE(region->tight, false);
}

/*
 * A table has one region. Another memory's, whose program is over or shares the table, ends, and is
 * in *@old with one of its users.
 *
 * Return: 0, -EMFILE, -ENOENT when the table has no region and @made is NULL.
 */
static int usel_region_enter(struct usel_set *set, const struct usel_setup *setup,
			     struct usel_region *made, struct usel_region **old)
{
	struct usel_region *region;
	int err = 0;

	spin_lock(&usel_regions_lock);
	region = usel_region_find();
	if (region && region->mm != current->mm) {
		refcount_inc(&region->users);
		usel_region_remove(region);
		*old = region;
		region = NULL;
	}
	if (!region && !made) {
		err = -ENOENT;
		goto out;
	}
	if (region && region->nr_sets >= max(READ_ONCE(max_sets), 1U)) {
		err = -EMFILE;
		goto out;
	}
	if (region) {
		refcount_inc(&region->users);
	} else {
		region = made;
		usel_hook_get();
		hash_add_rcu(usel_regions, &region->node, (unsigned long)region->files);
		usel_count(region->net, USEL_STAT_REGIONS_OPENED);
	}
	if ((setup->flags & USEL_SETUP_BYTES) && !region->bytes) {
		WRITE_ONCE(region->bytes, true);
		atomic_inc(&usel_regions_counting);
	}
	region->nr_sets++;
	region->nr_levels += !set->edges;
	usel_region_settle(region);
	set->region = region;
out:
	spin_unlock(&usel_regions_lock);
	return err;
}

static int usel_region_try(struct usel_set *set, const struct usel_setup *setup,
			   struct usel_region *made)
{
	struct usel_region *old = NULL;
	int err;

	err = usel_region_enter(set, setup, made, &old);
	if (old) {
		usel_region_end(old);
		usel_region_put(old);
	}
	return err;
}

static void usel_region_tighten_fd(struct usel_region *region, unsigned int fd)
{
	struct usel_bind *bind;

	rcu_read_lock();
	bind = rcu_dereference(region->owner[fd]);
	if (bind)
		usel_sock_tighten(bind->us);
	rcu_read_unlock();
}

void usel_region_tighten(struct usel_region *region)
{
	unsigned int fd;

	if (READ_ONCE(region->tight))
		return;
	/* Who takes a number from here on sees that it is not @edges. */
	spin_lock_irq(&region->lock);
	spin_unlock_irq(&region->lock);
	for (fd = 0; fd < region->nfds; fd++) {
		if (rcu_access_pointer(region->owner[fd]))
			usel_region_tighten_fd(region, fd);
		if (fd % 4096 == 0)
			cond_resched();
	}
	/* The caller's set has not left: it is not @edges meanwhile. */
	spin_lock(&usel_regions_lock);
	WRITE_ONCE(region->tight, true);
	spin_unlock(&usel_regions_lock);
}

int usel_region_join(struct usel_set *set, const struct usel_setup *setup)
{
	struct usel_region *made;
	int err;

	err = usel_region_try(set, setup, NULL);
	if (err != -ENOENT)
		return err;
	made = usel_region_make(setup->nfds);
	if (!made)
		return -ENOMEM;
	err = usel_region_try(set, setup, made);
	if (set->region == made)
		return 0;
	/* Another thread was faster. */
	if (made->traced)
		usel_fd_put();
	usel_region_free(made);
	return err;
}

void usel_region_leave(struct usel_set *set)
{
	struct usel_region *region = set->region;
	bool left, last = false;

	spin_lock(&usel_regions_lock);
	left = set->left;
	if (!left) {
		set->left = true;
		list_del_rcu(&set->list);
		region->nr_levels -= !set->edges;
		usel_region_settle(region);
		last = !--region->nr_sets && !region->removed;
		if (last)
			usel_region_remove(region);
	}
	spin_unlock(&usel_regions_lock);
	if (left)
		return;
	usel_watch_end(set);
	if (last)
		usel_region_end(region);
	usel_set_wake(set);
}

/* The set is ready to be told. */
void usel_set_link(struct usel_set *set)
{
	spin_lock(&usel_regions_lock);
	list_add_tail_rcu(&set->list, &set->region->sets);
	spin_unlock(&usel_regions_lock);
}

int usel_region_init(void)
{
	usel_wq = alloc_workqueue("uselect", WQ_UNBOUND, 0);
	return usel_wq ? 0 : -ENOMEM;
}

void usel_region_exit(void)
{
	rcu_barrier();
	destroy_workqueue(usel_wq);
}
