// SPDX-License-Identifier: GPL-2.0
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include "lard/tests/lib/daemon.h"
#include "lard/tests/lib/kernel.h"

struct lardd *lardd;
bool offer_http2;
static pthread_t thread;
static uint16_t port;
static int web;			/* where lardd proxies to */

static int listen_anywhere(uint16_t *at)
{
	struct sockaddr_in addr = { AF_INET, 0, { htonl(INADDR_LOOPBACK) }, { 0 } };
	socklen_t len = sizeof(addr);
	struct timeval limit = { .tv_sec = 60 };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	assert_int_equal(bind(fd, (struct sockaddr *)&addr, len), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&addr, &len), 0);
	assert_int_equal(listen(fd, 8), 0);
	*at = ntohs(addr.sin_port);
	return fd;
}

static void *run(void *arg)
{
	lardd_run(arg);
	return NULL;
}

int start_with(const char *lines, enum config_door door)
{
	char path[] = "/tmp/lard_give.XXXXXX", error[512];
	struct config *config;
	uint16_t web_port;
	FILE *file;
	int fd, i;

	kernel.policy = "wrr";
	kernel.max_outstanding = 0;
	kernel.submissions = kernel.refusals = kernel.attribute_count = 0;
	web = listen_anywhere(&web_port);
	close(listen_anywhere(&port));
	for (i = 0; i < NODES; i++) {
		struct sockaddr_in *addr = (void *)&kernel.nodes[i].addr;

		kernel.nodes[i] = (struct flt_node_info){
			.id = i + 1, .weight = 100, .state = FLT_NODE_UP,
		};
		snprintf(kernel.nodes[i].name, FLT_NAME_MAX, "be%d", i);
		addr->sin_family = AF_INET;
		addr->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		kernel.moved[i] = -1;
		kernel.answers[i] = TAKES;
	}
	fd = mkstemp(path);
	file = fdopen(fd, "w");
	fprintf(file, "listen 127.0.0.1:%u\nproxy-port %u\ncontrol off\nlog-level error\n%s%s", port,
		web_port, geteuid() ? "" : "user root\n", lines);
	fclose(file);
	config = config_read(path, error, sizeof(error));
	unlink(path);
	assert_non_null(config);
	config->listens = 1;
	config->doors[0] = door;
	config->http2[0] = offer_http2;
	lardd = lardd_new(config, path, false, error, sizeof(error));
	if (!lardd)
		fail_msg("%s", error);
	return pthread_create(&thread, NULL, run, lardd);
}

int stop(void **state)
{
	int i;

	(void)state;
	kill(getpid(), SIGTERM);	/* once: another would wait for the next test's daemon */
	pthread_join(thread, NULL);
	lardd_free(lardd);
	close(web);
	for (i = 0; i < NODES; i++)
		if (kernel.moved[i] >= 0)
			close(kernel.moved[i]);
	return 0;
}

uint32_t outstanding(void)
{
	uint32_t load;

	pthread_mutex_lock(&lardd->lock);
	load = lard_outstanding(lardd->engine);
	pthread_mutex_unlock(&lardd->lock);
	return load;
}

unsigned int nodes_up(void)
{
	unsigned int nodes;

	pthread_mutex_lock(&lardd->lock);
	nodes = lard_nodes(lardd->engine);
	pthread_mutex_unlock(&lardd->lock);
	return nodes;
}

unsigned int kernel_id_of(int slot)
{
	unsigned int id;

	pthread_mutex_lock(&lardd->lock);
	id = lardd->nodes.at[slot].kernel_id;
	pthread_mutex_unlock(&lardd->lock);
	return id;
}

struct lard_params params(void)
{
	struct lard_params p;

	pthread_mutex_lock(&lardd->lock);
	p = *lard_get_params(lardd->engine);
	pthread_mutex_unlock(&lardd->lock);
	return p;
}

uint32_t limit(void)
{
	uint32_t limit;

	pthread_mutex_lock(&lardd->lock);
	limit = lard_limit(lardd->engine);
	pthread_mutex_unlock(&lardd->lock);
	return limit;
}

bool only_first_is_up(void)
{
	uint64_t eligible;

	pthread_mutex_lock(&lardd->lock);
	eligible = lard_eligible(lardd->engine);
	pthread_mutex_unlock(&lardd->lock);
	return eligible == 1;
}

uint64_t counted(enum counter which)
{
	return lardd->worker[0]->counters[which];
}

bool all_closed(void)
{
	unsigned int state;

	for (state = CONN_SHAKE; state < CONN_STATES; state++)
		if (lardd->worker[0]->live[state])
			return false;
	return true;
}

int connect_client(const char *request)
{
	struct sockaddr_in addr = { AF_INET, htons(port), { htonl(INADDR_LOOPBACK) }, { 0 } };
	struct timeval limit = { .tv_sec = 60 };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	assert_int_equal(connect(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	assert_int_equal(send(fd, request, strlen(request), 0), strlen(request));
	return fd;
}

void expect(int fd, const char *text)
{
	char got[4096];
	size_t len = strlen(text);
	ssize_t n = recv(fd, got, len, MSG_WAITALL);

	assert_int_equal(n, len);
	assert_memory_equal(got, text, len);
}

int adopted(int *fd)
{
	int node = -1, i, tries;

	for (tries = 0; node < 0 && tries < 60000; tries++) {
		pthread_mutex_lock(&kernel.lock);
		for (i = 0; i < NODES; i++) {
			if (kernel.moved[i] < 0)
				continue;
			node = i;
			*fd = kernel.moved[i];
			kernel.moved[i] = -1;
		}
		pthread_mutex_unlock(&kernel.lock);
		usleep(1000);
	}
	assert_true(node >= 0);
	return node;
}

static bool serve_one(int fd)
{
	static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nproxied";
	char request[1024];
	ssize_t n = recv(fd, request, sizeof(request), 0);

	if (!n)
		return false;
	assert_true(n > 20);
	assert_int_equal(send(fd, answer, strlen(answer), 0), strlen(answer));
	return true;
}

void serve_proxied(void)
{
	int fd = accept(web, NULL, NULL);

	assert_true(serve_one(fd));
	close(fd);
}

void serve_kept(struct kept *kept)
{
	unsigned int i;

	for (;;) {
		kept->at[kept->count] = (struct pollfd){ .fd = web, .events = POLLIN };
		assert_true(poll(kept->at, kept->count + 1, 5000) > 0);
		if (kept->at[kept->count].revents) {
			assert_true(kept->count < KEPT - 1);
			kept->at[kept->count++] = (struct pollfd){ .fd = accept(web, NULL, NULL), .events = POLLIN };
			continue;
		}
		for (i = 0; i < kept->count && !kept->at[i].revents; i++)
			;
		if (serve_one(kept->at[i].fd))
			return;
		close(kept->at[i].fd);
		kept->at[i] = kept->at[--kept->count];
	}
}

void forget_kept(struct kept *kept)
{
	while (kept->count)
		close(kept->at[--kept->count].fd);
}

void expect_proxied(int client)
{
	char answer[1024] = "";
	size_t len = 0;
	ssize_t n;

	serve_proxied();
	while (!strstr(answer, "proxied")) {
		n = recv(client, answer + len, sizeof(answer) - 1 - len, 0);
		assert_true(n > 0);
		len += n;
	}
	close(client);
}
