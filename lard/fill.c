// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include "backend.h"
#include "cache.h"
#include "caching.h"
#include "fill.h"
#include "response.h"
#include "splice.h"
#include "worker.h"

#define TAKE_MOST	65536	/* at a time */
#define ROOM_LEAST	4096
#define SPLICED_US	500000	/* others may be waiting for what a client takes slowly */

static bool is_framed(const struct exchange *ex)
{
	return ex->answer == FRAMING_CHUNKED && exchange_chunks(ex);
}

/* The next chunk's head, or the last one; behind the one before, and perhaps behind the header. */
static void frame(struct exchange *ex)
{
	char *at = ex->header + ex->header_end;
	size_t more = ex->fill->have - ex->down_start;
	const char *end = ex->chunk_open ? "\r\n" : "";

	if (sizeof(ex->header) - ex->header_end < CHUNK_HEAD + sizeof("\r\n0\r\n\r\n"))
		return;
	if (more) {
		ex->header_end += sprintf(at, "%s%zx\r\n", end, more);
		ex->down_end = ex->fill->have;
		ex->chunk_open = true;
	} else if (ex->ended) {
		ex->header_end += sprintf(at, "%s0\r\n\r\n", end);
		ex->complete = true;
	}
}

void fill_show(struct exchange *ex)
{
	struct entry *fill = ex->fill;

	if (!fill || ex->complete || ex->spliced)
		return;
	if (is_framed(ex)) {
		if (ex->down_start == ex->down_end)
			frame(ex);
		return;
	}
	/* More than we know of may have gone past us. */
	ex->down_end = fill->have > ex->down_start ? fill->have : ex->down_start;
	ex->complete = ex->ended;
}

/* All of it is here. */
static void end(struct exchange *ex)
{
	ex->ended = true;
	if (!ex->filled) {
		if (ex->answer != FRAMING_LENGTH)
			cache_settle(ex->conn->worker->lardd->cache, ex->fill);
		caching_filled(ex);
	}
	exchange_release(ex);
}

static enum step fail(struct exchange *ex, const char *why)
{
	return ex->began || ex->client_lost ? exchange_abort(ex) : exchange_retry(ex, 502, why);
}

/* @len bytes have come, and are in their place. False: malformed. */
static bool add(struct exchange *ex, size_t len)
{
	struct entry *fill = ex->fill;
	size_t most = ex->conn->worker->config->cache_object_max;
	long used = len;

	if (ex->answer == FRAMING_CHUNKED) {
		used = chunks_decode(&ex->answer_chunks, fill->body + fill->have, len);
		if (used < 0)
			return false;
		fill->have += ex->answer_chunks.got;
		ex->ended = ex->answer_chunks.done;
	} else {
		fill->have += used;
		if (ex->answer == FRAMING_LENGTH)
			ex->answer_left -= used;
		ex->ended = caching_is_full(ex);
	}
	/* More than it announced: whatever that is, it is not the next answer. */
	if ((size_t)used < len) {
		ex->backend_keep = false;
		backend_distrust(ex->backend);
	}
	if (fill->have > most && !ex->filled)
		caching_spoil(ex, true);
	if (ex->ended)
		end(ex);
	return true;
}

/* For a body whose length is not known: room for more. What nobody keeps waits until the client has taken what is there. */
static bool make_room(struct exchange *ex)
{
	struct entry *fill = ex->fill;
	size_t most = ex->conn->worker->config->cache_object_max + 2 * ROOM_LEAST;
	size_t size = 2 * fill->size < most ? 2 * fill->size : most;

	if (ex->answer == FRAMING_LENGTH)
		return true;
	if (!ex->filled) {
		if (fill->size - fill->have >= ROOM_LEAST)
			return true;
		/* Less, when a reload has made the bound smaller: what is there must not be cut. */
		if (size > fill->size && cache_resize(ex->conn->worker->lardd->cache, fill, size))
			return true;
		caching_spoil(ex, false);
	}
	if (ex->down_start != fill->have || ex->header_start != ex->header_end)
		return false;
	fill->have = 0;
	ex->down_start = ex->down_end = 0;
	cache_resize(ex->conn->worker->lardd->cache, fill, TAKE_MOST);
	return fill->size;
}

enum step fill_begin(struct exchange *ex, const struct response *r, size_t header, size_t len)
{
	ex->down_start = ex->down_end = 0;
	if (ex->answer == FRAMING_LENGTH && len > ex->fill->length) {
		ex->backend_keep = false;
		backend_distrust(ex->backend);
		len = ex->fill->length;
	}
	memcpy(ex->fill->body, ex->down + r->length, len);
	if (!add(ex, len))
		return fail(ex, "the back-end sent a malformed chunk");
	if (ex->ended && ex->answer == FRAMING_CHUNKED) {
		struct response whole = *r;

		/* The client may as well know how long it is. */
		whole.framing = FRAMING_LENGTH;
		whole.has_length = true;
		whole.content_length = ex->fill->have;
		ex->header_end = header;
		ex->answer = FRAMING_LENGTH;
		if (rewrite_response(ex, &whole))
			return exchange_abort(ex);
	}
	fill_show(ex);
	return STEP_MOVED;
}

enum step fill_take(struct exchange *ex)
{
	struct entry *fill = ex->fill;
	size_t room;
	ssize_t n;

	if (ex->ended || !make_room(ex))
		return STEP_IDLE;
	room = (ex->answer == FRAMING_LENGTH ? fill->length : fill->size) - fill->have;
	n = recv(ex->backend->source.fd, fill->body + fill->have, room < TAKE_MOST ? room : TAKE_MOST, 0);
	if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
		ex->backend_readable = errno == EINTR;
		return STEP_IDLE;
	}
	if (!n && ex->answer == FRAMING_EOF) {
		ex->backend_keep = false;
		end(ex);
	} else if (n <= 0 || !add(ex, n)) {
		/* Cut, and kept by nobody. */
		return exchange_abort(ex);
	}
	fill_show(ex);
	return STEP_MOVED;
}

bool fill_outruns(struct exchange *ex)
{
	struct entry *fill = ex->fill;

	if (!ex->spliced || !fill || ex->client_lost || caching_is_full(ex) ||
	    ex->conn->worker->loop.now - ex->spliced_us < SPLICED_US)
		return false;
	splice_leave(ex);
	if (ex->complete)
		return true;
	ex->down_start = fill->length - ex->answer_left;
	/* What the kernel has copied for us is read first. */
	ex->answer_left = fill->length - fill->have;
	ex->backend_readable = ex->client_writable = true;
	ex->splice_refused = true;
	fill_show(ex);
	return true;
}
