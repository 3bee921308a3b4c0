// SPDX-License-Identifier: GPL-2.0
/*
 * A server that keeps no connection for long: it sends back what comes, each byte inverted, and
 * gives the connection to another node amid all that, with whatever lies in its queues.
 *
 *	handoff-passer ADDRESS PORT SEED NODE-ID...
 *
 * One runs on each node, and knows nothing of a connection but its bytes, so that whoever has it
 * goes on with it. It closes when the client has ended its side. SIGUSR1: it passes none on from
 * here on. SIGTERM ends it. Both print what it has done as JSON.
 */
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "handoff.h"
#include "program.h"

#define NODES_MAX	16
#define PIECE		4096
#define TURNS		3
#define REASONS		128

struct conn {
	int fd;
	unsigned int turns;	/* so often it is served here before it goes on */
	size_t held, sent;	/* read, and not written yet: while there is some it stays */
	char *piece;
};

static struct {
	unsigned long accepted, submitted, moved, ended, lost, broken;
	unsigned long usec_max;
	unsigned long long usec, bytes;
	unsigned long reasons[REASONS];
} count;

static struct handoff *device;
static uint32_t nodes[NODES_MAX];
static unsigned int nr_nodes;
static unsigned long open_conns;
static int epoll_fd;
static bool settled;

/* Values of epoll_event.data.u64 below any pointer. */
enum { ON_LISTENER = 1, ON_DEVICE, ON_SIGNAL };

static void watch(int fd, uint32_t events, uint64_t data, int how)
{
	struct epoll_event event = { .events = events, .data.u64 = data };

	if (epoll_ctl(epoll_fd, how, fd, &event) < 0)
		die("epoll_ctl");
}

static void drop(struct conn *c)
{
	close(c->fd);
	free(c->piece);
	free(c);
	open_conns--;
}

/* False: it is under way, and not ours to touch. */
static bool stays(struct conn *c)
{
	enum flt_refusal why;

	if (settled || c->turns || c->held)
		return true;
	c->turns = 1 + draw(TURNS);
	if (!handoff_submit(device, c->fd, nodes[draw(nr_nodes)], (uintptr_t)c, 0, 0, &why)) {
		epoll_ctl(epoll_fd, EPOLL_CTL_DEL, c->fd, NULL);
		count.submitted++;
		return false;
	}
	count.reasons[why % REASONS]++;
	return true;
}

static void serve(struct conn *c)
{
	ssize_t n;

	if (!stays(c))
		return;
	if (!c->held) {
		n = recv(c->fd, c->piece, 1 + draw(PIECE), MSG_DONTWAIT);
		if (n < 0 && errno == EAGAIN)
			return;
		if (n <= 0) {
			/* It has ended its side: that, too, may be heard elsewhere. */
			if (!n && !settled && draw(2)) {
				c->turns = 0;
				if (!stays(c))
					return;
			}
			*(n ? &count.broken : &count.ended) += 1;
			drop(c);
			return;
		}
		for (ssize_t i = 0; i < n; i++)
			c->piece[i] = ~c->piece[i];
		c->held = n;
		c->sent = 0;
		count.bytes += n;
		c->turns -= !!c->turns;
	}
	n = send(c->fd, c->piece + c->sent, c->held - c->sent, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (n < 0 && errno != EAGAIN) {
		count.broken++;
		drop(c);
		return;
	}
	c->sent += n < 0 ? 0 : n;
	if (c->sent == c->held)
		c->held = 0;
	watch(c->fd, c->held ? EPOLLOUT : EPOLLIN, (uintptr_t)c, EPOLL_CTL_MOD);
	if (!c->held)
		stays(c);
}

static void accept_all(int listener)
{
	struct conn *c;
	int fd;

	while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
		c = calloc(1, sizeof(*c));
		if (c)
			c->piece = malloc(PIECE);
		if (!c || !c->piece)
			die("calloc");
		c->fd = fd;
		c->turns = draw(TURNS);
		count.accepted++;
		open_conns++;
		watch(fd, EPOLLIN, (uintptr_t)c, EPOLL_CTL_ADD);
	}
}

static void event(const struct hof_event *e)
{
	struct conn *c = (struct conn *)(uintptr_t)e->cookie;

	if (e->type == HOF_EVENT_DONE) {
		count.moved++;
		count.usec += e->usec;
		if (e->usec > count.usec_max)
			count.usec_max = e->usec;
		drop(c);
	} else if (e->type == HOF_EVENT_FAILED) {
		count.reasons[e->refusal % REASONS]++;
		watch(c->fd, EPOLLIN, (uintptr_t)c, EPOLL_CTL_ADD);
	} else if (e->type == HOF_EVENT_CLOSED) {
		count.lost += e->refusal == FLT_REFUSE_NODEDOWN;
	}
}

static void events(void)
{
	struct hof_event batch[64];
	int n;

	while ((n = handoff_events(device, batch, 64)) > 0)
		for (int i = 0; i < n; i++)
			event(&batch[i]);
}

static void report(void)
{
	printf("{\"accepted\": %lu, \"submitted\": %lu, \"moved\": %lu, \"ended\": %lu, "
	       "\"broken\": %lu, \"lost\": %lu, \"open\": %lu, \"bytes\": %llu, "
	       "\"usec_mean\": %llu, \"usec_max\": %lu, \"refused\": {", count.accepted,
	       count.submitted, count.moved, count.ended, count.broken, count.lost, open_conns,
	       count.bytes, count.moved ? count.usec / count.moved : 0, count.usec_max);
	for (int i = 0, some = 0; i < REASONS; i++)
		if (count.reasons[i])
			printf("%s\"%s\": %lu", some++ ? ", " : "", handoff_refusal_name(i),
			       count.reasons[i]);
	printf("}}\n");
	fflush(stdout);
}

static bool ends(int fd)
{
	unsigned int taken = signal_taken(fd);

	settled = true;
	report();
	return taken == SIGTERM;
}

int main(int argc, char **argv)
{
	struct epoll_event ready[64];
	int listener, signal_fd, n, err;
	bool stop = false;

	if (argc < 5 || argc > 4 + NODES_MAX) {
		fprintf(stderr, "usage: handoff-passer ADDRESS PORT SEED NODE-ID...\n");
		return 2;
	}
	draw_from(strtoull(argv[3], NULL, 10));
	for (int i = 4; i < argc; i++)
		nodes[nr_nodes++] = atoi(argv[i]);
	err = handoff_open(&device);
	if (err) {
		fprintf(stderr, "handoff-passer: cannot open %s: %s\n", HOF_DEVICE, strerror(-err));
		return 1;
	}
	epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	signal_fd = signals();
	listener = listen_on(argv[1], argv[2]);
	watch(listener, EPOLLIN, ON_LISTENER, EPOLL_CTL_ADD);
	watch(handoff_fd(device), EPOLLIN, ON_DEVICE, EPOLL_CTL_ADD);
	watch(signal_fd, EPOLLIN, ON_SIGNAL, EPOLL_CTL_ADD);
	while (!stop) {
		n = epoll_wait(epoll_fd, ready, 64, -1);
		for (int i = 0; i < n; i++) {
			uint64_t on = ready[i].data.u64;

			if (on == ON_LISTENER)
				accept_all(listener);
			else if (on == ON_SIGNAL)
				stop |= ends(signal_fd);
			else if (on != ON_DEVICE)
				serve((struct conn *)(uintptr_t)on);
		}
		/* Last: an event may free a connection that this round has to look at. */
		events();
	}
	handoff_close(device);
	return 0;
}
