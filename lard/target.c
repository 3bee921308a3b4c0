// SPDX-License-Identifier: GPL-2.0
/*
 * Target table. All memory is taken at the start, so that a flood of unknown URLs costs other
 * mappings and never memory.
 */
#include <errno.h>
#include <stdlib.h>
#include "mix.h"
#include "target.h"

/* The seed keeps clients from choosing URLs that share a bucket. */
static uint32_t *bucket_of(const struct target_table *table, uint64_t key)
{
	return &table->buckets[mix64(key ^ table->seed) >> table->shift];
}

int target_table_init(struct target_table *table, uint32_t capacity, uint64_t seed)
{
	unsigned int bits = 1;
	size_t i;

	if (!capacity || capacity > (1U << 28))
		return -EINVAL;
	while ((1U << bits) < capacity)
		bits++;

	*table = (struct target_table){
		.targets = calloc(capacity, sizeof(*table->targets)),
		.buckets = malloc(sizeof(*table->buckets) << bits),
		.seed = seed,
		.capacity = capacity,
		.newest = TARGET_NONE,
		.oldest = TARGET_NONE,
		.shift = 64 - bits,
	};
	if (!table->targets || !table->buckets) {
		target_table_exit(table);
		return -ENOMEM;
	}
	for (i = 0; i < (1UL << bits); i++)
		table->buckets[i] = TARGET_NONE;
	return 0;
}

void target_table_exit(struct target_table *table)
{
	free(table->targets);
	free(table->buckets);
	table->targets = NULL;
	table->buckets = NULL;
}

struct target *target_find(const struct target_table *table, uint64_t key)
{
	uint32_t i;

	for (i = *bucket_of(table, key); i != TARGET_NONE; i = table->targets[i].chain)
		if (table->targets[i].key == key)
			return &table->targets[i];
	return NULL;
}

static void lru_remove(struct target_table *table, struct target *t)
{
	if (t->newer != TARGET_NONE)
		table->targets[t->newer].older = t->older;
	else
		table->newest = t->older;
	if (t->older != TARGET_NONE)
		table->targets[t->older].newer = t->newer;
	else
		table->oldest = t->newer;
}

static void lru_add_newest(struct target_table *table, struct target *t)
{
	uint32_t self = t - table->targets;

	t->newer = TARGET_NONE;
	t->older = table->newest;
	if (table->newest != TARGET_NONE)
		table->targets[table->newest].newer = self;
	else
		table->oldest = self;
	table->newest = self;
}

static void lru_add_oldest(struct target_table *table, struct target *t)
{
	uint32_t self = t - table->targets;

	t->newer = table->oldest;
	t->older = TARGET_NONE;
	if (table->oldest != TARGET_NONE)
		table->targets[table->oldest].older = self;
	else
		table->newest = self;
	table->oldest = self;
}

void target_mark(struct target_table *table, struct target *t, bool learnt)
{
	table->learnt += learnt - t->learnt;
	t->learnt = learnt;
}

static struct target *take_oldest(struct target_table *table)
{
	struct target *t = &table->targets[table->oldest];
	uint32_t self = table->oldest;
	uint32_t *link = bucket_of(table, t->key);

	while (*link != self)
		link = &table->targets[*link].chain;
	*link = t->chain;
	lru_remove(table, t);
	target_mark(table, t, false);
	table->evictions++;
	table->evicted = t->key;
	return t;
}

/* With an empty set, in no place of the LRU list yet. */
static struct target *take_new(struct target_table *table, uint64_t key)
{
	uint32_t *bucket;
	struct target *t;

	if (table->used < table->capacity)
		t = &table->targets[table->used++];
	else
		t = take_oldest(table);
	bucket = bucket_of(table, key);
	*t = (struct target){ .key = key, .chain = *bucket };
	*bucket = t - table->targets;
	return t;
}

struct target *target_use(struct target_table *table, uint64_t key)
{
	struct target *t = target_find(table, key);

	if (t) {
		table->adopted += t->learnt;
		target_mark(table, t, false);
		if (table->newest != t - table->targets) {
			lru_remove(table, t);
			lru_add_newest(table, t);
		}
		return t;
	}

	t = take_new(table, key);
	lru_add_newest(table, t);
	return t;
}

struct target *target_learn(struct target_table *table, uint64_t key)
{
	struct target *t;

	if (table->used == table->capacity && !table->targets[table->oldest].learnt)
		return NULL;
	t = take_new(table, key);
	target_mark(table, t, true);
	lru_add_oldest(table, t);
	return t;
}
