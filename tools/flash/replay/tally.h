/* SPDX-License-Identifier: GPL-2.0 */
/* What came of requests: counts, and a histogram of their durations. */
#ifndef REPLAY_TALLY_H
#define REPLAY_TALLY_H

#include <stdint.h>
#include <stdio.h>

/* Four slots for each doubling, from 1 us on: the upper end of one is at most 19 % too high. */
#define TALLY_SLOTS 128

/**
 * struct tally
 * @other:  answers that are not 2xx
 * @failed: connections refused, reset, or closed within an answer; @timeouts besides
 */
struct tally {
	uint64_t requests, bytes, other, failed, timeouts, connections;
	uint64_t sum_us, max_us, slots[TALLY_SLOTS];
};

void tally_add(struct tally *t, uint64_t us);
/* Upper end of the slot in which the share @q of the durations ends. */
uint64_t tally_quantile(const struct tally *t, double q);
/* As members of a JSON object; @seconds 0: no rate. */
void tally_print(const struct tally *t, double seconds, FILE *out);

#endif
