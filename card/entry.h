/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Entries of a cache's index: where a block is, here or elsewhere [Olaru 4.4].
 *
 * All of it under the cache's lock.
 */
#ifndef CARD_ENTRY_H
#define CARD_ENTRY_H

#include <linux/list.h>
#include <linux/pagemap.h>
#include <linux/workqueue.h>

#include "cache.h"

/**
 * struct card_entry - what this node knows of a block
 * @by_block: in the table by @block
 * @by_page:  in the table by (@mapping, @index), if @mapping
 * @list:     in one of the cache's lists: idle, hosted, here or dead
 * @block:    it
 * @mapping, @index: the page of the page cache that holds it, or NULL. The mapping is
 *	      alive: before its last page goes, the eviction hook clears this
 * @hosted:   a page of ours that holds it, or NULL
 * @generation: the cache's when it was made; an entry of an earlier one is dead
 * @crc:      CRC32C of the block when it came, while it is here
 * @previous: place that this copy came from
 * @next:     place that asked this node last, or CARD_NOBODY
 * @idle:     in the list of idle entries
 * @counted:  in the load table
 */
struct card_entry {
	struct hlist_node by_block;
	struct hlist_node by_page;
	struct list_head list;
	u64 block;
	struct address_space *mapping;
	pgoff_t index;
	struct page *hosted;
	u32 generation;
	u32 crc;
	u16 previous;
	u16 next;
	bool idle;
	bool counted;
};

struct card_entry *card_entry_find(struct card_cache *cache, u64 block);
struct card_entry *card_entry_at(struct card_cache *cache, const struct address_space *mapping,
				 pgoff_t index);
/* Finds it or makes it; NULL: no memory, or the cache is off. */
struct card_entry *card_entry_make(struct card_cache *cache, u64 block);
/* Forgets where others have it; an entry of a block that is not here goes. */
void card_entry_forget(struct card_cache *cache, struct card_entry *e);
/* All of them are dead at once, and freed by card_entry_reap(). */
void card_entry_forget_all(struct card_cache *cache);
/* The cache's @reap. */
void card_entry_reap(struct work_struct *work);

/* The page cache has the block in this page from now on. */
void card_entry_locate(struct card_cache *cache, struct card_entry *e,
		       struct address_space *mapping, pgoff_t index, u32 crc);
/* The page cache has it no more. */
void card_entry_unlocate(struct card_cache *cache, struct card_entry *e);
/* Keeps it for others; the page's reference is taken over. */
void card_entry_host(struct card_cache *cache, struct card_entry *e, struct page *page, u32 crc);
void card_entry_unhost(struct card_cache *cache, struct card_entry *e);

/* Is the block here. */
bool card_cache_holds(struct card_cache *cache, u64 block);
/* Is there room for one more hosted block. */
bool card_cache_has_room(struct card_cache *cache);
/* A reference to the page with the block, to be checked against @crc if @check; NULL. */
struct page *card_cache_page(struct card_cache *cache, u64 block, u32 *crc, bool *check);

/* The participant but this one with the fewest blocks here by the load table. */
u16 card_cache_least_loaded(struct card_cache *cache);

/* Static and even: who knows of a block, or has it. */
static inline u16 card_cache_home(const struct card_cache *cache, u64 block)
{
	u64 rest = block >> cache->members->home_shift;

	return do_div(rest, cache->nr);
}

/* Does this place stand for somebody else. */
static inline bool card_cache_other(const struct card_cache *cache, u16 place)
{
	return place < cache->nr && place != cache->self;
}

#endif
