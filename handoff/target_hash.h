/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Hashing of targets and names: FNV-1a, then a finalizer that spreads every bit. The kernel and
 * programs have the keys of targets from here.
 */
#ifndef HOF_TARGET_HASH_H
#define HOF_TARGET_HASH_H

#ifdef __KERNEL__
#include <linux/types.h>
#else
#include <stddef.h>
#include <stdint.h>
#endif

static inline uint64_t mix64(uint64_t x)
{
	x ^= x >> 33;
	x *= 0xff51afd7ed558ccdULL;
	x ^= x >> 33;
	x *= 0xc4ceb9fe1a85ec53ULL;
	x ^= x >> 33;
	return x;
}

#define HASH_BEGIN 0xcbf29ce484222325ULL

/* Of bytes that come in pieces: HASH_BEGIN first, mix64() of the last one. */
static inline uint64_t hash_more(uint64_t h, const char *bytes, size_t len)
{
	size_t i;

	for (i = 0; i < len; i++)
		h = (h ^ (unsigned char)bytes[i]) * 0x100000001b3ULL;
	return h;
}

static inline uint64_t hash_bytes(const char *bytes, size_t len)
{
	return mix64(hash_more(HASH_BEGIN, bytes, len));
}

#endif
