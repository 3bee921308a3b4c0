/* SPDX-License-Identifier: GPL-2.0 */
/*
 * GET /metrics for Prometheus, on an address of its own. "?scope=nodes,counters,reasons,state"
 * picks parts; without it all are given.
 */
#ifndef LARD_METRICS_H
#define LARD_METRICS_H

#include <stddef.h>
#include "address.h"

struct lardd;
struct metrics;

/* NULL after a sentence in @error. Worker 0. A predecessor's socket is taken over. */
struct metrics *metrics_open(struct lardd *lardd, const union address *address, char *error,
			     size_t size);
/* Its listening socket, for a successor; -1: none. NULL is fine, as below. */
int metrics_socket(const struct metrics *metrics, union address *address);
/* A successor answers from now on. */
void metrics_deafen(struct metrics *metrics);
void metrics_close(struct metrics *metrics);

#endif
