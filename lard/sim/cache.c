// SPDX-License-Identifier: GPL-2.0
/* A node's memory. */
#include <stdlib.h>
#include <string.h>
#include "cache.h"

int cache_init(struct cache *c, enum cache_kind kind, uint64_t capacity, const uint32_t *size,
	       uint32_t targets)
{
	memset(c, 0, sizeof(*c));
	c->kind = kind;
	c->capacity = capacity;
	c->size = size;
	c->inflation = &c->own;
	c->clock = &c->own_clock;
	c->heap = calloc(targets, sizeof(*c->heap));
	c->rank = calloc(targets, sizeof(*c->rank));
	c->priority = calloc(targets, sizeof(*c->priority));
	if (c->heap && c->rank && c->priority)
		return 0;
	cache_free(c);
	return -1;
}

void cache_free(struct cache *c)
{
	free(c->heap);
	free(c->rank);
	free(c->priority);
	memset(c, 0, sizeof(*c));
}

static void place(struct cache *c, uint32_t at, uint32_t target)
{
	c->heap[at] = target;
	c->rank[target] = at + 1;
}

static void sift_up(struct cache *c, uint32_t at)
{
	uint32_t target = c->heap[at];
	double priority = c->priority[target];

	while (at) {
		uint32_t parent = (at - 1) / 2;

		if (c->priority[c->heap[parent]] <= priority)
			break;
		place(c, at, c->heap[parent]);
		at = parent;
	}
	place(c, at, target);
}

static void sift_down(struct cache *c, uint32_t at)
{
	uint32_t target = c->heap[at];
	double priority = c->priority[target];

	for (;;) {
		uint32_t child = 2 * at + 1;

		if (child >= c->count)
			break;
		if (child + 1 < c->count &&
		    c->priority[c->heap[child + 1]] < c->priority[c->heap[child]])
			child++;
		if (c->priority[c->heap[child]] >= priority)
			break;
		place(c, at, c->heap[child]);
		at = child;
	}
	place(c, at, target);
}

static double worth(struct cache *c, uint32_t target)
{
	if (c->kind == CACHE_LRU)
		return ++*c->clock;
	return *c->inflation + 1.0 / c->size[target];
}

bool cache_touch(struct cache *c, uint32_t target)
{
	uint32_t rank = c->rank[target];

	if (!rank)
		return false;
	c->priority[target] = worth(c, target);	/* never less than before */
	sift_down(c, rank - 1);
	return true;
}

void cache_remove(struct cache *c, uint32_t target)
{
	uint32_t at = c->rank[target] - 1, last = c->heap[--c->count];

	c->rank[target] = 0;
	c->used -= c->size[target];
	if (last == target)
		return;
	place(c, at, last);
	sift_down(c, at);
	sift_up(c, c->rank[last] - 1);
}

bool cache_keeps(const struct cache *c, uint32_t target)
{
	if (c->kind == CACHE_LRU && c->size[target] > CACHE_LRU_MAX)
		return false;
	return c->size[target] <= c->capacity;
}

void cache_insert(struct cache *c, uint32_t target)
{
	if (c->rank[target] || !cache_keeps(c, target))
		return;
	while (c->used + c->size[target] > c->capacity) {
		uint32_t victim = c->heap[0];

		if (c->kind == CACHE_GDS && c->priority[victim] > *c->inflation)
			*c->inflation = c->priority[victim];
		cache_remove(c, victim);
		c->evictions++;
	}
	c->priority[target] = worth(c, target);
	c->used += c->size[target];
	place(c, c->count++, target);
	sift_up(c, c->count - 1);
}
