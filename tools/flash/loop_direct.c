// SPDX-License-Identifier: GPL-2.0
/*
 * No event mechanism: the process or thread blocks in the call itself (architectures mp and mt).
 *
 * There is one connection at a time. While there is none, the listening sockets are watched; with
 * one, they are not (conn.c stops accepting). A single watch is called at once and its own call
 * blocks, bounded by the socket's time-out, so that timers and signals get their turn. With more
 * (several listening sockets), or with one that does not block (a program's pipe), poll(2) waits.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>

#include "loop.h"

#define MOST 1024

struct direct {
	struct list watches;
	int n;
};

static int direct_init(struct loop *loop)
{
	struct direct *d = malloc(sizeof(*d));

	if (!d)
		return -ENOMEM;
	list_init(&d->watches);
	d->n = 0;
	loop->priv = d;
	return 0;
}

static void direct_exit(struct loop *loop)
{
	free(loop->priv);
}

static int direct_add(struct loop *loop, struct watch *w)
{
	struct direct *d = loop->priv;

	/* No helper runs here, so nobody wakes the loop: signals interrupt the blocking call. */
	if (w == &loop->wake) {
		w->events = 0;
		return 0;
	}
	if (d->n == MOST)
		return -ENOSPC;
	list_add_tail(&w->node, &d->watches);
	d->n++;
	return 0;
}

static void direct_del(struct loop *loop, struct watch *w)
{
	struct direct *d = loop->priv;

	list_del(&w->node);
	d->n--;
}

static int direct_wait(struct loop *loop, int timeout)
{
	struct direct *d = loop->priv;
	struct watch *ready[MOST];
	struct pollfd fds[MOST];
	struct list *p;
	int i, n = 0;

	for (p = d->watches.next; p != &d->watches; p = p->next) {
		struct watch *w = list_entry(p, struct watch, node);

		fds[n].fd = w->fd;
		fds[n].events = w->events & (EPOLLIN | EPOLLOUT);
		/* A connection that waits for a program is not read: only its end matters. */
		fds[n].revents = w->events & (EPOLLIN | EPOLLOUT);
		ready[n++] = w;
	}
	/* A wake-up at least every second, for signals that came just before the call. */
	if (n != 1 || ready[0]->nonblocking || !fds[0].events) {
		if (timeout < 0 || timeout > 1000)
			timeout = 1000;
		if (poll(fds, n, timeout) < 0)
			return -errno;
	}
	loop_clock(loop);
	for (i = 0; i < n; i++)
		if (ready[i]->events && fds[i].revents)
			ready[i]->ready(ready[i], fds[i].revents);
	loop_clock(loop);
	if (loop->woken)
		loop->woken(loop);
	return 0;
}

const struct loop_backend loop_direct = {
	.name = "direct",
	.init = direct_init,
	.exit = direct_exit,
	.add = direct_add,
	.del = direct_del,
	.closing = direct_del,
	.wait = direct_wait,
};
