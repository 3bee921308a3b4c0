/* SPDX-License-Identifier: GPL-2.0 */
/* A client that is a stream of a connection, as its struct conn sees it. */
#ifndef LARD_HTTP2_CLIENT_STREAM_H
#define LARD_HTTP2_CLIENT_STREAM_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

struct client_stream;
struct conn;

/**
 * struct client_stream_ops - as the functions of these names in lard/client.h
 * @done:   all was sent, or the stream is gone
 * @close:  frees it
 * @events: EPOLL* bits since the last time
 */
struct client_stream_ops {
	ssize_t (*recv)(struct client_stream *s, void *into, size_t len, int flags);
	ssize_t (*send)(struct client_stream *s, const struct iovec *parts, size_t count);
	int (*shutdown)(struct client_stream *s);
	void (*spoil)(struct client_stream *s);
	bool (*done)(const struct client_stream *s);
	void (*close)(struct client_stream *s);
	uint32_t (*events)(struct client_stream *s);
	unsigned int (*fault)(const struct client_stream *s, const char **why);
	int (*socket)(const struct client_stream *s);
};

struct client_stream {
	const struct client_stream_ops *ops;
};

#endif
