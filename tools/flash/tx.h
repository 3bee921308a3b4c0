/* SPDX-License-Identifier: GPL-2.0 */
/* What waits for a client: bytes, or with transfer iolite aggregates, whose pages it only refers to. */
#ifndef FLASH_TX_H
#define FLASH_TX_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define TX_KEPT (8 << 10)	/* with nothing in it, at most */

struct IOL_Agg;
struct conn;
struct IOL_Vec;

/**
 * struct tx
 * @lite: by aggregates
 * @len:  bytes that wait
 * @buf:  the bytes, from @off on
 * @vec:  the aggregates, @nr from @first on
 */
struct tx {
	bool lite;
	size_t len;
	char *buf;
	size_t off, cap;
	struct IOL_Vec *vec;
	unsigned int first, nr, room;
};

void tx_free(struct tx *tx);

/* There is nothing in it: it does not keep what it needed for much. */
void tx_shrink(struct tx *tx);

/* Memory of it once @more bytes are behind what waits. */
size_t tx_memory(const struct tx *tx, size_t more);

/* Behind what waits; -1: memory is short. */
int tx_add(struct tx *tx, const char *p, size_t len);

/* @len bytes of @agg from @start on, without copying them. @agg stays the caller's. */
int tx_add_agg(struct tx *tx, struct IOL_Agg *agg, size_t start, size_t len);

/* What @c's socket takes of it; -1 and errno as send(2). */
ssize_t tx_send(struct tx *tx, struct conn *c);

#endif
