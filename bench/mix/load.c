// SPDX-License-Identifier: GPL-2.0
/*
 * mix-load [-w SECONDS] [-t SECONDS] [-s SIZE [-k]] [-i SECONDS] [-c] NAME SHOWN ADDRESS PORT ROBOTS RATE: robots
 * that ask a proxy, RATE requests a second all together. Prints "begin" after the warm-up and a JSON line for what was measured.
 *
 * A robot has one connection at a time and asks Zipf(64) times on it. Its requests come by Poisson's
 * law, whatever the answers take; one that comes in the midst of an answer waits for its end.
 * 58 % are hits, 12 % misses that are kept, 30 % misses that are not. Length and bytes of each answer are
 * checked. -s: all are misses of that size, with -k kept. -i: of thinking, on average. -c: for tests, hardly any thinking and little room for answers.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <math.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "bench/splice/busy.h"
#include "due.h"
#include "mix.h"

#define ROBOTS_MAX	8192
#define BATCH		64
#define SAMPLES		(1 << 20)
#define REQUESTS	64
#define HITS		0.58
#define KEPT		0.12
#define THINK_MEAN	2.5
#define THINK_SD	0.4	/* of the mean */

enum { HIT, MISS, ADDED, KINDS };

static const char * const names[KINDS] = { "hit", "miss", "added" };

/**
 * struct robot - one of them
 * @fd:    -1: no connection
 * @more:  requests until it is closed
 * @due:   when the next request comes
 * @asked: when it did; 0: nothing is under way
 * @got:   bytes of the answer, head included
 */
static struct robot {
	int fd;
	unsigned int more;
	uint64_t seed;
	uint64_t due;
	uint64_t asked;
	struct mix_head head;
	size_t got;
} robots[ROBOTS_MAX];
static unsigned int nr_robots, under_way;
static double rate;
static bool quick, over, counts;
static uint32_t fixed_size;
static bool fixed_kept;
static double think_mean = THINK_MEAN;
static struct sockaddr_in address;
static int epfd;

static struct sample {
	uint32_t ns[SAMPLES];
	unsigned int nr;
	double sum;
} samples[KINDS];
static uint64_t bytes;

static void keep_sample(int kind, uint64_t ns)
{
	struct sample *s = &samples[kind];

	if (s->nr == SAMPLES || ns > UINT32_MAX * 16ULL)
		broken("too many samples");
	/* 16 ns are fine enough, and think times fit. */
	s->ns[s->nr++] = ns / 16;
	s->sum += ns;
}

/* Between the percentiles of the paper's table: half of them up to 4 KB, 75 % 8, 95 % 25. */
static uint32_t draw_size(uint64_t *seed)
{
	static const struct { double share, size; } table[] = {
		{ 0, 512 }, { 0.50, 4096 }, { 0.75, 8192 }, { 0.95, 25600 }, { 1, MIX_SIZE_MAX },
	};
	double u = mix_uniform(seed), part;
	int i = 1;

	while (u > table[i].share)
		i++;
	part = (u - table[i - 1].share) / (table[i].share - table[i - 1].share);
	return table[i - 1].size * pow(table[i].size / table[i - 1].size, part);
}

/* Nobody answers before he is asked. */
static double draw_think(uint64_t *seed)
{
	double normal = sqrt(-2 * log(mix_uniform(seed))) * cos(2 * M_PI * mix_uniform(seed));
	double think = think_mean * (1 + THINK_SD * normal);

	if (quick)
		think /= 1000;
	return think > 0 ? think : 0;
}

static void draw_request(struct robot *r)
{
	double u = mix_uniform(&r->seed);

	r->head = (struct mix_head){ .magic = MIX_MAGIC, .size = draw_size(&r->seed) };
	r->head.object = mix_draw(&r->seed);
	r->head.flags = u < HITS ? MIX_HIT : u < HITS + KEPT ? MIX_CACHE : 0;
	if (fixed_size) {
		r->head.size = fixed_size;
		r->head.flags = fixed_kept ? MIX_CACHE : 0;
	}
	if (!(r->head.flags & MIX_HIT))
		r->head.think = draw_think(&r->seed) * 1e6;
}

static void draw_due(struct robot *r)
{
	r->due += -log(mix_uniform(&r->seed)) * nr_robots / rate * 1e9;
}

static void dial(struct robot *r)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLET, .data.u32 = r - robots };

	r->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	/* Little room, so that the proxy has to wait for it. */
	if (quick)
		setsockopt(r->fd, SOL_SOCKET, SO_RCVBUF, &(int){ 4096 }, sizeof(int));
	if (r->fd < 0 || connect(r->fd, (struct sockaddr *)&address, sizeof(address)))
		broken("mix-load: connect");
	setsockopt(r->fd, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int));
	if (epoll_ctl(epfd, EPOLL_CTL_ADD, r->fd, &ev))
		broken("mix-load: epoll_ctl");
	r->more = mix_zipf(&r->seed, REQUESTS);
}

static void ask(struct robot *r)
{
	if (over)
		return;
	draw_request(r);
	r->got = 0;
	r->asked = mix_now();
	under_way++;
	if (r->fd < 0)
		dial(r);
	if (send(r->fd, &r->head, sizeof(r->head), MSG_NOSIGNAL) != sizeof(r->head))
		broken("mix-load: send");
}

static void answered(struct robot *r, bool last)
{
	uint64_t now = mix_now(), took = now - r->asked;

	if (counts) {
		keep_sample(r->head.flags & MIX_HIT ? HIT : MISS, took);
		if (!(r->head.flags & MIX_HIT))
			keep_sample(ADDED, took - r->head.think * 1000ULL);
		bytes += r->head.size;
	}
	r->asked = 0;
	under_way--;
	if (!--r->more || last) {
		close(r->fd);
		r->fd = -1;
	}
	draw_due(r);
	if (r->due <= now)
		ask(r);
	else
		due_add(r->due, r - robots);
}

static void wrong(const struct robot *r, const char *what, ssize_t n)
{
	fprintf(stderr, "mix-load: %s: %zd after %zu of %u bytes, flags %u\n", what, n, r->got, r->head.size,
		r->head.flags);
	exit(1);
}

static void take(struct robot *r)
{
	static unsigned char answer[sizeof(struct mix_head) + MIX_SIZE_MAX];
	static bool last[ROBOTS_MAX];
	const struct mix_head *head = (const struct mix_head *)answer;
	size_t all = sizeof(r->head) + r->head.size, at = 0;
	ssize_t n;

	if (!r->asked)
		wrong(r, "unasked", 0);
	/* One byte more than there may be. */
	n = recv(r->fd, answer, all - r->got + 1, MSG_DONTWAIT);
	if (n < 0 && errno == EAGAIN)
		return;
	if (n <= 0 || n > (ssize_t)(all - r->got))
		wrong(r, n < 0 ? strerror(errno) : "length", n);
	if (!r->got) {
		if (n < (ssize_t)sizeof(*head) || head->magic != MIX_MAGIC ||
		    head->object != r->head.object || head->size != r->head.size)
			wrong(r, "head", n);
		at = sizeof(*head);
		r->got = at;
		last[r - robots] = head->flags & MIX_LAST;
	}
	if (memcmp(answer + at, mix_body(r->head.object) + r->got - sizeof(*head), n - at))
		wrong(r, "content", n);
	r->got += n - at;
	if (r->got == all)
		answered(r, last[r - robots]);
}

/* Until then, or until nothing is under way. */
static void run(uint64_t end)
{
	struct epoll_event ev[BATCH];
	int i, n, who;

	while (mix_now() < end && (!over || under_way)) {
		n = due_wait(epfd, ev, BATCH, end);
		for (i = 0; i < n; i++)
			take(&robots[ev[i].data.u32]);
		while ((who = due_take(mix_now())) >= 0)
			ask(&robots[who]);
	}
}

/* --- what is reported --- */

struct spent {
	uint64_t busy, proxy, origin, robots, now;
	struct mix_shown shown;
};

static uint64_t ran(int pid)
{
	struct timespec ts;
	clockid_t clock;

	if (!pid || clock_getcpuclockid(pid, &clock) || clock_gettime(clock, &ts))
		return 0;
	return ts.tv_sec * 1000000000ULL + ts.tv_nsec;
}

static struct spent spent(const struct mix_shown *shown)
{
	return (struct spent){ busy_ns(), ran(shown->proxy), ran(shown->origin), ran(getpid()), mix_now(),
			       *shown };
}

static int compare(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

static void print_times(int kind)
{
	struct sample *s = &samples[kind];

	qsort(s->ns, s->nr, sizeof(*s->ns), compare);
	printf(", \"%s\": {\"answers\": %u, \"mean\": %.1f, \"p50\": %.1f, \"p99\": %.1f}", names[kind],
	       s->nr, s->nr ? s->sum / s->nr / 1000 : 0, s->nr ? s->ns[s->nr / 2] * 0.016 : 0,
	       s->nr ? s->ns[(s->nr - 1) * 99ULL / 100] * 0.016 : 0);
}

static void report(const char *name, const struct spent *a, const struct spent *b)
{
	double n = samples[HIT].nr + samples[MISS].nr, elapsed = b->now - a->now;
	const struct mix_shown *was = &a->shown, *is = &b->shown;
	int kind;

	printf("{\"name\": \"%s\", \"size\": %u, \"kept\": %d, \"think\": %g, \"robots\": %u, \"rate\": %.0f, \"requests\": %.0f, \"got\": %.1f, "
	       "\"bytes\": %.0f, \"cpu\": %.2f, \"proxy_cpu\": %.2f, \"all\": %.0f, \"proxy\": %.0f, "
	       "\"origin\": %.0f, \"load\": %.0f, \"calls\": %.3f, \"spliced\": %.4f, \"in_call\": %.4f, "
	       "\"blocked\": %.4f, \"accepted\": %.4f, \"opened\": %.4f, \"connections\": %llu, \"pooled\": %llu",
	       name, fixed_size, fixed_kept, think_mean, nr_robots, rate, n, n / elapsed * 1e9, bytes / n, (b->busy - a->busy) / elapsed * 100,
	       (b->proxy - a->proxy) / elapsed * 100, (b->busy - a->busy) / n, (b->proxy - a->proxy) / n,
	       (b->origin - a->origin) / n, (b->robots - a->robots) / n, (is->calls - was->calls) / n,
	       (is->spliced - was->spliced) / n, (is->in_call - was->in_call) / n,
	       (is->blocked - was->blocked) / n, (is->accepted - was->accepted) / n,
	       (is->opened - was->opened) / n, (unsigned long long)(is->accepted - is->closed),
	       (unsigned long long)is->pooled);
	for (kind = 0; kind < KINDS; kind++)
		print_times(kind);
	puts("}");
	fflush(stdout);
}

static int usage(void)
{
	fputs("usage: mix-load [-w SECONDS] [-t SECONDS] [-s SIZE [-k]] [-i SECONDS] [-c]\n"
	      "                NAME SHOWN ADDRESS PORT ROBOTS RATE\n", stderr);
	return 2;
}

int main(int argc, char **argv)
{
	struct rlimit nofile = { ROBOTS_MAX * 2, ROBOTS_MAX * 2 };
	double warm = 10, seconds = 20;
	const struct mix_shown *shown;
	struct spent before, after;
	uint64_t start;
	unsigned int i;
	int c;

	while ((c = getopt(argc, argv, "w:t:s:ki:c")) >= 0) {
		if (c == 'w')
			warm = atof(optarg);
		else if (c == 't')
			seconds = atof(optarg);
		else if (c == 's')
			fixed_size = atoi(optarg);
		else if (c == 'k')
			fixed_kept = true;
		else if (c == 'i')
			think_mean = atof(optarg);
		else if (c == 'c')
			quick = true;
		else
			return usage();
	}
	argv += optind;
	if (argc - optind != 6)
		return usage();
	nr_robots = atoi(argv[4]);
	rate = atof(argv[5]);
	address.sin_family = AF_INET;
	address.sin_port = htons(atoi(argv[3]));
	if (fixed_size > MIX_SIZE_MAX || think_mean < 0 || !inet_aton(argv[2], &address.sin_addr) || !nr_robots || nr_robots > ROBOTS_MAX || rate <= 0)
		return usage();
	setrlimit(RLIMIT_NOFILE, &nofile);
	shown = mix_shown_map(argv[1]);
	mix_body(0);
	epfd = epoll_create1(EPOLL_CLOEXEC);
	mix_outrank();
	start = mix_now();
	for (i = 0; i < nr_robots; i++) {
		robots[i] = (struct robot){ .fd = -1, .seed = i * 1000003ULL, .due = start };
		draw_due(&robots[i]);
		due_add(robots[i].due, i);
	}
	run(start + warm * 1e9);
	puts("begin");
	fflush(stdout);
	counts = true;
	before = spent(shown);
	run(start + (warm + seconds) * 1e9);
	counts = false;
	after = spent(shown);
	report(argv[0], &before, &after);
	/* What is under way ends as usual, so that nobody sees a reset. */
	over = true;
	run(mix_now() + 60 * 1000000000ULL);
	if (under_way) {
		fprintf(stderr, "mix-load: %u answers are missing\n", under_way);
		return 1;
	}
	return 0;
}
