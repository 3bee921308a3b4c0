// SPDX-License-Identifier: GPL-2.0
/* A small store of answers. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include "cache.h"
#include "url.h"

#define BUCKETS	4096	/* a power of two; it is a small cache */

/**
 * struct cache - see cache.h
 * @lock: guards everything here and what struct entry says; a leaf
 * @lru:  the most recently used first
 */
struct cache {
	pthread_mutex_t lock;
	struct list lru;
	struct entry *buckets[BUCKETS];
	size_t limit;
	size_t bytes;
	size_t entries;
	uint64_t evictions;
	uint64_t forgotten;
};

struct cache *cache_new(size_t limit)
{
	struct cache *cache = calloc(1, sizeof(*cache));

	if (!cache)
		return NULL;
	pthread_mutex_init(&cache->lock, NULL);
	list_init(&cache->lru);
	cache->limit = limit;
	return cache;
}

static size_t cost(const struct entry *entry)
{
	return sizeof(*entry) + entry->key.len + entry->fields.len + entry->length;
}

static void put(struct cache *cache, struct entry *entry)
{
	if (--entry->users)
		return;
	cache->bytes -= cost(entry);
	free(entry);
}

static void unlink_entry(struct cache *cache, struct entry *entry)
{
	struct entry **at = &cache->buckets[entry->hash % BUCKETS];

	while (*at != entry)
		at = &(*at)->same;
	*at = entry->same;
	list_del(&entry->lru);
	entry->stored = false;
	cache->entries--;
	put(cache, entry);
}

/* Old ones go until there is room for @more; false: those that are in use take too much. */
static bool make_room(struct cache *cache, size_t more)
{
	if (more > cache->limit)
		return false;
	while (cache->bytes + more > cache->limit && !list_empty(&cache->lru)) {
		unlink_entry(cache, container_of(cache->lru.prev, struct entry, lru));
		cache->evictions++;
	}
	return cache->bytes + more <= cache->limit;
}

void cache_free(struct cache *cache)
{
	if (!cache)
		return;
	while (!list_empty(&cache->lru))
		unlink_entry(cache, container_of(cache->lru.next, struct entry, lru));
	pthread_mutex_destroy(&cache->lock);
	free(cache);
}

void cache_set_limit(struct cache *cache, size_t limit)
{
	pthread_mutex_lock(&cache->lock);
	cache->limit = limit;
	make_room(cache, 0);
	pthread_mutex_unlock(&cache->lock);
}

static struct entry *look_up(struct cache *cache, uint64_t hash, struct span key)
{
	struct entry *entry = cache->buckets[hash % BUCKETS];

	while (entry && (entry->hash != hash || entry->key.len != key.len ||
			 memcmp(entry->key.at, key.at, key.len)))
		entry = entry->same;
	return entry;
}

struct entry *cache_find(struct cache *cache, struct span key, uint64_t now_us)
{
	uint64_t hash = url_key(key.at, key.len);
	struct entry *entry;

	pthread_mutex_lock(&cache->lock);
	entry = look_up(cache, hash, key);
	if (entry && now_us - entry->born_us >= entry->fresh_us) {
		unlink_entry(cache, entry);
		entry = NULL;
	}
	if (entry) {
		entry->users++;
		list_del(&entry->lru);
		list_add_before(cache->lru.next, &entry->lru);
	}
	pthread_mutex_unlock(&cache->lock);
	return entry;
}

struct entry *cache_reserve(struct cache *cache, struct span key, struct span fields,
			    size_t length)
{
	size_t head = sizeof(struct entry) + key.len + fields.len;
	struct entry *entry;
	char *at;

	if (length > SIZE_MAX - head)
		return NULL;
	pthread_mutex_lock(&cache->lock);
	entry = make_room(cache, head + length) ? malloc(head + length) : NULL;
	if (!entry)
		goto out;
	memset(entry, 0, sizeof(*entry));
	list_init(&entry->lru);
	at = (char *)(entry + 1);
	entry->key = (struct span){ memcpy(at, key.at, key.len), key.len };
	at += key.len;
	entry->fields = (struct span){ memcpy(at, fields.at, fields.len), fields.len };
	entry->body = at + fields.len;
	entry->length = length;
	entry->hash = url_key(key.at, key.len);
	entry->users = 1;
	entry->forgotten = cache->forgotten;
	cache->bytes += cost(entry);
out:
	pthread_mutex_unlock(&cache->lock);
	return entry;
}

void cache_store(struct cache *cache, struct entry *entry)
{
	struct entry **bucket = &cache->buckets[entry->hash % BUCKETS], *old;

	pthread_mutex_lock(&cache->lock);
	/* Something was invalidated meanwhile: perhaps this. */
	if (entry->forgotten == cache->forgotten && cache->bytes <= cache->limit) {
		old = look_up(cache, entry->hash, entry->key);
		if (old)
			unlink_entry(cache, old);
		entry->same = *bucket;
		*bucket = entry;
		list_add_before(cache->lru.next, &entry->lru);
		entry->stored = true;
		entry->users++;
		cache->entries++;
	}
	put(cache, entry);
	pthread_mutex_unlock(&cache->lock);
}

void cache_put(struct cache *cache, struct entry *entry)
{
	pthread_mutex_lock(&cache->lock);
	put(cache, entry);
	pthread_mutex_unlock(&cache->lock);
}

void cache_forget(struct cache *cache, struct span key)
{
	struct entry *entry;

	pthread_mutex_lock(&cache->lock);
	cache->forgotten++;
	entry = look_up(cache, url_key(key.at, key.len), key);
	if (entry)
		unlink_entry(cache, entry);
	pthread_mutex_unlock(&cache->lock);
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
