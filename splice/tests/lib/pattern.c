// SPDX-License-Identifier: MIT
#include "pattern.h"

unsigned char pattern[PATTERN_SIZE + 65536];

void pattern_init(uint64_t seed)
{
	size_t i;

	for (i = 0; i < PATTERN_SIZE; i++)
		pattern[i] = rnd_next(&seed) >> 24;
	for (i = PATTERN_SIZE; i < sizeof(pattern); i++)
		pattern[i] = pattern[i - PATTERN_SIZE];
}
