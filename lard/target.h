/* SPDX-License-Identifier: GPL-2.0 */
/* Target table: key -> set of nodes, bounded, least recently used leaves first. */
#ifndef LARD_TARGET_H
#define LARD_TARGET_H

#include <stdbool.h>
#include <stdint.h>

#define TARGET_NONE UINT32_MAX

/**
 * struct target - one mapping
 * @key:      hash of the canonical URL
 * @set:      nodes that serve it
 * @last_mod: when @set last changed by a decision
 * @learnt:   another front-end has said so, and nobody has asked for it here
 * @epoch:    of the engine when @set was last checked against nodes that died
 * @chain:    next of the same bucket
 * @newer:    LRU neighbours
 * @older:
 */
struct target {
	uint64_t key;
	uint64_t set;
	uint64_t last_mod : 63;
	uint64_t learnt : 1;
	uint32_t epoch;
	uint32_t chain;
	uint32_t newer;
	uint32_t older;
};

struct target_table {
	struct target *targets;
	uint32_t *buckets;
	uint64_t seed;
	uint64_t evictions;
	uint64_t evicted;	/* key of the last one */
	uint64_t adopted;	/* learnt ones that somebody then asked for */
	uint32_t capacity;
	uint32_t used;
	uint32_t learnt;	/* of those */
	uint32_t newest;
	uint32_t oldest;
	unsigned int shift;
};

int target_table_init(struct target_table *table, uint32_t capacity, uint64_t seed);
void target_table_exit(struct target_table *table);

struct target *target_find(const struct target_table *table, uint64_t key);
/* Found, or new with an empty set; in both cases now the most recently used. */
struct target *target_use(struct target_table *table, uint64_t key);
/*
 * New, with an empty set, learnt, and the least recently used: nothing that was asked for here goes for it.
 * NULL: there is no room then. @key is not in the table.
 */
struct target *target_learn(struct target_table *table, uint64_t key);
/* It is learnt, or not any more. */
void target_mark(struct target_table *table, struct target *t, bool learnt);

#endif
