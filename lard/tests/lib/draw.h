/* SPDX-License-Identifier: GPL-2.0 */
/* Random histories that are the same for a seed, whatever the machine. */
#ifndef LARD_TESTS_DRAW_H
#define LARD_TESTS_DRAW_H

#include <stdint.h>

/* Set before each history, not to 0. */
static uint64_t rng;

/* From 0 to @below - 1. */
static inline uint64_t next(uint64_t below)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return rng % below;
}

#endif
