// SPDX-License-Identifier: GPL-2.0
/* Events by epoll: one registration for the life of a connection, one call for a batch. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "loop.h"

#define BATCH 256

struct epoll {
	int fd;
	struct epoll_event events[BATCH];
};

static int epoll_init(struct loop *loop)
{
	struct epoll *ep = malloc(sizeof(*ep));

	if (!ep)
		return -ENOMEM;
	ep->fd = epoll_create1(EPOLL_CLOEXEC);
	if (ep->fd < 0) {
		free(ep);
		return -errno;
	}
	loop->priv = ep;
	return 0;
}

static void epoll_exit(struct loop *loop)
{
	struct epoll *ep = loop->priv;

	close(ep->fd);
	free(ep);
}

static int epoll_add(struct loop *loop, struct watch *w)
{
	struct epoll *ep = loop->priv;
	struct epoll_event ev = { .events = w->events, .data.ptr = w };

	return epoll_ctl(ep->fd, EPOLL_CTL_ADD, w->fd, &ev) ? -errno : 0;
}

static void epoll_del(struct loop *loop, struct watch *w)
{
	struct epoll *ep = loop->priv;

	epoll_ctl(ep->fd, EPOLL_CTL_DEL, w->fd, NULL);
}

static int epoll_wait_batch(struct loop *loop, int timeout)
{
	struct epoll *ep = loop->priv;
	int i, n;

	loop_stall_end(loop);
	n = epoll_wait(ep->fd, ep->events, BATCH, timeout);
	loop_stall_begin(loop);
	loop_clock(loop);
	if (n < 0)
		return -errno;
	for (i = 0; i < n; i++) {
		struct watch *w = ep->events[i].data.ptr;

		/* Closed by an earlier event of this batch: buried, not yet freed. */
		if (w->events)
			w->ready(w, ep->events[i].events);
	}
	return 0;
}

const struct loop_backend loop_epoll = {
	.name = "epoll",
	.init = epoll_init,
	.exit = epoll_exit,
	.add = epoll_add,
	.del = epoll_del,
	.wait = epoll_wait_batch,
};
