// SPDX-License-Identifier: GPL-2.0
/* The load: bursts of requests, or a number of requests that are always under way. */

#include <arpa/inet.h>
#include <errno.h>
#include <linux/futex.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "load.h"
#include "wait.h"

#define LATENCIES	65536

static int fds[FDS_MAX], nr_fds;
/* Of each connection that asks: when it did, or 0; what came of the answer. */
static uint64_t asked_at[ACTIVE];
static unsigned int got[ACTIVE];
static uint64_t latencies[LATENCIES];
static unsigned int nr_latencies;

bool load_parse(struct load *load, const char **text)
{
	char *end;

	load->width = strtoul(*text, &end, 10);
	load->always = *end == '+';
	end += load->always;
	if (load->width < 1 || load->width > ACTIVE || (*end && *end != ','))
		return false;
	*text = *end ? end + 1 : end;
	return true;
}

void load_connect(unsigned int wanted)
{
	struct sockaddr_in addr = { .sin_family = AF_INET, .sin_port = htons(PORT),
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };

	for (; nr_fds < (int)wanted; nr_fds++) {
		fds[nr_fds] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (fds[nr_fds] < 0 ||
		    connect(fds[nr_fds], (struct sockaddr *)&addr, sizeof(addr)))
			broken("connect");
		setsockopt(fds[nr_fds], IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int));
		/* Few at a time: the server accepts in the order in which we connect. */
		while (__atomic_load_n(&shown->accepted, __ATOMIC_RELAXED) + 64 < (uint64_t)nr_fds)
			sched_yield();
	}
	while (__atomic_load_n(&shown->accepted, __ATOMIC_RELAXED) < (uint64_t)wanted)
		usleep(1000);
}

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec ts;

	if (clock_gettime(clock, &ts))
		broken("clock_gettime");
	return ts.tv_sec * 1000000000ULL + ts.tv_nsec;
}

static unsigned int draw(void)
{
	static uint64_t seed = 88172645463325252ULL;

	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed % ACTIVE;
}

static void ask(unsigned int i)
{
	static char request[REQUEST];

	got[i] = 0;
	asked_at[i] = clock_ns(CLOCK_MONOTONIC);
	if (send(fds[i], request, REQUEST, MSG_NOSIGNAL) != REQUEST)
		broken("send");
	if (!shown->tell)
		return;
	shown->asked[shown->told % ASKED_MAX] = i;
	__atomic_store_n(&shown->told, shown->told + 1, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&shown->waits, __ATOMIC_SEQ_CST))
		syscall(SYS_futex, &shown->told, FUTEX_WAKE, 1, NULL, NULL, 0);
}

/* Reads what is there, or all of the answer; true when that is complete. */
static bool take(unsigned int i, int flags)
{
	static char answer[ANSWER_MAX];
	ssize_t n = recv(fds[i], answer, shown->size - got[i], flags);

	if (n <= 0)
		broken("recv");
	got[i] += n;
	if (got[i] < shown->size)
		return false;
	latencies[nr_latencies++ % LATENCIES] = clock_ns(CLOCK_MONOTONIC) - asked_at[i];
	asked_at[i] = 0;
	return true;
}

static void run_bursts(unsigned int width, unsigned int requests)
{
	unsigned int i, first;

	while (requests) {
		first = draw();
		if (width > requests)
			width = requests;
		for (i = 0; i < width; i++)
			ask((first + i) % ACTIVE);
		for (i = 0; i < width; i++)
			take((first + i) % ACTIVE, MSG_WAITALL);
		requests -= width;
	}
}

static void ask_any(void)
{
	unsigned int i = draw();

	while (asked_at[i])
		i = (i + 1) % ACTIVE;
	ask(i);
}

static void run_always(unsigned int width, unsigned int requests)
{
	struct epoll_event ev[ACTIVE] = { 0 };
	unsigned int asked, done = 0;
	int epfd = epoll_create1(EPOLL_CLOEXEC), i, n;

	for (i = 0; i < ACTIVE; i++) {
		ev[0] = (struct epoll_event){ .events = EPOLLIN, .data.u32 = i };
		if (epoll_ctl(epfd, EPOLL_CTL_ADD, fds[i], &ev[0]))
			broken("epoll_ctl");
	}
	for (asked = 0; asked < width && asked < requests; asked++)
		ask_any();
	while (done < requests) {
		n = epoll_wait(epfd, ev, ACTIVE, -1);
		for (i = 0; i < n; i++) {
			if (!take(ev[i].data.u32, MSG_DONTWAIT))
				continue;
			done++;
			if (asked < requests) {
				asked++;
				ask_any();
			}
		}
	}
	close(epfd);
}

static void run(const struct load *load, unsigned int requests)
{
	if (load->always)
		run_always(load->width, requests);
	else
		run_bursts(load->width, requests);
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static uint64_t percentile(unsigned int percent)
{
	unsigned int n = nr_latencies < LATENCIES ? nr_latencies : LATENCIES;

	return latencies[(uint64_t)(n - 1) * percent / 100];
}

/*
 * Bursts: neither takes the CPU from the other when it wakes it, so that a burst arrives as one.
 * Always: whoever is answered asks again at once, and the server goes on with the others.
 */
static void priorities(const struct load *load, pid_t server)
{
	struct sched_param param = { 0 };

	if (sched_setscheduler(0, load->always ? SCHED_OTHER : SCHED_BATCH, &param) ||
	    sched_setscheduler(server, load->always ? SCHED_IDLE : SCHED_BATCH, &param))
		broken("sched_setscheduler");
}

void load_measure(const struct load *load, const char *layer, pid_t server)
{
	uint64_t servers, ours, calls, n = load->requests;
	clockid_t clock;

	if (clock_getcpuclockid(server, &clock))
		broken("clock_getcpuclockid");
	priorities(load, server);
	run(load, n / 4 + 1);
	nr_latencies = 0;
	if (load->announce) {
		puts("begin");
		fflush(stdout);
	}
	servers = clock_ns(clock);
	ours = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
	calls = shown->calls;
	run(load, n);
	servers = clock_ns(clock) - servers;
	ours = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - ours;
	calls = shown->calls - calls;
	qsort(latencies, nr_latencies < LATENCIES ? nr_latencies : LATENCIES, sizeof(*latencies),
	      compare);
	printf("{\"layer\": \"%s\", \"idle\": %u, \"load\": \"%u%s\", \"size\": %u, \"requests\": %u, "
	       "\"server\": %.0f, \"both\": %.0f, \"calls\": %.3f, \"p50\": %llu, \"p99\": %llu}\n",
	       layer, load->idle, load->width, load->always ? "+" : "", shown->size,
	       load->requests, (double)servers / n, (double)(servers + ours) / n,
	       (double)calls / n, (unsigned long long)percentile(50),
	       (unsigned long long)percentile(99));
	fflush(stdout);
}
