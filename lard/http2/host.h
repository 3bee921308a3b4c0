/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What this directory needs of the program that it is part of, lardd or flash, which has these functions.
 * A connection, and a request that a stream brings, are each a struct conn of the program's.
 */
#ifndef LARD_HTTP2_HOST_H
#define LARD_HTTP2_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct client_stream;
struct conn;

/* What a connection waits for, and has its time for: a request or the rest of its header, or the next one. */
enum http2_wait { HTTP2_NOTHING, HTTP2_HEADER, HTTP2_IDLE };

/* What is counted. */
enum http2_note { HTTP2_CONNECTION, HTTP2_STREAM, HTTP2_REFUSED, HTTP2_BAD, HTTP2_LATE };

/**
 * struct http2_limits - what the configuration says
 * @streams:  of a connection, at a time
 * @header:   bytes of a request's header
 * @requests: of a connection; it ends with the last
 */
struct http2_limits {
	unsigned int streams;
	size_t header;
	uint64_t requests;
};

struct http2_limits http2_host_limits(const struct conn *conn);
/* Microseconds that only grow; the same within a batch. */
uint64_t http2_host_clock(const struct conn *conn);

/* --- a connection --- */

int http2_host_socket(const struct conn *conn);
/* http2_ready() without an event, in the next batch. */
void http2_host_kick(struct conn *conn);
/* As recv(2) and send(2). What is read is at *@at, until the next call. */
ssize_t http2_host_recv(struct conn *conn, char **at);
ssize_t http2_host_send(struct conn *conn, const char *at, size_t len);
/* It waits for @wait from now on; http2_expired() when that has taken too long. */
void http2_host_wait(struct conn *conn, enum http2_wait wait, bool begun);
/*
 * Memory for what its client has sent, or does not take; less where @bytes is negative. False: there is
 * none.
 */
bool http2_host_hold(struct conn *conn, ssize_t bytes);
/* Its client does not take what there is for it, or takes it again. */
void http2_host_stands(struct conn *conn, bool stands);
void http2_host_note(struct conn *conn, enum http2_note what);
void http2_host_flooded(struct conn *conn, const char *why);
/* Its session is gone, and it ends; not @broken: what was sent last must arrive. */
void http2_host_end(struct conn *conn, bool broken);

/* --- a request --- */

/* A new one, of @parent's. NULL: there is no place for it. */
struct conn *http2_host_request(struct conn *parent, struct client_stream *stream);
/* Its stream has something for it. */
void http2_host_run(struct conn *request);
/* Its connection is gone, or its stream: http2_host_run() in the next batch. */
void http2_host_lost(struct conn *request);

#endif
