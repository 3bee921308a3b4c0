/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The mapping cache of the paper (spec 4.4.4): files are mapped in chunks, chunks in use stay,
 * the others wait on an LRU list and are unmapped when too much is mapped.
 */
#ifndef FLASH_MAP_H
#define FLASH_MAP_H

#include "worker.h"

struct map_cache;

/**
 * struct mapping - one chunk of a file
 * @users: responses that send from it; it is on the LRU list while there are none
 */
struct mapping {
	struct list file_node;
	struct list lru_node;
	struct file *f;
	uint64_t off;
	uint32_t len;
	unsigned int users;
	char *addr;
};

struct map_cache *map_cache_new(struct cache *cache, uint64_t limit);
void map_cache_free(struct map_cache *m);

/* The chunk that holds @off, in use until map_put(). NULL with errno set. */
struct mapping *map_get(struct worker *w, struct file *f, uint64_t off);
void map_put(struct worker *w, struct mapping *map);

#endif
