// SPDX-License-Identifier: GPL-2.0
#include "predict.h"

#include <stdlib.h>

#include "tools/base/list.h"

#define HEADS (1u << 16)
#define PAGE 4096u
#define SHRINK 32	/* a fault takes this part of what is remembered */

/**
 * struct chunk - taken to be in memory
 * @used: since the hand last passed
 */
struct chunk {
	struct list hash_node;
	struct list clock_node;
	uint64_t key;
	uint32_t len;
	bool used;
};

/**
 * struct predict
 * @clock: all chunks; the hand is at the head
 * @bytes: their sum, at most @budget after each call
 */
struct predict {
	struct list clock;
	uint64_t bytes, budget, min, max;
	struct list heads[HEADS];
};

struct predict *predict_new(uint64_t budget, uint64_t min, uint64_t max)
{
	struct predict *p = malloc(sizeof(*p));
	unsigned int i;

	if (!p)
		return NULL;
	*p = (struct predict){ .budget = budget, .min = min, .max = max };
	list_init(&p->clock);
	for (i = 0; i < HEADS; i++)
		list_init(&p->heads[i]);
	return p;
}

static void forget(struct predict *p, struct chunk *c)
{
	p->bytes -= c->len;
	list_del(&c->hash_node);
	list_del(&c->clock_node);
	free(c);
}

void predict_free(struct predict *p)
{
	if (!p)
		return;
	while (!list_empty(&p->clock))
		forget(p, list_entry(p->clock.next, struct chunk, clock_node));
	free(p);
}

static uint64_t mix(uint64_t x)
{
	x ^= x >> 30;
	x *= 0xbf58476d1ce4e5b9ull;
	x ^= x >> 27;
	x *= 0x94d049bb133111ebull;
	return x ^ x >> 31;
}

uint64_t predict_key(uint64_t dev, uint64_t ino, int64_t version, uint64_t chunk)
{
	return mix(mix(mix(mix(dev) + ino) + version) + chunk);
}

static struct chunk *find(struct predict *p, uint64_t key)
{
	struct list *head = &p->heads[key % HEADS], *n;

	for (n = head->next; n != head; n = n->next) {
		struct chunk *c = list_entry(n, struct chunk, hash_node);

		if (c->key == key)
			return c;
	}
	return NULL;
}

bool predict_resident(struct predict *p, uint64_t key)
{
	struct chunk *c = find(p, key);

	if (c)
		c->used = true;
	return c;
}

/* Second chance: the hand spares what was used since it last came by. */
static void trim(struct predict *p)
{
	while (p->bytes > p->budget && !list_empty(&p->clock)) {
		struct chunk *c = list_entry(p->clock.next, struct chunk, clock_node);

		if (!c->used) {
			forget(p, c);
			continue;
		}
		c->used = false;
		list_del(&c->clock_node);
		list_add_tail(&c->clock_node, &p->clock);
	}
}

void predict_read(struct predict *p, uint64_t key, uint32_t len, bool cold)
{
	struct chunk *c = find(p, key);

	len = (len + PAGE - 1) & ~(PAGE - 1);
	if (!cold)
		p->budget = p->max - p->budget < len ? p->max : p->budget + len;
	if (c) {
		c->used = true;
		if (c->len < len) {	/* more of the same chunk */
			p->bytes += len - c->len;
			c->len = len;
		}
		trim(p);
		return;
	}
	c = malloc(sizeof(*c));
	if (!c)
		return;
	*c = (struct chunk){ .key = key, .len = len };
	list_add(&c->hash_node, &p->heads[key % HEADS]);
	p->bytes += len;
	list_add_tail(&c->clock_node, &p->clock);
	trim(p);
}

void predict_fault(struct predict *p)
{
	uint64_t to = p->bytes - p->bytes / SHRINK;

	/* Below what is remembered: a budget that is not used up yet says nothing. */
	if (to < p->budget)
		p->budget = to > p->min ? to : p->min;
	trim(p);
}

uint64_t predict_budget(const struct predict *p)
{
	return p->budget;
}

uint64_t predict_bytes(const struct predict *p)
{
	return p->bytes;
}
