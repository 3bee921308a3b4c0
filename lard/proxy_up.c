// SPDX-License-Identifier: GPL-2.0
/* The request's body: from the client, and to the back-end. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include "backend.h"
#include "client.h"
#include "proxy_steps.h"
#include "worker.h"

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

enum step proxy_take_body(struct exchange *ex)
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
	if (n < 0 && proxy_would_block()) {
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

enum step proxy_push_up(struct exchange *ex)
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
	if (n < 0 && proxy_would_block()) {
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
