/* SPDX-License-Identifier: MIT */
/* A proxy without a protocol to parse, so that what is measured is the relaying itself. */
#ifndef RELAY_H
#define RELAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A request is this; its answer is the same 8 bytes and @size further ones. */
struct relay_request {
	uint32_t magic;
	uint32_t size;
};

#define RELAY_MAGIC	0x464c5452

/**
 * struct stream - a client's connection and the one to the origin that serves it
 * @fd:     client, origin
 * @events: what each is registered for
 * @head:   bytes of the answer's 8 that are in @buffer
 * @left:   bytes of the answer that are still to be read from the origin
 * @from, @to: what of @buffer waits to be written to the client
 * @piped:  bytes in @pipe
 * @copy:   bytes of the copy that are still to be read
 * @joined: the kernel relays now
 * @over:   ended; freed when no event of this round can name it
 */
struct stream {
	int fd[2];
	uint32_t events[2];
	uint64_t left;
	unsigned char *buffer;
	size_t from;
	size_t to;
	int pipe[2];
	size_t piped;
	uint64_t copy;
	bool joined;
	bool over;
};

enum { CLIENT, ORIGIN };

/* Joins two sockets by a sockmap, for good. */
int sockmap_join(int client, int origin);

#endif
