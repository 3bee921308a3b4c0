/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The modules' counters as Prometheus wants them. metric.c has the one table: what each is called there, in
 * which unit, of which kind, and a sentence.
 */
#ifndef FLOTILLA_METRIC_H
#define FLOTILLA_METRIC_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/**
 * struct sample - a counter as the kernel gave it
 * @hidden: not asked for
 * @done:   is in the text
 */
struct sample {
	char room[32], name[64];
	uint64_t value;
	bool hidden, done;
};

/**
 * struct samples - all of them, in the kernel's order
 */
struct samples {
	struct sample *at;
	size_t nr;
};

/* Of a counter that only a newer program knows: METRIC_COUNTER. */
enum metric_kind { METRIC_COUNTER, METRIC_GAUGE, METRIC_HISTOGRAM };
enum metric_kind metric_kind(const struct sample *s);

/* 0 or -ENOMEM. */
int samples_add(struct samples *samples, const char *room, const char *name, uint64_t value,
		bool hidden);
void samples_free(struct samples *samples);

/* Everything that is not hidden; what the table does not have comes last, without a type. */
void metrics_write(FILE *out, struct samples *samples);

#endif
