// SPDX-License-Identifier: GPL-2.0
#include "siphash.h"
#include <endian.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

struct state {
	uint64_t v0, v1, v2, v3;
};

void siphash_make_key(struct siphash_key *key)
{
	/* So early in a machine's life that there is none yet it waits. */
	if (getrandom(key, sizeof(*key), 0) != sizeof(*key))
		abort();
}

static uint64_t rotate(uint64_t n, unsigned int by)
{
	return n << by | n >> (64 - by);
}

static void mix(struct state *s)
{
	s->v0 += s->v1;
	s->v1 = rotate(s->v1, 13) ^ s->v0;
	s->v0 = rotate(s->v0, 32);
	s->v2 += s->v3;
	s->v3 = rotate(s->v3, 16) ^ s->v2;
	s->v0 += s->v3;
	s->v3 = rotate(s->v3, 21) ^ s->v0;
	s->v2 += s->v1;
	s->v1 = rotate(s->v1, 17) ^ s->v2;
	s->v2 = rotate(s->v2, 32);
}

static void take(struct state *s, uint64_t word)
{
	s->v3 ^= word;
	mix(s);
	s->v0 ^= word;
}

uint64_t siphash(const struct siphash_key *key, const void *data, size_t len)
{
	struct state s = {
		key->k0 ^ 0x736f6d6570736575ULL, key->k1 ^ 0x646f72616e646f6dULL,
		key->k0 ^ 0x6c7967656e657261ULL, key->k1 ^ 0x7465646279746573ULL,
	};
	const char *at = data, *end = at + (len & ~(size_t)7);
	uint64_t word;
	unsigned int i;

	for (; at != end; at += 8) {
		memcpy(&word, at, 8);
		take(&s, le64toh(word));
	}
	word = 0;
	memcpy(&word, at, len & 7);
	take(&s, le64toh(word) | (uint64_t)len << 56);
	s.v2 ^= 0xff;
	for (i = 0; i < 3; i++)
		mix(&s);
	return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}
