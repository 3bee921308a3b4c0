// SPDX-License-Identifier: GPL-2.0
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>
#include "echo.h"

#define MARK	(sizeof(ECHO_MARK) - 1)

struct echo {
	int fd;
	bool ended;
	size_t len, sent;
	char *bytes;	/* ECHO_MARK, and what was read; NULL: nothing yet */
};

static int echo_poll, echo_listener;
static atomic_ulong echo_count;

static void echo_end(struct echo *e)
{
	close(e->fd);
	free(e->bytes);
	free(e);
}

static void echo_take(struct echo *e, const char *bytes, size_t len)
{
	if (!e->bytes) {
		e->bytes = malloc(MARK + len);
		e->len = MARK;
		memcpy(e->bytes, ECHO_MARK, MARK);
	} else {
		e->bytes = realloc(e->bytes, e->len + len);
	}
	if (!e->bytes)
		err(1, "memory");
	memcpy(e->bytes + e->len, bytes, len);
	e->len += len;
}

/* False: it is gone. */
static bool echo_read(struct echo *e)
{
	char bytes[16384];
	ssize_t n;

	while ((n = read(e->fd, bytes, sizeof(bytes))) > 0)
		echo_take(e, bytes, n);
	if (n < 0)
		return errno == EAGAIN;
	e->ended = true;
	return true;
}

static bool echo_is_asked(const struct echo *e)
{
	static const char begin[] = "GET /server ";

	return e->len > MARK + sizeof(begin) + 4 &&
	       !memcmp(e->bytes + MARK, begin, sizeof(begin) - 1) &&
	       !memcmp(e->bytes + e->len - 4, "\r\n\r\n", 4);
}

/* False: it is over. */
static bool echo_write(struct echo *e)
{
	ssize_t n;

	if (echo_is_asked(e)) {
		e->len = MARK;
		return write(e->fd, ECHO_ANSWER, sizeof(ECHO_ANSWER) - 1) > 0;
	}
	if (!e->ended)
		return true;
	if (!e->bytes)
		echo_take(e, "", 0);
	while (e->sent < e->len) {
		n = write(e->fd, e->bytes + e->sent, e->len - e->sent);
		if (n < 0)
			return errno == EAGAIN;
		e->sent += n;
	}
	return false;
}

static void echo_accept(void)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLOUT | EPOLLET };
	struct echo *e;
	int fd;

	while ((fd = accept4(echo_listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
		e = calloc(1, sizeof(*e));
		if (!e)
			err(1, "memory");
		e->fd = fd;
		ev.data.ptr = e;
		if (epoll_ctl(echo_poll, EPOLL_CTL_ADD, fd, &ev))
			err(1, "epoll_ctl");
		atomic_fetch_add(&echo_count, 1);
	}
	if (errno != EAGAIN && errno != ECONNABORTED)
		err(1, "accept");
}

static void *echo_run(void *arg)
{
	struct epoll_event ev[64];
	int i, n;

	(void)arg;
	for (;;) {
		n = epoll_wait(echo_poll, ev, 64, -1);
		for (i = 0; i < n; i++) {
			struct echo *e = ev[i].data.ptr;

			if (!e)
				echo_accept();
			else if (!echo_read(e) || !echo_write(e))
				echo_end(e);
		}
	}
	return NULL;
}

unsigned long echo_accepted(void)
{
	return atomic_load(&echo_count);
}

void echo_serve(const struct sockaddr_in *at)
{
	struct epoll_event ev = { .events = EPOLLIN };
	pthread_t thread;
	int one = 1;

	signal(SIGPIPE, SIG_IGN);
	echo_poll = epoll_create1(EPOLL_CLOEXEC);
	echo_listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (echo_poll < 0 || echo_listener < 0 ||
	    setsockopt(echo_listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) ||
	    bind(echo_listener, (const struct sockaddr *)at, sizeof(*at)) ||
	    listen(echo_listener, 4096) ||
	    epoll_ctl(echo_poll, EPOLL_CTL_ADD, echo_listener, &ev) ||
	    pthread_create(&thread, NULL, echo_run, NULL))
		err(1, "server");
}

void echo_room(void)
{
	struct rlimit limit, more = { 65536, 65536 };

	if (getrlimit(RLIMIT_NOFILE, &limit))
		err(1, "getrlimit");
	if (limit.rlim_max < more.rlim_max && !setrlimit(RLIMIT_NOFILE, &more))
		return;
	limit.rlim_cur = limit.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &limit))
		err(1, "setrlimit");
}
