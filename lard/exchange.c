// SPDX-License-Identifier: GPL-2.0
/* An exchange's beginning, its back-ends one after the other, and its four ends. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include "access.h"
#include "backend.h"
#include "caching.h"
#include "client.h"
#include "dispatch.h"
#include "exchange.h"
#include "worker.h"

#define SPARES_MAX	64

struct exchange *exchange_new(struct conn *conn)
{
	struct worker *w = conn->worker;
	struct exchange *ex = w->spare;

	if (ex) {
		w->spare = ex->next_spare;
		w->spares--;
	} else {
		ex = malloc(sizeof(*ex));
		if (!ex)
			return NULL;
	}
	memset(ex, 0, offsetof(struct exchange, up));
	ex->conn = conn;
	conn->exchange = ex;
	timer_init(&ex->timer);
	list_init(&ex->charged);
	return ex;
}

void exchange_free(struct exchange *ex)
{
	struct worker *w = ex->conn->worker;

	timer_stop(&ex->timer);
	list_del(&ex->charged);
	ex->conn->exchange = NULL;
	if (w->spares >= SPARES_MAX) {
		free(ex);
		return;
	}
	ex->next_spare = w->spare;
	w->spare = ex;
	w->spares++;
}

void exchange_exit(struct worker *w)
{
	while (w->spare) {
		struct exchange *ex = w->spare;

		w->spare = ex->next_spare;
		free(ex);
	}
}

static void drop_backend(struct exchange *ex, bool reusable)
{
	if (ex->backend)
		backend_put(ex->backend, reusable && !ex->proxy_protocol);
	ex->backend = NULL;
}

static bool all_is_taken(const struct exchange *ex)
{
	return ex->body == FRAMING_NONE && ex->up_start == ex->up_end;
}

void exchange_release(struct exchange *ex)
{
	drop_backend(ex, ex->backend_keep && all_is_taken(ex));
	list_del(&ex->charged);
	dispatch_release(ex->conn);
	ex->backend_readable = ex->backend_writable = false;
	ex->up_start = ex->up_end = 0;
	ex->released = true;
}

void exchange_finish(struct exchange *ex, bool backend_reusable)
{
	struct conn *conn = ex->conn;
	bool charged = !ex->hit && !ex->tunnel && !ex->released;

	count_by(conn->worker, COUNTER_BYTES_DOWN, ex->bytes_down);
	caching_end(ex);
	drop_backend(ex, backend_reusable);
	if (ex->tunnel)
		atomic_fetch_sub(&conn->worker->lardd->tunnels, 1);
	if (charged)
		dispatch_release(conn);
	exchange_free(ex);
}

/* No back-end answers, but the cache does. */
static enum step answer_stale(struct exchange *ex)
{
	struct worker *w = ex->conn->worker;

	drop_backend(ex, false);
	list_del(&ex->charged);
	dispatch_release(ex->conn);
	ex->backend_readable = ex->backend_writable = false;
	ex->up_start = ex->up_end = 0;
	ex->header_start = ex->header_end = 0;
	caching_rescue(ex);
	timer_start(&w->loop, &w->io_timers, &ex->timer, w->config->io_timeout_us);
	return STEP_MOVED;
}

enum step exchange_fail(struct exchange *ex, unsigned int status, const char *why)
{
	struct conn *conn = ex->conn;

	if (status >= 500 && caching_may_rescue(ex))
		return answer_stale(ex);
	exchange_finish(ex, false);
	conn_refuse(conn, status, why);
	return STEP_OVER;
}

/* The client must not take a truncated answer for a whole one: reset. */
enum step exchange_abort(struct exchange *ex)
{
	static const struct linger now = { .l_onoff = 1 };
	struct conn *conn = ex->conn;

	count(conn->worker, COUNTER_ABORTED);
	access_proxied(conn, ex->status, ex->bytes_down, ex->hit, true);
	if (ex->began)
		tally_code(conn, ex->status);
	client_spoil(conn);
	setsockopt(conn->source.fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	exchange_finish(ex, false);
	conn_close(conn);
	return STEP_OVER;
}

enum step exchange_complete(struct exchange *ex)
{
	struct conn *conn = ex->conn;
	bool all_taken = all_is_taken(ex);
	bool keep = ex->client_keep && all_taken;

	access_proxied(conn, ex->status, ex->bytes_down, ex->hit, false);
	/* How long a tunnel stays open is no latency. */
	if (ex->tunnel)
		tally_code(conn, ex->status);
	else
		tally_request(conn, ex->hit ? OUTCOME_CACHE : OUTCOME_PROXY, ex->status);
	exchange_finish(ex, ex->backend_keep && all_taken);
	if (keep)
		conn_next(conn);
	else
		conn_end(conn, !all_taken);
	return STEP_OVER;
}

bool exchange_start(struct exchange *ex, bool fresh)
{
	struct conn *conn = ex->conn;
	struct worker *w = conn->worker;
	union address address;

	if (!nodes_address(w, conn->node, conn->port, &address, &ex->proxy_protocol)) {
		ex->error = ENODEV;
		return false;
	}
	/*
	 * A connection that begins with one client's address serves no other. And what must not be
	 * sent twice does not go where a kept connection may just be closing.
	 */
	ex->backend = backend_get(w, conn->node, &address,
				  fresh || ex->proxy_protocol || !ex->safe);
	ex->error = ex->backend ? 0 : errno;
	if (!ex->backend)
		return false;
	ex->backend->exchange = ex;
	ex->up_start = UP_PREFIX - (ex->proxy_protocol ? rewrite_prefix(ex) : 0);
	ex->up_end = ex->up_header;
	ex->down_start = ex->down_end = 0;
	ex->header_start = ex->header_end = 0;
	ex->in_header = true;
	ex->answer = FRAMING_NONE;
	ex->interim = 0;
	ex->backend_writable = ex->backend->connected;
	ex->backend_readable = false;
	ex->touched_us = w->loop.now;
	if (ex->backend->connected)
		timer_start(&w->loop, &w->io_timers, &ex->timer, w->config->io_timeout_us);
	else
		timer_start(&w->loop, &w->connect_timers, &ex->timer, w->config->connect_timeout_us);
	return true;
}

enum step exchange_retry(struct exchange *ex, unsigned int status, const char *why)
{
	struct conn *conn = ex->conn;
	struct worker *w = conn->worker;
	struct backend *b = ex->backend;
	bool stale = b && b->reused, connected = b && b->connected;

	drop_backend(ex, false);
	if (ex->began)
		return exchange_abort(ex);
	caching_unfill(ex);
	if (ex->body_taken || (connected && !ex->safe))
		return exchange_fail(ex, status, why);
	/* A kept connection may have been closed just before: that says nothing of the node. */
	if (stale && exchange_start(ex, true))
		return STEP_MOVED;
	do {
		if (error_is_ours(ex->error))
			return exchange_fail(ex, 503, "the dispatcher is short of resources");
		/* A bad answer is no proof that the server is gone; no connection is. */
		if (!connected)
			nodes_fault(w, conn->node, 0);
		connected = false;
		if (++conn->attempts >= DISPATCH_TRIES)
			return exchange_fail(ex, status, why);
		conn->tried |= 1ULL << conn->node;
		if (!dispatch_again(conn))
			return exchange_fail(ex, status, why);
		count(w, COUNTER_PROXY_RETRIED);
	} while (!exchange_start(ex, true));
	return STEP_MOVED;
}
