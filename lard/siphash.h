/* SPDX-License-Identifier: GPL-2.0 */
/*
 * SipHash-1-3 (Aumasson and Bernstein), as the kernel's hash tables have it: who does not know the key cannot make
 * keys that meet in one bucket.
 */
#ifndef LARD_SIPHASH_H
#define LARD_SIPHASH_H

#include <stddef.h>
#include <stdint.h>

struct siphash_key {
	uint64_t k0, k1;
};

/* Of the system's randomness. */
void siphash_make_key(struct siphash_key *key);
uint64_t siphash(const struct siphash_key *key, const void *data, size_t len);

#endif
