/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Memory that clients make us hold: heads and bodies that are not whole, requests that wait behind
 * others, answers that a client does not take. Each is bounded by itself, and all of them, of all
 * workers, by held_memory. Who brings or takes nothing makes room for who does; then there is 503. Who
 * stands still at one worker makes room for the clients of another within a second or two.
 *
 * Each worker counts its own in its counters, which all can read. So what a worker had that died is
 * not counted for ever.
 */
#ifndef FLASH_HOLD_H
#define FLASH_HOLD_H

#include <stdbool.h>
#include <stddef.h>

#include "conn.h"

void hold_init(struct worker *w);
void hold_exit(struct worker *w);

/* @bytes more, for @c, at the cost of others if need be. False: it would be too much. */
bool hold_take(struct conn *c, size_t bytes);
/* @bytes more, if they are free: an answer does not grow at the cost of others, it is only slower. */
bool hold_try(struct worker *w, size_t bytes);
void hold_give(struct worker *w, size_t bytes);

/* Who has brought or taken so much has not stood still. */
#define HOLD_STEP (16 << 10)
/* What @c brings or takes is no longer as old as it was: others go first. */
void hold_slow(struct conn *c, struct list *where);

#endif
