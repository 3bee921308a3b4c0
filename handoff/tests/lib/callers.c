// SPDX-License-Identifier: GPL-2.0
/*
 * Clients of handoff-passer: each sends a piece of noise, and compares what comes back with it,
 * byte by byte. Some have room for a few hundred bytes only, some stop reading for a while, some
 * give up amid all that; the others end their side, and then the last byte must be followed by the
 * end of the connection.
 *
 *	handoff-callers ADDRESS PORT CONNECTIONS PARALLEL SEED ABORTS
 *
 * ABORTS is how many of 1000 give up. Prints JSON; fails when a byte was wrong or missing, a
 * connection was reset, or one made no progress for STALLED_MS (environment; a minute). SIGUSR1:
 * no more connections begin.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "program.h"

#define NOISE		(4 << 20)
#define SMALLEST	10	/* up to 2^10 bytes in one connection, or 2^11, ... */
#define LARGEST		19
#define NARROW_MAX	32768
#define NARROW_READ	512

struct conn {
	int fd;
	const char *noise;		/* what it sends */
	size_t total, sent, got, give_up_at;	/* the last: 0 is never */
	bool narrow, pausing;
	uint32_t watched;
	unsigned long begun_ms, moved_ms, pause_ms;
	struct conn *next, **link;
};

static struct {
	unsigned long ok, aborted, wrong, reset, stalled, narrow, pauses, slowest_ms;
	unsigned long long bytes;
} count;

static char noise[NOISE], inverted[NOISE];
static struct sockaddr_in to = { .sin_family = AF_INET };
static unsigned long started, total;
static unsigned int active, aborts;
static struct conn *all;
static int epoll_fd;
static unsigned long stalled_ms;

static void watch(struct conn *c, int how)
{
	struct epoll_event event = { .data.ptr = c };

	event.events = (c->pausing ? 0 : EPOLLIN) | (c->sent < c->total ? EPOLLOUT : 0);
	if (how == EPOLL_CTL_MOD && event.events == c->watched)
		return;
	c->watched = event.events;
	if (epoll_ctl(epoll_fd, how, c->fd, &event) < 0)
		die("epoll_ctl");
}

static void end(struct conn *c, unsigned long *why)
{
	(*why)++;
	if (why == &count.wrong || why == &count.reset || why == &count.stalled) {
		struct sockaddr_in me = { 0 };
		socklen_t len = sizeof(me);
		int error = errno;

		getsockname(c->fd, (void *)&me, &len);
		fprintf(stderr, "client port %u: %s, %zu of %zu bytes sent, %zu came, the last "
			"%lu s ago,%s %s\n", ntohs(me.sin_port), why == &count.wrong ? "wrong" :
			why == &count.reset ? "reset" : "stalled", c->sent, c->total, c->got,
			(lived_ms - c->moved_ms) / 1000, c->narrow ? " narrow," : "",
			error ? strerror(error) : "end of file");
	}
	close(c->fd);
	*c->link = c->next;
	if (c->next)
		c->next->link = c->link;
	free(c);
	active--;
}

static void end_well(struct conn *c)
{
	if (now_ms() - c->begun_ms > count.slowest_ms)
		count.slowest_ms = now_ms() - c->begun_ms;
	end(c, &count.ok);
}

static void give_up(struct conn *c)
{
	struct linger hard = { .l_onoff = 1 };

	if (draw(2))
		setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
	end(c, &count.aborted);
}

static void begin(void)
{
	struct conn *c = calloc(1, sizeof(*c));
	int room = 1;

	if (!c)
		die("calloc");
	c->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (c->fd < 0)
		die("socket");
	c->total = 1 + draw(1u << (SMALLEST + draw(LARGEST - SMALLEST + 1)));
	c->narrow = !draw(4);
	if (c->narrow) {
		count.narrow++;
		setsockopt(c->fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof(room));
		c->total = 1 + c->total % NARROW_MAX;
	}
	c->noise = noise + draw(NOISE - c->total);
	if (draw(1000) < aborts)
		c->give_up_at = 1 + draw(c->total);
	c->begun_ms = now_ms();
	c->moved_ms = lived_ms;
	c->next = all;
	c->link = &all;
	if (all)
		all->link = &c->next;
	all = c;
	active++;
	started++;
	if (connect(c->fd, (void *)&to, sizeof(to)) < 0 && errno != EINPROGRESS)
		die("connect");
	watch(c, EPOLL_CTL_ADD);
}

/* False: the connection has ended. */
static bool send_some(struct conn *c)
{
	ssize_t n = send(c->fd, c->noise + c->sent, c->total - c->sent, MSG_NOSIGNAL);

	if (n < 0) {
		if (errno == EAGAIN || errno == ENOTCONN)
			return true;
		end(c, &count.reset);
		return false;
	}
	c->sent += n;
	c->moved_ms = lived_ms;
	if (c->sent == c->total)
		shutdown(c->fd, SHUT_WR);
	return true;
}

static bool receive_some(struct conn *c)
{
	char data[65536];
	ssize_t n = recv(c->fd, data, c->narrow ? 1 + draw(NARROW_READ) : sizeof(data), 0);

	if (n < 0 && errno == EAGAIN)
		return true;
	if (n <= 0) {
		if (!n && c->got == c->total) {
			end_well(c);
			return false;
		}
		errno = n ? errno : 0;
		end(c, &count.reset);
		return false;
	}
	if (c->got + n > c->total || memcmp(inverted + (c->noise - noise) + c->got, data, n)) {
		end(c, &count.wrong);
		return false;
	}
	c->got += n;
	c->moved_ms = lived_ms;
	count.bytes += n;
	if (c->give_up_at && c->got >= c->give_up_at) {
		give_up(c);
		return false;
	}
	/* Its window closes meanwhile. */
	if (!draw(c->narrow ? 16 : 32)) {
		c->pausing = true;
		c->pause_ms = now_ms() + draw(draw(8) ? 50 : 1000);
		count.pauses++;
	}
	return true;
}

static void go_on(struct conn *c, uint32_t events)
{
	if (c->sent < c->total && events & (EPOLLOUT | EPOLLERR | EPOLLHUP) && !send_some(c))
		return;
	/* Both sides have ended, or it is broken: that would be told again and again. */
	if (events & (EPOLLERR | EPOLLHUP))
		c->pausing = false;
	if (!c->pausing && events & ~EPOLLOUT && !receive_some(c))
		return;
	watch(c, EPOLL_CTL_MOD);
}

static void tick(void)
{
	unsigned long ms = now_ms();
	struct conn *c, *next;

	for (c = all; c; c = next) {
		next = c->next;
		if (c->pausing && ms >= c->pause_ms) {
			c->pausing = false;
			watch(c, EPOLL_CTL_MOD);
		}
		if (lived_ms - c->moved_ms > stalled_ms) {
			errno = 0;
			end(c, &count.stalled);
		}
	}
}

static volatile sig_atomic_t enough;

static void no_more(int number)
{
	(void)number;
	enough = 1;
}

int main(int argc, char **argv)
{
	struct sigaction action = { .sa_handler = no_more };
	struct epoll_event ready;
	unsigned int parallel;
	int timer;

	if (argc != 7 || inet_pton(AF_INET, argv[1], &to.sin_addr) != 1) {
		fprintf(stderr, "usage: handoff-callers ADDRESS PORT CONNECTIONS PARALLEL SEED "
			"ABORTS\n");
		return 2;
	}
	to.sin_port = htons(atoi(argv[2]));
	total = strtoul(argv[3], NULL, 10);
	parallel = strtoul(argv[4], NULL, 10);
	draw_from(strtoull(argv[5], NULL, 10));
	aborts = strtoul(argv[6], NULL, 10);
	stalled_ms = patience_ms();
	for (size_t i = 0; i < NOISE; i++) {
		noise[i] = draw(256);
		inverted[i] = ~noise[i];
	}
	epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	timer = tick_start(epoll_fd);
	sigaction(SIGUSR1, &action, NULL);
	while (started < total || active) {
		if (enough)
			total = started;
		while (started < total && active < parallel)
			begin();
		/* One by one: an end may free what a second event is of. */
		if (epoll_wait(epoll_fd, &ready, 1, -1) <= 0)
			continue;
		if (ready.data.ptr) {
			go_on(ready.data.ptr, ready.events);
			continue;
		}
		tick_passed(timer);
		tick();
	}
	printf("{\"seed\": %s, \"connections\": %lu, \"ok\": %lu, \"aborted\": %lu, "
	       "\"wrong\": %lu, \"reset\": %lu, \"stalled\": %lu, \"narrow\": %lu, "
	       "\"pauses\": %lu, \"bytes\": %llu, \"slowest_ms\": %lu}\n", argv[5], started,
	       count.ok, count.aborted, count.wrong, count.reset, count.stalled, count.narrow,
	       count.pauses, count.bytes, count.slowest_ms);
	return count.wrong || count.reset || count.stalled;
}
