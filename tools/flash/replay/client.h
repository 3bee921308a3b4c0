/* SPDX-License-Identifier: GPL-2.0 */
/* A client of the load: one request after the other, each when the last is answered. */
#ifndef REPLAY_CLIENT_H
#define REPLAY_CLIENT_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#define HEAD_MAX 2048

enum client_event {
	CLIENT_GOES_ON,		/* waits for the socket */
	CLIENT_ANSWERED,
	CLIENT_FAILED,		/* the connection is gone, and the request with it */
};

/**
 * struct client
 * @served:  requests answered on the present connection
 * @fresh:   the request opened it
 * @status:  of the answer; @body: its bytes so far
 * @left:    bytes of the body to come; -1: up to the end of the connection
 * @started: when the request began, us
 * @busy:    a request is under way
 */
struct client {
	int fd, epoll;
	bool busy, fresh, connecting, in_body, closing;
	uint32_t served;
	int status;
	uint64_t body, started;
	int64_t left;
	char *out;
	size_t out_len, out_off, head_len;
	char head[HEAD_MAX + 1];
};

/**
 * struct target_address - where requests go
 * @host:       value of the Host field
 * @keep:       requests of a connection; 0: any number
 */
struct target_address {
	struct sockaddr_storage addr;
	socklen_t len;
	const char *host;
	uint32_t keep;
};

void client_init(struct client *c, int epoll);
/* Begins a request for @path at the time @now. CLIENT_FAILED: no socket, or refused at once. */
enum client_event client_begin(struct client *c, const struct target_address *to, const char *path,
			       uint64_t now);
enum client_event client_ready(struct client *c);
void client_hang_up(struct client *c);

#endif
