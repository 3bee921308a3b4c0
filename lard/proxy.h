/* SPDX-License-Identifier: GPL-2.0 */
/* Proxying: one request and its response at a time, both directions non-blocking. */
#ifndef LARD_PROXY_H
#define LARD_PROXY_H

#include <stdint.h>
#include "loop.h"

struct conn;
struct worker;

/* worker->request is complete in the socket; the connection is charged to a node. */
void proxy_request(struct conn *conn);
void proxy_client_ready(struct conn *conn, uint32_t events);
/* Now and then: what the cache is to get does not come at the pace of a client who takes it slowly. */
void proxy_hasten(struct worker *w);
/* While others wait for room, who brings none of his request's body, or takes none of his answer, makes some. */
void proxy_relieve(struct worker *w);
/* The process ends. */
void proxy_abandon(struct conn *conn);
/* For timer queues. */
void proxy_connect_expired(struct timer *t);
void proxy_io_expired(struct timer *t);

#endif
