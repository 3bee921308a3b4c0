// SPDX-License-Identifier: GPL-2.0
/*
 * The smallest dispatcher: accepts, waits for a whole request header, hands the
 * connection to the node that the path names (/2/x: the third node given) or to
 * the next one in turn, tries the others when one refuses, says 503 when all do.
 *
 *	handoff-dispatch [-il] [-t MS] ADDRESS PORT NODE-ID...
 *
 * On SIGTERM it stops accepting, waits for what is under way and prints what it
 * has done as JSON.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "handoff.h"
#include "program.h"

#define NODES_MAX	16
#define HEADER_MAX	8192

struct conn {
	int fd;
	unsigned int node;	/* index of the node tried */
	unsigned int tries;
};

static struct {
	unsigned long accepted, done, failed, closed, lost, idle, busy, refused, dropped;
	unsigned long usec, usec_max;
} count;

static struct handoff *device;
static uint32_t nodes[NODES_MAX];
static unsigned int nr_nodes, turn;
static uint32_t flags, timeout_ms;
static int epoll_fd;
static unsigned long open_conns;

/* Values of epoll_event.data.u64 below any pointer. */
enum { ON_LISTENER = 1, ON_DEVICE, ON_SIGNAL };

static void watch(int fd, uint32_t events, uint64_t data)
{
	struct epoll_event event = { .events = events, .data.u64 = data };

	if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0)
		die("epoll_ctl");
}

static void drop(struct conn *c)
{
	close(c->fd);
	free(c);
	open_conns--;
}

static void refuse(struct conn *c)
{
	static const char answer[] = "HTTP/1.1 503 Service Unavailable\r\n"
				     "Content-Length: 0\r\nConnection: close\r\n\r\n";
	char request[HEADER_MAX];

	count.refused++;
	(void)!recv(c->fd, request, sizeof(request), MSG_DONTWAIT);
	(void)!send(c->fd, answer, sizeof(answer) - 1, MSG_DONTWAIT | MSG_NOSIGNAL);
	drop(c);
}

/* Hand it to one of the nodes not tried yet. */
static void give(struct conn *c)
{
	enum flt_refusal why;

	for (; c->tries < nr_nodes; c->tries++) {
		c->node = (c->node + 1) % nr_nodes;
		/* Out of epoll while it is under way: its bytes are not ours to read. */
		epoll_ctl(epoll_fd, EPOLL_CTL_DEL, c->fd, NULL);
		if (!handoff_submit(device, c->fd, nodes[c->node], (uintptr_t)c, flags, timeout_ms,
				    &why)) {
			c->tries++;
			return;
		}
		count.failed++;
		/* The client reset it after the request was whole: nobody is left to answer. */
		if (why == FLT_REFUSE_STATE) {
			count.dropped++;
			drop(c);
			return;
		}
	}
	refuse(c);
}

static void request(struct conn *c, uint32_t how)
{
	char head[HEADER_MAX + 1];
	ssize_t len = recv(c->fd, head, HEADER_MAX, MSG_PEEK | MSG_DONTWAIT);
	const char *path;

	if (len < 0 && errno == EAGAIN)
		return;
	if (len <= 0) {
		count.dropped++;
		drop(c);
		return;
	}
	head[len] = 0;
	if (!strstr(head, "\r\n\r\n")) {
		if (len == HEADER_MAX) {
			refuse(c);
		} else if (how & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) {
			count.dropped++;
			drop(c);
		}
		return;
	}
	path = strchr(head, ' ');
	if (path && path[1] == '/' && path[2] >= '0' && path[2] <= '9' && path[3] == '/')
		c->node = (path[2] - '0' + nr_nodes - 1) % nr_nodes;
	else
		c->node = turn++ % nr_nodes;
	c->tries = 0;
	give(c);
}

static void accept_all(int listener)
{
	struct conn *c;
	int fd;

	while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
		c = calloc(1, sizeof(*c));
		if (!c)
			die("calloc");
		c->fd = fd;
		count.accepted++;
		open_conns++;
		watch(fd, EPOLLIN | EPOLLRDHUP | EPOLLET, (uintptr_t)c);
	}
}

static void event(const struct hof_event *e)
{
	struct conn *c = (struct conn *)(uintptr_t)e->cookie;

	switch (e->type) {
	case HOF_EVENT_DONE:
		count.done++;
		count.usec += e->usec;
		if (e->usec > count.usec_max)
			count.usec_max = e->usec;
		drop(c);
		break;
	case HOF_EVENT_FAILED:
		count.failed++;
		if (e->refusal == FLT_REFUSE_CHANGED)
			c->tries--;	/* the client sent more: the same node will do */
		give(c);
		break;
	case HOF_EVENT_CLOSED:
		count.closed++;
		count.lost += e->refusal == FLT_REFUSE_NODEDOWN;
		break;
	case HOF_EVENT_IDLE:
		count.idle++;
		break;
	case HOF_EVENT_BUSY:
		count.busy++;
		break;
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
	printf("{\"accepted\": %lu, \"done\": %lu, \"failed\": %lu, \"closed\": %lu, \"lost\": %lu, "
	       "\"idle\": %lu, \"busy\": %lu, \"refused\": %lu, \"dropped\": %lu, \"open\": %lu, "
	       "\"usec_mean\": %lu, \"usec_max\": %lu}\n", count.accepted, count.done, count.failed,
	       count.closed, count.lost, count.idle, count.busy, count.refused, count.dropped,
	       open_conns, count.done ? count.usec / count.done : 0, count.usec_max);
	fflush(stdout);
}

static void usage(void)
{
	fprintf(stderr, "usage: handoff-dispatch [-il] [-t MS] ADDRESS PORT NODE-ID...\n");
	exit(2);
}

static void options(int argc, char **argv)
{
	int c;

	while ((c = getopt(argc, argv, "ilt:")) != -1) {
		if (c == 'i')
			flags |= HOF_WANT_IDLE;
		else if (c == 'l')
			flags |= HOF_TELL_LATER;
		else if (c == 't')
			timeout_ms = atoi(optarg);
		else
			usage();
	}
	if (argc - optind < 3 || argc - optind - 2 > NODES_MAX)
		usage();
	for (int i = optind + 2; i < argc; i++)
		nodes[nr_nodes++] = atoi(argv[i]);
}

/* SIGUSR1 asks for the numbers so far, SIGTERM for the last ones. */
static bool ends(int fd)
{
	unsigned int taken = signal_taken(fd);

	if (taken == SIGUSR1)
		report();
	return taken == SIGTERM;
}

int main(int argc, char **argv)
{
	struct epoll_event ready[64];
	bool stop = false;
	int listener, signal_fd, n, err;

	options(argc, argv);
	err = handoff_open(&device);
	if (err) {
		fprintf(stderr, "handoff-dispatch: cannot open %s: %s\n", HOF_DEVICE, strerror(-err));
		return 1;
	}
	epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	signal_fd = signals();
	listener = listen_on(argv[optind], argv[optind + 1]);
	watch(listener, EPOLLIN, ON_LISTENER);
	watch(handoff_fd(device), EPOLLIN, ON_DEVICE);
	watch(signal_fd, EPOLLIN, ON_SIGNAL);
	while (!stop) {
		n = epoll_wait(epoll_fd, ready, 64, -1);
		for (int i = 0; i < n; i++) {
			uint64_t on = ready[i].data.u64;

			if (on == ON_LISTENER)
				accept_all(listener);
			else if (on == ON_DEVICE)
				continue;
			else if (on == ON_SIGNAL)
				stop = ends(signal_fd);
			else
				request((struct conn *)(uintptr_t)on, ready[i].events);
		}
		/* Last: an event may free a connection that this round has to look at. */
		events();
	}
	report();
	handoff_close(device);
	return 0;
}
