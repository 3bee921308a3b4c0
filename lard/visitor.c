// SPDX-License-Identifier: GPL-2.0
#include "visitor.h"
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>
#include "worker.h"

#define BACKLOG 128
#define BATCH 16
#define PAUSE_US 100000

static void visitor_bury(struct source *s)
{
	struct visitor *visitor = container_of(s, struct visitor, source);

	free(visitor->out);
	free(visitor);
}

void visitor_close(struct visitor *visitor)
{
	list_del(&visitor->link);
	visitor->service->count--;
	loop_bury(visitor->service->loop, &visitor->source, visitor_bury);
}

void visitor_heard(struct visitor *visitor)
{
	list_del(&visitor->link);
	list_add_tail(&visitor->link, &visitor->service->visitors);
}

/* The next one's place is that of who did nothing for longest, be it silent or deaf. */
static void make_room(struct service *service)
{
	struct list *at;

	for (at = service->visitors.next; at != &service->visitors; at = at->next) {
		struct visitor *visitor = container_of(at, struct visitor, link);

		if (visitor->stays)
			continue;
		visitor_close(visitor);
		return;
	}
}

int visitor_write(struct visitor *visitor)
{
	while (visitor->out && visitor->out_done < visitor->out_len) {
		ssize_t n = send(visitor->source.fd, visitor->out + visitor->out_done,
				 visitor->out_len - visitor->out_done, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return 0;
		if (n < 0) {
			visitor_close(visitor);
			return -1;
		}
		visitor->out_done += n;
		visitor_heard(visitor);
	}
	free(visitor->out);
	visitor->out = NULL;
	visitor->out_len = 0;
	visitor->out_done = 0;
	return 1;
}

static void pause_accepting(struct service *service)
{
	loop_remove(service->loop, &service->source);
	timer_start(service->loop, &service->worker->service_timers, &service->pause, PAUSE_US);
}

void service_pause_expired(struct timer *t)
{
	struct service *service = container_of(t, struct service, pause);

	if (loop_add(service->loop, &service->source, EPOLLIN))
		timer_start(service->loop, &service->worker->service_timers, t, PAUSE_US);
}

/* Out of descriptors the loop must not go round and round for somebody who cannot come in. */
static void accept_failed(struct service *service, int err)
{
	if (err == EAGAIN || err == EINTR || err == ECONNABORTED)
		return;
	if ((err == EMFILE || err == ENFILE) && worker_relieve(service->worker))
		return;
	pause_accepting(service);
}

/* False: nobody more now. */
static bool accept_one(struct service *service)
{
	int fd = accept4(service->source.fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	struct visitor *visitor;

	if (fd < 0) {
		accept_failed(service, errno);
		return false;
	}
	if (service->count == service->max)
		make_room(service);
	visitor = calloc(1, service->size);
	if (!visitor) {
		close(fd);
		return true;
	}
	visitor->source = (struct source){ .fd = fd, .ready = service->ready };
	visitor->service = service;
	if (loop_add(service->loop, &visitor->source,
		     EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET)) {
		close(fd);
		free(visitor);
		return true;
	}
	list_add_tail(&visitor->link, &service->visitors);
	service->count++;
	return true;
}

static void service_ready(struct source *s, uint32_t events)
{
	struct service *service = container_of(s, struct service, source);
	unsigned int n;

	(void)events;
	for (n = 0; n < BATCH && accept_one(service); n++)
		;
}

int service_open(struct service *service, struct worker *worker, int fd)
{
	service->source = (struct source){ .fd = fd, .ready = service_ready };
	service->worker = worker;
	service->loop = &worker->loop;
	timer_init(&service->pause);
	list_init(&service->visitors);
	if (listen(fd, BACKLOG))
		return -errno;
	return loop_add(service->loop, &service->source, EPOLLIN);
}

void service_deafen(struct service *service)
{
	timer_stop(&service->pause);
	if (service->source.fd < 0)
		return;
	/* Closing would not take it out of the loop while a successor has the socket too. */
	loop_remove(service->loop, &service->source);
	close(service->source.fd);
	service->source.fd = -1;
}

void service_close(struct service *service)
{
	while (!list_empty(&service->visitors))
		visitor_close(container_of(service->visitors.next, struct visitor, link));
	service_deafen(service);
}
