// SPDX-License-Identifier: GPL-2.0
#include "visitor.h"
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define BACKLOG 16

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
	}
	free(visitor->out);
	visitor->out = NULL;
	visitor->out_len = 0;
	visitor->out_done = 0;
	return 1;
}

static void service_ready(struct source *s, uint32_t events)
{
	struct service *service = container_of(s, struct service, source);
	int fd = accept4(s->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	struct visitor *visitor;

	(void)events;
	if (fd < 0)
		return;
	visitor = service->count < service->max ? calloc(1, service->size) : NULL;
	if (!visitor) {
		close(fd);
		return;
	}
	visitor->source = (struct source){ .fd = fd, .ready = service->ready };
	visitor->service = service;
	if (loop_add(service->loop, &visitor->source,
		     EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET)) {
		close(fd);
		free(visitor);
		return;
	}
	list_add_before(&service->visitors, &visitor->link);
	service->count++;
}

int service_open(struct service *service, struct loop *loop, int fd)
{
	service->source = (struct source){ .fd = fd, .ready = service_ready };
	service->loop = loop;
	list_init(&service->visitors);
	if (listen(fd, BACKLOG))
		return -errno;
	return loop_add(loop, &service->source, EPOLLIN);
}

void service_deafen(struct service *service)
{
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
