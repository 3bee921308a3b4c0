/* SPDX-License-Identifier: GPL-2.0 */
/* A node's memory: whole files, replaced by Greedy-Dual-Size or LRU. */
#ifndef LARDSIM_CACHE_H
#define LARDSIM_CACHE_H

#include <stdbool.h>
#include <stdint.h>

enum cache_kind {
	CACHE_GDS,	/* cost 1: evict the lowest inflation + 1 / size */
	CACHE_LRU,	/* files above CACHE_LRU_MAX are never kept */
};

#define CACHE_LRU_MAX	(500U * 1024)

/**
 * struct cache - which targets a node has in memory
 * @capacity, @used: bytes
 * @inflation: Greedy-Dual-Size's L; points to @own, or is shared between nodes by policies
 *	       that compare priorities across nodes
 * @clock:     LRU's time; shared in the same way
 * @heap:      targets, the next victim first
 * @rank:      position in @heap plus one of each target, 0: not cached
 * @priority:  of each cached target
 */
struct cache {
	enum cache_kind kind;
	uint64_t capacity, used;
	double *inflation, own;
	uint64_t *clock, own_clock;
	const uint32_t *size;
	uint32_t *heap, *rank;
	double *priority;
	uint32_t count;
	uint64_t evictions;
};

/* @size: bytes of each target. 0, or -1: no memory. */
int cache_init(struct cache *c, enum cache_kind kind, uint64_t capacity, const uint32_t *size,
	       uint32_t targets);
void cache_free(struct cache *c);

static inline bool cache_has(const struct cache *c, uint32_t target)
{
	return c->rank[target];
}

/* Is it there? A hit refreshes its priority. */
bool cache_touch(struct cache *c, uint32_t target);
/* Would cache_insert() keep it? */
bool cache_keeps(const struct cache *c, uint32_t target);
/* Put it in if it is worth keeping, evicting as needed. */
void cache_insert(struct cache *c, uint32_t target);
void cache_remove(struct cache *c, uint32_t target);
/* The next victim; only when count is not 0. */
static inline uint32_t cache_victim(const struct cache *c)
{
	return c->heap[0];
}

#endif
