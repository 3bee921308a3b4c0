// SPDX-License-Identifier: GPL-2.0
/* Accepting: as many at a time as there were lately, and not more than may be open. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "conn.h"
#include "room.h"

#define BATCH_MAX 16
#define RETRY_MS 100

/*
 * A failing accept4() costs more than half of a successful one, so a listening socket is only
 * asked again at once when it lately had more than one connection waiting.
 */
struct acceptor {
	struct watch watch;
	struct worker *w;
	unsigned int door;
	bool http2;
	uint32_t events;
	unsigned int batch;
};

static unsigned int most(const struct worker *w)
{
	return w->blocking ? 1 : w->conf->max_connections;
}

int conn_accepting(struct worker *w, bool on)
{
	unsigned int i;
	int err;

	if (w->accepting == on)
		return 0;
	w->accepting = on;
	for (i = 0; i < w->nr_acceptors; i++) {
		struct acceptor *a = &w->acceptors[i];

		if (!on) {
			loop_del(&w->loop, &a->watch);
			continue;
		}
		a->batch = 1;
		err = loop_add(&w->loop, &a->watch, a->events);
		if (err)
			return err;
	}
	return 0;
}

static void pause_accepting(struct worker *w, bool retry)
{
	conn_accepting(w, false);
	stats_add(w->stats, accept_paused, 1);
	if (retry)
		loop_timer_set(&w->loop, &w->accept_retry, w->loop.now + RETRY_MS);
}

static void retry_accepting(struct timer *t)
{
	struct worker *w = container_of(t, struct worker, accept_retry);

	/* At the limit, too: somebody may have stood still for long enough by now. */
	if (!w->draining && (w->nr_conns < most(w) || !w->blocking))
		conn_accepting(w, true);
}

static void acceptor_ready(struct watch *watch, uint32_t events)
{
	struct acceptor *a = container_of(watch, struct acceptor, watch);
	struct worker *w = a->w;
	unsigned int i;
	struct conn *c;
	int fd;

	(void)events;
	for (i = 0; i < a->batch && w->accepting; i++) {
		/* Somebody waits: who is idle makes room. */
		if (!w->blocking && w->nr_conns >= most(w) && (i || !room_make(w))) {
			if (!i)
				pause_accepting(w, true);
			a->batch = 1;
			return;
		}
		fd = accept4(watch->fd, NULL, NULL,
			     SOCK_CLOEXEC | (w->blocking ? 0 : SOCK_NONBLOCK));
		if (fd < 0) {
			if ((errno == EMFILE || errno == ENFILE || errno == ENOBUFS ||
			     errno == ENOMEM) && !room_make(w))
				pause_accepting(w, true);
			a->batch = 1;
			return;
		}
		stats_add(w->stats, accepted, 1);
		c = conn_new(w, fd, a->door);
		if (!c) {
			close(fd);
			return;
		}
		c->offers_http2 = a->http2;
		if (w->blocking)
			conn_accepting(w, false);
		conn_start(c);
	}
	if (a->batch < BATCH_MAX)
		a->batch *= 2;
}

/* Those who accept: all threads of mt are one. */
static unsigned int workers(const struct conf *conf)
{
	if (conf->architecture == ARCH_MP)
		return conf->processes;
	if (conf->architecture == ARCH_MT || !conf->workers)
		return 1;
	return conf->workers;
}

int conn_accept_init(struct worker *w, const struct listeners *ls)
{
	unsigned int i, j, n = 0, nr_workers = workers(w->conf);

	for (i = 0; i < ls->n; i++)
		n += ls->l[i].nr_fds;
	w->acceptors = calloc(n, sizeof(*w->acceptors));
	if (!w->acceptors)
		return -ENOMEM;
	w->accept_retry.expired = retry_accepting;
	list_init(&w->accept_retry.node);
	for (i = 0; i < ls->n; i++) {
		for (j = 0; j < ls->l[i].nr_fds; j++) {
			struct acceptor *a = &w->acceptors[w->nr_acceptors];

			if (!listener_is_mine(&ls->l[i], j, w->index, nr_workers))
				continue;
			a->w = w;
			a->door = ls->l[i].address->door;
			a->http2 = ls->l[i].address->http2;
			a->watch.fd = ls->l[i].fds[j];
			a->watch.ready = acceptor_ready;
			/* In mp and mt when loops of a former generation have it, too. */
			a->watch.nonblocking = fcntl(a->watch.fd, F_GETFL) & O_NONBLOCK;
			/* A socket that several workers share should wake one of them. */
			a->events = EPOLLIN | (ls->l[i].nr_fds < nr_workers ? EPOLLEXCLUSIVE : 0);
			w->nr_acceptors++;
		}
	}
	return conn_accepting(w, true);
}

void conn_accept_exit(struct worker *w)
{
	conn_accepting(w, false);
	loop_timer_del(&w->accept_retry);
	free(w->acceptors);
	w->acceptors = NULL;
	w->nr_acceptors = 0;
}
