// SPDX-License-Identifier: MIT
/*
 * load origin PORT: answers requests of relay.h.
 * load client ADDRESS PORT SIZE CONNECTIONS SECONDS: asks for SIZE bytes again and again, checks
 * each answer's length; prints the number of answers after a warm-up, and the nanoseconds that
 * the machine's one CPU was not idle meanwhile. Where the guest's clock is QEMU's instruction
 * counter, these are the instructions of everything that happened.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "busy.h"
#include "relay.h"

#define MOST	1024
/* Answers of each connection that are not counted. */
#define WARM	4

static unsigned char buffer[1 << 18];
static struct pollfd fds[MOST];
static uint64_t left[MOST];
static struct relay_request heads[MOST];
static size_t head_left[MOST];

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static void nodelay(int fd)
{
	int one = 1;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

/* Sends what is left of the answer, the head first. */
static void origin_send(int i)
{
	while (head_left[i] || left[i]) {
		size_t n = left[i] < sizeof(buffer) ? left[i] : sizeof(buffer);
		ssize_t ret;

		if (head_left[i])
			ret = send(fds[i].fd, &heads[i], sizeof(heads[i]),
				   MSG_MORE | MSG_NOSIGNAL);
		else
			ret = send(fds[i].fd, buffer, n, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (ret < 0)
			break;
		if (head_left[i])
			head_left[i] = 0;
		else
			left[i] -= ret;
	}
	fds[i].events = left[i] ? POLLIN | POLLOUT : POLLIN;
}

__attribute__((noreturn)) static void origin(int port)
{
	struct sockaddr_in any = { .sin_family = AF_INET, .sin_port = htons(port) };
	int listener = socket(AF_INET, SOCK_STREAM, 0), one = 1, nr = 1, i;

	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(listener, (struct sockaddr *)&any, sizeof(any)) || listen(listener, MOST))
		die("listen");
	fds[0] = (struct pollfd) { .fd = listener, .events = POLLIN };
	for (;;) {
		if (poll(fds, nr, -1) < 0)
			die("poll");
		for (i = nr - 1; i > 0; i--) {
			struct relay_request r;
			ssize_t n;

			if (!fds[i].revents)
				continue;
			if (fds[i].revents & POLLIN && !left[i]) {
				n = read(fds[i].fd, &r, sizeof(r));
				if (n != sizeof(r) || r.magic != RELAY_MAGIC) {
					close(fds[i].fd);
					nr--;
					fds[i] = fds[nr];
					left[i] = left[nr];
					continue;
				}
				heads[i] = r;
				head_left[i] = sizeof(r);
				left[i] = r.size;
			}
			origin_send(i);
		}
		if (fds[0].revents && nr < MOST) {
			fds[nr] = (struct pollfd) { .fd = accept(listener, NULL, NULL), .events = POLLIN };
			nodelay(fds[nr].fd);
			left[nr] = 0;
			nr++;
		}
	}
}

static void ask(int i, uint32_t size)
{
	struct relay_request r = { RELAY_MAGIC, size };

	if (write(fds[i].fd, &r, sizeof(r)) != sizeof(r))
		die("write");
	left[i] = sizeof(r) + (uint64_t)size;
}

/* All connections ask and ask again, each at least @least times and for @seconds. Answers, or -1. */
static long ask_all(int nr, uint32_t size, int least, double seconds)
{
	double end = now() + seconds;
	int asked[MOST], i, busy = nr;
	long answers = 0;

	for (i = 0; i < nr; i++) {
		fds[i].events = POLLIN;
		ask(i, size);
		asked[i] = 1;
	}
	while (busy) {
		if (poll(fds, nr, 60000) <= 0) {
			fprintf(stderr, "load: stalled\n");
			return -1;
		}
		for (i = 0; i < nr; i++) {
			ssize_t n;

			if (!fds[i].revents)
				continue;
			n = recv(fds[i].fd, buffer, sizeof(buffer), MSG_DONTWAIT);
			if (n < 0 && errno == EAGAIN)
				continue;
			if (n <= 0 || (uint64_t)n > left[i]) {
				fprintf(stderr, "load: %zd bytes where %llu are missing\n", n,
					(unsigned long long)left[i]);
				return -1;
			}
			left[i] -= n;
			if (left[i])
				continue;
			answers++;
			if (asked[i] < least || now() < end) {
				ask(i, size);
				asked[i]++;
			} else {
				fds[i].events = 0;
				busy--;
			}
		}
	}
	return answers;
}

static int client(const char *address, int port, uint32_t size, int nr, double seconds)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(port) };
	unsigned long long before;
	long answers;
	int i;

	inet_aton(address, &to.sin_addr);
	for (i = 0; i < nr; i++) {
		fds[i] = (struct pollfd) { .fd = socket(AF_INET, SOCK_STREAM, 0) };
		if (connect(fds[i].fd, (struct sockaddr *)&to, sizeof(to)))
			die("connect");
		nodelay(fds[i].fd);
	}
	/* To the end before it is counted: of an answer under way part would be missing. */
	if (ask_all(nr, size, WARM, 0) < 0)
		return 1;
	before = busy_ns();
	answers = ask_all(nr, size, 1, seconds);
	if (answers < 0)
		return 1;
	printf("%ld %llu\n", answers, busy_ns() - before);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "origin"))
		origin(atoi(argv[2]));
	if (argc == 7 && !strcmp(argv[1], "client") && atoi(argv[5]) <= MOST)
		return client(argv[2], atoi(argv[3]), strtoul(argv[4], NULL, 0), atoi(argv[5]),
			      atof(argv[6]));
	fprintf(stderr, "usage: load origin PORT | load client ADDRESS PORT SIZE CONNECTIONS SECONDS\n");
	return 2;
}
