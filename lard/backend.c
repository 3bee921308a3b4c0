// SPDX-License-Identifier: GPL-2.0
/* Connections to back-ends. */
#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "backend.h"
#include "worker.h"

#define KEEP_US 5000000		/* below the idle limit of any common server */
#define IDLE_MAX 64		/* of a node, in each worker */
#define DISTRUST_US 60000000	/* of a node whose server spoke out of turn */

static void backend_bury(struct source *s)
{
	free(container_of(s, struct backend, source));
}

/* No longer idle, if it was. */
static void take_out(struct backend *b)
{
	timer_stop(&b->timer);
	if (!list_empty(&b->link))
		b->worker->idle_backends[b->slot]--;
	list_del(&b->link);
}

static void backend_close(struct backend *b)
{
	take_out(b);
	loop_bury(&b->worker->loop, &b->source, backend_bury);
}

/* Of a node's idle ones, if there are more than @most, those that are idle for longest. */
static void close_oldest(struct worker *w, int slot, unsigned int most)
{
	while (w->idle_backends[slot] > most)
		backend_close(container_of(w->backends[slot].next, struct backend, link));
}

static bool is_distrusted(const struct worker *w, int slot)
{
	return w->loop.now < w->distrust_until[slot];
}

void backend_distrust(struct backend *b)
{
	struct worker *w = b->worker;
	char text[ADDRESS_TEXT];

	count(w, COUNTER_BACKEND_SURPLUS);
	if (!is_distrusted(w, b->slot))
		log_warn("backend-surplus", "address=%s text=\"it sent what it was not asked for: "
			 "none of its connections serves twice for a minute\"",
			 address_text(&b->address, text, sizeof(text)));
	w->distrust_until[b->slot] = w->loop.now + DISTRUST_US;
}

/* The event may be of bytes that were read since it was collected. */
static bool is_silent(struct backend *b)
{
	ssize_t n = recv(b->source.fd, &(char){ 0 }, 1, MSG_PEEK);

	if (n > 0)
		backend_distrust(b);
	return n < 0 && errno == EAGAIN;
}

static void backend_ready(struct source *s, uint32_t events)
{
	struct backend *b = container_of(s, struct backend, source);

	if (b->exchange)
		proxy_backend_ready(b, events);
	else if (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR) && !is_silent(b))
		backend_close(b);	/* closed by the server, or speaks out of turn */
}

bool error_is_ours(int err)
{
	switch (err) {
	case EMFILE:
	case ENFILE:
	case ENOMEM:
	case ENOBUFS:
	case ENOSPC:		/* epoll's limit for each user */
	case EAGAIN:
	case EADDRNOTAVAIL:	/* no port is left to connect from */
		return true;
	default:
		return false;
	}
}

bool backend_recycle(struct worker *w)
{
	if (list_empty(&w->backend_timers.timers))
		return false;
	backend_close(container_of(container_of(w->backend_timers.timers.next, struct timer, link),
				   struct backend, timer));
	count(w, COUNTER_RECYCLED);
	return true;
}

int backend_socket(struct worker *w, int family)
{
	int fd, err;

	for (;;) {
		fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
		err = errno;
		if (fd >= 0 || (err != EMFILE && err != ENFILE) || !worker_relieve(w))
			break;
	}
	errno = err;
	return fd;
}

static struct backend *backend_open(struct worker *w, int slot, const union address *address)
{
	static const int on = 1;
	struct backend *b = calloc(1, sizeof(*b));
	int err;

	if (!b) {
		errno = ENOMEM;
		return NULL;
	}
	b->worker = w;
	b->slot = slot;
	b->address = *address;
	b->source.ready = backend_ready;
	list_init(&b->link);
	timer_init(&b->timer);
	b->source.fd = backend_socket(w, address->any.sa_family);
	if (b->source.fd < 0)
		goto fail;
	setsockopt(b->source.fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	if (!connect(b->source.fd, &address->any, address_len(address)))
		b->connected = true;
	else if (errno != EINPROGRESS)
		goto fail;
	err = loop_add(&w->loop, &b->source, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET);
	if (err) {
		errno = -err;
		goto fail;
	}
	count(w, COUNTER_BACKEND_OPENED);
	return b;

fail:
	err = errno;
	if (b->source.fd >= 0)
		close(b->source.fd);
	free(b);
	errno = err;
	return NULL;
}

struct backend *backend_get(struct worker *w, int slot, const union address *address, bool fresh)
{
	struct list *idle = &w->backends[slot];

	if (is_distrusted(w, slot))
		close_oldest(w, slot, 0);
	while (!fresh && !list_empty(idle)) {
		/* The last one put is the least likely to have been closed. */
		struct backend *b = container_of(idle->prev, struct backend, link);

		/* The slot's last owner; or closed by the server, of which no event was seen yet. */
		if (memcmp(&b->address, address, sizeof(*address)) || !is_silent(b)) {
			backend_close(b);
			if (is_distrusted(w, slot))
				close_oldest(w, slot, 0);
			continue;
		}
		take_out(b);
		b->reused = true;
		count(w, COUNTER_BACKEND_REUSED);
		return b;
	}
	/* One more will be idle after it: who sends nothing that may be sent twice piles up none. */
	if (w->idle_backends[slot])
		close_oldest(w, slot, w->idle_backends[slot] - 1);
	return backend_open(w, slot, address);
}

void backend_put(struct backend *b, bool reusable)
{
	struct worker *w = b->worker;

	b->exchange = NULL;
	/* The event of what is there may be past: it would lie in wait for the next visitor. */
	if (!reusable || !is_silent(b) || is_distrusted(w, b->slot)) {
		backend_close(b);
		return;
	}
	list_add_tail(&b->link, &w->backends[b->slot]);
	w->idle_backends[b->slot]++;
	close_oldest(w, b->slot, IDLE_MAX);
	timer_start(&w->loop, &w->backend_timers, &b->timer, KEEP_US);
}

void backend_idle_expired(struct timer *t)
{
	backend_close(container_of(t, struct backend, timer));
}

void backend_exit(struct worker *w)
{
	int slot;

	for (slot = 0; slot < LARD_MAX_NODES; slot++)
		while (!list_empty(&w->backends[slot]))
			backend_close(container_of(w->backends[slot].next, struct backend, link));
}
