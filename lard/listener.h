/* SPDX-License-Identifier: GPL-2.0 */
/* Sockets that accept clients. */
#ifndef LARD_LISTENER_H
#define LARD_LISTENER_H

#include "address.h"
#include "config.h"
#include "loop.h"

struct worker;

/**
 * struct listener - one socket
 * @next:   of those that a worker is to start with its next configuration
 * @batch:  how many connections the next wake-up accepts at most
 * @streak: wake-ups in a row that used their batch up
 * @paused: out of descriptors or above max-connections
 * @door:   what becomes of who comes
 * @http2:  is offered him
 * @miss:   enum config_miss
 * @site:   kernel_cache_site() of the address
 */
struct listener {
	struct listener *next;
	struct source source;
	struct timer timer;
	struct worker *worker;
	union address address;
	unsigned int batch;
	unsigned int streak;
	bool paused;
	enum config_miss miss;
	enum config_door door;
	bool http2;
	uint8_t site;
};

/*
 * Bound, but not listening yet: nobody connects to it. @fd: an inherited socket, or -1. 0 or -errno.
 * May be called for any worker; only listener_start() is for its own thread.
 */
int listener_new(const union address *address, int fd, struct listener **out);
/* 0 or -errno. */
int listener_listen(struct listener *listener, unsigned int backlog);
/* Accepts from now on, or, short of memory, a little later. */
void listener_start(struct listener *listener, struct worker *w);
void listener_close(struct listener *listener);
/* One that was not started; and all behind it. NULL is fine. */
void listener_drop(struct listener *listener);
void listener_pause_expired(struct timer *t);

#endif
