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

static void backend_bury(struct source *s)
{
	free(container_of(s, struct backend, source));
}

static void backend_close(struct backend *b)
{
	timer_stop(&b->timer);
	list_del(&b->link);
	loop_bury(&b->worker->loop, &b->source, backend_bury);
}

/* The event may be of bytes that were read since it was collected. */
static bool is_silent(const struct backend *b)
{
	return recv(b->source.fd, &(char){ 0 }, 1, MSG_PEEK) < 0 && errno == EAGAIN;
}

static void backend_ready(struct source *s, uint32_t events)
{
	struct backend *b = container_of(s, struct backend, source);

	if (b->exchange)
		proxy_backend_ready(b, events);
	else if (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR) && !is_silent(b))
		backend_close(b);	/* closed by the server, or speaks out of turn */
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
	b->source.fd = socket(address->any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
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

	while (!fresh && !list_empty(idle)) {
		/* The last one put is the least likely to have been closed. */
		struct backend *b = container_of(idle->prev, struct backend, link);

		if (memcmp(&b->address, address, sizeof(*address))) {
			backend_close(b);	/* the slot's last owner */
			continue;
		}
		list_del(&b->link);
		timer_stop(&b->timer);
		b->reused = true;
		count(w, COUNTER_BACKEND_REUSED);
		return b;
	}
	return backend_open(w, slot, address);
}

void backend_put(struct backend *b, bool reusable)
{
	struct worker *w = b->worker;

	b->exchange = NULL;
	if (!reusable) {
		backend_close(b);
		return;
	}
	list_add_before(&w->backends[b->slot], &b->link);
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
