// SPDX-License-Identifier: GPL-2.0
/*
 * uselect-bench LAYER REQUESTS BATCH,BATCH... IDLE...: a server that waits by LAYER, and its load, in one guest.
 *
 * One client process holds 100 connections that ask, and as many more that never do as IDLE says; in each
 * round it sends a request on BATCH of the 100, drawn at random, and reads the answers of 8 KB. One JSON
 * line for each IDLE and BATCH: the server's run time in nanoseconds for a request, which with QEMU's -icount shift=0
 * and one CPU is the number of instructions, its system calls for readiness, and the busy time of
 * all, for a request.
 */

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "wait.h"

#define ACTIVE		100
#define REQUEST		64
#define ANSWER		8192

/* What the server shows its load. */
struct shown {
	uint64_t calls;
	uint64_t served;
	uint64_t accepted;
};

static struct shown *shown;
static const struct wait_layer *layer;
static int listener;

static void broken(const char *what)
{
	perror(what);
	exit(1);
}

/* --- the server --- */

static bool serve_listener(void)
{
	int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

	if (fd < 0)
		return false;
	layer->add(fd);
	shown->accepted++;
	return true;
}

bool serve(int fd)
{
	static char answer[ANSWER], request[4096];
	ssize_t n;

	if (fd == listener) {
		while (serve_listener())
			;
		return false;
	}
	n = recv(fd, request, sizeof(request), 0);
	if (!n)
		exit(0);
	if (n < 0)
		return false;
	for (; n >= REQUEST; n -= REQUEST) {
		if (send(fd, answer, sizeof(answer), MSG_NOSIGNAL) != sizeof(answer))
			broken("send");
		shown->served++;
	}
	return true;
}

static void server(int ready)
{
	struct sockaddr_in addr = { .sin_family = AF_INET, .sin_port = htons(8080),
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

/* --- its load --- */

static int fds[FDS_MAX], nr_fds;

static void connect_to(int wanted)
{
	struct sockaddr_in addr = { .sin_family = AF_INET, .sin_port = htons(8080),
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };

	for (; nr_fds < wanted; nr_fds++) {
		fds[nr_fds] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (fds[nr_fds] < 0 || connect(fds[nr_fds], (struct sockaddr *)&addr, sizeof(addr)))
			broken("connect");
		setsockopt(fds[nr_fds], IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int));
	}
	while (__atomic_load_n(&shown->accepted, __ATOMIC_RELAXED) < (uint64_t)wanted)
		usleep(1000);
}

static void ask(unsigned int batch, unsigned int requests)
{
	static uint64_t seed = 88172645463325252ULL;
	static char request[REQUEST], answer[ANSWER];
	unsigned int i, first;

	while (requests) {
		seed ^= seed << 13;
		seed ^= seed >> 7;
		seed ^= seed << 17;
		first = seed % ACTIVE;
		if (batch > requests)
			batch = requests;
		for (i = 0; i < batch; i++)
			if (send(fds[(first + i) % ACTIVE], request, REQUEST, MSG_NOSIGNAL) != REQUEST)
				broken("send");
		for (i = 0; i < batch; i++)
			if (recv(fds[(first + i) % ACTIVE], answer, ANSWER, MSG_WAITALL) != ANSWER)
				broken("recv");
		requests -= batch;
	}
}

static uint64_t run_time(pid_t pid)
{
	unsigned long long ns;
	char path[64];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/schedstat", pid);
	file = fopen(path, "r");
	if (!file || fscanf(file, "%llu", &ns) != 1)
		broken(path);
	fclose(file);
	return ns;
}

static void measure(pid_t pid, unsigned int idle, unsigned int batch, unsigned int requests)
{
	uint64_t server, load, calls;

	ask(batch, requests / 4);
	server = run_time(pid);
	load = run_time(getpid());
	calls = shown->calls;
	ask(batch, requests);
	server = run_time(pid) - server;
	load = run_time(getpid()) - load;
	calls = shown->calls - calls;
	printf("{\"layer\": \"%s\", \"idle\": %u, \"batch\": %u, \"requests\": %u, \"server\": %.0f, "
	       "\"both\": %.0f, \"calls\": %.3f}\n", layer->name, idle, batch, requests,
	       (double)server / requests, (double)(server + load) / requests,
	       (double)calls / requests);
	fflush(stdout);
}

/* Once for each of "1,10,100". */
static void measure_batches(pid_t pid, unsigned int idle, const char *batches, unsigned int requests)
{
	unsigned int batch;
	char *end;

	connect_to(ACTIVE + idle);
	while (*batches) {
		batch = strtoul(batches, &end, 10);
		if (batch < 1 || batch > ACTIVE || (*end && *end != ',')) {
			fprintf(stderr, "uselect-bench: '%s' is not 1 to %d\n", batches, ACTIVE);
			return;
		}
		measure(pid, idle, batch, requests);
		batches = *end ? end + 1 : end;
	}
}

int main(int argc, char **argv)
{
	struct rlimit nofile = { FDS_MAX * 2, FDS_MAX * 2 };
	struct sched_param param = { 0 };
	int i, ready[2], status;
	pid_t pid;
	char c;

	for (layer = wait_layers; argc > 4 && layer->name && strcmp(layer->name, argv[1]); layer++)
		;
	if (argc < 5 || !layer->name || atoi(argv[2]) < 1) {
		fputs("usage: uselect-bench LAYER REQUESTS BATCH,BATCH... IDLE...\n", stderr);
		return 2;
	}
	setrlimit(RLIMIT_NOFILE, &nofile);
	/* Neither takes the CPU from the other when it wakes it: a batch arrives as one. */
	sched_setscheduler(0, SCHED_BATCH, &param);
	shown = mmap(NULL, sizeof(*shown), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shown == MAP_FAILED || pipe(ready))
		broken("set-up");
	pid = fork();
	if (!pid)
		server(ready[1]);
	close(ready[1]);
	if (read(ready[0], &c, 1) == 1)
		for (i = 4; i < argc; i++)
			measure_batches(pid, atoi(argv[i]), argv[3], atoi(argv[2]));
	kill(pid, SIGTERM);
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 0;
}
