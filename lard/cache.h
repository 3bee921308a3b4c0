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
#include "kernel_cache.h"
#include "message.h"
#include "tools/base/list.h"

struct cache;

/**
 * struct cache_since - a moment, for one key
 * @slot:  of the key, which it has for itself or shares with a few others
 * @count: invalidations so far that may have been of the key
 */
struct cache_since {
	unsigned int slot;
	uint64_t count;
};

/**
 * struct entry - an answer
 * @lru, @same:  in its cache, while @stored; under the cache's lock
 * @users:       one for being @stored, one for each exchange that sends or fills it; under that lock
 * @filling:     not given back yet by who has reserved it; under that lock
 * @since:       when it was asked for
 * @hash, @key:  host, port and target
 * @fields:      header lines of the answer without status line, Content-Length, Age and what
 *		 concerns one hop; @etag and @modified point into it
 * @have:        bytes of @body that are there; the filler's alone, then @length
 * @size:        bytes of room for it: @length, or where nobody knows that yet (@open), what there is so far, which has
 *		 memory of its own
 * @born_us:     when the answer came, less the age it had; @fresh_us: how long it may be served
 * @stale_us:    the same, or stale while somebody asks anew; @if_error_us: or while nobody answers
 * @keep_us:     the longest of these
 * @retry_us:    nobody answered just now: not to be asked before
 * @copies:      what the kernel has of it
 *
 * But for what the lock guards, and @retry_us, an entry never changes once it is stored.
 */
struct entry {
	struct list lru;
	struct entry *same;
	unsigned int users;
	bool stored;
	bool filling;
	struct cache_since since;
	uint64_t hash;
	uint64_t born_us;
	uint64_t fresh_us;
	uint64_t stale_us, if_error_us, keep_us;
	_Atomic uint64_t retry_us;
	struct span key;
	struct span fields;
	struct span etag;
	struct span modified;
	char *body;
	size_t have;
	size_t length;
	size_t size;
	bool open, apart;
	struct kernel_copy copies[KERNEL_COPIES];
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

/*
 * What is stored for clients that can decode the same has a key of its own: the target's, and behind that what
 * they can.
 */
#define VARIANT_SIZE	2

/* @key has room behind it. */
struct span cache_variant(struct span key, unsigned int encodings);

/* The answer for @key, fresh or of use still at @now_us, to be given back; else NULL. */
struct entry *cache_find(struct cache *cache, struct span key, uint64_t now_us);

/* Each worker has its own idea of now: what another one has just stored may be born later. */
static inline uint64_t entry_age(const struct entry *entry, uint64_t now_us)
{
	int64_t age = now_us - entry->born_us;

	return age > 0 ? age : 0;
}

static inline bool entry_is_younger(const struct entry *entry, uint64_t than_us, uint64_t now_us)
{
	return entry_age(entry, now_us) < than_us;
}

static inline bool entry_is_fresh(const struct entry *entry, uint64_t now_us)
{
	return entry_is_younger(entry, entry->fresh_us, now_us);
}

/**
 * cache_reserve - room for an answer
 * @fields: copied
 * @length: of the body; SIZE_MAX: not known yet, see cache_resize()
 * @since:  cache_since() of the key when the answer was asked for: it may be older than what came then
 *
 * Return: to be filled, and then stored or given back; NULL: it does not fit.
 */
struct entry *cache_reserve(struct cache *cache, struct span key, struct span fields,
			    size_t length, struct cache_since since);
/* For an entry whose length is not known: room for so much of its body, which may move. False: there is none. */
bool cache_resize(struct cache *cache, struct entry *entry, size_t size);
/* Its length is known now: what it has. */
void cache_settle(struct cache *cache, struct entry *entry);
/* The filled @entry takes the place of an older one. False: it is out of date, and was not kept. */
bool cache_store(struct cache *cache, struct entry *entry);
/* Who has reserved it gives it back, stored or not. Until then it counts as being filled. */
void cache_end_fill(struct cache *cache, struct entry *entry);
void cache_put(struct cache *cache, struct entry *entry);

/* It holds no more. */
void cache_drop(struct cache *cache, struct entry *entry);
/* What is stored for this very @key is out of date. */
void cache_remove(struct cache *cache, struct span key);
/* What is known for @key holds no more, nor what of it is being asked for now. */
void cache_forget(struct cache *cache, struct span key);
/* All that @match says yes to, and what is being asked for; how many went. */
size_t cache_clear(struct cache *cache, bool (*match)(const struct entry *entry, const void *arg),
		   const void *arg);
/* Of a key, with this process's secret: nobody else knows which ones are the same. */
uint64_t cache_hash(const struct cache *cache, struct span key);
/* Now, for the @key of a target and its variants. */
struct cache_since cache_since(struct cache *cache, struct span key);

void cache_get_info(struct cache *cache, struct cache_info *info);

#endif
