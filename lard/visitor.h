/* SPDX-License-Identifier: GPL-2.0 */
/* Small services beside the dispatching: the control socket and the metrics page. Worker 0. */
#ifndef LARD_VISITOR_H
#define LARD_VISITOR_H

#include <stdbool.h>
#include <stddef.h>
#include "loop.h"
#include "tools/base/list.h"

struct worker;

/**
 * struct service - a listening socket and who came to it
 * @visitors: who was last heard, or took something, is last
 * @max:   visitors at a time; the one that did nothing for longest goes for a new one
 * @pause: accepting goes on when it is over: descriptors ran out
 * @size:  of a visitor with what the service adds behind it
 * @ready: of a visitor's socket
 */
struct service {
	struct source source;
	struct loop *loop;
	struct worker *worker;
	struct timer pause;
	struct list visitors;
	unsigned int count, max;
	size_t size;
	void (*ready)(struct source *s, uint32_t events);
};

/**
 * struct visitor - one connection; the first member of what a service keeps for it
 * @stays: whoever comes
 * @out: to be written, @out_len bytes of which @out_done are out; freed when all are
 */
struct visitor {
	struct source source;
	struct list link;
	struct service *service;
	bool stays;
	char *out;
	size_t out_len, out_done;
};

/* Listens on the bound @fd, which it takes only when it succeeds: 0 or a negative errno. */
int service_open(struct service *service, struct worker *worker, int fd);
void service_pause_expired(struct timer *t);
/* Nobody new; who is there stays. */
void service_deafen(struct service *service);
/* Hangs up on everybody. */
void service_close(struct service *service);

/* 1: all is out; 0: the socket is full; -1: the visitor is gone and has been closed. */
int visitor_write(struct visitor *visitor);
void visitor_close(struct visitor *visitor);
/* It has said something. */
void visitor_heard(struct visitor *visitor);

#endif
