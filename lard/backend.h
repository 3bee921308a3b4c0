/* SPDX-License-Identifier: GPL-2.0 */
/* Connections to back-ends, kept for reuse. A worker's own. */
#ifndef LARD_BACKEND_H
#define LARD_BACKEND_H

#include <stdbool.h>
#include "address.h"
#include "loop.h"
#include "tools/base/list.h"

struct exchange;
struct worker;

/**
 * struct backend - a connection to a node's web server
 * @exchange:  that uses it; NULL: idle, on worker->backends
 * @connected: the handshake is over
 * @reused:    served an exchange before this one
 */
struct backend {
	struct source source;
	struct timer timer;
	struct list link;
	struct worker *worker;
	struct exchange *exchange;
	union address address;
	int slot;
	bool connected;
	bool reused;
};

/* A kept connection, or with @fresh a new one. NULL with errno. */
struct backend *backend_get(struct worker *w, int slot, const union address *address, bool fresh);
/* An errno that tells of a shortage here, and so nothing of the node that was to be reached. */
bool error_is_ours(int err);
/* A socket for a connection to a back-end; if need be at the cost of an idle one. -1 with errno. */
int backend_socket(struct worker *w, int family);
/* Closes the connection that is idle for the longest. False: none is. */
bool backend_recycle(struct worker *w);
/*
 * It has sent what nobody had asked for. Nothing tells such an answer from that to the next request,
 * if that is sent before: for a while no connection to its node serves twice.
 */
void backend_distrust(struct backend *backend);
/* Keep it for a next request, or close it. */
void backend_put(struct backend *backend, bool reusable);
void backend_idle_expired(struct timer *t);
void backend_exit(struct worker *w);

/* In proxy.c. */
void proxy_backend_ready(struct backend *backend, uint32_t events);

#endif
