/* SPDX-License-Identifier: GPL-2.0 */
/* Option values: the whole text must be a value within its bounds. */
#ifndef LARDSIM_OPTIONS_H
#define LARDSIM_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>
#include "cluster.h"

bool opt_u64(const char *text, uint64_t min, uint64_t max, uint64_t *out);
bool opt_uint(const char *text, uint32_t min, uint32_t max, uint32_t *out);
bool opt_double(const char *text, double min, double max, double *out);
bool opt_cache(const char *text, enum cache_kind *out);
/* An engine policy, or lb/gc or wrr/gms. */
bool opt_policy(const char *text, struct sim_params *p);

#endif
