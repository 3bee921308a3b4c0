/* SPDX-License-Identifier: GPL-2.0 */
/*
 * HTTP/2 of clients. libnghttp2 takes frames apart and makes them; each stream becomes a struct conn
 * whose request is written down as one of HTTP/1.1, and from there goes the way of all requests.
 */
#ifndef LARD_HTTP2_H
#define LARD_HTTP2_H

#include <stdbool.h>
#include <stdint.h>

struct client_stream;
struct conn;
struct http2;

/* @conn's handshake is over, and HTTP/2 agreed on: its session; NULL: no memory. */
struct http2 *http2_begin(struct conn *conn);
/* The connection's events, EPOLL* bits; it may be over, see http2_host_end(). */
void http2_ready(struct http2 *h, uint32_t events);
/* The connection ends, and @h: its streams are lost, which they hear of later. NULL is fine. */
void http2_close(struct http2 *h);
/* It has requests, or its frames are being read: it must not be closed from elsewhere. NULL is fine. */
bool http2_is_busy(const struct http2 *h);
/* It has not brought a request in time, or not a whole one. */
void http2_expired(struct http2 *h);
/* The program stops. To be called again and again: no more streams, after a while; it ends with its last one. */
void http2_stop(struct http2 *h);
/* No more streams, at once. */
void http2_leave(struct http2 *h);
/* A stream's request has had its turn, and could go on: it is told so when others have had theirs. */
void http2_again(struct client_stream *client);
/* Could any of its answer be taken now? False: it is told when it can. */
bool http2_has_room(struct client_stream *client);

#endif
