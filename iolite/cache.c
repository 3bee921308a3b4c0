// SPDX-License-Identifier: GPL-2.0
/*
 * The file cache's entries and which of them goes first. Evicting one drops a reference; its memory
 * is free when nobody else reads it. Loads and stores of programs do not count as uses.
 */
#include <linux/list_lru.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/vmstat.h>

#include <flotilla/iolite.h>

#include "kmod/param.h"

#include "cache.h"
#include "counter.h"

static bool gds;
module_param(gds, admin_bool, 0644);
MODULE_PARM_DESC(gds, "Greedy-Dual-Size instead of LRU, from now on (N)");

static uint gds_cost;
module_param(gds_cost, admin_uint, 0644);
MODULE_PARM_DESC(gds_cost, "0: every document costs 1; 1: its packets, 2 + size / 536 (0)");

static ulong cache_max;
module_param(cache_max, admin_ulong, 0644);
MODULE_PARM_DESC(cache_max, "most bytes of cached file data; 0: half of the memory (0)");

/* Candidates that are looked at for one that nobody uses. */
#define IOL_EVICT_LOOK		256
#define IOL_FREE_LOOK		4096
/* Extents that are moved to where their last use belongs while the lock is held. */
#define IOL_MOVE_MOST		64
#define IOL_GDS_SHIFT		32
/* Bytes that may be in use but not cached, however small the cache is. */
#define IOL_OUTSIDE_LEAST	(32ULL << 20)

/*
 * All extents, ranks and sums below, but a hit does without it: see struct iol_extents. No buffer
 * is put and nothing allocated under it; the locks of files and of @iol_lru are taken inside, and
 * reclaim, which has one of the latter first, only tries.
 */
DEFINE_SPINLOCK(iol_cache_lock);
static struct rb_root_cached iol_ranks = RB_ROOT_CACHED;
static u64 iol_cache_bytes;
static unsigned long iol_cache_extents;
/* Counts uses: LRU's time, and the order of those of one rank. */
static atomic64_t iol_clock;
/* GDS: the paper's L, what the last victim was worth. Written under the lock. */
static u64 iol_inflation;

static struct kmem_cache *iol_extent_cache;
static struct iol_pool *iol_file_pool;

struct iol_pool *iol_cache_pool(void)
{
	return iol_file_pool;
}

static u64 iol_cache_limit(void)
{
	u64 max = READ_ONCE(cache_max);

	return max ? max : (u64)totalram_pages() << (PAGE_SHIFT - 1);
}

/**
 * iol_cache_is_kept_from - is too much in the cache's buffers that is not in the cache?
 *
 * Who holds or sends data that has left the cache keeps memory that no user's quota counts. Then
 * what is read next is its reader's.
 */
bool iol_cache_is_kept_from(void)
{
	u64 most = max(iol_cache_limit() / 2, IOL_OUTSIDE_LEAST);
	struct iol_pool *pool = iol_file_pool;

	if (iol_pool_busy(pool) <= READ_ONCE(iol_cache_bytes) + most)
		return false;
	iol_pool_land(pool);
	return iol_pool_busy(pool) > READ_ONCE(iol_cache_bytes) + most;
}

/* It is used now: what that is worth. Its place in the order stays until somebody evicts. */
static void iol_rank_use(struct iol_extent *extent)
{
	u64 size = max_t(u64, READ_ONCE(extent->extents->size), extent->len);
	u64 cost = READ_ONCE(gds_cost) ? 2 + size / 536 : 1;
	u64 turn = atomic64_inc_return(&iol_clock);
	u64 rank = turn;

	if (READ_ONCE(gds))
		rank = READ_ONCE(iol_inflation) + div64_u64(cost << IOL_GDS_SHIFT, size);
	WRITE_ONCE(extent->used_rank, rank);
	/* Pairs with iol_rank_move(): a rank may be too new for its turn, never too old. */
	smp_store_release(&extent->used_turn, turn);
}

static bool iol_rank_less(struct rb_node *node, const struct rb_node *parent)
{
	const struct iol_extent *a = rb_entry(node, struct iol_extent, by_rank);
	const struct iol_extent *b = rb_entry(parent, struct iol_extent, by_rank);

	return a->rank != b->rank ? a->rank < b->rank : a->turn < b->turn;
}

static void iol_rank_insert(struct iol_extent *extent)
{
	lockdep_assert_held(&iol_cache_lock);
	/* Pairs with iol_rank_use(). */
	extent->turn = smp_load_acquire(&extent->used_turn);
	extent->rank = READ_ONCE(extent->used_rank);
	rb_add_cached(&extent->by_rank, &iol_ranks, iol_rank_less);
}

static void iol_rank_set(struct iol_extent *extent, u64 rank)
{
	rb_erase_cached(&extent->by_rank, &iol_ranks);
	WRITE_ONCE(extent->used_rank, rank);
	/* As iol_rank_use(). */
	smp_store_release(&extent->used_turn, atomic64_inc_return(&iol_clock));
	iol_rank_insert(extent);
}

/* Was it used since it got its place? Then it gets another, and what is at the old one is @node. */
static bool iol_rank_move(struct iol_extent *extent, struct rb_node **node)
{
	struct rb_node *before;

	if (READ_ONCE(extent->used_turn) == extent->turn)
		return false;
	before = rb_prev(&extent->by_rank);
	rb_erase_cached(&extent->by_rank, &iol_ranks);
	iol_rank_insert(extent);
	*node = before ? rb_next(before) : rb_first_cached(&iol_ranks);
	return true;
}

/*
 * The first in the order belongs there when this is done: each move is one that a hit saved. Hits
 * may go on faster than this, so it ends when each had its turn.
 */
static void iol_ranks_settle(void)
{
	unsigned long left = READ_ONCE(iol_cache_extents);
	unsigned int moved;

	do {
		struct rb_node *node;

		spin_lock(&iol_cache_lock);
		node = rb_first_cached(&iol_ranks);
		for (moved = 0; node && moved < IOL_MOVE_MOST; moved++)
			if (!iol_rank_move(rb_entry(node, struct iol_extent, by_rank), &node))
				break;
		spin_unlock(&iol_cache_lock);
		left -= min_t(unsigned long, left, moved);
	} while (moved == IOL_MOVE_MOST && left);
}

void iol_extents_init(struct iol_extents *extents)
{
	spin_lock_init(&extents->lock);
	extents->by_offset = RB_ROOT;
	extents->size = 0;
}

/* The first extent that ends after @offset. One of the locks is held. */
static struct iol_extent *iol_extent_after(struct iol_extents *extents, u64 offset)
{
	struct rb_node *node = extents->by_offset.rb_node;
	struct iol_extent *found = NULL;

	lockdep_assert(lockdep_is_held(&iol_cache_lock) || lockdep_is_held(&extents->lock));
	while (node) {
		struct iol_extent *extent = rb_entry(node, struct iol_extent, by_offset);

		if (extent->offset + extent->len > offset) {
			found = extent;
			node = node->rb_left;
		} else {
			node = node->rb_right;
		}
	}
	return found;
}

/* MemAvailable counts what can be reclaimed. */
static void iol_extent_account(const struct iol_extent *extent, long pages)
{
	mod_node_page_state(page_pgdat(iol_buf_page(extent->buf, 0)), NR_KERNEL_MISC_RECLAIMABLE,
			    pages);
}

static void iol_extent_link(struct iol_extent *extent)
{
	struct rb_node **link = &extent->extents->by_offset.rb_node, *parent = NULL;

	lockdep_assert_held(&iol_cache_lock);
	spin_lock(&extent->extents->lock);
	while (*link) {
		parent = *link;
		if (extent->offset < rb_entry(parent, struct iol_extent, by_offset)->offset)
			link = &parent->rb_left;
		else
			link = &parent->rb_right;
	}
	rb_link_node(&extent->by_offset, parent, link);
	rb_insert_color(&extent->by_offset, &extent->extents->by_offset);
	spin_unlock(&extent->extents->lock);
	iol_rank_use(extent);
	iol_rank_insert(extent);
	iol_manager_insert(extent);
	list_lru_add_obj(&iol_lru, &extent->lru);
	iol_cache_bytes += (u64)extent->charge << PAGE_SHIFT;
	iol_cache_extents++;
	iol_extent_account(extent, extent->charge);
}

/* All but its place in @iol_lru. */
void iol_extent_unlink_trees(struct iol_extent *extent)
{
	lockdep_assert_held(&iol_cache_lock);
	/* Who found it has taken what he wants when this is ours. */
	spin_lock(&extent->extents->lock);
	rb_erase(&extent->by_offset, &extent->extents->by_offset);
	spin_unlock(&extent->extents->lock);
	rb_erase_cached(&extent->by_rank, &iol_ranks);
	iol_manager_remove(extent);
	iol_cache_bytes -= (u64)extent->charge << PAGE_SHIFT;
	iol_cache_extents--;
	iol_extent_account(extent, -(long)extent->charge);
}

/* The caller frees it, and puts its buffer, without the lock. */
static void iol_extent_unlink(struct iol_extent *extent)
{
	list_lru_del_obj(&iol_lru, &extent->lru);
	iol_extent_unlink_trees(extent);
}

/* With room in the lists of the memory cgroup that is charged for it. */
static struct iol_extent *iol_extent_alloc(void)
{
	return kmem_cache_alloc_lru(iol_extent_cache, &iol_lru, GFP_KERNEL_ACCOUNT);
}

void iol_extent_free(struct iol_extent *extent)
{
	iol_buf_put(extent->buf);
	iol_manager_put(extent->manager);
	kmem_cache_free(iol_extent_cache, extent);
}

static struct iol_buf *iol_extents_find(struct iol_extents *extents, struct iol_manager *manager,
					u64 offset, u32 *buf_off, u32 *len)
{
	struct iol_extent *extent;
	struct iol_buf *buf = NULL;

	spin_lock(&extents->lock);
	extent = iol_extent_after(extents, offset);
	if (extent && extent->offset <= offset) {
		u32 skip = offset - extent->offset;

		buf = iol_buf_get(extent->buf);
		*buf_off = extent->buf_off + skip;
		*len = min(*len, extent->len - skip);
		iol_rank_use(extent);
		WRITE_ONCE(extent->hit, true);
		if (manager && extent->manager == manager)
			iol_manager_touch(extent);
	} else if (extent) {
		*len = min_t(u64, *len, extent->offset - offset);
	}
	spin_unlock(&extents->lock);
	return buf;
}

/**
 * iol_cache_find - look an offset of a file up
 * @extents: the file's
 * @manager: of the program that reads, or NULL
 * @offset:  in the file
 * @buf_off: out: where the byte is in the buffer
 * @len:     in: most bytes wanted; out: bytes from there on; when nothing is found, how far it is
 *           to the next extent at most
 *
 * Return: the buffer, with a reference, or NULL.
 */
struct iol_buf *iol_cache_find(struct iol_extents *extents, struct iol_manager *manager, u64 offset,
			       u32 *buf_off, u32 *len)
{
	struct iol_buf *buf;

	if (!manager)
		return iol_extents_find(extents, NULL, offset, buf_off, len);
	/* A program's own order is under the common lock: who chooses pays. */
	spin_lock(&iol_cache_lock);
	buf = iol_extents_find(extents, manager, offset, buf_off, len);
	spin_unlock(&iol_cache_lock);
	return buf;
}

/* Where the first range that ends after @offset starts; U64_MAX: there is none. */
u64 iol_cache_next(struct iol_extents *extents, u64 offset)
{
	struct iol_extent *extent;
	u64 next = U64_MAX;

	spin_lock(&extents->lock);
	extent = iol_extent_after(extents, offset);
	if (extent)
		next = extent->offset;
	spin_unlock(&extents->lock);
	return next;
}

/* Does anyone but the cache use it? A buffer in several entries counts as used: worth more. */
bool iol_extent_used(const struct iol_extent *extent)
{
	return refcount_read(&extent->buf->refs) > 1 || iol_buf_in_flight(extent->buf);
}

/* Of those with no user the lowest, else the lowest of all; nothing, if that frees none. */
static struct iol_extent *iol_victim(bool to_free)
{
	struct rb_node *node = rb_first_cached(&iol_ranks);
	int look = to_free ? IOL_FREE_LOOK : IOL_EVICT_LOOK;
	int move = look;

	lockdep_assert_held(&iol_cache_lock);
	while (node && look && move) {
		struct iol_extent *extent = rb_entry(node, struct iol_extent, by_rank);

		if (iol_rank_move(extent, &node)) {
			move--;
			continue;
		}
		if (!iol_extent_used(extent))
			return extent;
		node = rb_next(node);
		look--;
	}
	node = rb_first_cached(&iol_ranks);
	if (!node || to_free)
		return NULL;
	iol_count(IOL_FILE_EVICTED_REFERENCED);
	return rb_entry(node, struct iol_extent, by_rank);
}

/* The one that shall go, or what its program gives up instead: then they change places. */
static struct iol_extent *iol_victim_chosen(struct iol_extent *proposed)
{
	struct iol_extent *chosen = proposed;
	u64 rank = proposed->rank;

	lockdep_assert_held(&iol_cache_lock);
	if (proposed->manager)
		chosen = iol_manager_choice(proposed->manager, proposed);
	if (chosen == proposed)
		return proposed;
	iol_rank_set(proposed, READ_ONCE(chosen->used_rank));
	iol_rank_set(chosen, rank);
	iol_count(IOL_FILE_EVICTED_CHOSEN);
	return chosen;
}

/* LRU's time goes on from there, so that what one policy ranked is not immortal by the other. */
static void iol_inflate(u64 rank)
{
	WRITE_ONCE(iol_inflation, max(iol_inflation, rank));
	if (atomic64_read(&iol_clock) < iol_inflation)
		atomic64_set(&iol_clock, iol_inflation);
}

/* Bytes evicted, 0: nothing; @to_free: reclaim asks, to whom data in use is no help. */
u32 iol_cache_evict(bool to_free)
{
	struct iol_extent *extent;
	u32 len = 0;

	iol_ranks_settle();
	spin_lock(&iol_cache_lock);
	extent = iol_victim(to_free);
	if (extent) {
		extent = iol_victim_chosen(extent);
		len = max_t(u32, extent->charge, 1) << PAGE_SHIFT;
		if (READ_ONCE(gds))
			iol_inflate(extent->rank);
		iol_extent_unlink(extent);
	}
	spin_unlock(&iol_cache_lock);
	if (!extent)
		return 0;
	iol_extent_free(extent);
	iol_count(IOL_FILE_EVICTED);
	return len;
}

/**
 * iol_cache_insert - cache a range of a file
 * @extents: the file's; the caller keeps writers of the file out and has removed what was there
 * @manager: of the program that brings it, or NULL
 * @offset:  in the file
 * @buf:     sealed; the cache takes a reference of its own
 * @buf_off: start in the buffer
 * @len:     bytes
 *
 * Return: 0, -ENOMEM, -EEXIST: something is there already, which is as good.
 */
int iol_cache_insert(struct iol_extents *extents, struct iol_manager *manager, u64 offset,
		     struct iol_buf *buf, u32 buf_off, u32 len)
{
	struct iol_extent *extent, *there;

	spin_lock(&iol_cache_lock);
	there = iol_manager_missed(manager, extents, offset);
	if (there)
		iol_rank_set(there, 0);
	spin_unlock(&iol_cache_lock);

	while (READ_ONCE(iol_cache_bytes) + iol_buf_size(buf) > iol_cache_limit())
		if (!iol_cache_evict(false))
			break;
	extent = iol_extent_alloc();
	if (!extent)
		return -ENOMEM;
	*extent = (struct iol_extent){
		.extents = extents,
		.offset = offset,
		.len = len,
		.buf = iol_buf_get(buf),
		.buf_off = buf_off,
		.charge = buf->npages,
		.lru = LIST_HEAD_INIT(extent->lru),
		.manager = manager,
	};
	iol_manager_get(manager);
	spin_lock(&iol_cache_lock);
	there = iol_extent_after(extents, offset);
	if (there && there->offset < offset + len) {
		spin_unlock(&iol_cache_lock);
		iol_extent_free(extent);
		return -EEXIST;
	}
	iol_extent_link(extent);
	spin_unlock(&iol_cache_lock);
	return 0;
}

/* Make an extent end at @end, and give what lies behind @from, if any, to @tail. */
static bool iol_extent_cut(struct iol_extent *extent, u64 end, u64 from, struct iol_extent *tail)
{
	u64 old_end = extent->offset + extent->len;
	bool split = old_end > from;

	lockdep_assert_held(&extent->extents->lock);
	if (split) {
		*tail = *extent;
		tail->buf_off += from - extent->offset;
		tail->len = old_end - from;
		tail->offset = from;
		tail->charge = min(DIV_ROUND_UP(tail->len, PAGE_SIZE), extent->charge);
		INIT_LIST_HEAD(&tail->lru);
		iol_buf_get(tail->buf);
		iol_manager_get(tail->manager);
	}
	if (split) {
		/* Linked anew by the caller, by which it is counted again. */
		extent->charge -= tail->charge;
		iol_cache_bytes -= (u64)tail->charge << PAGE_SHIFT;
		iol_extent_account(extent, -(long)tail->charge);
	}
	extent->len = end - extent->offset;
	return split;
}

/* Forget a range of one extent. Returns whether the caller frees it, or @tail is used. */
static bool iol_extent_remove(struct iol_extent *extent, u64 offset, u64 end,
			      struct iol_extent *tail, bool *split)
{
	u64 lo = max(offset, extent->offset) - extent->offset;
	u64 hi = min_t(u64, end - extent->offset, extent->len);

	lockdep_assert_held(&iol_cache_lock);
	/* What was in the file once must not show in the page of what is in it now. */
	lo = round_down(lo, PAGE_SIZE);
	hi = min_t(u64, round_up(hi, PAGE_SIZE), extent->len);
	*split = false;
	if (lo) {
		spin_lock(&extent->extents->lock);
		*split = iol_extent_cut(extent, extent->offset + lo, extent->offset + hi, tail);
		spin_unlock(&extent->extents->lock);
		return false;
	}
	if (hi == extent->len) {
		iol_extent_unlink(extent);
		return true;
	}
	/* Stays at its place among the others of the file. */
	spin_lock(&extent->extents->lock);
	extent->offset += hi;
	extent->buf_off += hi;
	extent->len -= hi;
	spin_unlock(&extent->extents->lock);
	return false;
}

/**
 * iol_cache_remove - forget a range of a file
 * @extents: the file's
 * @offset:  in the file
 * @len:     bytes; entries that reach over an edge are cut at pages, readers keep what they have
 *
 * Return: 0, or -ENOMEM and nothing was done.
 */
int iol_cache_remove(struct iol_extents *extents, u64 offset, u64 len)
{
	struct iol_extent *tail = iol_extent_alloc();
	u64 end = offset + len;
	struct iol_extent *extent;

	if (!tail)
		return -ENOMEM;
	for (;;) {
		bool whole, split;

		spin_lock(&iol_cache_lock);
		extent = iol_extent_after(extents, offset);
		if (!extent || extent->offset >= end) {
			spin_unlock(&iol_cache_lock);
			break;
		}
		whole = iol_extent_remove(extent, offset, end, tail, &split);
		if (split) {
			iol_extent_link(tail);
			tail = NULL;
		}
		spin_unlock(&iol_cache_lock);
		if (whole)
			iol_extent_free(extent);
		if (!tail)
			break;
	}
	if (tail)
		kmem_cache_free(iol_extent_cache, tail);
	return 0;
}

/* Forget a whole file. Was there anything? */
bool iol_cache_drop(struct iol_extents *extents)
{
	struct iol_extent *extent;
	bool any = false;

	for (;;) {
		struct rb_node *node;

		spin_lock(&iol_cache_lock);
		node = rb_first(&extents->by_offset);
		extent = node ? rb_entry(node, struct iol_extent, by_offset) : NULL;
		if (extent)
			iol_extent_unlink(extent);
		spin_unlock(&iol_cache_lock);
		if (!extent)
			return any;
		iol_extent_free(extent);
		any = true;
	}
}

/**
 * iol_cache_policy - a program says what of its own goes first
 * @at:     where its manager is, made now if it has none; never replaced
 * @policy: IOL_POLICY_*; for what it uses from now on
 *
 * Return: 0, -EINVAL, -ENOMEM.
 */
int iol_cache_policy(struct iol_manager **at, u32 policy)
{
	struct iol_manager *manager = READ_ONCE(*at);

	if (policy > IOL_POLICY_GDS)
		return -EINVAL;
	if (!manager) {
		struct iol_manager *there;

		manager = iol_manager_create();
		if (!manager)
			return -ENOMEM;
		there = cmpxchg(at, NULL, manager);
		if (there) {
			iol_manager_put(manager);
			manager = there;
		}
	}
	spin_lock(&iol_cache_lock);
	manager->policy = policy;
	spin_unlock(&iol_cache_lock);
	return 0;
}

int iol_cache_init(void)
{
	iol_extent_cache = KMEM_CACHE(iol_extent, 0);
	if (!iol_extent_cache)
		return -ENOMEM;
	iol_file_pool = iol_pool_create(IOL_POOL_FILE, 0, NULL, 0);
	if (!iol_file_pool)
		goto undo_cache;
	if (iol_reclaim_init())
		goto undo_pool;
	return 0;

undo_pool:
	iol_pool_retire(iol_file_pool);
undo_cache:
	kmem_cache_destroy(iol_extent_cache);
	return -ENOMEM;
}

/* Files are gone, and with them all extents. */
void iol_cache_exit(void)
{
	WARN_ON(!RB_EMPTY_ROOT(&iol_ranks.rb_root));
	iol_reclaim_exit();
	iol_pool_retire(iol_file_pool);
	kmem_cache_destroy(iol_extent_cache);
}
