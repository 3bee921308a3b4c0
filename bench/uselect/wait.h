/* SPDX-License-Identifier: GPL-2.0 */
/* The ways to wait that are compared, one shape for all. */
#ifndef BENCH_WAIT_H
#define BENCH_WAIT_H

#include <stdbool.h>
#include <stdint.h>

#define FDS_MAX		16384

/**
 * struct wait_layer - one way to learn which connections are readable
 * @open:   before the listening socket is made; false when the kernel cannot do it
 * @add:    a descriptor is there, from now on to the end
 * @wait:   sleeps until something is readable and calls serve() for each that is
 * @both:   knows what is writable, too, and can forget a descriptor
 * @want:   EPOLLIN, EPOLLOUT, both or 0 are of interest from now on, at first EPOLLIN; NULL: edges
 *	    of wait_edges are told
 * @remove: it is about to be closed; NULL: the kernel sees that
 */
struct wait_layer {
	const char *name;
	bool (*open)(void);
	void (*add)(int fd);
	void (*wait)(void);
	bool both;
	void (*want)(int fd, uint32_t events);
	void (*remove)(int fd);
};

extern const struct wait_layer wait_layers[];

/* Calls that ask for readiness or change what is asked for, so far. */
extern uint64_t wait_calls;

/* What layers of edges register a descriptor for: EPOLLIN. */
extern uint32_t wait_edges;

/* Of what serve() is called for, by layers with @both once EPOLLOUT was of interest: EPOLL*. */
extern uint32_t wait_ready;

/* Of the server: reads and answers. False: there was nothing to read. */
bool serve(int fd);

#endif
