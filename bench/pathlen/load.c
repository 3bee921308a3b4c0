// SPDX-License-Identifier: GPL-2.0
/*
 * load: a fixed number of requests, so that two runs do the same work.
 *
 *	load [-n REQUESTS] [-c CONNECTIONS] [-k] [-t SUITE [-r FILE] [-s]] ADDRESS PORT PATH
 *
 * Each of CONNECTIONS sends its next request when the answer to the last is complete; with -k on
 * the same connection, without it on a new one ("Connection: close"). Every answer must be a 200
 * of the length it promises. Prints the number of requests. With -t by TLS 1.3 and that cipher suite, a
 * whole handshake each; with -r each resumes a session, the first of which the load before has left in FILE. With -s
 * nothing is asked for: after its handshake each says its end, and waits for the server's.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>
#include "secure.h"

#define HEAD_MAX	4096
#define SECONDS		60

/**
 * struct client - one connection at a time
 * @fd:   its socket
 * @ssl:  its TLS, or NULL; @shaken: the handshake is over; @ended: the server has said its end
 * @have: bytes of the head in @head
 * @left: bytes of the body to come; -1: the head is not complete
 */
struct client {
	int fd;
	SSL *ssl;
	bool shaken, ended;
	size_t have;
	long left;
	char head[HEAD_MAX + 1];
};

static struct sockaddr_in to = { .sin_family = AF_INET };
static unsigned long wanted = 10000, begun, done;
static char request[1024];
static bool keep, secure, silent;
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
	if (c->ssl ? !secure_write(c->ssl, request, strlen(request)) :
		     send(c->fd, request, strlen(request), MSG_NOSIGNAL) != (ssize_t)strlen(request))
		die("send: %s", strerror(errno));
}

static void say_nothing(struct client *c)
{
	secure_say_end(c->ssl);
	if (shutdown(c->fd, SHUT_WR))
		die("shutdown: %s", strerror(errno));
	/* What still comes is tickets and the server's word: nobody reads it. */
	c->ended = true;
	c->left = LONG_MAX;
}

/* Is the handshake over? Then the request is on its way. */
static bool shake(struct client *c)
{
	c->shaken = secure_shaken(c->ssl);
	if (c->shaken && silent)
		say_nothing(c);
	else if (c->shaken)
		ask(c);
	return c->shaken;
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
	if (secure) {
		c->ssl = secure_begin(c->fd);
		c->shaken = c->ended = false;
		shake(c);
	} else {
		ask(c);
	}
}

static void leave(struct client *c)
{
	secure_end(c->ssl);
	c->ssl = NULL;
	close(c->fd);
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
		leave(c);
	}
}

static void closed(struct client *c)
{
	if (silent && c->ended)
		done++;
	else if (keep || c->left)
		die("the connection ended within answer %lu", done);
	leave(c);
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

/* As recv(). Behind the end that TLS says comes that of TCP. */
static ssize_t receive(struct client *c, void *into, size_t len)
{
	ssize_t n;

	if (!c->ssl || c->ended)
		return recv(c->fd, into, len, 0);
	n = secure_read(c->ssl, into, len);
	if (n)
		return n;
	c->ended = true;
	return recv(c->fd, into, len, 0);
}

/* Was there something, of which there may be more that no event tells of? */
static bool read_some(struct client *c)
{
	static char body[1 << 18];
	ssize_t n;
	char *end;

	if (c->left < 0) {
		n = receive(c, c->head + c->have, HEAD_MAX - c->have);
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
		n = receive(c, body, sizeof(body));
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
	return n > 0 && c->ssl;
}

static void readable(struct client *c)
{
	if (c->ssl && !c->shaken && !shake(c))
		return;
	while (read_some(c))
		;
}

int main(int argc, char **argv)
{
	unsigned long connections = 8;
	const char *suite = NULL, *session = NULL;
	struct epoll_event events[64];
	struct client *clients;
	int opt, n;

	while ((opt = getopt(argc, argv, "n:c:kt:r:s")) != -1) {
		if (opt == 'n')
			wanted = strtoul(optarg, NULL, 10);
		else if (opt == 'c')
			connections = strtoul(optarg, NULL, 10);
		else if (opt == 'k')
			keep = true;
		else if (opt == 't')
			suite = optarg;
		else if (opt == 'r')
			session = optarg;
		else if (opt == 's')
			silent = true;
		else
			argc = 0;
	}
	if (argc - optind != 3 || !wanted || !connections || wanted < connections || ((session || silent) && !suite) ||
	    (silent && keep) ||
	    inet_pton(AF_INET, argv[optind], &to.sin_addr) != 1) {
		fputs("usage: load [-n REQUESTS] [-c CONNECTIONS] [-k] [-t SUITE [-r FILE] [-s]] ADDRESS PORT PATH\n",
		      stderr);
		return 2;
	}
	secure = suite;
	if (secure)
		secure_setup(suite, session);
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
	if (secure)
		secure_keep();
	printf("%lu\n", done);
	return 0;
}
