/* SPDX-License-Identifier: GPL-2.0 */
/*
 * HTTP/2, by lard/http2. A connection with it is a struct conn in CONN_HTTP2; each stream is one too, whose
 * request comes as text of HTTP/1.1 and ends it. It has no descriptor, and its events come from its connection.
 */
#ifndef FLASH_HTTP2_H
#define FLASH_HTTP2_H

#include "conn.h"

/* The handshake is over, and HTTP/2 agreed on. */
void http2_start(struct conn *c);
/* Events of the socket, or 0 in the connection's turn; @c may be gone. */
void http2_events(struct conn *c, uint32_t events);
/* It makes room for others, now or in the next turn. */
void http2_drop(struct conn *c);
/* The worker is to end: connections are told, and end with their last streams. */
void http2_drain(struct worker *w);

#endif
