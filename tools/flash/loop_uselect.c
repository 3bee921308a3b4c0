// SPDX-License-Identifier: GPL-2.0
/*
 * Events by uselect: connections are followed by the kernel without registration, and what became
 * ready is read from memory; a system call only to sleep. Needs uselect.ko.
 */
#include <errno.h>
#include <stdlib.h>

#include "loop.h"
#include "uselect.h"

#define BATCH 256

struct listed {
	struct uselect_loop *list;
	struct epoll_event events[BATCH];
};

static int listed_init(struct loop *loop)
{
	struct listed *l;
	int err;

	/* EBUSY: by an earlier loop of this process. */
	if (uselect_init_edges() && errno != EBUSY)
		return -errno;
	l = malloc(sizeof(*l));
	if (!l)
		return -ENOMEM;
	l->list = uselect_loop_new();
	if (!l->list) {
		err = -errno;
		free(l);
		return err;
	}
	loop->priv = l;
	return 0;
}

static void listed_exit(struct loop *loop)
{
	struct listed *l = loop->priv;

	uselect_loop_free(l->list);
	free(l);
}

static int listed_add(struct loop *loop, struct watch *w)
{
	struct listed *l = loop->priv;

	return uselect_loop_add(l->list, w->fd, w->events, (uintptr_t)w) ? -errno : 0;
}

static void listed_del(struct loop *loop, struct watch *w)
{
	struct listed *l = loop->priv;

	uselect_loop_del(l->list, w->fd);
}

static int listed_wait(struct loop *loop, int timeout)
{
	struct listed *l = loop->priv;
	int i, n;

	loop_stall_end(loop);
	n = uselect_loop_wait(l->list, l->events, BATCH, timeout);
	loop_stall_begin(loop);
	loop_clock(loop);
	if (n < 0)
		return -errno;
	for (i = 0; i < n; i++) {
		struct watch *w = (struct watch *)(uintptr_t)l->events[i].data.u64;

		/* Closed by an earlier event of this batch: buried, not yet freed. */
		if (w->events)
			w->ready(w, l->events[i].events);
	}
	return 0;
}

const struct loop_backend loop_uselect = {
	.name = "uselect",
	.init = listed_init,
	.exit = listed_exit,
	.add = listed_add,
	.del = listed_del,
	.wait = listed_wait,
};
