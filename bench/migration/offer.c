// SPDX-License-Identifier: GPL-2.0
/*
 * offer: requests for files of four classes, and how each class is served.
 *
 *	offer [-r RATE | -n CLIENTS [-i SECONDS]] [-k REQUESTS] [-w SECONDS] [-t SECONDS] [-o SECONDS] [-f DIRECTORIES | -1 PATH]
 *	      [-d SHARE,SHARE...] [-s SEED] ADDRESS PORT
 *
 * -r: an open loop, as S-Clients: connections begin RATE times a second on average (a Poisson process), whatever the
 * servers do. -n: a closed loop, as WebStone: so many clients, each of which begins its next connection when the last
 * one has ended and it has thought for -i seconds on average. A connection has -k requests, one after the other. After
 * -o seconds without its next answer a client goes.
 *
 * Files are drawn from -f directories by the shares of web.h; -1: all ask for that path. -d: an outside dispatcher gives
 * connections to nodes in these shares, by turns: of node I's the socket mark is I, beginning with 1.
 *
 * Of what began -w seconds after the start, and for -t seconds, one line of JSON tells for each class how many requests
 * were answered, and after how many microseconds: from when it was due for a connection's first one, from when it was
 * sent for the others.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "../program.h"
#include "web.h"

#define HEAD_MAX	1024
#define NODES_MAX	8
#define CLIENTS_MAX	4000

/**
 * struct client - a connection
 * @fd:    its socket; -1: free
 * @next:  of the list of free ones
 * @left:  requests to come, with the one that is under way
 * @class: of the file that was asked for
 * @due:   when the request was due
 * @last:  when something came last
 * @asked: it was sent
 * @have:  bytes of the head in @head
 * @body:  bytes of the body to come; -1: the head is not complete
 */
struct client {
	int fd, next;
	unsigned int left, class;
	uint64_t due, last;
	bool asked;
	size_t have;
	long body;
	char path[32];
	char head[HEAD_MAX + 1];
};

/**
 * struct report - what became of the requests of a class
 * @answered: of those that were due in what is measured
 * @within:   answers that came in it, whenever they were due
 * @times:    of those that were answered, microseconds
 */
struct report {
	unsigned long answered, within, bytes, refused, reset, cut, late, unended;
	size_t room;
	uint32_t *times;
};

static struct client *clients;
static int free_clients = -1, epoll;
static unsigned int room, loop_clients, kept = 1, directories = 100;
static double rate, pause_s;
static uint64_t *thinking;	/* when those begin who think */
static unsigned int thinkers;
static unsigned int shares[NODES_MAX], nodes;
static int credits[NODES_MAX];
static const char *only;
static struct sockaddr_in address = { .sin_family = AF_INET };
static uint64_t first, last, patience = 60 * SECOND;
static struct report reports[CLASSES];
static unsigned long began, most, under_way;

static bool counts(const struct client *c)
{
	return c->due >= first && c->due < last;
}

/* Smooth weighted round robin: 33 and 67 come as evenly as they can. */
static int next_node(void)
{
	int best = 0, sum = 0;
	unsigned int i;

	for (i = 0; i < nodes; i++) {
		credits[i] += shares[i];
		sum += shares[i];
		if (credits[i] > credits[best])
			best = i;
	}
	credits[best] -= sum;
	return best + 1;
}

static void choose(struct client *c)
{
	static const unsigned int share[CLASSES] = SHARES;
	unsigned int directory, number, n = drand48() * 100;

	if (only) {
		snprintf(c->path, sizeof(c->path), "%s", only);
		if (sscanf(only, "/%u/%u/%u", &directory, &c->class, &number) != 3 || c->class >= CLASSES)
			die("not a path: %s", only);
		return;
	}
	for (c->class = 0; n >= share[c->class]; c->class++)
		n -= share[c->class];
	snprintf(c->path, sizeof(c->path), "/%u/%u/%u", (unsigned int)(drand48() * directories), c->class,
		 1 + (unsigned int)(drand48() * FILES));
}

static void answered(struct client *c)
{
	struct report *r = &reports[c->class];
	uint64_t here = now();

	if (here >= first && here < last)
		r->within++;
	if (!counts(c))
		return;
	if (r->answered == r->room) {
		r->room = r->room ? r->room * 2 : 1024;
		r->times = realloc(r->times, r->room * sizeof(*r->times));
		if (!r->times)
			die("no memory");
	}
	r->times[r->answered++] = (here - c->due) / 1000;
}

static void think(uint64_t from)
{
	thinking[thinkers++] = from + (uint64_t)(-log(1 - drand48()) * pause_s * SECOND);
}

static void end(struct client *c, unsigned long *why)
{
	struct linger hard = { .l_onoff = 1 };

	if (why) {
		*why += counts(c);
		setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
	}
	close(c->fd);
	c->fd = -1;
	c->next = free_clients;
	free_clients = c - clients;
	under_way--;
	if (loop_clients)
		think(now());
}

static void request(struct client *c, uint64_t due)
{
	choose(c);
	c->due = due;
	c->last = now();
	c->asked = false;
	c->have = 0;
	c->body = -1;
}

static void send_request(struct client *c)
{
	char text[200];
	int n = snprintf(text, sizeof(text), "GET %s HTTP/1.1\r\nHost: site\r\n%s\r\n", c->path,
			 c->left == 1 ? "Connection: close\r\n" : "");

	if (send(c->fd, text, n, MSG_NOSIGNAL) != n)
		return end(c, &reports[c->class].reset);
	c->asked = true;
}

static void begin(uint64_t due)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLOUT };
	struct client *c;
	int mark;

	if (free_clients < 0)
		die("more than %u connections at once", room);
	c = &clients[free_clients];
	c->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (c->fd < 0)
		die("socket: %s", strerror(errno));
	free_clients = c->next;
	c->left = kept;
	if (nodes) {
		mark = next_node();
		if (setsockopt(c->fd, SOL_SOCKET, SO_MARK, &mark, sizeof(mark)))
			die("mark %d: %s", mark, strerror(errno));
	}
	began++;
	if (++under_way > most)
		most = under_way;
	request(c, due);
	if (connect(c->fd, (struct sockaddr *)&address, sizeof(address)) && errno != EINPROGRESS)
		return end(c, &reports[c->class].refused);
	event.data.u32 = c - clients;
	if (epoll_ctl(epoll, EPOLL_CTL_ADD, c->fd, &event))
		die("epoll: %s", strerror(errno));
}

/* Its head is complete: how long its body is. */
static bool learn(struct client *c)
{
	const char *length;
	char *body;

	c->head[c->have] = 0;
	body = strstr(c->head, "\r\n\r\n");
	if (!body)
		return c->have < HEAD_MAX;
	length = strstr(c->head, "Content-Length: ");
	if (strncmp(c->head, "HTTP/1.1 200 ", 13) || !length)
		return false;
	c->body = strtol(length + 16, NULL, 10) - (c->head + c->have - body - 4);
	return c->body >= 0;
}

static void hear(struct client *c)
{
	static char rest[1 << 16];
	struct report *r = &reports[c->class];
	ssize_t n;

	for (;;) {
		if (c->body < 0)
			n = recv(c->fd, c->head + c->have, HEAD_MAX - c->have, 0);
		else
			n = recv(c->fd, rest, sizeof(rest), 0);
		if (n < 0 && errno == EAGAIN)
			return;
		/* All has come; the server is the first to close, so that the client's port is free. */
		if (!c->left)
			return end(c, n > 0 ? &r->cut : n ? &r->reset : NULL);
		if (n <= 0)
			return end(c, n ? &r->reset : &r->cut);
		c->last = now();
		if (counts(c))
			r->bytes += n;
		if (c->body < 0) {
			c->have += n;
			if (!learn(c))
				return end(c, &r->cut);
		} else {
			c->body -= n;
		}
		if (c->body)
			continue;
		answered(c);
		if (!--c->left)
			continue;
		request(c, now());
		send_request(c);
		return;
	}
}

static void handle(struct client *c, uint32_t events)
{
	struct epoll_event event = { .events = EPOLLIN, .data.u32 = c - clients };

	if (!c->asked) {
		if (events & (EPOLLERR | EPOLLHUP))
			return end(c, &reports[c->class].refused);
		if (!(events & EPOLLOUT))
			return;
		if (epoll_ctl(epoll, EPOLL_CTL_MOD, c->fd, &event))
			die("epoll: %s", strerror(errno));
		send_request(c);
		return;
	}
	hear(c);
}

/* Who has thought begins; when the next one will have. */
static uint64_t begin_thought(uint64_t here)
{
	uint64_t next = UINT64_MAX;
	unsigned int i = 0;

	while (i < thinkers && here < last) {
		uint64_t due = thinking[i];

		if (due <= here) {
			thinking[i] = thinking[--thinkers];
			begin(due);
			continue;
		}
		next = due < next ? due : next;
		i++;
	}
	return next;
}

/* Who waits too long goes; once a tenth of a second. */
static void give_up(uint64_t here)
{
	static uint64_t looked;
	unsigned int i;

	if (here - looked < SECOND / 10)
		return;
	looked = here;
	for (i = 0; i < room; i++) {
		if (clients[i].fd >= 0 && here - clients[i].last > patience)
			end(&clients[i], &reports[clients[i].class].late);
	}
}

static void run(void)
{
	struct epoll_event events[256];
	uint64_t start = now(), here = start, next = start;
	unsigned int i;
	int n, j;

	first += start;
	last += start;
	for (i = 0; i < loop_clients; i++)
		think(here);
	while (here < last || under_way || (rate && next < last)) {
		if (loop_clients)
			next = begin_thought(here);
		while (rate && next <= here && next < last) {
			begin(next);
			next += -log(1 - drand48()) / rate * SECOND;
		}
		if (here > last + patience)
			break;
		n = epoll_wait(epoll, events, 256, here < last && next < here + SECOND / 20 ?
			       (int)((next > here ? next - here : 0) / 1000000) : 50);
		for (j = 0; j < n; j++) {
			if (clients[events[j].data.u32].fd >= 0)
				handle(&clients[events[j].data.u32], events[j].events);
		}
		here = now();
		give_up(here);
	}
	for (i = 0; i < room; i++) {
		if (clients[i].fd >= 0 && counts(&clients[i]))
			reports[clients[i].class].unended++;
	}
}

static int by_time(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

static void tell(double seconds)
{
	unsigned int i;
	size_t j;

	printf("{\"seconds\": %.1f, \"began\": %lu, \"most\": %lu, \"classes\": [", seconds, began, most);
	for (i = 0; i < CLASSES; i++) {
		struct report *r = &reports[i];
		double sum = 0;

		for (j = 0; j < r->answered; j++)
			sum += r->times[j];
		if (r->answered)
			qsort(r->times, r->answered, sizeof(*r->times), by_time);
		printf("%s{\"answered\": %lu, \"within\": %lu, \"bytes\": %lu, \"refused\": %lu, \"reset\": %lu, \"cut\": %lu, "
		       "\"late\": %lu, \"unended\": %lu, \"mean_us\": %.0f, \"median_us\": %u, \"p99_us\": %u}", i ? ", " : "",
		       r->answered, r->within, r->bytes, r->refused, r->reset, r->cut, r->late, r->unended,
		       r->answered ? sum / r->answered : 0, r->answered ? r->times[r->answered / 2] : 0,
		       r->answered ? r->times[r->answered * 99 / 100] : 0);
	}
	printf("]}\n");
}

static double number_of(const char *text, double least)
{
	char *end;
	double n = strtod(text, &end);

	if (!*text || *end || !(n >= least) || n > 1e9)
		die("not a number from %g: %s", least, text);
	return n;
}

static void set_shares(char *text)
{
	char *word, *rest = NULL;

	for (word = strtok_r(text, ",", &rest); word; word = strtok_r(NULL, ",", &rest)) {
		if (nodes == NODES_MAX)
			die("more than %d shares", NODES_MAX);
		shares[nodes++] = number_of(word, 0);
	}
}

int main(int argc, char **argv)
{
	struct rlimit files;
	double warm = 2, seconds = 10;
	unsigned int i;
	int c;

	srand48(1);
	while ((c = getopt(argc, argv, "r:n:i:k:w:t:o:f:1:d:s:")) != -1) {
		switch (c) {
		case 'r':
			rate = number_of(optarg, 0.01);
			break;
		case 'n':
			loop_clients = number_of(optarg, 1);
			break;
		case 'i':
			pause_s = number_of(optarg, 0);
			break;
		case 'k':
			kept = number_of(optarg, 1);
			break;
		case 'w':
			warm = number_of(optarg, 0);
			break;
		case 't':
			seconds = number_of(optarg, 0.1);
			break;
		case 'o':
			patience = number_of(optarg, 0.1) * SECOND;
			break;
		case 'f':
			directories = number_of(optarg, 1);
			break;
		case '1':
			only = optarg;
			break;
		case 'd':
			set_shares(optarg);
			break;
		case 's':
			srand48(number_of(optarg, 0));
			break;
		default:
			die("see offer.c");
		}
	}
	if (argc - optind != 2 || inet_pton(AF_INET, argv[optind], &address.sin_addr) != 1 || !rate == !loop_clients)
		die("see offer.c");
	address.sin_port = htons(number_of(argv[optind + 1], 1));
	room = loop_clients ? loop_clients : CLIENTS_MAX;
	clients = calloc(room, sizeof(*clients));
	thinking = calloc(room, sizeof(*thinking));
	epoll = epoll_create1(EPOLL_CLOEXEC);
	if (!clients || !thinking || epoll < 0 || getrlimit(RLIMIT_NOFILE, &files))
		die("%s", strerror(errno));
	files.rlim_cur = files.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &files) || files.rlim_max < room)
		die("%lu files may be open, not %u", (unsigned long)files.rlim_max, room);
	for (i = room; i-- > 0;) {
		clients[i].fd = -1;
		clients[i].next = free_clients;
		free_clients = i;
	}
	first = warm * SECOND;
	last = (warm + seconds) * SECOND;
	run();
	tell(seconds);
	return 0;
}
