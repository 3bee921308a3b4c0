// SPDX-License-Identifier: GPL-2.0
/* The simulator's calendar. */
#include <stdlib.h>
#include <string.h>
#include "events.h"

bool events_reserve(struct events *e, uint32_t n)
{
	struct event *heap;

	if (n <= e->room)
		return true;
	heap = realloc(e->heap, n * sizeof(*heap));
	if (!heap)
		return false;
	e->heap = heap;
	e->room = n;
	return true;
}

void events_free(struct events *e)
{
	free(e->heap);
	memset(e, 0, sizeof(*e));
}

/* The difference wraps as order does: far fewer than 2^31 events wait at once. */
static bool before(const struct event *a, const struct event *b)
{
	if (a->when != b->when)
		return a->when < b->when;
	return (int32_t)(a->order - b->order) < 0;
}

void events_push(struct events *e, uint64_t when, uint32_t what)
{
	struct event new = { .when = when, .order = e->order++, .what = what };
	uint32_t at = e->count++;

	while (at) {
		uint32_t parent = (at - 1) / 2;

		if (!before(&new, &e->heap[parent]))
			break;
		e->heap[at] = e->heap[parent];
		at = parent;
	}
	e->heap[at] = new;
}

bool events_pop(struct events *e, uint64_t *when, uint32_t *what)
{
	struct event last;
	uint32_t at = 0;

	if (!e->count)
		return false;
	*when = e->heap[0].when;
	*what = e->heap[0].what;
	last = e->heap[--e->count];
	for (;;) {
		uint32_t child = 2 * at + 1;

		if (child >= e->count)
			break;
		if (child + 1 < e->count && before(&e->heap[child + 1], &e->heap[child]))
			child++;
		if (!before(&e->heap[child], &last))
			break;
		e->heap[at] = e->heap[child];
		at = child;
	}
	e->heap[at] = last;
	return true;
}
