// SPDX-License-Identifier: GPL-2.0
/* Hash ring. */
#include <stdlib.h>
#include "mix.h"
#include "ring.h"

void ring_clear(struct ring *ring)
{
	ring->used = 0;
}

void ring_add(struct ring *ring, uint32_t node, uint64_t ident, uint32_t points)
{
	uint32_t i;

	/* The points of a node are a prefix of one sequence: a new weight moves few targets. */
	for (i = 0; i < points && ring->used < RING_MAX; i++)
		ring->points[ring->used++] = (struct ring_point){
			.hash = mix64(ident + i * 0x9e3779b97f4a7c15ULL),
			.node = node,
		};
}

static int compare(const void *a, const void *b)
{
	const struct ring_point *x = a, *y = b;

	if (x->hash != y->hash)
		return x->hash < y->hash ? -1 : 1;
	return (x->node > y->node) - (x->node < y->node);
}

void ring_sort(struct ring *ring)
{
	qsort(ring->points, ring->used, sizeof(ring->points[0]), compare);
}

uint32_t ring_find(const struct ring *ring, uint64_t key)
{
	uint32_t low = 0, high = ring->used;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (ring->points[middle].hash < key)
			low = middle + 1;
		else
			high = middle;
	}
	return low == ring->used ? 0 : low;
}
