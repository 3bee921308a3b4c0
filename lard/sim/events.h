/* SPDX-License-Identifier: GPL-2.0 */
/* The simulator's calendar: a binary heap by time; at one time, first in, first out. */
#ifndef LARDSIM_EVENTS_H
#define LARDSIM_EVENTS_H

#include <stdbool.h>
#include <stdint.h>

struct event {
	uint64_t when;
	uint32_t order, what;
};

struct events {
	struct event *heap;
	uint32_t count, room, order;
};

/* Room for @n events at once; false: no memory. */
bool events_reserve(struct events *e, uint32_t n);
void events_free(struct events *e);
/* Within what was reserved. */
void events_push(struct events *e, uint64_t when, uint32_t what);
bool events_pop(struct events *e, uint64_t *when, uint32_t *what);

#endif
