// SPDX-License-Identifier: GPL-2.0
/* Accepting clients. */
#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "privilege.h"
#include "worker.h"

#define BATCH_MAX	64
#define BATCH_STREAK	4
#define PAUSE_US	100000
#define DEFER_SECONDS	3

static void pause_accepting(struct listener *l)
{
	l->paused = true;
	loop_remove(&l->worker->loop, &l->source);
	timer_start(&l->worker->loop, &l->worker->listen_timers, &l->timer, PAUSE_US);
}

void listener_pause_expired(struct timer *t)
{
	struct listener *l = container_of(t, struct listener, timer);

	l->paused = false;
	if (loop_add(&l->worker->loop, &l->source, EPOLLIN))
		pause_accepting(l);
}

/* False: nothing more to accept now. */
static bool accept_one(struct listener *l)
{
	struct worker *w = l->worker;
	union address peer;
	socklen_t len = sizeof(peer);
	int fd, err;

	fd = accept4(l->source.fd, &peer.any, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (fd >= 0) {
		count(w, COUNTER_ACCEPTED);
		conn_accept(l, fd, &peer);
		return true;
	}
	err = errno;
	switch (err) {
	case EAGAIN:
		return false;
	case EINTR:
	case ECONNABORTED:
		return true;
	case EMFILE:
	case ENFILE:
		if (worker_relieve(w))
			return true;
		/* fall through */
	default:
		count(w, COUNTER_ACCEPT_FAILED);
		log_client("accept-failed", "error=%d text=\"%s\"", err, strerror(err));
		pause_accepting(l);
		return false;
	}
}

static bool is_crowded(const struct listener *l)
{
	struct worker *w = l->worker;

	return l->door >= DOOR_TLS &&
	       w->live[CONN_SHAKE] >= worker_share(w, w->config->max_handshakes);
}

static bool is_full(const struct listener *l)
{
	struct worker *w = l->worker;

	return is_crowded(l) || w->pool.used >= worker_share(w, w->config->max_connections);
}

static bool make_room(struct listener *l)
{
	return is_crowded(l) ? conn_recycle_handshake(l->worker) : conn_recycle(l->worker);
}

/*
 * The batch adapts: a lone connection per wake-up must not cost a second accept() that says EAGAIN,
 * a flood must not cost an epoll_wait() per connection. The loop is level-triggered, so that
 * stopping early loses nothing.
 */
static void listener_ready(struct source *s, uint32_t events)
{
	struct listener *l = container_of(s, struct listener, source);
	unsigned int accepted = 0;

	(void)events;
	while (accepted < l->batch) {
		bool full = is_full(l);

		/* Somebody waits: one goes for him. Whether another does is told by the next event. */
		if (full && !accepted && !make_room(l)) {
			pause_accepting(l);
			return;
		}
		if ((full && accepted) || !accept_one(l)) {
			l->batch = accepted ? accepted : 1;
			l->streak = 0;
			return;
		}
		accepted++;
		/* Nobody goes for one who is turned away: a place is kept free to see who comes. */
		if (l->worker->config->max_per_address && is_full(l))
			make_room(l);
	}
	if (++l->streak >= BATCH_STREAK && l->batch < BATCH_MAX) {
		l->batch *= 2;
		l->streak = 0;
	}
}

static int open_socket(const union address *address)
{
	static const int on = 1, defer = DEFER_SECONDS;
	int fd, err;

	fd = socket(address->any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	privilege_mark(fd);
	/* Children inherit NODELAY; DEFER_ACCEPT makes the request present at accept(). */
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) ||
	    setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)) ||
	    (address->any.sa_family == AF_INET6 &&
	     setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on))) ||
	    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) ||
	    setsockopt(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, &defer, sizeof(defer)) ||
	    bind(fd, &address->any, address_len(address))) {
		err = -errno;
		close(fd);
		return err;
	}
	return fd;
}

int listener_new(const union address *address, int fd, struct listener **out)
{
	struct listener *l = calloc(1, sizeof(*l));
	int err;

	if (!l)
		return -ENOMEM;
	if (fd >= 0)
		privilege_mark(fd);
	l->address = *address;
	l->batch = 1;
	l->source.fd = fd >= 0 ? fd : open_socket(address);
	l->source.ready = listener_ready;
	timer_init(&l->timer);
	if (l->source.fd < 0) {
		err = l->source.fd;
		free(l);
		return err;
	}
	*out = l;
	return 0;
}

int listener_listen(struct listener *l, unsigned int backlog)
{
	static const int off;

	/* listen() resets QUICKACK. The answer acknowledges the request; see acknowledge(). */
	return listen(l->source.fd, backlog) ||
	       setsockopt(l->source.fd, IPPROTO_TCP, TCP_QUICKACK, &off, sizeof(off)) ? -errno : 0;
}

void listener_start(struct listener *l, struct worker *w)
{
	l->worker = w;
	if (loop_add(&w->loop, &l->source, EPOLLIN)) {
		l->paused = true;
		timer_start(&w->loop, &w->listen_timers, &l->timer, PAUSE_US);
	}
}

void listener_drop(struct listener *l)
{
	while (l) {
		struct listener *next = l->next;

		close(l->source.fd);
		free(l);
		l = next;
	}
}

static void listener_bury(struct source *s)
{
	free(container_of(s, struct listener, source));
}

void listener_close(struct listener *l)
{
	timer_stop(&l->timer);
	/* Closing would not take it out of the loop while a successor has the socket too. */
	if (!l->paused)
		loop_remove(&l->worker->loop, &l->source);
	loop_bury(&l->worker->loop, &l->source, listener_bury);
}
