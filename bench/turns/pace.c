// SPDX-License-Identifier: GPL-2.0
/*
 * pace: requests at a constant rate, whatever the answers take.
 *
 *	pace [-c CONNECTIONS] [-r RATE] [-t SECONDS] ADDRESS PORT PATH
 *
 * Request number n is due n / RATE seconds after the start, on connection n modulo CONNECTIONS, which is kept.
 * A request that is due in the midst of an answer waits for its end, and that wait counts: latency runs from when
 * it was due. So a server that stands still is charged for all requests that came meanwhile, not for one.
 * What is due in the last moments is waited for. Prints a line of JSON, times in microseconds.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "../program.h"

#define HEAD_MAX	4096
#define PATIENCE	30	/* seconds */

/**
 * struct client - a kept connection
 * @fd:    its socket
 * @next:  number of the request that it sends next
 * @asked: a request is under way
 * @have:  bytes of the head in @head
 * @left:  bytes of the body to come; -1: the head is not complete
 */
struct client {
	int fd;
	uint64_t next;
	bool asked;
	size_t have;
	long left;
	char head[HEAD_MAX + 1];
};

static struct client *clients;
static unsigned int connections = 8;
static double rate = 1000;
static char request[1024];
static uint64_t start, total, done;
static uint32_t *latency;	/* of each answer, microseconds */

static uint64_t due(uint64_t number)
{
	return start + number / rate * SECOND;
}

static void ask(struct client *c)
{
	ssize_t n = send(c->fd, request, strlen(request), MSG_NOSIGNAL);

	if (n != (ssize_t)strlen(request))
		die("cannot send: %s", n < 0 ? strerror(errno) : "no room for a request");
	c->asked = true;
	c->have = 0;
	c->left = -1;
}

static void answered(struct client *c)
{
	uint64_t us = (now() - due(c->next)) / 1000;

	latency[done++] = us < UINT32_MAX ? us : UINT32_MAX;
	c->asked = false;
	c->next += connections;
}

/* The head is whole: how long is what follows? */
static void read_head(struct client *c, const char *end)
{
	const char *length = strcasestr(c->head, "\r\nContent-Length:");

	if (strncmp(c->head, "HTTP/1.1 200", 12) || !length || length > end)
		die("not an answer of known length: %.*s", 64, c->head);
	c->left = strtol(length + 17, NULL, 10) - (long)(c->have - (end + 4 - c->head));
	if (c->left < 0)
		die("more than was promised");
}

static void receive(struct client *c)
{
	static char sink[1 << 18];

	while (c->asked) {
		bool head = c->left < 0;
		size_t room = head ? HEAD_MAX - c->have :
			      (size_t)c->left < sizeof(sink) ? (size_t)c->left : sizeof(sink);
		ssize_t n = recv(c->fd, head ? c->head + c->have : sink, room, MSG_DONTWAIT);
		const char *end;

		if (n < 0 && errno == EAGAIN)
			return;
		if (n <= 0)
			die("connection ended: %s", n ? strerror(errno) : "by the server");
		if (head) {
			c->have += n;
			c->head[c->have] = 0;
			end = strstr(c->head, "\r\n\r\n");
			if (end)
				read_head(c, end);
			else if (c->have == HEAD_MAX)
				die("a head without end");
		} else {
			c->left -= n;
		}
		if (!c->left)
			answered(c);
	}
}

static void connect_all(const char *address, const char *port, int epoll)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(atoi(port)) };
	unsigned int i;
	int one = 1;

	if (inet_pton(AF_INET, address, &to.sin_addr) != 1)
		die("no address: %s", address);
	for (i = 0; i < connections; i++) {
		struct client *c = &clients[i];
		struct epoll_event event = { .events = EPOLLIN | EPOLLET, .data.ptr = c };

		c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (c->fd < 0 || connect(c->fd, (struct sockaddr *)&to, sizeof(to)))
			die("cannot connect: %s", strerror(errno));
		setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
		epoll_ctl(epoll, EPOLL_CTL_ADD, c->fd, &event);
		c->next = i;
	}
}

/* Those that are idle and due; when the next one is. */
static uint64_t ask_due(uint64_t *turn)
{
	uint64_t at = now();

	/* Requests are due in the order of their numbers; who is busy asks when he is not. */
	for (; *turn < total && due(*turn) <= at; ++*turn) {
		struct client *c = &clients[*turn % connections];

		if (!c->asked && c->next == *turn)
			ask(c);
	}
	return *turn < total ? due(*turn) : at + PATIENCE * SECOND;
}

static void run(int epoll)
{
	struct epoll_event events[256];
	uint64_t turn = 0, heard = now();
	int i, n;

	start = now();
	while (done < total) {
		uint64_t next = ask_due(&turn), at = now(), left = next > at ? next - at : 0;
		struct timespec ts = { left / SECOND, left % SECOND };

		n = epoll_pwait2(epoll, events, 256, &ts, NULL);
		for (i = 0; i < n; i++) {
			struct client *c = events[i].data.ptr;

			receive(c);
			while (!c->asked && c->next < turn) {
				ask(c);
				receive(c);
			}
		}
		if (n > 0)
			heard = now();
		else if (now() - heard > PATIENCE * SECOND)
			die("no answer for %d s", PATIENCE);
	}
}

static int by_value(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

static uint32_t percentile(double share)
{
	return latency[(uint64_t)(share * (total - 1) + .5)];
}

int main(int argc, char **argv)
{
	double seconds = 2;
	int option, epoll;

	while ((option = getopt(argc, argv, "c:r:t:")) != -1) {
		switch (option) {
		case 'c':
			connections = strtoul(optarg, NULL, 10);
			break;
		case 'r':
			rate = strtod(optarg, NULL);
			break;
		case 't':
			seconds = strtod(optarg, NULL);
			break;
		default:
			die("usage: pace [-c CONNECTIONS] [-r RATE] [-t SECONDS] ADDRESS PORT PATH");
		}
	}
	if (argc - optind != 3 || !connections || !(rate > 0) || !(rate * seconds >= 1) ||
	    rate * seconds > 1e8)
		die("usage: pace [-c CONNECTIONS] [-r RATE] [-t SECONDS] ADDRESS PORT PATH");
	total = rate * seconds;
	clients = calloc(connections, sizeof(*clients));
	latency = calloc(total, sizeof(*latency));
	epoll = epoll_create1(EPOLL_CLOEXEC);
	if (!clients || !latency || epoll < 0)
		die("no memory");
	snprintf(request, sizeof(request), "GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", argv[optind + 2],
		 argv[optind]);
	connect_all(argv[optind], argv[optind + 1], epoll);
	run(epoll);
	qsort(latency, total, sizeof(*latency), by_value);
	printf("{\"requests\": %llu, \"seconds\": %.3f, \"p50\": %u, \"p99\": %u, \"p99.9\": %u, \"max\": %u}\n",
	       (unsigned long long)total, (now() - start) / 1e9, percentile(.5), percentile(.99),
	       percentile(.999), latency[total - 1]);
	return 0;
}
