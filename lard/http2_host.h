/* SPDX-License-Identifier: GPL-2.0 */
/* What lardd is to its HTTP/2, see http2/host.h. */
#ifndef LARD_HTTP2_HOST_H_
#define LARD_HTTP2_HOST_H_

struct conn;

/* As after another configuration: where no listener offers HTTP/2 any more, its connection ends. */
void http2_reconsider(struct conn *conn);

#endif
