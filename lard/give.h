/* SPDX-License-Identifier: GPL-2.0 */
/* Giving connections away through /dev/handoff. */
#ifndef LARD_GIVE_H
#define LARD_GIVE_H

#include <stdbool.h>
#include "loop.h"

struct conn;
struct handoff;
struct worker;

/**
 * struct give - a worker's device; events come to the file that submitted
 * @device: NULL: the module is not there
 * @later:  HOF_TELL_LATER, or 0 when the module does not know it
 * @tls:    it takes connections of TLS with their keys
 * @tls_port: those whose keys the kernel has, with a port for them
 */
struct give {
	struct source source;
	struct worker *worker;
	struct handoff *device;
	unsigned int later;
	bool tls, tls_port;
};

/* 0, or a negative errno: connections are then proxied. May be called again later. */
int give_open(struct give *give, struct worker *w);
void give_close(struct give *give);

static inline bool give_ready(const struct give *give)
{
	return give->device;
}

/* The connection is charged to a node that takes handoffs. */
void give_submit(struct conn *conn);

/* The loop is awake: takes events that did not wake it. */
void give_batch_end(struct give *give);

#endif
