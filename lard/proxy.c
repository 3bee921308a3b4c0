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
#include <unistd.h>
#include "backend.h"
#include "cache.h"
#include "caching.h"
#include "client.h"
#include "dispatch.h"
#include "exchange.h"
#include "fill.h"
#include "proxy.h"
#include "response.h"
#include "splice.h"
#include "worker.h"

#define ROUNDS		16	/* per event, so that one fast stream does not stop the others */
#define TOUCH_US	1000000
#define ROOM_LEAST	64	/* with less, wait until more is free */
#define INTERIM_MAX	16	/* answers before the answer */
#define STALLED_US	2000000	/* without a body, before others may have the place */
#define DEAF_US		5000000	/* without taking some of an answer; a lost packet or two take less */

/* --- the four steps --- */

static bool would_block(void)
{
	return errno == EAGAIN || errno == EINTR;
}

/*
 * Bytes of a chunked body into @up, framed anew. They are peeked at, as only the parser knows where
 * it ends. What recv() says of the socket, or -2: malformed.
 */
static ssize_t take_chunks(struct exchange *ex)
{
	char *at = ex->up + ex->up_end;
	size_t room = sizeof(ex->up) - ex->up_end - CHUNK_HEAD - CHUNK_TAIL;
	ssize_t n = client_recv(ex->conn, at + CHUNK_HEAD, room, MSG_PEEK);
	long used;

	if (n <= 0)
		return n;
	used = chunks_decode(&ex->body_chunks, at + CHUNK_HEAD, n);
	if (used < 0 || client_recv(ex->conn, NULL, used, MSG_TRUNC) != used)
		return -2;
	ex->up_end += chunks_encode(&ex->body_chunks, at);
	return n;
}

/* A stream says itself where its body ends, which is framed here only. */
static ssize_t take_stream(struct exchange *ex)
{
	char *at = ex->up + ex->up_end;
	size_t room = sizeof(ex->up) - ex->up_end - CHUNK_HEAD - CHUNK_TAIL;
	ssize_t n = client_recv(ex->conn, at + CHUNK_HEAD, room, 0);

	if (n < 0)
		return n;
	ex->body_chunks.got = n;
	ex->body_chunks.done = !n;
	ex->up_end += chunks_encode(&ex->body_chunks, at);
	return n ? n : 1;
}

static ssize_t take(struct exchange *ex)
{
	size_t room = sizeof(ex->up) - ex->up_end;
	ssize_t n;

	if (ex->body == FRAMING_CHUNKED)
		return ex->conn->stream ? take_stream(ex) : take_chunks(ex);
	n = client_recv(ex->conn, ex->up + ex->up_end,
			ex->tunnel || room < ex->body_left ? room : ex->body_left, 0);
	if (n > 0)
		ex->up_end += n;
	return n;
}

static enum step take_body(struct exchange *ex)
{
	ssize_t n;

	if (ex->body == FRAMING_NONE || !ex->client_readable || ex->client_eof)
		return STEP_IDLE;
	if (ex->up_start == ex->up_end)
		ex->up_start = ex->up_end = 0;
	if (sizeof(ex->up) - ex->up_end < ROOM_LEAST)
		return STEP_IDLE;
	n = take(ex);
	if (n == -2)
		return ex->began ? exchange_abort(ex) : exchange_fail(ex, 400, "malformed chunk");
	if (n < 0 && would_block()) {
		ex->client_readable = errno == EINTR;
		return STEP_IDLE;
	}
	if (n <= 0) {
		if (!ex->tunnel)
			return exchange_abort(ex);
		ex->client_eof = true;
		return STEP_MOVED;
	}
	ex->body_taken = true;
	ex->bytes_body += n;
	if (ex->body == FRAMING_LENGTH) {
		ex->body_left -= n;
		if (!ex->body_left)
			ex->body = FRAMING_NONE;
	} else if (ex->body == FRAMING_CHUNKED && ex->body_chunks.done) {
		ex->body = FRAMING_NONE;
	}
	return STEP_MOVED;
}

static enum step push_up(struct exchange *ex)
{
	ssize_t n;

	if (!ex->backend_writable)
		return STEP_IDLE;
	if (ex->up_start == ex->up_end) {
		if (ex->tunnel && ex->client_eof && !ex->client_shut) {
			ex->client_shut = true;
			shutdown(ex->backend->source.fd, SHUT_WR);
		}
		return STEP_IDLE;
	}
	n = send(ex->backend->source.fd, ex->up + ex->up_start, ex->up_end - ex->up_start,
		 MSG_NOSIGNAL);
	if (n < 0 && would_block()) {
		ex->backend_writable = errno == EINTR;
		return STEP_IDLE;
	}
	if (n < 0) {
		/* It may have answered before it closed (413): read first. */
		ex->backend_writable = false;
		ex->backend_readable = true;
		return STEP_IDLE;
	}
	count_by(ex->conn->worker, COUNTER_BYTES_UP, n);
	ex->up_start += n;
	return STEP_MOVED;
}

bool exchange_chunks(const struct exchange *ex)
{
	return ex->minor && !ex->conn->stream;
}

/* Room before bytes of the body that come, to frame them in. */
static size_t gap(const struct exchange *ex)
{
	return ex->answer == FRAMING_CHUNKED && exchange_chunks(ex) ? CHUNK_HEAD : 0;
}

/* @len bytes have come behind @down_end and the gap: what belongs to the answer is added to it. */
static int claim(struct exchange *ex, size_t len)
{
	char *at = ex->down + ex->down_end + gap(ex);
	long used = len;

	switch (ex->answer) {
	case FRAMING_NONE:
		used = 0;
		break;
	case FRAMING_LENGTH:
		if (len > ex->answer_left)
			used = ex->answer_left;
		ex->answer_left -= used;
		ex->complete = !ex->answer_left;
		break;
	case FRAMING_CHUNKED:
		used = chunks_decode(&ex->answer_chunks, at, len);
		if (used < 0)
			return -1;
		ex->complete = ex->answer_chunks.done;
		/* A client of HTTP/1.0, or a stream, gets the data alone. */
		ex->down_end += exchange_chunks(ex) ? chunks_encode(&ex->answer_chunks, at - CHUNK_HEAD) :
					    ex->answer_chunks.got;
		break;
	case FRAMING_EOF:
		break;
	}
	if (ex->answer != FRAMING_CHUNKED)
		ex->down_end += used;
	/* More than it announced: whatever that is, it is not the next answer. */
	if ((size_t)used < len) {
		ex->backend_keep = false;
		backend_distrust(ex->backend);
	}
	return 0;
}

static void decide_keeping(struct exchange *ex, const struct response *r)
{
	ex->backend_keep = r->keep_alive && r->minor;
	ex->client_keep = ex->client_keep && r->framing != FRAMING_EOF &&
			  (ex->minor || r->framing != FRAMING_CHUNKED) && conn_may_stay(ex->conn);
}

/* An error of ours, or the client must not take what he has got for an answer. */
static enum step fail_or_abort(struct exchange *ex, unsigned int status, const char *why)
{
	return ex->began ? exchange_abort(ex) : exchange_fail(ex, status, why);
}

/* It may stay open for days with nothing to do: its node's place is for who has a request. */
static enum step begin_tunnel(struct exchange *ex)
{
	struct worker *w = ex->conn->worker;

	if (atomic_fetch_add(&w->lardd->tunnels, 1) >= w->config->tunnels) {
		atomic_fetch_sub(&w->lardd->tunnels, 1);
		return fail_or_abort(ex, 503, "too many tunnels are open");
	}
	dispatch_release(ex->conn);
	ex->tunnel = true;
	ex->body = FRAMING_EOF;
	ex->answer = FRAMING_EOF;
	ex->client_keep = false;
	return STEP_MOVED;
}

/* What is in the cache is what the back-end would have sent. */
static enum step take_unchanged(struct exchange *ex, const struct response *r, size_t rest)
{
	struct worker *w = ex->conn->worker;

	if (rest) {
		ex->backend_keep = false;
		backend_distrust(ex->backend);
	}
	/* A part of an interim answer has gone. */
	if (ex->header_start)
		return exchange_abort(ex);
	if (!caching_unchanged(ex, r))
		return exchange_retry(ex, 502, "the back-end's 304 is of another page");
	exchange_release(ex);
	timer_start(&w->loop, &w->io_timers, &ex->timer, w->config->io_timeout_us);
	return STEP_MOVED;
}

/* The header in @down is complete: rewrite it; what follows it is body. */
static enum step begin_answer(struct exchange *ex, const struct response *r)
{
	size_t rest = ex->down_end - r->length, header = ex->header_end;

	ex->status = r->status;
	if (r->status >= 500 && r->status <= 504 && r->status != 501 && caching_may_rescue(ex)) {
		caching_doubt(ex);
		return exchange_fail(ex, r->status, "an older answer takes its place");
	}
	if (r->status == 101 && !(ex->upgrade && r->websocket))
		return exchange_retry(ex, 502, "the back-end switched protocols unasked");
	if (r->status < 200 && ++ex->interim > INTERIM_MAX)
		return exchange_retry(ex, 502, "the back-end does not come to its answer");
	if (r->status >= 200)
		decide_keeping(ex, r);
	if (r->status == 304 && ex->conn->checks)
		return take_unchanged(ex, r, rest);
	/* HTTP/1.0 knows no interim answers. */
	if ((r->status >= 200 || r->status == 101 || ex->minor) && rewrite_response(ex, r))
		return exchange_retry(ex, 502, "the back-end's header is too long");

	ex->down_start = r->length;
	if (r->status < 200 && r->status != 101) {
		/* Interim: the header proper follows. */
		memmove(ex->down, ex->down + r->length, rest);
		ex->down_start = 0;
		ex->down_end = rest;
		return STEP_MOVED;
	}
	ex->in_header = false;
	if (r->status == 101)
		return begin_tunnel(ex);
	ex->answer = r->framing;
	ex->answer_left = r->framing == FRAMING_LENGTH ? r->content_length : 0;
	ex->complete = r->framing == FRAMING_NONE;
	caching_answer(ex, r);
	if (r->framing == FRAMING_CHUNKED)
		chunks_init(&ex->answer_chunks);
	if (ex->fill)
		return fill_begin(ex, r, header, rest);
	ex->down_start -= gap(ex);
	ex->down_end = ex->down_start;
	if (claim(ex, rest))
		return exchange_retry(ex, 502, "the back-end sent a malformed chunk");
	return STEP_MOVED;
}

static enum step parse_answer(struct exchange *ex)
{
	struct response r;
	enum step step;
	int verdict;

	do {
		verdict = response_parse(&r, ex->down, ex->down_end, ex->head);
		if (verdict < 0)
			return exchange_retry(ex, 502, "the back-end's answer is malformed");
		if (!verdict)
			return ex->down_end < REQUEST_HEADER_MAX ? STEP_MOVED :
			       exchange_retry(ex, 502, "the back-end's header is too long");
		step = begin_answer(ex, &r);
	} while (step == STEP_MOVED && ex->in_header && ex->backend && ex->down_end);
	return step;
}

static enum step answer_ended(struct exchange *ex)
{
	ex->backend_keep = false;
	ex->backend_readable = false;
	if (ex->in_header)
		return exchange_retry(ex, 502, "the back-end closed without an answer");
	if (ex->answer != FRAMING_EOF)
		return exchange_abort(ex);
	ex->complete = true;
	return STEP_MOVED;
}

/* While the kernel passes the body on: the copy of it. */
static enum step take_copy(struct exchange *ex)
{
	struct entry *fill = ex->fill;
	ssize_t n;

	if (!fill || !ex->backend_readable || caching_is_full(ex))
		return ex->client_lost && caching_is_full(ex) ? exchange_abort(ex) : STEP_IDLE;
	n = recv(ex->backend->source.fd, fill->body + fill->have, fill->length - fill->have, 0);
	if (n > 0) {
		fill->have += n;
		return STEP_MOVED;
	}
	/* Otherwise the client's socket tells how the transfer ended. */
	if (ex->client_lost && !(n < 0 && would_block()))
		return exchange_abort(ex);
	ex->backend_readable = n < 0 && errno == EINTR;
	return STEP_IDLE;
}

static enum step fill_down(struct exchange *ex)
{
	size_t start, room;
	ssize_t n;

	if (ex->spliced)
		return take_copy(ex);
	if (!ex->backend_readable || ex->complete)
		return STEP_IDLE;
	if (ex->fill)
		return fill_take(ex);
	if (!ex->in_header && ex->down_start == ex->down_end)
		ex->down_start = ex->down_end = 0;
	start = ex->down_end + gap(ex);
	room = sizeof(ex->down) - ex->down_end;
	if (room < ROOM_LEAST)
		return STEP_IDLE;
	room -= gap(ex) ? CHUNK_HEAD + CHUNK_TAIL : 0;
	n = recv(ex->backend->source.fd, ex->down + start, room, 0);
	if (n < 0 && would_block()) {
		ex->backend_readable = errno == EINTR;
		return STEP_IDLE;
	}
	if (n < 0)
		return ex->in_header ? exchange_retry(ex, 502, "the back-end reset the connection") :
		       exchange_abort(ex);
	if (!n)
		return answer_ended(ex);
	if (ex->in_header) {
		ex->down_end += n;
		return parse_answer(ex);
	}
	return claim(ex, n) ? exchange_abort(ex) : STEP_MOVED;
}

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
	if (n < 0 && would_block()) {
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
	return fail_or_abort(ex, 408, "the client is too slow");
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
		take_body, push_up, fill_down, drain_down,
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
	list_add_before(&w->charged, &ex->charged);
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
