/* SPDX-License-Identifier: MIT */
/* A stream whose every byte is known from its position, so that each one can be checked. */
#ifndef PATTERN_H
#define PATTERN_H

#include <stddef.h>
#include <stdint.h>

/* splitmix64 */
static inline uint64_t rnd_next(uint64_t *state)
{
	uint64_t z = (*state += 0x9e3779b97f4a7c15ULL);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

static inline uint64_t rnd_below(uint64_t *state, uint64_t bound)
{
	return bound ? rnd_next(state) % bound : 0;
}

#define PATTERN_SIZE	131071	/* a prime: no multiple of it is a size that code likes */

/* The pattern, once and a bit, so that any 64 KB from any start lie in one piece. */
extern unsigned char pattern[PATTERN_SIZE + 65536];
void pattern_init(uint64_t seed);

/* Bytes of the stream @key at @pos; at most 65536 are there. */
static inline const unsigned char *pattern_at(uint64_t key, uint64_t pos)
{
	return pattern + (key + pos) % PATTERN_SIZE;
}

#endif
