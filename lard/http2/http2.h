/* SPDX-License-Identifier: GPL-2.0 */
/*
 * HTTP/2 of clients. libnghttp2 takes frames apart and makes them; each stream becomes a struct conn
 * whose request is written down as one of HTTP/1.1, and from there goes the way of all requests.
 */
#ifndef LARD_HTTP2_H
#define LARD_HTTP2_H

#include <stdbool.h>
#include <stdint.h>

struct conn;

/* @conn's handshake is over, and HTTP/2 agreed on. 0 or -ENOMEM. */
int http2_begin(struct conn *conn);
/* The connection's events; @conn may be closed. */
void http2_ready(struct conn *conn, uint32_t events);
/* The connection ends: its streams are lost, which they hear of later. NULL http2 is fine. */
void http2_close(struct conn *conn);
/* It has requests, or its frames are being read: it must not be closed from elsewhere. */
bool http2_is_busy(const struct conn *conn);
/* It has not brought a request in time, or not a whole one. */
void http2_expired(struct conn *conn);
/* lardd stops: no more streams, after a while; it ends with its last one. */
void http2_stop(struct conn *conn);
/* As after another configuration: where no listener offers HTTP/2 any more, likewise. */
void http2_reconsider(struct conn *conn);

#endif
