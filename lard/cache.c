// SPDX-License-Identifier: GPL-2.0
/* A small store of answers. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include "cache.h"
#include "cacheable.h"
#include "siphash.h"

#define BUCKETS_FIRST	1024		/* powers of two */
#define BUCKETS_MOST	(1 << 22)
#define SLOTS	4096	/* of keys, for what is said of them while they are asked for */

/**
 * struct cache - see cache.h
 * @lock: guards everything here and what struct entry says; a leaf
 * @key:  of the hashes; whoever does not know it cannot choose what meets in a bucket
 * @lru:  the most recently used first
 * @mask: buckets, less one. There are as many as entries, or more: a chain is short
 * @idle: of @bytes, what nobody is being sent: it can go at once
 * @filling: of @bytes, what is being filled, or sent still to the one whose answer it is
 * @cleared: invalidations of many at once so far, and @forgotten of one key, by slot; read without the lock, too
 */
struct cache {
	pthread_mutex_t lock;
	struct siphash_key key;
	struct list lru;
	struct entry **buckets;
	size_t mask;
	size_t limit;
	size_t bytes;
	size_t idle, filling;
	size_t entries;
	uint64_t evictions;
	_Atomic uint64_t cleared, forgotten[SLOTS];
};

struct cache *cache_new(size_t limit)
{
	struct cache *cache = calloc(1, sizeof(*cache));

	if (!cache)
		return NULL;
	cache->buckets = calloc(BUCKETS_FIRST, sizeof(*cache->buckets));
	if (!cache->buckets) {
		free(cache);
		return NULL;
	}
	cache->mask = BUCKETS_FIRST - 1;
	siphash_make_key(&cache->key);
	pthread_mutex_init(&cache->lock, NULL);
	list_init(&cache->lru);
	cache->limit = limit;
	return cache;
}

uint64_t cache_hash(const struct cache *cache, struct span key)
{
	return siphash(&cache->key, key.at, key.len);
}

/* Twice as many, if there is memory: else chains get longer. */
static void grow(struct cache *cache)
{
	size_t size = 2 * (cache->mask + 1), i;
	struct entry **buckets = size <= BUCKETS_MOST ? calloc(size, sizeof(*buckets)) : NULL;

	if (!buckets)
		return;
	for (i = 0; i <= cache->mask; i++) {
		struct entry *entry, *next;

		for (entry = cache->buckets[i]; entry; entry = next) {
			struct entry **at = &buckets[entry->hash & (size - 1)];

			next = entry->same;
			entry->same = *at;
			*at = entry;
		}
	}
	free(cache->buckets);
	cache->buckets = buckets;
	cache->mask = size - 1;
}

static size_t cost(const struct entry *entry)
{
	return sizeof(*entry) + entry->key.len + entry->fields.len + entry->size;
}

static void put(struct cache *cache, struct entry *entry)
{
	if (--entry->users) {
		if (entry->stored && entry->users == 1)
			cache->idle += cost(entry);
		return;
	}
	cache->bytes -= cost(entry);
	if (entry->apart)
		free(entry->body);
	free(entry);
}

static void unlink_entry(struct cache *cache, struct entry *entry)
{
	struct entry **at = &cache->buckets[entry->hash & cache->mask];

	while (*at != entry)
		at = &(*at)->same;
	*at = entry->same;
	list_del(&entry->lru);
	if (entry->users == 1)
		cache->idle -= cost(entry);
	entry->stored = false;
	cache->entries--;
	put(cache, entry);
}

/*
 * Who takes his answers slowly holds what is being filled for as long: a part of the cache is for what is stored, and
 * a part of the rest for small ones. One is let in whatever it needs. @has: what is counted of it.
 */
static bool may_fill(const struct cache *cache, size_t has, size_t more)
{
	size_t most = has + more > cache->limit / 16 ? cache->limit / 2 : cache->limit / 4 * 3;

	return cache->filling == has || cache->filling + more <= most;
}

/* Old ones go until there is room for @more; false, and none has gone: those that are in use take too much. */
static bool make_room(struct cache *cache, size_t more)
{
	struct list *at, *prev;

	if (more > cache->limit || cache->bytes - cache->idle > cache->limit - more)
		return false;
	for (at = cache->lru.prev; cache->bytes > cache->limit - more; at = prev) {
		struct entry *entry = container_of(at, struct entry, lru);

		prev = at->prev;
		if (entry->users > 1)
			continue;
		unlink_entry(cache, entry);
		cache->evictions++;
	}
	return true;
}

void cache_free(struct cache *cache)
{
	if (!cache)
		return;
	while (!list_empty(&cache->lru))
		unlink_entry(cache, container_of(cache->lru.next, struct entry, lru));
	pthread_mutex_destroy(&cache->lock);
	free(cache->buckets);
	free(cache);
}

void cache_set_limit(struct cache *cache, size_t limit)
{
	pthread_mutex_lock(&cache->lock);
	cache->limit = limit;
	while (cache->bytes > limit && !list_empty(&cache->lru)) {
		unlink_entry(cache, container_of(cache->lru.prev, struct entry, lru));
		cache->evictions++;
	}
	pthread_mutex_unlock(&cache->lock);
}

static struct entry *look_up(struct cache *cache, uint64_t hash, struct span key)
{
	struct entry *entry = cache->buckets[hash & cache->mask];

	while (entry && (entry->hash != hash || entry->key.len != key.len ||
			 memcmp(entry->key.at, key.at, key.len)))
		entry = entry->same;
	return entry;
}

struct entry *cache_find(struct cache *cache, struct span key, uint64_t now_us)
{
	uint64_t hash = cache_hash(cache, key);
	struct entry *entry;

	pthread_mutex_lock(&cache->lock);
	entry = look_up(cache, hash, key);
	if (entry && !entry_is_younger(entry, entry->keep_us, now_us)) {
		unlink_entry(cache, entry);
		entry = NULL;
	}
	if (entry) {
		if (entry->users++ == 1)
			cache->idle -= cost(entry);
		list_del(&entry->lru);
		list_add(&entry->lru, &cache->lru);
	}
	pthread_mutex_unlock(&cache->lock);
	return entry;
}

static struct cache_since since(struct cache *cache, unsigned int slot)
{
	return (struct cache_since){ slot, cache->cleared + cache->forgotten[slot] };
}

struct cache_since cache_since(struct cache *cache, struct span key)
{
	return since(cache, cache_hash(cache, key) % SLOTS);
}

struct entry *cache_reserve(struct cache *cache, struct span key, struct span fields,
			    size_t length, struct cache_since since)
{
	size_t head = sizeof(struct entry) + key.len + fields.len;
	bool open = length == SIZE_MAX;
	struct entry *entry;
	char *at;

	if (open)
		length = 0;
	if (length > SIZE_MAX - head)
		return NULL;
	pthread_mutex_lock(&cache->lock);
	entry = may_fill(cache, 0, head + length) && make_room(cache, head + length) ?
		malloc(head + length) : NULL;
	if (!entry)
		goto out;
	memset(entry, 0, sizeof(*entry));
	list_init(&entry->lru);
	at = (char *)(entry + 1);
	entry->key = (struct span){ memcpy(at, key.at, key.len), key.len };
	at += key.len;
	entry->fields = (struct span){ memcpy(at, fields.at, fields.len), fields.len };
	entry->body = at + fields.len;
	entry->length = entry->size = length;
	entry->open = open;
	entry->hash = cache_hash(cache, key);
	entry->users = 1;
	entry->since = since;
	entry->filling = true;
	cache->bytes += cost(entry);
	cache->filling += cost(entry);
out:
	pthread_mutex_unlock(&cache->lock);
	return entry;
}

/* Of the size alone. Under the lock. */
static void charge(struct cache *cache, struct entry *entry, size_t size)
{
	cache->bytes += size - entry->size;
	cache->filling += size - entry->size;
	entry->size = size;
}

bool cache_resize(struct cache *cache, struct entry *entry, size_t size)
{
	size_t before = entry->size;
	char *body;
	bool fits;

	pthread_mutex_lock(&cache->lock);
	fits = size <= before || (may_fill(cache, cost(entry), size - before) && make_room(cache, size - before));
	if (fits && size > before)
		charge(cache, entry, size);
	pthread_mutex_unlock(&cache->lock);
	if (!fits)
		return false;
	body = realloc(entry->apart ? entry->body : NULL, size ? size : 1);
	if (body) {
		entry->body = body;
		entry->apart = true;
	}
	/* It takes what it had. */
	pthread_mutex_lock(&cache->lock);
	if (body ? size < before : size > before)
		charge(cache, entry, body ? size : before);
	pthread_mutex_unlock(&cache->lock);
	return body;
}

void cache_settle(struct cache *cache, struct entry *entry)
{
	cache_resize(cache, entry, entry->have);
	entry->length = entry->have;
	entry->open = false;
}

bool cache_store(struct cache *cache, struct entry *entry)
{
	struct entry **bucket, *old;
	bool stored;

	pthread_mutex_lock(&cache->lock);
	/* It may have been invalidated meanwhile. */
	stored = entry->since.count == since(cache, entry->since.slot).count && cache->bytes <= cache->limit;
	if (stored) {
		old = look_up(cache, entry->hash, entry->key);
		if (old)
			unlink_entry(cache, old);
		if (cache->entries > cache->mask)
			grow(cache);
		bucket = &cache->buckets[entry->hash & cache->mask];
		entry->same = *bucket;
		*bucket = entry;
		list_add(&entry->lru, &cache->lru);
		entry->stored = true;
		entry->users++;
		cache->entries++;
	}
	pthread_mutex_unlock(&cache->lock);
	return stored;
}

void cache_end_fill(struct cache *cache, struct entry *entry)
{
	pthread_mutex_lock(&cache->lock);
	cache->filling -= cost(entry);
	entry->filling = false;
	put(cache, entry);
	pthread_mutex_unlock(&cache->lock);
}

void cache_put(struct cache *cache, struct entry *entry)
{
	pthread_mutex_lock(&cache->lock);
	put(cache, entry);
	pthread_mutex_unlock(&cache->lock);
}

void cache_drop(struct cache *cache, struct entry *entry)
{
	pthread_mutex_lock(&cache->lock);
	if (entry->stored)
		unlink_entry(cache, entry);
	pthread_mutex_unlock(&cache->lock);
}

struct span cache_variant(struct span key, unsigned int encodings)
{
	char *end = (char *)key.at + key.len;

	end[0] = ' ';
	end[1] = 'A' + encodings;
	return (struct span){ key.at, key.len + VARIANT_SIZE };
}

static void forget(struct cache *cache, struct span key)
{
	struct entry *entry = look_up(cache, cache_hash(cache, key), key);

	if (entry)
		unlink_entry(cache, entry);
}

void cache_remove(struct cache *cache, struct span key)
{
	pthread_mutex_lock(&cache->lock);
	forget(cache, key);
	pthread_mutex_unlock(&cache->lock);
}

void cache_forget(struct cache *cache, struct span key)
{
	unsigned int encodings;

	pthread_mutex_lock(&cache->lock);
	cache->forgotten[cache_hash(cache, key) % SLOTS]++;
	forget(cache, key);
	for (encodings = 0; encodings < ENCODING_UNKNOWN && cache->entries; encodings++)
		forget(cache, cache_variant(key, encodings));
	pthread_mutex_unlock(&cache->lock);
}

size_t cache_clear(struct cache *cache, bool (*match)(const struct entry *entry, const void *arg),
		   const void *arg)
{
	struct list *at, *next;
	size_t gone = 0;

	pthread_mutex_lock(&cache->lock);
	cache->cleared++;
	for (at = cache->lru.next; at != &cache->lru; at = next) {
		struct entry *entry = container_of(at, struct entry, lru);

		next = at->next;
		if (!match(entry, arg))
			continue;
		unlink_entry(cache, entry);
		gone++;
	}
	pthread_mutex_unlock(&cache->lock);
	return gone;
}

void cache_get_info(struct cache *cache, struct cache_info *info)
{
	pthread_mutex_lock(&cache->lock);
	*info = (struct cache_info){
		.entries = cache->entries, .bytes = cache->bytes, .limit = cache->limit,
		.evictions = cache->evictions,
	};
	pthread_mutex_unlock(&cache->lock);
}
