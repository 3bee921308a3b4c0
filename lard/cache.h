/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A small store of answers, shared by all workers: bounded in bytes, least recently used out
 * first. What may be stored and for how long is cacheable.h's matter.
 */
#ifndef LARD_CACHE_H
#define LARD_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "list.h"
#include "message.h"

struct cache;

/**
 * struct entry - an answer
 * @lru, @same:  in its cache, while @stored; under the cache's lock
 * @users:       one for being @stored, one for each exchange that sends or fills it; under that lock
 * @filling:     neither stored nor given back yet; under that lock
 * @forgotten:   invalidations that the cache had seen when it was asked for
 * @hash, @key:  host, port and target
 * @fields:      header lines of the answer without status line, Content-Length, Age and what
 *		 concerns one hop; @etag and @modified point into it
 * @have:        bytes of @body that are there; the filler's alone, then @length
 * @born_us:     when the answer came, less the age it had; @fresh_us: how long it may be served
 *
 * But for what the lock guards, an entry never changes once it is stored.
 */
struct entry {
	struct list lru;
	struct entry *same;
	unsigned int users;
	bool stored;
	bool filling;
	uint64_t forgotten;
	uint64_t hash;
	uint64_t born_us;
	uint64_t fresh_us;
	struct span key;
	struct span fields;
	struct span etag;
	struct span modified;
	char *body;
	size_t have;
	size_t length;
};

struct cache_info {
	size_t entries;
	size_t bytes;		/* with what is being filled or still sent */
	size_t limit;
	uint64_t evictions;
};

struct cache *cache_new(size_t limit);
void cache_free(struct cache *cache);
/* Another bound; 0: nothing is kept. */
void cache_set_limit(struct cache *cache, size_t limit);

/* The answer for @key, if it is still fresh at @now_us, to be given back; else NULL. */
struct entry *cache_find(struct cache *cache, struct span key, uint64_t now_us);

/**
 * cache_reserve - room for an answer
 * @fields: copied
 * @length: of the body
 * @forgotten: cache_forgotten() when the answer was asked for: it may be older than what came since
 *
 * Return: to be filled, and then stored or given back; NULL: it does not fit.
 */
struct entry *cache_reserve(struct cache *cache, struct span key, struct span fields,
			    size_t length, uint64_t forgotten);
/* The filled @entry takes the place of an older one, and is given back. */
void cache_store(struct cache *cache, struct entry *entry);
void cache_put(struct cache *cache, struct entry *entry);

/* What is known for @key holds no more, nor what is being asked for now. */
void cache_forget(struct cache *cache, struct span key);
/* How often. */
uint64_t cache_forgotten(struct cache *cache);

void cache_get_info(struct cache *cache, struct cache_info *info);

#endif
