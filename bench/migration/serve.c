// SPDX-License-Identifier: GPL-2.0
/*
 * serve: a web server of a known capacity, for the experiments of `run`.
 *
 *	serve [-b BACKLOG] [-w WORKERS] [-c US] [-k US] [-m BYTES] [-s US] [-d US] ADDRESS PORT
 *
 * WORKERS threads accept, each with one connection at a time, which is kept as long as the client wants. Every
 * request takes -c microseconds and -k for each KB of the node's only processor, and, if its file is not among the
 * -m bytes used last, -s and -d for each KB of the node's only disk: both serve whoever came first. The processor and
 * the disk are times that are slept through, so that they are the bottleneck and not the machine below.
 * SIGTERM ends it; it prints how many requests it has served and how many of them the disk had to.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "../program.h"
#include "web.h"

#define HEAD_MAX	2048
#define DIRECTORIES	100
#define LONGEST		(FILES * 1000 * 1024ul / 10)

/**
 * struct resource - what serves one at a time, who came first
 * @lock: for @free
 * @free: when it is done with all that came so far, nanoseconds
 */
struct resource {
	pthread_mutex_t lock;
	uint64_t free;
};

static struct resource processor = { PTHREAD_MUTEX_INITIALIZER, 0 };
static struct resource disk = { PTHREAD_MUTEX_INITIALIZER, 0 };

/* When each file was used last, and what of them is in memory. */
static pthread_mutex_t memory_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t used[DIRECTORIES][CLASSES][FILES], uses;
static unsigned long memory, in_memory;

static unsigned long cpu_us = 1000, cpu_kb_us, disk_us, disk_kb_us;
static unsigned long served, missed, failed;
static int listener;
static char content[LONGEST];

/* In the order in which they come. */
static void use(struct resource *r, unsigned long us)
{
	struct timespec until;
	uint64_t end, here = now();

	if (!us)
		return;
	pthread_mutex_lock(&r->lock);
	end = (r->free > here ? r->free : here) + us * 1000;
	r->free = end;
	pthread_mutex_unlock(&r->lock);
	until.tv_sec = end / SECOND;
	until.tv_nsec = end % SECOND;
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
		;
}

static void forget_oldest(void)
{
	uint64_t oldest = UINT64_MAX;
	unsigned int d, c, n, class = 0, number = 0;
	uint64_t *which = NULL;

	for (d = 0; d < DIRECTORIES; d++) {
		for (c = 0; c < CLASSES; c++) {
			for (n = 0; n < FILES; n++) {
				if (!used[d][c][n] || used[d][c][n] >= oldest)
					continue;
				oldest = used[d][c][n];
				which = &used[d][c][n];
				class = c;
				number = n;
			}
		}
	}
	if (!which)
		die("there is nothing to forget");
	*which = 0;
	in_memory -= web_length(class, number + 1);
}

/* Whether it was in memory; it is now. */
static bool remembered(unsigned int directory, unsigned int class, unsigned int number)
{
	unsigned long length = web_length(class, number);
	uint64_t *last = &used[directory][class][number - 1];
	bool was;

	if (!memory)
		return true;
	pthread_mutex_lock(&memory_lock);
	was = *last;
	*last = ++uses;
	if (!was) {
		in_memory += length;
		while (in_memory > memory)
			forget_oldest();
	}
	pthread_mutex_unlock(&memory_lock);
	return was;
}

static bool give(int fd, const char *bytes, size_t len, int flags)
{
	while (len) {
		ssize_t n = send(fd, bytes, len, MSG_NOSIGNAL | flags);

		if (n < 0)
			return false;
		bytes += n;
		len -= n;
	}
	return true;
}

/* Whether the connection goes on. */
static bool answer(int fd, const char *request)
{
	unsigned int directory, class, number;
	unsigned long length, kb;
	bool last = strstr(request, "Connection: close");
	char head[200];
	int n;

	if (sscanf(request, "GET /%u/%u/%u ", &directory, &class, &number) != 3 || directory >= DIRECTORIES ||
	    class >= CLASSES || !number || number > FILES) {
		__atomic_add_fetch(&failed, 1, __ATOMIC_RELAXED);
		return false;
	}
	length = web_length(class, number);
	kb = (length + 1023) / 1024;
	if (!remembered(directory, class, number)) {
		__atomic_add_fetch(&missed, 1, __ATOMIC_RELAXED);
		use(&disk, disk_us + kb * disk_kb_us);
	}
	use(&processor, cpu_us + kb * cpu_kb_us);
	n = snprintf(head, sizeof(head), "HTTP/1.1 200 OK\r\nContent-Length: %lu\r\n%s\r\n", length,
		     last ? "Connection: close\r\n" : "");
	if (!give(fd, head, n, MSG_MORE) || !give(fd, content, length, 0)) {
		__atomic_add_fetch(&failed, 1, __ATOMIC_RELAXED);
		return false;
	}
	__atomic_add_fetch(&served, 1, __ATOMIC_RELAXED);
	return !last;
}

/* One request after the other; a connection of which nothing comes has moved, or its client has gone. */
static void attend(int fd)
{
	char request[HEAD_MAX + 1];
	size_t have = 0;

	for (;;) {
		ssize_t n = recv(fd, request + have, HEAD_MAX - have, 0);

		if (n <= 0)
			return;
		have += n;
		request[have] = 0;
		if (strstr(request, "\r\n\r\n")) {
			have = 0;
			if (!answer(fd, request))
				return;
		} else if (have == HEAD_MAX) {
			return;
		}
	}
}

static void *work(void *unused)
{
	(void)unused;
	for (;;) {
		int fd = accept(listener, NULL, NULL);

		if (fd < 0) {
			if (errno == EMFILE || errno == EBADF || errno == EINVAL)
				die("accept: %s", strerror(errno));
			continue;
		}
		attend(fd);
		close(fd);
	}
	return NULL;
}

static void tell(int signal)
{
	char text[200];
	int n = snprintf(text, sizeof(text), "{\"served\": %lu, \"missed\": %lu, \"failed\": %lu}\n", served, missed,
			 failed);

	(void)signal;
	_exit(write(STDOUT_FILENO, text, n) == n ? 0 : 1);
}

static unsigned long number_of(const char *text, unsigned long least)
{
	char *end;
	unsigned long n;

	errno = 0;
	n = strtoul(text, &end, 10);
	if (errno || !*text || *end || n < least || n > 1ul << 40)
		die("not a number from %lu: %s", least, text);
	return n;
}

int main(int argc, char **argv)
{
	struct sockaddr_in address = { .sin_family = AF_INET };
	unsigned long backlog = 128, workers = 32, i;
	pthread_attr_t attributes;
	pthread_t thread;
	int c, one = 1;

	while ((c = getopt(argc, argv, "b:w:c:k:m:s:d:")) != -1) {
		switch (c) {
		case 'b':
			backlog = number_of(optarg, 1);
			break;
		case 'w':
			workers = number_of(optarg, 1);
			break;
		case 'c':
			cpu_us = number_of(optarg, 0);
			break;
		case 'k':
			cpu_kb_us = number_of(optarg, 0);
			break;
		case 'm':
			memory = number_of(optarg, LONGEST);
			break;
		case 's':
			disk_us = number_of(optarg, 0);
			break;
		case 'd':
			disk_kb_us = number_of(optarg, 0);
			break;
		default:
			die("see serve.c");
		}
	}
	if (argc - optind != 2 || inet_pton(AF_INET, argv[optind], &address.sin_addr) != 1)
		die("see serve.c");
	address.sin_port = htons(number_of(argv[optind + 1], 1));
	memset(content, 'x', sizeof(content));
	listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (listener < 0 || setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) ||
	    bind(listener, (struct sockaddr *)&address, sizeof(address)) || listen(listener, backlog))
		die("%s port %s: %s", argv[optind], argv[optind + 1], strerror(errno));
	signal(SIGTERM, tell);
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, 64 * 1024);
	for (i = 0; i < workers; i++) {
		if (pthread_create(&thread, &attributes, work, NULL))
			die("no thread %lu", i);
	}
	for (;;)
		pause();
}
