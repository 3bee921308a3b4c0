// SPDX-License-Identifier: MIT
/*
 * Digests of aggregates. What a sealed buffer holds never changes while its generation is the same, so a piece
 * that was digested once is not read again, in whichever aggregate it comes back.
 */
#include <errno.h>

#include "internal.h"

/* Bytes are digits of a number in this base, modulo a Mersenne prime: sums of parts give that of the whole. */
#define PRIME		((1ULL << 61) - 1)
#define BASE		0x1a8b6f4c2d9e3575ULL
/* Pieces that are remembered; a new one displaces the one in its place. */
#define KNOWN		4096

/**
 * struct known - a piece that was read
 * @offset:     of its first byte in the window
 * @generation: of its buffer; 0: nothing here
 * @len:        bytes
 * @digest:     of them
 */
static struct known {
	uint64_t offset;
	uint64_t generation;
	uint32_t len;
	uint64_t digest;
} known[KNOWN];

static uint64_t reduce(unsigned __int128 n)
{
	uint64_t sum = (uint64_t)(n & PRIME) + (uint64_t)(n >> 61);

	return sum >= PRIME ? sum - PRIME : sum;
}

static uint64_t power(uint64_t exponent)
{
	uint64_t result = 1, square = BASE;

	for (; exponent; exponent >>= 1) {
		if (exponent & 1)
			result = reduce((unsigned __int128)result * square);
		square = reduce((unsigned __int128)square * square);
	}
	return result;
}

/* A digit is never 0, so leading ones count. */
static uint64_t digest_bytes(const unsigned char *p, size_t len)
{
	uint64_t digest = 0;

	while (len--)
		digest = reduce((unsigned __int128)digest * BASE + *p++ + 1);
	return digest;
}

static struct known *place_of(uint64_t offset, uint64_t generation, uint32_t len)
{
	uint64_t key = (offset ^ generation << 20 ^ (uint64_t)len << 44) * 0x9e3779b97f4a7c15ULL;

	return &known[key >> 52];
}

static uint64_t digest_piece(const struct iol_piece *piece, size_t *read)
{
	const struct iol_buffer *buffer = piece->buffer;
	uint64_t offset = buffer->offset - buffer->offset % IOL_CHUNK_SIZE + piece->off, digest;
	struct known *place = place_of(offset, buffer->generation, piece->len);

	if (place->generation && place->generation == buffer->generation && place->offset == offset &&
	    place->len == piece->len)
		return place->digest;
	digest = digest_bytes((const unsigned char *)buffer->read + piece->off, piece->len);
	*read += piece->len;
	/* Memory of the process has no name, and what is being filled may change. */
	if (buffer->generation && !buffer->filling)
		*place = (struct known){ offset, buffer->generation, piece->len, digest };
	return digest;
}

IOL_Err IOL_digest(IOL_Agg *agg, uint64_t *digest, size_t *read)
{
	size_t i, bytes = 0;
	uint64_t sum = 0;
	IOL_Err err = 0;

	if (agg->zombie)
		return -EBUSY;
	iol_lock();
	for (i = 0; i < agg->n && !err; i++)
		err = iol_buffer_lost(agg->piece[i].buffer) ? -ESTALE : 0;
	for (i = 0; i < agg->n && !err; i++)
		sum = reduce((unsigned __int128)sum * power(agg->piece[i].len) +
			     digest_piece(&agg->piece[i], &bytes));
	iol_unlock();
	if (err)
		return err;
	*digest = sum;
	if (read)
		*read = bytes;
	return 0;
}
