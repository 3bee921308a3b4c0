/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Connections that the kernel gives to nodes before there is a socket, by our mappings (flotilla/early_table.h). What
 * the engine decides is told to it; what it cannot decide by that comes to our listeners.
 */
#ifndef LARD_EARLY_H
#define LARD_EARLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct config;
struct early;
struct lardd;
struct worker;

/* NULL: no memory. Nothing is asked of the kernel yet. */
struct early *early_new(void);
/* Before the engine and the workers. */
void early_free(struct lardd *lardd);

/* NULL, or why a configuration that says "early on" is none. */
const char *early_check(const struct config *config);

/* Is it on, and does the kernel do it? Any thread. */
bool early_is(const struct lardd *lardd);
/* "on", "off", or why it is not on. Worker 0. */
const char *early_state(const struct lardd *lardd);

/* The engine has just decided. Under lardd->lock. */
void early_note(struct lardd *lardd);
/* Requests wait, or none does any more. Under lardd->lock. */
void early_waiting(struct lardd *lardd);
/* The kernel's number of a slot's node is another one. Under lardd->lock. */
void early_node(struct lardd *lardd, int slot);

/* The end of a batch: the kernel hears what was noted; from worker 0 also of services and nodes. */
void early_batch_end(struct worker *w);
/* Once a second; worker 0: begins, begins anew or ends it, as the configuration says. */
void early_tick(struct lardd *lardd);
/* There is another configuration; worker 0. */
void early_reload(struct lardd *lardd);

#endif
