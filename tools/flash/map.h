/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The mapping cache of the paper (Pai, 4.4.4): files are mapped in chunks, chunks in use stay,
 * the others wait on an LRU list and are unmapped when too much is mapped.
 */
#ifndef FLASH_MAP_H
#define FLASH_MAP_H

#include "worker.h"

struct map_cache;

/**
 * struct mapping - one chunk of a file
 * @users: responses that send from it; it is on the LRU list while there are none
 * @locked: residency mlock: its bytes are counted as locked
 * @ready:  and they are
 */
struct mapping {
	struct list file_node;
	struct list lru_node;
	struct file *f;
	uint64_t off;
	uint32_t len;
	unsigned int users;
	bool locked, ready;
	char *addr;
};

struct map_cache *map_cache_new(struct cache *cache, uint64_t limit, struct stats *stats);
void map_cache_free(struct map_cache *m);

/* The chunk that holds @off, in use until map_put(). NULL with errno set. */
struct mapping *map_get(struct worker *w, struct file *f, uint64_t off);
/*
 * Locking, which helpers do: at most as many bytes as may be mapped, and as the process may lock.
 * map_may_lock() counts them, map_locked() tells what became of it.
 */
bool map_may_lock(struct worker *w, struct mapping *map);
void map_locked(struct worker *w, struct mapping *map, bool ok);

void map_put(struct worker *w, struct mapping *map);

#endif
