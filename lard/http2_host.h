/* SPDX-License-Identifier: GPL-2.0 */
/* What lardd is to its HTTP/2, see http2/host.h. */
#ifndef LARD_HTTP2_HOST_H_
#define LARD_HTTP2_HOST_H_

#include <stddef.h>

struct conn;

/*
 * The first request of a connection that may be handed off: of @len bytes in worker->peek, which stay in the
 * socket, into worker->request, with its text where they were. 1: it is whole; 0: more is needed; -1: it must stay.
 */
int http2_prelude(struct conn *conn, size_t len);
/*
 * @conn is not handed off, has no node any more, and its streams are proxied. @denied: not NULL where its first one
 * is not to wait again, and why.
 */
void http2_stay(struct conn *conn, const char *denied);
/* As after another configuration: where no listener offers HTTP/2 any more, its connection ends. */
void http2_reconsider(struct conn *conn);

#endif
