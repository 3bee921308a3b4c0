// SPDX-License-Identifier: GPL-2.0
/*
 * afpa_crowd PORT: a server of its own at 127.0.0.1:PORT, and crowds of clients by lines of
 * standard input, each answered by a line that says how many connections there are:
 *
 *	silent N	say nothing
 *	half N		say half a request, of which each "step" adds a byte
 *	large N		ask for /large, with little room for it, and take nothing; a "step" takes a
 *			byte of each tenth
 *	flood N BYTES	send fields without an end
 *	step
 *	reset		how many of them the server's side has reset
 *	gone		all leave
 */
#include <err.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "echo.h"

#define MOST	60000

enum kind { SILENT, HALF, LARGE, FLOOD };

static struct client {
	int fd;
	enum kind kind;
} clients[MOST];
static unsigned int nr;
static unsigned long all;	/* that ever came */
static struct sockaddr_in at = { .sin_family = AF_INET };

static const char *const kinds[] = { "silent", "half", "large", "flood" };
static const char half[] = "GET /large HTTP/1.1\r\nHost: h\r\nX: ";
static const char whole[] = "GET /large HTTP/1.1\r\nHost: h\r\n\r\n";

static void say(int fd, const char *text, size_t len)
{
	if (send(fd, text, len, MSG_NOSIGNAL) != (ssize_t)len)
		err(1, "send");
}

static void flood(int fd, unsigned long bytes)
{
	static const char field[] = "X-Flood: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n";
	unsigned long sent = 0;

	say(fd, half, sizeof(half) - 1);
	say(fd, "\r\n", 2);
	while (sent < bytes) {
		ssize_t n = send(fd, field, sizeof(field) - 1, MSG_NOSIGNAL);

		if (n <= 0)
			err(1, "flood");
		sent += n;
	}
}

static void come(enum kind kind)
{
	struct client *c = &clients[nr];
	int few = 2304;

	if (nr == MOST)
		errx(1, "more than %u", MOST);
	c->kind = kind;
	c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (c->fd < 0)
		err(1, "socket");
	if (kind == LARGE)
		setsockopt(c->fd, SOL_SOCKET, SO_RCVBUF, &few, sizeof(few));
	if (connect(c->fd, (struct sockaddr *)&at, sizeof(at)))
		err(1, "connect %u", nr);
	nr++;
	all++;
}

/* A server that comes to a connection late would find the beginning of a request, and have it. */
static void come_and_speak(enum kind kind, unsigned long count, unsigned long bytes)
{
	unsigned int i = nr;

	while (count--)
		come(kind);
	while (echo_accepted() < all)
		usleep(1000);
	for (; i < nr; i++) {
		if (kind == HALF)
			say(clients[i].fd, half, sizeof(half) - 1);
		else if (kind == LARGE)
			say(clients[i].fd, whole, sizeof(whole) - 1);
		else if (kind == FLOOD)
			flood(clients[i].fd, bytes);
	}
}

static void step(void)
{
	unsigned int i;
	char byte;

	for (i = 0; i < nr; i++) {
		if (clients[i].kind == HALF)
			say(clients[i].fd, "x", 1);
		else if (clients[i].kind == LARGE && i % 10 == 0)
			recv(clients[i].fd, &byte, 1, MSG_DONTWAIT);
	}
}

static unsigned int resets(void)
{
	unsigned int i, count = 0;

	for (i = 0; i < nr; i++) {
		struct pollfd p = { .fd = clients[i].fd };

		count += poll(&p, 1, 0) == 1 && p.revents & POLLERR;
	}
	return count;
}

static void leave(void)
{
	while (nr)
		close(clients[--nr].fd);
}

int main(int argc, char **argv)
{
	unsigned long count, bytes;
	char line[100], word[20];
	unsigned int i;

	if (argc != 2)
		errx(2, "usage: afpa_crowd PORT");
	at.sin_port = htons(atoi(argv[1]));
	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	echo_room();
	echo_serve(&at);
	puts("0");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		unsigned int says;

		count = 0;
		bytes = 0;
		if (sscanf(line, "%19s %lu %lu", word, &count, &bytes) < 1)
			errx(2, "what is %s", line);
		for (i = 0; i < 4 && strcmp(word, kinds[i]); i++)
			;
		if (!strcmp(word, "step"))
			step();
		else if (!strcmp(word, "gone"))
			leave();
		else if (i == 4 && strcmp(word, "reset"))
			errx(2, "what is %s", line);
		if (i < 4)
			come_and_speak(i, count, bytes);
		says = strcmp(word, "reset") ? nr : resets();
		printf("%u\n", says);
		fflush(stdout);
	}
	return 0;
}
