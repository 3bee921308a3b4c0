/* SPDX-License-Identifier: GPL-2.0 */
/* Hash ring of consistent hashing: a node owns points in proportion to its weight. */
#ifndef LARD_RING_H
#define LARD_RING_H

#include <stdint.h>
#include "policy.h"

#define RING_POINTS	160	/* of a node of mean weight */
#define RING_MAX	(LARD_MAX_NODES * (RING_POINTS + 1))

struct ring_point {
	uint64_t hash;
	uint32_t node;
};

struct ring {
	struct ring_point points[RING_MAX];
	uint32_t used;
};

void ring_clear(struct ring *ring);
/* @ident: hash of the node's name, so that every front-end builds the same ring. */
void ring_add(struct ring *ring, uint32_t node, uint64_t ident, uint32_t points);
void ring_sort(struct ring *ring);
/* Index of the first point at or after @key; the ring must not be empty. */
uint32_t ring_find(const struct ring *ring, uint64_t key);

#endif
