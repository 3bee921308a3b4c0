// SPDX-License-Identifier: GPL-2.0
/* What the kernel's reclaim takes from the file cache: of one group of processes, or of all. */
#include <linux/list_lru.h>
#include <linux/memcontrol.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/shrinker.h>
#include <linux/slab.h>
#include <linux/vmstat.h>

#include "kmod/compat/lru_walk.h"
#include "kmod/param.h"

#include "cache.h"
#include "counter.h"

static bool half_rule = true;
module_param(half_rule, admin_bool, 0644);
MODULE_PARM_DESC(half_rule, "under pressure, evict only when half of all reclaim is asked of us (Y)");

/* The extents by memory cgroup and node: what reclaim for one of them may look at. */
struct list_lru iol_lru;
static struct shrinker *iol_shrinker;
/*
 * The half rule: pages that reclaim looked at since the last eviction, and those asked of us. All
 * three under the cache's lock.
 */
static u64 iol_scanned_all;
static u64 iol_scanned_ours;
/* What the kernel's own count of the former was then. */
static u64 iol_scanned_last;

/* Extents have up to as many pages as a chunk. */
static unsigned long iol_shrink_count(struct shrinker *shrinker, struct shrink_control *sc)
{
	unsigned long extents = list_lru_shrink_count(&iol_lru, sc);

	return extents ? extents * IOL_CHUNK_PAGES : SHRINK_EMPTY;
}

/* Does reclaim want the memory of one group of processes, or of all of the machine? */
static bool iol_shrinks_group(const struct shrink_control *sc)
{
	return sc->memcg && parent_mem_cgroup(sc->memcg);
}

/* Is the group, or one that it is in, at its limit? Then this is not about the machine's memory. */
static bool iol_group_is_full(struct mem_cgroup *memcg)
{
	for (; memcg && parent_mem_cgroup(memcg); memcg = parent_mem_cgroup(memcg)) {
		unsigned long most = min(READ_ONCE(memcg->memory.max),
					 READ_ONCE(memcg->memory.high));

		if (page_counter_read(&memcg->memory) >= most - most / 8)
			return true;
	}
	return false;
}

/*
 * Pages that reclaim has looked at since the kernel started. Not by all_vm_events(): that takes the
 * lock of CPU hotplug, whose holder may be the one that reclaims.
 */
static u64 iol_scan_events(void)
{
	u64 scanned = 0;
#ifdef CONFIG_VM_EVENT_COUNTERS
	int cpu;

	for_each_possible_cpu(cpu) {
		const struct vm_event_state *state = &per_cpu(vm_event_states, cpu);

		scanned += READ_ONCE(state->event[PGSCAN_KSWAPD]) +
			   READ_ONCE(state->event[PGSCAN_DIRECT]);
	}
#endif
	return scanned;
}

/*
 * The paper's rule: of all pages that the pageout daemon picks, while more than half hold cached
 * data, evict. The kernel asks each shrinker for its share; what it looked at elsewhere is in its
 * own statistics.
 */
static bool iol_half_of_all(unsigned long asked)
{
	u64 now, others;
	bool evict;

	if (!READ_ONCE(half_rule))
		return true;
	now = iol_scan_events();
	spin_lock(&iol_cache_lock);
	/* Another CPU may have looked later and been here first. */
	others = now > iol_scanned_last ? now - iol_scanned_last : 0;
	iol_scanned_last += others;
	iol_scanned_all += asked + others;
	iol_scanned_ours += asked;
	evict = iol_scanned_ours * 2 > iol_scanned_all;
	if (evict) {
		iol_scanned_all = 0;
		iol_scanned_ours = 0;
	}
	spin_unlock(&iol_cache_lock);
	iol_count_add(IOL_RECLAIM_LOOKED, asked + others);
	iol_count_add(IOL_RECLAIM_ASKED, asked);
	if (!evict)
		iol_count(IOL_RECLAIM_DECLINED);
	return evict;
}

/* Of a group's list: what is in use, or was since the last time, goes to its end. */
static enum lru_status flt_lru_walk(struct list_head *item, struct list_lru_one *list, void *arg)
{
	struct iol_extent *extent = container_of(item, struct iol_extent, lru);
	struct list_head *dispose = arg;

	/* Elsewhere this lock comes first. */
	if (!spin_trylock(&iol_cache_lock))
		return LRU_SKIP;
	if (READ_ONCE(extent->hit) || iol_extent_used(extent)) {
		WRITE_ONCE(extent->hit, false);
		spin_unlock(&iol_cache_lock);
		return LRU_ROTATE;
	}
	list_lru_isolate(list, item);
	iol_extent_unlink_trees(extent);
	spin_unlock(&iol_cache_lock);
	list_add(item, dispose);
	return LRU_REMOVED;
}

/* Pages freed of what the reclaimed group and node have. */
static unsigned long iol_shrink_list(struct shrink_control *sc)
{
	unsigned long extents = DIV_ROUND_UP(sc->nr_to_scan, IOL_CHUNK_PAGES), freed = 0;
	struct iol_extent *extent, *next;
	LIST_HEAD(dispose);

	list_lru_walk_one(&iol_lru, sc->nid, sc->memcg, flt_on_lru_walk, &dispose, &extents);
	list_for_each_entry_safe(extent, next, &dispose, lru) {
		list_del(&extent->lru);
		freed += extent->charge;
		iol_extent_free(extent);
		iol_count(IOL_FILE_EVICTED);
	}
	return freed;
}

/* The machine's memory: in the order of eviction that is common to all. */
static unsigned long iol_shrink_ranks(struct shrink_control *sc)
{
	unsigned long freed = 0;

	while (freed < sc->nr_to_scan) {
		u32 len = iol_cache_evict(true);

		if (!len)
			break;
		freed += DIV_ROUND_UP(len, PAGE_SIZE);
	}
	return freed;
}

static unsigned long iol_shrink_scan(struct shrinker *shrinker, struct shrink_control *sc)
{
	unsigned long freed = 0;

	/* Putting a buffer takes locks under which others allocate. */
	if (!(sc->gfp_mask & __GFP_FS))
		return SHRINK_STOP;
	if (!iol_group_is_full(sc->memcg) && !iol_half_of_all(sc->nr_to_scan))
		return 0;
	if (!iol_shrinks_group(sc))
		freed = iol_shrink_ranks(sc);
	/* Past those at the head of the order that are held. */
	if (!freed)
		freed = iol_shrink_list(sc);
	iol_pool_trim(iol_cache_pool());
	return freed;
}

int iol_reclaim_init(void)
{
	/* What was looked at before there was a cache does not count. */
	iol_scanned_last = iol_scan_events();
	iol_shrinker = shrinker_alloc(SHRINKER_MEMCG_AWARE | SHRINKER_NUMA_AWARE, "iolite-files");
	if (!iol_shrinker)
		return -ENOMEM;
	if (list_lru_init_memcg(&iol_lru, iol_shrinker)) {
		shrinker_free(iol_shrinker);
		return -ENOMEM;
	}
	iol_shrinker->count_objects = iol_shrink_count;
	iol_shrinker->scan_objects = iol_shrink_scan;
	shrinker_register(iol_shrinker);
	return 0;
}

void iol_reclaim_exit(void)
{
	shrinker_free(iol_shrinker);
	list_lru_destroy(&iol_lru);
}
