// SPDX-License-Identifier: GPL-2.0
/*
 * load: a fixed number of requests, so that two runs do the same work.
 *
 *	load [-n REQUESTS] [-c CONNECTIONS] [-k] ADDRESS PORT PATH
 *
 * Each of CONNECTIONS sends its next request when the answer to the last is complete; with -k on
 * the same connection, without it on a new one ("Connection: close"). Every answer must be a 200
 * of the length it promises. Prints the number of requests.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define HEAD_MAX	4096
#define SECONDS		60

/**
 * struct client - one connection at a time
 * @fd:   its socket
 * @have: bytes of the head in @head
 * @left: bytes of the body to come; -1: the head is not complete
 */
struct client {
	int fd;
	size_t have;
	long left;
	char head[HEAD_MAX + 1];
};

static struct sockaddr_in to = { .sin_family = AF_INET };
static unsigned long wanted = 10000, begun, done;
static char request[1024];
static bool keep;
static int epoll;

__attribute__((format(printf, 1, 2), noreturn)) static void die(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fputs("load: ", stderr);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
	va_end(args);
	exit(1);
}

static void ask(struct client *c)
{
	c->have = 0;
	c->left = -1;
	if (send(c->fd, request, strlen(request), MSG_NOSIGNAL) != (ssize_t)strlen(request))
		die("send: %s", strerror(errno));
}

/* In progress until the socket is writable, which is when the request goes out. */
static void connect_anew(struct client *c)
{
	static const struct linger reset = { .l_onoff = 1 };
	static const int on = 1;
	struct epoll_event e = { .events = EPOLLOUT, .data.ptr = c };

	begun++;
	c->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (c->fd < 0)
		die("socket: %s", strerror(errno));
	setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	/* Kept connections end by a RST: no TIME_WAIT keeps their ports. */
	if (keep)
		setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	if (connect(c->fd, (struct sockaddr *)&to, sizeof(to)) && errno != EINPROGRESS)
		die("connect: %s", strerror(errno));
	if (epoll_ctl(epoll, EPOLL_CTL_ADD, c->fd, &e))
		die("epoll: %s", strerror(errno));
}

static void connected(struct client *c)
{
	struct epoll_event e = { .events = EPOLLIN, .data.ptr = c };
	socklen_t len = sizeof(int);
	int error = 0;

	if (getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &len) || error)
		die("connect: %s", strerror(error));
	if (epoll_ctl(epoll, EPOLL_CTL_MOD, c->fd, &e))
		die("epoll: %s", strerror(errno));
	ask(c);
}

static void answered(struct client *c)
{
	done++;
	if (!keep)
		return;	/* the server closes, and that is when the next one begins */
	if (begun < wanted) {
		begun++;
		ask(c);
	} else {
		close(c->fd);
	}
}

static void closed(struct client *c)
{
	if (keep || c->left)
		die("the connection ended within answer %lu", done);
	close(c->fd);
	if (begun < wanted)
		connect_anew(c);
}

/* The head is complete, @body bytes of what was read are behind it. */
static void headed(struct client *c, size_t body)
{
	char *length = strcasestr(c->head, "\r\nContent-Length:");

	if (strncmp(c->head, "HTTP/1.1 200", 12) || !length)
		die("not an answer to use: %.60s", c->head);
	c->left = atol(length + 17) - (long)body;
	if (c->left < 0)
		die("a body longer than promised");
}

static void readable(struct client *c)
{
	static char body[1 << 18];
	ssize_t n;
	char *end;

	if (c->left < 0) {
		n = recv(c->fd, c->head + c->have, HEAD_MAX - c->have, 0);
		if (n > 0) {
			c->have += n;
			c->head[c->have] = '\0';
			end = strstr(c->head, "\r\n\r\n");
			if (end)
				headed(c, c->have - (end + 4 - c->head));
			else if (c->have == HEAD_MAX)
				die("a head without end");
		}
	} else {
		n = recv(c->fd, body, sizeof(body), 0);
		if (n > c->left)
			die("a body longer than promised");
		if (n > 0)
			c->left -= n;
	}
	if (n < 0 && errno != EAGAIN)
		die("recv: %s", strerror(errno));
	if (n > 0 && !c->left)
		answered(c);
	else if (!n)
		closed(c);
}

int main(int argc, char **argv)
{
	unsigned long connections = 8;
	struct epoll_event events[64];
	struct client *clients;
	int opt, n;

	while ((opt = getopt(argc, argv, "n:c:k")) != -1) {
		if (opt == 'n')
			wanted = strtoul(optarg, NULL, 10);
		else if (opt == 'c')
			connections = strtoul(optarg, NULL, 10);
		else if (opt == 'k')
			keep = true;
		else
			argc = 0;
	}
	if (argc - optind != 3 || !wanted || !connections || wanted < connections ||
	    inet_pton(AF_INET, argv[optind], &to.sin_addr) != 1) {
		fputs("usage: load [-n REQUESTS] [-c CONNECTIONS] [-k] ADDRESS PORT PATH\n", stderr);
		return 2;
	}
	to.sin_port = htons(atoi(argv[optind + 1]));
	snprintf(request, sizeof(request), "GET %s HTTP/1.1\r\nHost: %s\r\n%s\r\n", argv[optind + 2],
		 argv[optind], keep ? "" : "Connection: close\r\n");
	epoll = epoll_create1(EPOLL_CLOEXEC);
	clients = calloc(connections, sizeof(*clients));
	if (epoll < 0 || !clients)
		die("%s", strerror(errno));
	for (unsigned long i = 0; i < connections; i++)
		connect_anew(&clients[i]);
	while (done < wanted) {
		n = epoll_wait(epoll, events, 64, SECONDS * 1000);
		if (n <= 0 && errno != EINTR)
			die("nothing for %d s after %lu answers", SECONDS, done);
		for (int i = 0; i < n; i++) {
			struct client *c = events[i].data.ptr;

			if (events[i].events & EPOLLOUT)
				connected(c);
			else
				readable(c);
		}
	}
	printf("%lu\n", done);
	return 0;
}
