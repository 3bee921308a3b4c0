// SPDX-License-Identifier: GPL-2.0
/* Option values. */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "options.h"

bool opt_u64(const char *text, uint64_t min, uint64_t max, uint64_t *out)
{
	char *end;

	if (!isdigit((unsigned char)*text))
		return false;
	errno = 0;
	*out = strtoull(text, &end, 10);
	return !errno && !*end && *out >= min && *out <= max;
}

bool opt_uint(const char *text, uint32_t min, uint32_t max, uint32_t *out)
{
	uint64_t value;

	if (!opt_u64(text, min, max, &value))
		return false;
	*out = value;
	return true;
}

bool opt_double(const char *text, double min, double max, double *out)
{
	char *end;

	if (!isdigit((unsigned char)*text) && *text != '.')
		return false;
	*out = strtod(text, &end);
	return !*end && *out >= min && *out <= max;
}

bool opt_cache(const char *text, enum cache_kind *out)
{
	*out = strcmp(text, "lru") ? CACHE_GDS : CACHE_LRU;
	return !strcmp(text, "lru") || !strcmp(text, "gds");
}

bool opt_policy(const char *text, struct sim_params *p)
{
	p->model = SIM_ENGINE;
	if (!strcmp(text, "lb/gc"))
		p->model = SIM_LB_GC;
	else if (!strcmp(text, "wrr/gms"))
		p->model = SIM_WRR_GMS;
	else
		return !lard_policy_parse(text, &p->policy.policy);
	return true;
}
