// SPDX-License-Identifier: GPL-2.0
/* flash-replay: many clients in a closed loop, asking for what a log or trace says. */
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "client.h"
#include "tally.h"
#include "work.h"

static const char usage_text[] =
	"Usage: flash-replay [OPTIONS] ADDRESS:PORT FILE\n"
	"\n"
	"Clients ask for the paths of FILE, each for its next one as soon as it has its answer.\n"
	"FILE is a compact trace of lardsim, an access log, or a list of paths with their sizes.\n"
	"\n"
	"  -c, --clients N       (8)\n"
	"  -d, --seconds N       stop after this time (10, unless -n is given)\n"
	"  -n, --requests N      stop after this many answers\n"
	"  -w, --warm N          answers at the start that are not counted (0)\n"
	"  -k, --keep N          requests of a connection, 0: any number (1)\n"
	"  -t, --think MS        pause of a client between two requests (0)\n"
	"  -b, --bytes N         cut FILE where its distinct targets exceed N bytes\n"
	"  -r, --random SEED     draw from FILE instead of going through it in a loop\n"
	"      --prefix TEXT     path of a target of a compact trace, before its number (/)\n"
	"      --probe PATH      one more client asks for this every 10 ms, counted apart\n"
	"      --timeout SECONDS (30)\n"
	"      --host NAME       value of Host\n"
	"  -V, --version         print the version\n"
	"Prints one JSON object.\n";

#define CONNECTING_MAX 64
#define PROBE_US 10000
#define BATCH 256
#define FAILURES_MAX 10000

/**
 * struct load - the whole run
 * @rest:    clients that think, a ring of @clients places: all think equally long, so first in,
 *	     first out
 * @begun:   requests begun; @ended: answered or failed
 */
struct load {
	struct work work;
	struct target_address to;
	struct client *client, probe;
	unsigned int clients, started, rest_first, rest_count;
	struct { uint32_t client; uint64_t until; } *rest;
	uint64_t limit, warm, begun, ended, failures_in_row;
	uint64_t seconds, think_us, timeout_us, now, counted_from, probe_at;
	const char *probe_path;
	struct tally tally, probe_tally;
	int epoll;
	char host[256];
};

static uint64_t clock_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000ull + ts.tv_nsec / 1000;
}

static bool over(const struct load *l)
{
	if (l->limit)
		return l->begun >= l->limit;
	return l->now >= l->counted_from + l->seconds * 1000000 && l->ended >= l->warm;
}

static void rest(struct load *l, struct client *c)
{
	unsigned int at = (l->rest_first + l->rest_count++) % l->clients;

	l->rest[at].client = c - l->client;
	l->rest[at].until = l->now + l->think_us;
}

/* Counts what became of a request. */
static void settle(struct load *l, struct client *c, enum client_event e)
{
	struct tally *t = c == &l->probe ? &l->probe_tally : &l->tally;

	l->now = clock_us();
	if (c != &l->probe && l->ended++ < l->warm) {
		if (l->ended == l->warm)
			l->counted_from = l->now;
	} else if (e == CLIENT_ANSWERED) {
		tally_add(t, l->now - c->started);
		t->bytes += c->body;
		t->other += c->status / 100 != 2;
		t->connections += c->fresh;
	} else {
		t->failed++;
	}
	l->failures_in_row = e == CLIENT_ANSWERED ? 0 : l->failures_in_row + 1;
	if (l->failures_in_row > FAILURES_MAX) {
		fprintf(stderr, "flash-replay: %d requests failed one after the other\n",
			FAILURES_MAX);
		exit(1);
	}
}

static void begin(struct load *l, struct client *c)
{
	if (over(l))
		return;
	l->begun++;
	switch (client_begin(c, &l->to, work_next(&l->work), l->now)) {
	case CLIENT_GOES_ON:
		break;
	case CLIENT_FAILED:
		settle(l, c, CLIENT_FAILED);
		rest(l, c);
		break;
	case CLIENT_ANSWERED:
		settle(l, c, CLIENT_ANSWERED);
		rest(l, c);
	}
}

/* A few at a time, so that the server's backlog is not what is measured. */
static void start_clients(struct load *l)
{
	unsigned int connecting = 0, i;

	if (l->started == l->clients)
		return;
	for (i = 0; i < l->started; i++)
		connecting += l->client[i].connecting;
	while (l->started < l->clients && connecting++ < CONNECTING_MAX)
		begin(l, &l->client[l->started++]);
}

static void wake(struct load *l)
{
	enum client_event e;
	unsigned int i;

	start_clients(l);
	for (i = l->rest_count; i && l->rest[l->rest_first].until <= l->now; i--) {
		struct client *c = &l->client[l->rest[l->rest_first].client];

		l->rest_first = (l->rest_first + 1) % l->clients;
		l->rest_count--;
		begin(l, c);
	}
	if (l->probe_path && !l->probe.busy && l->now >= l->probe_at) {
		l->probe_at = l->now + PROBE_US;
		e = client_begin(&l->probe, &l->to, l->probe_path, l->now);
		if (e != CLIENT_GOES_ON)	/* a server with priority may have answered already */
			settle(l, &l->probe, e);
	}
}

static void time_out(struct load *l)
{
	unsigned int i;

	for (i = 0; i < l->started; i++) {
		struct client *c = &l->client[i];

		if (!c->busy || l->now - c->started < l->timeout_us)
			continue;
		client_hang_up(c);
		l->ended++;
		l->tally.timeouts++;
		rest(l, c);
	}
}

static bool idle(const struct load *l)
{
	return l->ended >= l->begun;
}

static void run(struct load *l)
{
	struct epoll_event events[BATCH];
	uint64_t swept;
	int i, n, wait;

	l->now = swept = clock_us();
	l->counted_from = l->now;
	while (!over(l) || (l->limit && !idle(l))) {
		wake(l);
		wait = l->started < l->clients || l->probe_path ? 1 : 100;
		if (l->rest_count)
			wait = l->rest[l->rest_first].until <= l->now ? 0 : 1;
		n = epoll_wait(l->epoll, events, BATCH, wait);
		l->now = clock_us();
		for (i = 0; i < n; i++) {
			struct client *c = events[i].data.ptr;
			enum client_event e;

			if (c->fd < 0)
				continue;
			e = client_ready(c);
			if (e == CLIENT_GOES_ON)
				continue;
			settle(l, c, e);
			if (c == &l->probe)
				continue;
			if (l->think_us)
				rest(l, c);
			else
				begin(l, c);
		}
		if (l->now - swept > 1000000) {
			swept = l->now;
			time_out(l);
		}
	}
}

static int parse_address(struct target_address *to, char *text)
{
	struct sockaddr_in *v4 = (struct sockaddr_in *)&to->addr;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&to->addr;
	char *colon = strrchr(text, ':'), *end;
	unsigned long port;

	if (!colon)
		return -1;
	port = strtoul(colon + 1, &end, 10);
	if (*end || !port || port > 65535)
		return -1;
	*colon = '\0';
	if (*text == '[' && colon > text && colon[-1] == ']') {
		colon[-1] = '\0';
		v6->sin6_family = AF_INET6;
		v6->sin6_port = htons(port);
		to->len = sizeof(*v6);
		return inet_pton(AF_INET6, text + 1, &v6->sin6_addr) == 1 ? 0 : -1;
	}
	v4->sin_family = AF_INET;
	v4->sin_port = htons(port);
	to->len = sizeof(*v4);
	return inet_pton(AF_INET, text, &v4->sin_addr) == 1 ? 0 : -1;
}

static void raise_limit(unsigned int clients)
{
	struct rlimit rl;

	if (getrlimit(RLIMIT_NOFILE, &rl) || rl.rlim_cur >= clients + 64ul)
		return;
	rl.rlim_cur = clients + 64ul;
	if (rl.rlim_max < rl.rlim_cur)
		rl.rlim_max = rl.rlim_cur;
	setrlimit(RLIMIT_NOFILE, &rl);
}

static bool number(const char *text, uint64_t max, uint64_t *out)
{
	char *end;

	errno = 0;
	*out = strtoull(text, &end, 10);
	return *text >= '0' && *text <= '9' && !*end && !errno && *out <= max;
}

static int usage(const char *what)
{
	fprintf(stderr, "flash-replay: %s; see flash-replay --help\n", what);
	return 2;
}

static void report(const struct load *l, uint64_t bytes)
{
	printf("{\"clients\": %u, \"targets\": %u, \"data_set\": %llu, ", l->clients,
	       l->work.targets, (unsigned long long)bytes);
	tally_print(&l->tally, (l->now - l->counted_from) / 1e6, stdout);
	if (l->probe_path) {
		printf(", \"probe\": {");
		tally_print(&l->probe_tally, 0, stdout);
		printf("}");
	}
	printf("}\n");
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "clients", 1, NULL, 'c' }, { "seconds", 1, NULL, 'd' },
		{ "requests", 1, NULL, 'n' }, { "warm", 1, NULL, 'w' },
		{ "keep", 1, NULL, 'k' }, { "think", 1, NULL, 't' }, { "bytes", 1, NULL, 'b' },
		{ "random", 1, NULL, 'r' }, { "prefix", 1, NULL, 'P' }, { "probe", 1, NULL, 'p' },
		{ "timeout", 1, NULL, 'T' }, { "host", 1, NULL, 'H' }, { "help", 0, NULL, 'h' },
		{ "version", 0, NULL, 'V' },
		{ }
	};
	struct load l = { .seconds = 10 };
	uint64_t clients = 8, keep = 1, think = 0, timeout = 30, bytes = 0, seed = 0;
	const char *prefix = "/", *why;
	bool ok = true, random = false;
	unsigned int i;
	int c;

	while (ok && (c = getopt_long(argc, argv, "c:d:n:w:k:t:b:r:hV", options, NULL)) != -1) {
		switch (c) {
		case 'c': ok = number(optarg, 1000000, &clients) && clients; break;
		case 'd': ok = number(optarg, 1000000, &l.seconds) && l.seconds; break;
		case 'n': ok = number(optarg, UINT64_MAX, &l.limit) && l.limit; break;
		case 'w': ok = number(optarg, UINT64_MAX, &l.warm); break;
		case 'k': ok = number(optarg, UINT32_MAX, &keep); break;
		case 't': ok = number(optarg, 1000000, &think); break;
		case 'b': ok = number(optarg, UINT64_MAX, &bytes); break;
		case 'r': random = ok = number(optarg, UINT64_MAX, &seed); break;
		case 'P': prefix = optarg; break;
		case 'p': l.probe_path = optarg; break;
		case 'T': ok = number(optarg, 100000, &timeout) && timeout; break;
		case 'H': l.to.host = optarg; break;
		case 'h':
			fputs(usage_text, stdout);
			return 0;
		case 'V':
			puts("flash-replay " FLT_VERSION);
			return 0;
		default: return usage("unknown option");
		}
	}
	if (!ok)
		return usage("a value cannot be that");
	if (argc - optind != 2)
		return usage("an address and a file are needed");
	snprintf(l.host, sizeof(l.host), "%s", argv[optind]);
	if (!l.to.host)
		l.to.host = l.host;
	if (parse_address(&l.to, argv[optind]))
		return usage("the address is not ADDRESS:PORT");
	if (work_load(&l.work, argv[optind + 1], prefix, &why)) {
		fprintf(stderr, "flash-replay: cannot read %s: %s\n", argv[optind + 1], why);
		return 1;
	}
	bytes = work_truncate(&l.work, bytes);
	l.work.random = random;
	l.work.next = seed;
	l.clients = clients;
	l.to.keep = keep;
	l.limit += l.limit ? l.warm : 0;
	l.think_us = think * 1000;
	l.timeout_us = timeout * 1000000;
	raise_limit(clients);
	l.client = calloc(clients, sizeof(*l.client));
	l.rest = calloc(clients, sizeof(*l.rest));
	l.epoll = epoll_create1(EPOLL_CLOEXEC);
	if (!l.client || !l.rest || l.epoll < 0) {
		fprintf(stderr, "flash-replay: %s\n", strerror(errno));
		return 1;
	}
	for (i = 0; i < clients; i++)
		client_init(&l.client[i], l.epoll);
	client_init(&l.probe, l.epoll);
	run(&l);
	report(&l, bytes);
	for (i = 0; i < clients; i++)
		client_hang_up(&l.client[i]);
	client_hang_up(&l.probe);
	close(l.epoll);
	free(l.client);
	free(l.rest);
	work_free(&l.work);
	return fflush(stdout) != 0;
}
