// SPDX-License-Identifier: GPL-2.0
#include "stats.h"

#include <stdio.h>

static uint64_t sum(const struct stats *all, unsigned int n, size_t offset)
{
	uint64_t total = 0;
	unsigned int i;

	for (i = 0; i < n; i++)
		total += __atomic_load_n((const uint64_t *)((const char *)&all[i] + offset),
					 __ATOMIC_RELAXED);
	return total;
}

int stats_json(const struct stats *all, unsigned int n, char *buf, int size)
{
	static const struct {
		const char *name;
		size_t offset;
	} fields[] = {
#define X(name) { #name, offsetof(struct stats, name) },
		STATS(X)
#undef X
	};
	uint64_t longest = 0, us;
	int len = 0, last = -1, i;

	len += snprintf(buf + len, size - len, "{\"workers\": %u", n);
	for (i = 0; i < (int)(sizeof(fields) / sizeof(fields[0])); i++)
		len += snprintf(buf + len, size - len, ",\n\"%s\": %llu", fields[i].name,
				(unsigned long long)sum(all, n, fields[i].offset));
	for (i = 0; i < LOOP_STALL_BUCKETS; i++)
		if (sum(all, n, offsetof(struct stats, stalls) + i * sizeof(uint64_t)))
			last = i;
	/* Bucket i counts turns of the loop that took less than 2^i us. */
	len += snprintf(buf + len, size - len, ",\n\"stall_us_log2\": [");
	for (i = 0; i <= last; i++)
		len += snprintf(buf + len, size - len, "%s%llu", i ? ", " : "", (unsigned long long)
				sum(all, n, offsetof(struct stats, stalls) + i * sizeof(uint64_t)));
	for (i = 0; i < (int)n; i++) {
		us = __atomic_load_n(&all[i].stall_max, __ATOMIC_RELAXED);
		if (us > longest)
			longest = us;
	}
	len += snprintf(buf + len, size - len, "],\n\"stall_max_us\": %llu}\n",
			(unsigned long long)longest);
	return len;
}
