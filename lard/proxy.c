// SPDX-License-Identifier: GPL-2.0
/*
 * Proxying. Four steps move bytes as far as they go: the client's body into @up, @up to the
 * back-end, the answer into @down, @down to the client. Each says whether it got anywhere, or that
 * the exchange is over. Bytes of a next request are never taken off the client's socket, so that
 * it can be peeked at, and handed off, like a first one.
 */
#include <errno.h>
#include <linux/sockios.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include "backend.h"
#include "cache.h"
#include "caching.h"
#include "client.h"
#include "dispatch.h"
#include "exchange.h"
#include "fill.h"
#include "proxy.h"
#include "proxy_steps.h"
#include "splice.h"
#include "worker.h"

#define ROUNDS		16	/* per event, so that one fast stream does not stop the others */
#define TOUCH_US	1000000
#define STALLED_US	2000000	/* without a body, before others may have the place */
#define DEAF_US		5000000	/* without taking some of an answer; a lost packet or two take less */

/* The client's socket can be written to: the kernel has passed on the rest, or given up. */
static enum step end_splice(struct exchange *ex)
{
	if (!ex->client_writable)
		return STEP_IDLE;
	if (!splice_over(ex)) {
		ex->client_writable = false;
		return STEP_IDLE;
	}
	return ex->complete ? exchange_complete(ex) : exchange_abort(ex);
}

/* The client has gone. What the cache gets is worth having without him, and others may wait for it. */
static enum step lose_client(struct exchange *ex)
{
	if (!ex->fill || ex->filled || ex->conn->stream)
		return exchange_abort(ex);
	ex->client_lost = true;
	return STEP_MOVED;
}

static const char *body_of(const struct exchange *ex)
{
	return ex->hit ? ex->hit->body : ex->fill ? ex->fill->body : ex->down;
}

static enum step drain_down(struct exchange *ex)
{
	struct iovec parts[2];
	size_t header, body;
	ssize_t n;

	if (ex->client_lost)
		return ex->filled ? exchange_abort(ex) : STEP_IDLE;
	if (ex->spliced)
		return end_splice(ex);
	fill_show(ex);
	header = ex->header_end - ex->header_start;
	body = ex->in_header ? 0 : ex->down_end - ex->down_start;
	parts[0] = (struct iovec){ ex->header + ex->header_start, header };
	parts[1] = (struct iovec){ (char *)body_of(ex) + ex->down_start, body };
	if (!header && !body)
		return ex->complete ? exchange_complete(ex) : STEP_IDLE;
	if (!ex->client_writable)
		return STEP_IDLE;
	n = client_send(ex->conn, parts, 2);
	if (n < 0 && proxy_would_block()) {
		/* A part of it may have gone. */
		ex->began |= client_committed(ex->conn);
		ex->client_writable = errno == EINTR;
		return STEP_IDLE;
	}
	if (n < 0)
		return lose_client(ex);
	ex->began = true;
	ex->bytes_down += n;
	if ((size_t)n < header) {
		ex->header_start += n;
		return STEP_MOVED;
	}
	ex->header_start = ex->header_end = 0;
	ex->down_start += ex->in_header ? 0 : n - header;
	if (ex->in_header || ex->down_start != ex->down_end)
		return STEP_MOVED;
	if (!ex->complete && !ex->released)
		splice_begin(ex);
	return ex->complete ? exchange_complete(ex) : STEP_MOVED;
}

/* Is it the client who has to do something? */
static bool waits_for_client(const struct exchange *ex)
{
	int unsent;

	/* What goes into the cache does not wait. */
	if (ex->client_lost || (ex->fill && !ex->filled && !ex->spliced))
		return false;
	if (ex->spliced)
		return !ioctl(ex->conn->source.fd, SIOCOUTQ, &unsent) && unsent;
	return (ex->body != FRAMING_NONE && ex->up_start == ex->up_end) ||
	       (!ex->client_writable && (ex->header_end || ex->down_start != ex->down_end));
}

/*
 * One who sends or takes a byte now and then would hold a node's place for ever. Only the time that
 * was spent on it counts: a slow back-end is no fault of a client's.
 */
static bool too_slow(struct exchange *ex)
{
	struct worker *w = ex->conn->worker;
	uint64_t grace = w->config->io_timeout_us;

	if (ex->tunnel || !w->config->client_rate || !waits_for_client(ex))
		return false;
	ex->waited_us += w->loop.now - ex->touched_us;
	return ex->waited_us > grace && ex->bytes_body + ex->bytes_down <
	       (ex->waited_us - grace) / 1000000 * w->config->client_rate;
}

/* Some bytes went on. True: not enough. */
static bool note_moves(struct exchange *ex)
{
	struct worker *w = ex->conn->worker;

	if (too_slow(ex))
		return true;
	ex->touched_us = w->loop.now;
	/* What nobody takes holds its node's place for so long in all, however little of it comes now and then. */
	if (!ex->client_lost && !ex->conn->refreshes)
		timer_start(&w->loop, &w->io_timers, &ex->timer, w->config->io_timeout_us);
	return false;
}

static enum step end_slow(struct exchange *ex)
{
	return proxy_fail_or_abort(ex, 408, "the client is too slow");
}

static uint64_t least_rate(const struct exchange *ex)
{
	uint64_t rate = ex->conn->worker->config->client_rate;

	return rate ? rate : 1;
}

/*
 * Looked at now and then: too little of the answer was taken since. What is in the socket is not taken yet, and
 * may be much: it can be written to again only when a third of that has gone.
 */
static bool is_deaf(struct exchange *ex)
{
	uint64_t now = ex->conn->worker->loop.now, since = now - ex->looked_us;
	int64_t before = ex->taken;
	int unsent = 0;

	if (ex->looked_us && since < DEAF_US)
		return false;
	ioctl(ex->conn->source.fd, SIOCOUTQ, &unsent);
	ex->taken = (int64_t)ex->bytes_down - unsent;
	ex->looked_us = now;
	return since != now && ex->taken - before < (int64_t)(DEAF_US / 1000000 * least_rate(ex));
}

/* It waits for its client for a while by now, who brings less than he has to, or takes less. */
static bool is_stalled(struct exchange *ex)
{
	uint64_t waited;

	if (ex->tunnel || ex->client_lost)
		return false;
	if (splice_moves(ex) && note_moves(ex))
		return true;
	if (!waits_for_client(ex)) {
		ex->looked_us = 0;
		return false;
	}
	if (ex->body == FRAMING_NONE)
		return is_deaf(ex);
	waited = ex->waited_us + ex->conn->worker->loop.now - ex->touched_us;
	return waited >= STALLED_US && ex->bytes_body < waited / 1000000 * least_rate(ex);
}

void proxy_relieve(struct worker *w)
{
	unsigned int waiters = atomic_load_explicit(&w->lardd->waiters, memory_order_relaxed);
	unsigned int share = worker_share(w, waiters);
	struct list *at, *next;

	for (at = w->charged.next; share && at != &w->charged; at = next) {
		struct exchange *ex = container_of(at, struct exchange, charged);

		next = at->next;
		if (!is_stalled(ex))
			continue;
		end_slow(ex);
		share--;
	}
}

void proxy_hasten(struct worker *w)
{
	struct list *at, *next;

	for (at = w->charged.next; at != &w->charged; at = next) {
		struct exchange *ex = container_of(at, struct exchange, charged);

		next = at->next;
		/* Not here and now: it may end, and others with it. */
		if (fill_outruns(ex))
			loop_again(&w->loop, &ex->conn->source);
	}
}

static enum step touch(struct exchange *ex)
{
	if (ex->conn->worker->loop.now - ex->touched_us < TOUCH_US)
		return STEP_IDLE;
	return note_moves(ex) ? end_slow(ex) : STEP_MOVED;
}

static void pump(struct exchange *ex)
{
	static enum step (*const steps[])(struct exchange *ex) = {
		proxy_take_body, proxy_push_up, proxy_fill_down, drain_down,
	};
	unsigned int round, i;

	for (round = 0; round < ROUNDS; round++) {
		bool moved = false;

		for (i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
			enum step step = steps[i](ex);

			if (step == STEP_OVER)
				return;
			moved |= step == STEP_MOVED;
		}
		if (!moved)
			return;
		if ((!ex->backend || ex->backend->connected) && touch(ex) == STEP_OVER)
			return;
	}
	loop_again(&ex->conn->worker->loop, &ex->conn->source);
}

/* --- events --- */

void proxy_abandon(struct conn *conn)
{
	exchange_abort(conn->exchange);
}

void proxy_request(struct conn *conn)
{
	struct worker *w = conn->worker;
	const struct request *r = &w->request;
	struct exchange *ex = exchange_new(conn);

	count(w, COUNTER_PROXIED);
	conn_enter(conn, CONN_PROXY);
	if (!ex || !conn_poll(conn)) {
		if (ex)
			exchange_free(ex);
		dispatch_release(conn);
		conn_refuse(conn, 503, "no memory");
		return;
	}
	ex->touched_us = w->loop.now;
	ex->minor = r->minor;
	ex->head = r->head;
	ex->client_keep = r->keep_alive;
	ex->body = r->framing;
	ex->body_left = r->framing == FRAMING_LENGTH ? r->content_length : 0;
	ex->upgrade = r->websocket;
	ex->safe = span_is(r->method, "GET") || r->head || span_is(r->method, "OPTIONS");
	ex->client_readable = ex->client_writable = true;
	if (r->framing == FRAMING_CHUNKED)
		chunks_init(&ex->body_chunks);
	if (rewrite_request(ex, w->config, r)) {
		exchange_fail(ex, 431, "header beyond the limit");
		return;
	}
	/* Now it is taken off the socket; the bytes themselves are in @up already. */
	if (client_recv(conn, NULL, r->length, MSG_TRUNC) != (ssize_t)r->length) {
		exchange_abort(ex);
		return;
	}
	if (caching_request(ex, r)) {
		/* No node has anything to do with it, but that it may have been chosen. */
		dispatch_release(conn);
		timer_start(&w->loop, &w->io_timers, &ex->timer, w->config->io_timeout_us);
		pump(ex);
		return;
	}
	/* It was found, and its header has no room: that cannot be, but a node it has none. */
	if (conn->node < 0) {
		exchange_abort(ex);
		return;
	}
	list_add_tail(&ex->charged, &w->charged);
	if (exchange_start(ex, false) ||
	    exchange_retry(ex, 503, "no back-end can be reached") != STEP_OVER)
		pump(ex);
}

void proxy_client_ready(struct conn *conn, uint32_t events)
{
	struct exchange *ex = conn->exchange;

	if (events & EPOLLERR || (events & EPOLLHUP && !ex->tunnel)) {
		if (!ex->client_lost && lose_client(ex) == STEP_OVER)
			return;
	}
	if (events & (EPOLLIN | EPOLLRDHUP))
		ex->client_readable = true;
	if (events & EPOLLOUT)
		ex->client_writable = true;
	/* A record can make room, or need it, for one in the other direction. */
	if (conn->tls && events)
		ex->client_readable = ex->client_writable = true;
	pump(ex);
}

static bool connected(struct backend *b)
{
	int error = 0;
	socklen_t len = sizeof(error);

	if (getsockopt(b->source.fd, SOL_SOCKET, SO_ERROR, &error, &len) || error) {
		b->exchange->error = error;
		return false;
	}
	b->connected = true;
	nodes_fine(b->worker, b->slot);
	return true;
}

void proxy_backend_ready(struct backend *b, uint32_t events)
{
	struct exchange *ex = b->exchange;
	struct worker *w = b->worker;

	if (!b->connected) {
		if (!(events & (EPOLLOUT | EPOLLERR | EPOLLHUP)))
			return;
		if (!connected(b)) {
			if (exchange_retry(ex, 502, "the back-end refused the connection") != STEP_OVER)
				pump(ex);
			return;
		}
		timer_start(&w->loop, &w->io_timers, &ex->timer, w->config->io_timeout_us);
	}
	if (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR))
		ex->backend_readable = true;
	if (events & EPOLLOUT)
		ex->backend_writable = true;
	pump(ex);
}

void proxy_connect_expired(struct timer *t)
{
	struct exchange *ex = container_of(t, struct exchange, timer);

	if (exchange_retry(ex, 504, "the back-end did not accept in time") != STEP_OVER)
		pump(ex);
}

void proxy_io_expired(struct timer *t)
{
	struct exchange *ex = container_of(t, struct exchange, timer);

	if (splice_moves(ex)) {
		if (note_moves(ex))
			exchange_abort(ex);
	} else if (ex->began) {
		exchange_abort(ex);
	} else if (ex->body != FRAMING_NONE && !ex->tunnel) {
		exchange_fail(ex, 408, "the request's body did not arrive in time");
	} else if (exchange_fail(ex, 504, "the back-end did not answer in time") != STEP_OVER) {
		pump(ex);
	}
}
