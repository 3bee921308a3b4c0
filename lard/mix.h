/* SPDX-License-Identifier: GPL-2.0 */
/* Hashing of targets and names: FNV-1a, then a finalizer that spreads every bit. */
#ifndef LARD_MIX_H
#define LARD_MIX_H

#include <stddef.h>
#include <stdint.h>

static inline uint64_t mix64(uint64_t x)
{
	x ^= x >> 33;
	x *= 0xff51afd7ed558ccdULL;
	x ^= x >> 33;
	x *= 0xc4ceb9fe1a85ec53ULL;
	x ^= x >> 33;
	return x;
}

static inline uint64_t hash_bytes(const char *bytes, size_t len)
{
	uint64_t h = 0xcbf29ce484222325ULL;
	size_t i;

	for (i = 0; i < len; i++)
		h = (h ^ (unsigned char)bytes[i]) * 0x100000001b3ULL;
	return mix64(h);
}

#endif
