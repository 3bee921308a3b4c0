// SPDX-License-Identifier: GPL-2.0
/*
 * uselect-bench [-b] [-n REQUESTS] [-l LOAD,LOAD...] [-s BYTES] LAYER IDLE...: a server that waits by LAYER
 * (wait.c, complete.c), and its load (load.c), in one guest. -b: say "begin" before what is measured.
 *
 * One client process holds 100 connections that ask, and as many more that never do as IDLE says. A
 * JSON line for each IDLE and LOAD, all for a request: run time of the server and of both processes,
 * which with QEMU's -icount shift=0 and one CPU is the number of instructions in nanoseconds, the
 * server's system calls for readiness, and the time to the answer.
 */

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "complete.h"
#include "load.h"
#include "wait.h"

struct shown *shown;
static const struct wait_layer *layer;
static int listener;

void broken(const char *what)
{
	perror(what);
	exit(1);
}

static bool accept_one(void)
{
	int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

	if (fd < 0)
		return false;
	/* The largest answer fits, so that each is one send(). */
	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &(int){ ANSWER_MAX * 2 }, sizeof(int));
	layer->add(fd);
	shown->accepted++;
	return true;
}

bool serve(int fd)
{
	static char answer[ANSWER_MAX], request[4096];
	ssize_t n;

	if (fd == listener) {
		while (accept_one())
			;
		return false;
	}
	n = recv(fd, request, sizeof(request), 0);
	if (!n)
		exit(0);
	if (n < 0)
		return false;
	for (; n >= REQUEST; n -= REQUEST) {
		if (send(fd, answer, shown->size, MSG_NOSIGNAL) != (ssize_t)shown->size)
			broken("send");
		shown->served++;
	}
	return true;
}

static void server(int ready)
{
	struct sockaddr_in addr = { .sin_family = AF_INET, .sin_port = htons(PORT),
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };

	if (!layer->open()) {
		fprintf(stderr, "uselect-bench: %s cannot be had\n", layer->name);
		exit(4);
	}
	listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &(int){ 1 }, sizeof(int));
	if (bind(listener, (struct sockaddr *)&addr, sizeof(addr)) || listen(listener, 4096))
		broken("listen");
	layer->add(listener);
	if (write(ready, "r", 1) != 1)
		broken("write");
	for (;;) {
		layer->wait();
		shown->calls = wait_calls;
	}
}

static const struct wait_layer *find_layer(const char *name)
{
	const struct wait_layer *l;

	for (l = wait_layers; l->name; l++)
		if (!strcmp(l->name, name))
			return l;
	return strcmp(complete_layer.name, name) ? NULL : &complete_layer;
}

static int usage(void)
{
	const struct wait_layer *l;

	fputs("usage: uselect-bench [-b] [-n REQUESTS] [-l LOAD,LOAD...] [-s BYTES] LAYER IDLE...\n"
	      "LOAD: 10 (arrive together, then none until all are answered) or 10+ (always 10 under way)\n"
	      "LAYER:", stderr);
	for (l = wait_layers; l->name; l++)
		fprintf(stderr, " %s", l->name);
	fprintf(stderr, " %s\n", complete_layer.name);
	return 2;
}

static void measure_all(pid_t pid, const char *loads, struct load load, char **idle)
{
	const char *at;

	for (; *idle; idle++) {
		load.idle = atoi(*idle);
		load_connect(ACTIVE + load.idle);
		for (at = loads; *at && load_parse(&load, &at);)
			load_measure(&load, layer->name, pid);
	}
}

int main(int argc, char **argv)
{
	struct rlimit nofile = { FDS_MAX * 2, FDS_MAX * 2 };
	struct load load = { .requests = 400 }, parsed;
	unsigned int size = 8192;
	const char *loads = "1,10", *at;
	int ready[2], status, c;
	pid_t pid;
	char byte;

	while ((c = getopt(argc, argv, "bn:l:s:")) >= 0) {
		if (c == 'n')
			load.requests = atoi(optarg);
		else if (c == 'b')
			load.announce = true;
		else if (c == 'l')
			loads = optarg;
		else if (c == 's')
			size = atoi(optarg);
		else
			return usage();
	}
	if (argc - optind > 1)
		layer = find_layer(argv[optind]);
	for (at = loads; *at && load_parse(&parsed, &at);)
		;
	if (!layer || !load.requests || !size || size > ANSWER_MAX || *at)
		return usage();
	setrlimit(RLIMIT_NOFILE, &nofile);
	shown = mmap(NULL, sizeof(*shown), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shown == MAP_FAILED || pipe(ready))
		broken("set-up");
	shown->size = size;
	pid = fork();
	if (!pid)
		server(ready[1]);
	close(ready[1]);
	if (read(ready[0], &byte, 1) == 1)
		measure_all(pid, loads, load, argv + optind + 1);
	kill(pid, SIGTERM);
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 0;
}
