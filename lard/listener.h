/* SPDX-License-Identifier: GPL-2.0 */
/* Sockets that accept clients. */
#ifndef LARD_LISTENER_H
#define LARD_LISTENER_H

#include "address.h"
#include "loop.h"

struct worker;

/**
 * struct listener - one address
 * @batch:  how many connections the next wake-up accepts at most
 * @streak: wake-ups in a row that used their batch up
 * @paused: out of descriptors or above max-connections
 */
struct listener {
	struct source source;
	struct timer timer;
	struct worker *worker;
	union address address;
	unsigned int batch;
	unsigned int streak;
	bool paused;
};

/* 0 or -errno. @fd: an inherited socket, or -1. */
int listener_open(struct worker *w, const union address *address, int fd, struct listener **out);
void listener_close(struct listener *listener);
void listener_pause_expired(struct timer *t);

#endif
