/* SPDX-License-Identifier: MIT */
/* One randomised transfer through /dev/sksplice, driven from all three sides by one thread. */
#ifndef SESSION_H
#define SESSION_H

#include <stdbool.h>
#include <stdint.h>

/* What happens in the midst of it. */
enum mishap {
	MISHAP_NONE,
	MISHAP_CLIENT_RESET,
	MISHAP_SERVER_RESET,
	MISHAP_UNSPLICE,
	MISHAP_SINK_CLOSE,
	MISHAP_SHORT,
	MISHAPS
};

/**
 * struct far - a connection of the proxy
 * @peer:  the server's or the client's end
 * @near:  the proxy's
 * @tiny:  has a small buffer
 */
struct far {
	int peer;
	int near;
	bool tiny;
};

/**
 * struct worker - one process that runs sessions one after the other
 * @dev:     of the device
 * @rnd:     state of its random numbers
 * @server:  the connection to the server, kept from session to session when it can be
 * @client:  the same, to the client
 * @number:  of the session, for messages
 * @mishaps, @modes, @bytes, @in_call: how much of what was done
 */
struct worker {
	int dev;
	uint64_t rnd;
	struct far server;
	struct far client;
	uint64_t number;
	uint64_t mishaps[MISHAPS];
	uint64_t modes[8];
	uint64_t bytes;
	uint64_t in_call;
	int ears[2];
};

/* Runs one; 0, or -1 with what was wrong on standard output, as a TAP comment. */
int session_run(struct worker *w);

int session_open(struct worker *w, int dev, uint64_t seed);
void session_close(struct worker *w);

#endif
