// SPDX-License-Identifier: GPL-2.0
#include "tally.h"

#include <math.h>

void tally_add(struct tally *t, uint64_t us)
{
	int slot = us > 1 ? ceil(4 * log2(us)) : 0;

	t->requests++;
	t->sum_us += us;
	if (us > t->max_us)
		t->max_us = us;
	t->slots[slot < TALLY_SLOTS ? slot : TALLY_SLOTS - 1]++;
}

static uint64_t slot_end(int slot)
{
	return ceil(exp2(slot / 4.0));
}

uint64_t tally_quantile(const struct tally *t, double q)
{
	uint64_t seen = 0;
	int i;

	for (i = 0; i < TALLY_SLOTS; i++) {
		seen += t->slots[i];
		if (t->requests && seen >= q * t->requests)
			break;
	}
	return slot_end(i) < t->max_us ? slot_end(i) : t->max_us;
}

void tally_print(const struct tally *t, double seconds, FILE *out)
{
	const char *comma = "";
	int i;

	fprintf(out, "\"requests\": %llu, \"bytes\": %llu, \"connections\": %llu, \"other\": %llu, "
		"\"failed\": %llu, \"timeouts\": %llu, \"mean_us\": %llu, \"median_us\": %llu, "
		"\"p99_us\": %llu, \"max_us\": %llu, ", (unsigned long long)t->requests,
		(unsigned long long)t->bytes, (unsigned long long)t->connections,
		(unsigned long long)t->other, (unsigned long long)t->failed,
		(unsigned long long)t->timeouts,
		(unsigned long long)(t->requests ? t->sum_us / t->requests : 0),
		(unsigned long long)tally_quantile(t, 0.5),
		(unsigned long long)tally_quantile(t, 0.99), (unsigned long long)t->max_us);
	if (seconds > 0)
		fprintf(out, "\"seconds\": %.3f, \"rate\": %.2f, ", seconds,
			t->requests / seconds);
	fprintf(out, "\"up_to_us\": {");
	for (i = 0; i < TALLY_SLOTS; i++) {
		if (!t->slots[i])
			continue;
		fprintf(out, "%s\"%llu\": %llu", comma, (unsigned long long)slot_end(i),
			(unsigned long long)t->slots[i]);
		comma = ", ";
	}
	fprintf(out, "}");
}
