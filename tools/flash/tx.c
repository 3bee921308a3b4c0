// SPDX-License-Identifier: GPL-2.0
#include "tx.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <iolite.h>

#include "conn.h"

#define BYTES_MAX (4 << 20)
#define BYTES_FIRST 1024
#define PARTS_MAX 16384
/* Aggregates in one call. */
#define SEND_PARTS 32

void tx_free(struct tx *tx)
{
	unsigned int i;

	for (i = 0; i < tx->nr; i++)
		IOL_destroy(tx->vec[tx->first + i].agg);
	free(tx->vec);
	free(tx->buf);
}

void tx_shrink(struct tx *tx)
{
	if (tx->cap <= TX_KEPT)
		return;
	free(tx->buf);
	tx->buf = NULL;
	tx->cap = 0;
}

size_t tx_memory(const struct tx *tx, size_t more)
{
	size_t cap = tx->cap ? tx->cap : BYTES_FIRST;

	if (tx->lite)
		return 0;
	while (cap < tx->len + more)
		cap *= 2;
	return cap;
}

static int bytes_room(struct tx *tx, size_t need)
{
	size_t cap = tx_memory(tx, need - tx->len);
	char *grown;

	if (tx->off) {
		memmove(tx->buf, tx->buf + tx->off, tx->len);
		tx->off = 0;
	}
	if (need <= tx->cap)
		return 0;
	if (need > BYTES_MAX)
		return -1;
	grown = realloc(tx->buf, cap);
	if (!grown)
		return -1;
	tx->buf = grown;
	tx->cap = cap;
	return 0;
}

/* Room for one more aggregate. */
static int parts_room(struct tx *tx)
{
	unsigned int room = tx->room ? 2 * tx->room : 8;
	struct IOL_Vec *grown;

	if (tx->first + tx->nr < tx->room)
		return 0;
	if (tx->first) {
		memmove(tx->vec, tx->vec + tx->first, tx->nr * sizeof(*tx->vec));
		tx->first = 0;
		return 0;
	}
	if (room > PARTS_MAX)
		return -1;
	grown = realloc(tx->vec, room * sizeof(*grown));
	if (!grown)
		return -1;
	tx->vec = grown;
	tx->room = room;
	return 0;
}

/* @agg is the queue's, whatever comes of it. */
static int parts_add(struct tx *tx, struct IOL_Agg *agg)
{
	if (parts_room(tx)) {
		IOL_destroy(agg);
		return -1;
	}
	tx->vec[tx->first + tx->nr++] = (struct IOL_Vec){ .agg = agg, .length = IOL_length(agg) };
	tx->len += IOL_length(agg);
	return 0;
}

int tx_add(struct tx *tx, const char *p, size_t len)
{
	IOL_Agg *agg;

	if (tx->lite)
		return IOL_from_memory(IOL_DEF_ALLOC, &agg, p, len) ? -1 : parts_add(tx, agg);
	if (bytes_room(tx, tx->len + len))
		return -1;
	memcpy(tx->buf + tx->len, p, len);
	tx->len += len;
	return 0;
}

int tx_add_agg(struct tx *tx, IOL_Agg *agg, size_t start, size_t len)
{
	IOL_Agg *part;

	return IOL_select(&part, agg, start, len) ? -1 : parts_add(tx, part);
}

static void parts_sent(struct tx *tx, size_t n)
{
	while (n) {
		struct IOL_Vec *vec = &tx->vec[tx->first];
		size_t step = n < vec->length ? n : vec->length;

		vec->start += step;
		vec->length -= step;
		n -= step;
		if (vec->length)
			break;
		IOL_destroy(vec->agg);
		tx->first++;
		tx->nr--;
	}
	if (!tx->nr)
		tx->first = 0;
}

static ssize_t parts_send(struct tx *tx, int fd)
{
	unsigned int nr = tx->nr < SEND_PARTS ? tx->nr : SEND_PARTS;
	size_t n;
	int err;

	err = IOL_write_vec(fd, tx->vec + tx->first, nr, &n);
	if (err) {
		errno = -err;
		return -1;
	}
	parts_sent(tx, n);
	tx->len -= n;
	return n;
}

ssize_t tx_send(struct tx *tx, struct conn *c)
{
	ssize_t n;

	if (tx->lite)
		return parts_send(tx, c->watch.fd);
	n = conn_send(c, tx->buf + tx->off, tx->len, false);
	if (n > 0) {
		tx->off += n;
		tx->len -= n;
		if (!tx->len)
			tx->off = 0;
	}
	return n;
}
