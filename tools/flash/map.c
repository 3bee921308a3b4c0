// SPDX-License-Identifier: GPL-2.0
#include "map.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>

/**
 * struct map_cache
 * @lru:   mappings nobody sends from, coldest first
 * @bytes: mapped, in use or not
 * @locked: residency mlock: whole pages counted as locked, at most @lock_limit
 *
 * Under the lock of the struct cache, which counts only when threads share it.
 */
struct map_cache {
	struct cache *cache;
	struct list lru;
	uint64_t bytes, limit;
	uint64_t locked, lock_limit;
	struct stats *stats;
};

static uint64_t whole_pages(const struct mapping *map)
{
	return (map->len + 4095ull) & ~4095ull;
}

static void count_locked(struct map_cache *m, struct mapping *map, bool yes)
{
	uint64_t n = whole_pages(map);

	map->locked = yes;
	m->locked = yes ? m->locked + n : m->locked - n;
	__atomic_store_n(&m->stats->locked_bytes, m->locked, __ATOMIC_RELAXED);
}

static void unmap(struct map_cache *m, struct mapping *map)
{
	if (map->locked)
		count_locked(m, map, false);
	munmap(map->addr, map->len);
	m->bytes -= map->len;
	list_del(&map->file_node);
	list_del(&map->lru_node);
	free(map);
}

/* The file's last reference goes, and with it the mappings. */
static void unmap_file(struct map_cache *m, struct file *f)
{
	while (!list_empty(&f->maps))
		unmap(m, list_entry(f->maps.next, struct mapping, file_node));
}

struct map_cache *map_cache_new(struct cache *cache, uint64_t limit, struct stats *stats)
{
	struct map_cache *m = calloc(1, sizeof(*m));
	struct rlimit rl;

	if (!m)
		return NULL;
	m->cache = cache;
	m->limit = limit;
	m->lock_limit = limit;
	if (!getrlimit(RLIMIT_MEMLOCK, &rl) && rl.rlim_cur < limit)
		m->lock_limit = rl.rlim_cur;
	m->stats = stats;
	list_init(&m->lru);
	cache->unmap = unmap_file;
	cache->maps = m;
	return m;
}

void map_cache_free(struct map_cache *m)
{
	free(m);
}

static void evict(struct map_cache *m, struct stats *stats)
{
	struct list *n, *next;

	for (n = m->lru.next; n != &m->lru && m->bytes > m->limit; n = next) {
		struct mapping *map = list_entry(n, struct mapping, lru_node);

		next = n->next;
		if (!list_empty(&map->f->reads))	/* a helper works on one of its chunks */
			continue;
		unmap(m, map);
		stats_add(stats, map_evictions, 1);
	}
}

static struct mapping *find(struct file *f, uint64_t off)
{
	struct list *n;

	for (n = f->maps.next; n != &f->maps; n = n->next) {
		struct mapping *map = list_entry(n, struct mapping, file_node);

		if (map->off == off)
			return map;
	}
	return NULL;
}

struct mapping *map_get(struct worker *w, struct file *f, uint64_t off)
{
	struct map_cache *m = w->maps;
	uint64_t chunk = w->conf->chunk, start = off - off % chunk;
	struct mapping *map;
	void *addr;

	cache_lock(w->cache);
	map = find(f, start);
	if (map) {
		stats_add(w->stats, map_hits, 1);
		goto use;
	}
	stats_add(w->stats, map_misses, 1);
	map = calloc(1, sizeof(*map));
	if (!map)
		goto out;
	map->f = f;
	map->off = start;
	map->len = f->id.size - start < chunk ? f->id.size - start : chunk;
	addr = mmap(NULL, map->len, PROT_READ, MAP_SHARED, f->fd, start);
	if (addr == MAP_FAILED) {
		free(map);
		map = NULL;
		goto out;
	}
	map->addr = addr;
	m->bytes += map->len;
	list_init(&map->lru_node);
	list_add(&map->file_node, &f->maps);
	evict(m, w->stats);
use:
	map->users++;
	list_del(&map->lru_node);
out:
	cache_unlock(w->cache);
	return map;
}

bool map_may_lock(struct worker *w, struct mapping *map)
{
	struct map_cache *m = w->maps;

	if (map->locked || m->locked + whole_pages(map) > m->lock_limit)
		return false;
	count_locked(m, map, true);
	return true;
}

void map_locked(struct worker *w, struct mapping *map, bool ok)
{
	map->ready = ok;
	if (!ok)
		count_locked(w->maps, map, false);
}

void map_put(struct worker *w, struct mapping *map)
{
	cache_lock(w->cache);
	if (!--map->users) {
		if (w->conf->map_cache)
			list_add_tail(&map->lru_node, &w->maps->lru);
		else if (list_empty(&map->f->reads))
			unmap(w->maps, map);
		else
			list_add(&map->lru_node, &w->maps->lru);
	}
	cache_unlock(w->cache);
}
