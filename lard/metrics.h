/* SPDX-License-Identifier: GPL-2.0 */
/*
 * GET /metrics for Prometheus, on an address of its own. "?scope=nodes,counters,requests,reasons,state"
 * picks parts; without it all are given.
 */
#ifndef LARD_METRICS_H
#define LARD_METRICS_H

#include <stddef.h>
#include "address.h"

struct lardd;
struct pages;

/* NULL after a sentence in @error. Worker 0. A predecessor's socket is taken over. */
struct pages *metrics_open(struct lardd *lardd, const union address *address, char *error,
			   size_t size);
void metrics_close(struct pages *metrics);

#endif
