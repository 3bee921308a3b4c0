/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Hashing of targets and names: FNV-1a, then a finalizer that spreads every bit. The kernel and
 * programs have the keys of targets from here.
 */
#ifndef HOF_TARGET_HASH_H
#define HOF_TARGET_HASH_H

#include <linux/types.h>
#ifndef __KERNEL__
#include <stddef.h>
#endif

static inline __u64 mix64(__u64 x)
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
static inline __u64 hash_more(__u64 h, const char *bytes, size_t len)
{
	size_t i;

	for (i = 0; i < len; i++)
		h = (h ^ (unsigned char)bytes[i]) * 0x100000001b3ULL;
	return h;
}

static inline __u64 hash_bytes(const char *bytes, size_t len)
{
	return mix64(hash_more(HASH_BEGIN, bytes, len));
}

#endif
