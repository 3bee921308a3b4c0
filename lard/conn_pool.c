// SPDX-License-Identifier: GPL-2.0
/* Connections by number. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>
#include "conn.h"
#include "worker.h"

static int pool_grow(struct conn_pool *pool)
{
	struct conn **chunks = realloc(pool->chunks, (pool->chunk_count + 1) * sizeof(*chunks));
	struct conn *chunk;
	unsigned int i;

	if (!chunks)
		return -ENOMEM;
	pool->chunks = chunks;
	chunk = calloc(CONN_CHUNK, sizeof(*chunk));
	if (!chunk)
		return -ENOMEM;
	for (i = 0; i < CONN_CHUNK; i++) {
		chunk[i].index = pool->chunk_count * CONN_CHUNK + i;
		chunk[i].source.fd = -1;
		timer_init(&chunk[i].timer);
		list_init(&chunk[i].link);
		list_add_tail(&chunk[i].link, &pool->free);
	}
	pool->chunks[pool->chunk_count++] = chunk;
	return 0;
}

void conn_pool_exit(struct conn_pool *pool)
{
	uint32_t i, j;

	for (i = 0; i < pool->chunk_count; i++) {
		for (j = 0; j < CONN_CHUNK; j++)
			if (pool->chunks[i][j].source.fd >= 0)
				close(pool->chunks[i][j].source.fd);
		free(pool->chunks[i]);
	}
	free(pool->chunks);
}

uint64_t conn_cookie(const struct conn *conn)
{
	return (uint64_t)conn->generation << 32 | conn->index;
}

struct conn *conn_find(struct conn_pool *pool, uint64_t cookie)
{
	uint32_t index = cookie, generation = cookie >> 32;
	struct conn *conn;

	if (index / CONN_CHUNK >= pool->chunk_count)
		return NULL;
	conn = &pool->chunks[index / CONN_CHUNK][index % CONN_CHUNK];
	return conn->state != CONN_FREE && conn->generation == generation ? conn : NULL;
}

struct conn *conn_pool_take(struct conn_pool *pool)
{
	struct conn *conn;

	if (list_empty(&pool->free) && pool_grow(pool))
		return NULL;
	conn = container_of(pool->free.next, struct conn, link);
	list_del(&conn->link);
	pool->used++;
	return conn;
}

void conn_pool_put(struct source *s)
{
	struct conn *conn = container_of(s, struct conn, source);
	struct conn_pool *pool = &conn->worker->pool;

	/* First in, last out: what is warm in the cache is used first. */
	list_add(&conn->link, &pool->free);
	pool->used--;
}

void conn_each(struct worker *w, void (*fn)(struct conn *conn))
{
	uint32_t i;

	for (i = 0; i < w->pool.chunk_count * CONN_CHUNK; i++) {
		struct conn *conn = &w->pool.chunks[i / CONN_CHUNK][i % CONN_CHUNK];

		if (conn->state != CONN_FREE)
			fn(conn);
	}
}
