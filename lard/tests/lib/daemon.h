/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The whole daemon on a kernel of pretence (kernel.h). Its loop runs in a thread; the test is the client, the nodes
 * and the kernel.
 */
#ifndef LARD_TEST_DAEMON_H
#define LARD_TEST_DAEMON_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <unistd.h>
#include "lard/lardd.h"
#include "lard/worker.h"

#define REQUEST "GET /a HTTP/1.1\r\nHost: h\r\n\r\n"

/* Waits up to a minute for the state, then insists on it. */
#define UNTIL(condition)						\
	do {								\
		int tries_ = 60000;					\
									\
		while (!(condition) && --tries_)			\
			usleep(1000);					\
		assert_true(condition);					\
	} while (0)

extern struct lardd *lardd;

/* By the next start, at its listener. */
extern bool offer_http2;

/* @lines: of the configuration; @door: of its first listener, which alone is opened. 0, for a setup of cmocka. */
int start_with(const char *lines, enum config_door door);
int stop(void **state);

/* What lardd knows now. */
uint32_t outstanding(void);
unsigned int nodes_up(void);
unsigned int kernel_id_of(int slot);
struct lard_params params(void);
uint32_t limit(void);
bool only_first_is_up(void);
uint64_t counted(enum counter which);
/* No connection in any state. */
bool all_closed(void);

/* The client's socket, @request sent. */
int connect_client(const char *request);
/* The next bytes there are @text. */
void expect(int fd, const char *text);
/* Which node has adopted the connection; its socket into *fd. */
int adopted(int *fd);
/* The test as web server: one request, one answer. */
void serve_proxied(void);

/**
 * struct kept - a web server's connections, which it keeps; begins with zeros
 */
#define KEPT	8
struct kept {
	struct pollfd at[KEPT];
	unsigned int count;
};

/* As serve_proxied(), on whichever asks; no request in 5 s is a failure. */
void serve_kept(struct kept *kept);
void forget_kept(struct kept *kept);
/* As serve_proxied(), and the client has it. */
void expect_proxied(int client);

#endif
