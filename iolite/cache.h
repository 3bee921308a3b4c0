/* SPDX-License-Identifier: GPL-2.0 */
/* The file cache: <file, offset, length> -> a range of a buffer. */
#ifndef IOL_CACHE_H
#define IOL_CACHE_H

#include <linux/rbtree.h>
#include <linux/spinlock.h>

#include "buffer.h"
#include "policy.h"

/**
 * struct iol_extents - cached ranges of one file, which do not overlap
 * @lock:      @by_offset, and of its extents what says where they are; who changes those has the
 *             cache's lock, too, so either is enough to look. Taken inside the cache's lock
 * @by_offset: in order
 * @size:      of the file, for policies that look at whole documents
 *
 * Hits take this lock only: those of different files do not meet.
 */
struct iol_extents {
	spinlock_t lock;	/* where extents are */
	struct rb_root by_offset;
	u64 size;
};

/**
 * struct iol_extent - a cached range of a file
 *
 * In the pages that it lies in there is nothing else than what it says, or zeroes: whoever reads
 * the file may see them whole.
 *
 * @extents:   of which file
 * @by_offset: in the file's tree; as @offset
 * @by_rank:   in the order of eviction; under the cache's lock
 * @rank:      place there: lowest goes first, of equals the lower @turn; under the cache's lock
 * @turn:      the same
 * @used_rank: what its last use is worth; a hit writes it, and whoever evicts moves it to there
 * @used_turn: the same; written after @used_rank
 * @offset:    in the file; this, @len and @buf_off change under both locks
 * @len:       bytes
 * @buf:       where the bytes are; one reference
 * @buf_off:   start in the buffer, of a page
 * @charge:    pages that it keeps: all of the buffer; of the parts of one that was cut the sum is
 * @lru:       in the list of its memory cgroup and node, for reclaim; under the cache's lock
 * @hit:       used since reclaim looked at it last
 * @manager:   of the program that brought it, if it had one then; one reference
 * @by_choice: in the manager's order; under the cache's lock
 * @choice:    lowest is given up first; under the cache's lock
 */
struct iol_extent {
	struct iol_extents *extents;
	struct rb_node by_offset;
	struct rb_node by_rank;
	u64 rank;
	u64 turn;
	u64 used_rank;
	u64 used_turn;
	u64 offset;
	u32 len;
	struct iol_buf *buf;
	u32 buf_off;
	u32 charge;
	struct list_head lru;
	bool hit;
	struct iol_manager *manager;
	struct rb_node by_choice;
	u64 choice;
};

void iol_extents_init(struct iol_extents *extents);
u64 iol_cache_next(struct iol_extents *extents, u64 offset);
struct iol_buf *iol_cache_find(struct iol_extents *extents, struct iol_manager *manager, u64 offset,
			       u32 *buf_off, u32 *len);
int iol_cache_insert(struct iol_extents *extents, struct iol_manager *manager, u64 offset,
		     struct iol_buf *buf, u32 buf_off, u32 len);
bool iol_extent_used(const struct iol_extent *extent);
int iol_cache_policy(struct iol_manager **at, u32 policy);
int iol_cache_remove(struct iol_extents *extents, u64 offset, u64 len);
bool iol_cache_drop(struct iol_extents *extents);
struct iol_pool *iol_cache_pool(void);
bool iol_cache_is_kept_from(void);
int iol_cache_init(void);
void iol_cache_exit(void);

/* Between the cache and reclaim. */
struct list_lru;
extern struct list_lru iol_lru;
extern spinlock_t iol_cache_lock;

u32 iol_cache_evict(bool to_free);
void iol_extent_unlink_trees(struct iol_extent *extent);
void iol_extent_free(struct iol_extent *extent);
int iol_reclaim_init(void);
void iol_reclaim_exit(void);

#endif
