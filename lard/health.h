/* SPDX-License-Identifier: GPL-2.0 */
/* Active health checks of nodes that no kernel link watches. Worker 0 only. */
#ifndef LARD_HEALTH_H
#define LARD_HEALTH_H

#include <stdbool.h>
#include "config.h"
#include "loop.h"

struct lardd;
struct health;

void health_init(struct lardd *lardd);
/*
 * Checks at once and then every interval; nodes_health() hears of changes. @fresh: @up is only
 * assumed, the first result counts at once. NULL: no memory.
 */
struct health *health_start(struct lardd *lardd, int slot, const union address *address,
			    const struct config_health *config, bool up, bool fresh);
/* NULL is fine. */
void health_stop(struct health *health);

#endif
