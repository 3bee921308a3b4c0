// SPDX-License-Identifier: GPL-2.0
/* The answer, from the back-end: its header, and what of its body belongs to it. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include "backend.h"
#include "cache.h"
#include "caching.h"
#include "dispatch.h"
#include "fill.h"
#include "proxy_steps.h"
#include "response.h"
#include "worker.h"

#define INTERIM_MAX	16	/* answers before the answer */

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

enum step proxy_fail_or_abort(struct exchange *ex, unsigned int status, const char *why)
{
	return ex->began ? exchange_abort(ex) : exchange_fail(ex, status, why);
}

/* It may stay open for days with nothing to do: its node's place is for who has a request. */
static enum step begin_tunnel(struct exchange *ex)
{
	struct worker *w = ex->conn->worker;

	if (atomic_fetch_add(&w->lardd->tunnels, 1) >= w->config->tunnels) {
		atomic_fetch_sub(&w->lardd->tunnels, 1);
		return proxy_fail_or_abort(ex, 503, "too many tunnels are open");
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
	if (ex->client_lost && !(n < 0 && proxy_would_block()))
		return exchange_abort(ex);
	ex->backend_readable = n < 0 && errno == EINTR;
	return STEP_IDLE;
}

enum step proxy_fill_down(struct exchange *ex)
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
	if (n < 0 && proxy_would_block()) {
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
