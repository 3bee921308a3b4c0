// SPDX-License-Identifier: GPL-2.0
/* The client of such a request is made up: it has its request at once, and takes all of the answer. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "cacheable.h"
#include "client.h"
#include "refresh.h"
#include "worker.h"

struct refresh {
	struct client_stream client;
	size_t at, len;
	char text[];
};

static struct refresh *of(struct client_stream *client)
{
	return container_of(client, struct refresh, client);
}

static ssize_t refresh_recv(struct client_stream *client, void *into, size_t len, int flags)
{
	struct refresh *refresh = of(client);

	if (len > refresh->len - refresh->at)
		len = refresh->len - refresh->at;
	if (!len) {
		errno = EAGAIN;
		return -1;
	}
	if (into)
		memcpy(into, refresh->text + refresh->at, len);
	if (!(flags & MSG_PEEK))
		refresh->at += len;
	return len;
}

static ssize_t refresh_send(struct client_stream *client, const struct iovec *parts, size_t count)
{
	size_t len = 0, i;

	(void)client;
	for (i = 0; i < count; i++)
		len += parts[i].iov_len;
	return len;
}

static int refresh_shutdown(struct client_stream *client)
{
	(void)client;
	return 0;
}

static void refresh_spoil(struct client_stream *client)
{
	(void)client;
}

static bool refresh_done(const struct client_stream *client)
{
	(void)client;
	return true;
}

static void refresh_close(struct client_stream *client)
{
	free(of(client));
}

static uint32_t refresh_events(struct client_stream *client)
{
	(void)client;
	return 0;
}

static unsigned int refresh_fault(const struct client_stream *client, const char **why)
{
	(void)client;
	(void)why;
	return 0;
}

static int refresh_socket(const struct client_stream *client)
{
	(void)client;
	return -1;
}

static const struct client_stream_ops ops = {
	.recv = refresh_recv,
	.send = refresh_send,
	.shutdown = refresh_shutdown,
	.spoil = refresh_spoil,
	.done = refresh_done,
	.close = refresh_close,
	.events = refresh_events,
	.fault = refresh_fault,
	.socket = refresh_socket,
};

static const char *forwarded(char mark)
{
	return mark == 's' ? "X-Forwarded-Proto: https\r\n" : mark == 'p' ? "X-Forwarded-Proto: http\r\n" : "";
}

/* "http80 HOST TARGET", and perhaps " s" or " p". What is asked for so is kept under the same key. */
static struct refresh *make(struct span key, unsigned int encodings)
{
	const char *host = memchr(key.at, ' ', key.len), *end = key.at + key.len, *target, *mark;
	char accept[64];
	struct refresh *refresh;
	size_t size;

	host++;
	target = (const char *)memchr(host, ' ', end - host) + 1;
	mark = memchr(target, ' ', end - target);
	size = key.len + sizeof(accept) + 128;
	refresh = malloc(sizeof(*refresh) + size);
	if (!refresh)
		return NULL;
	cacheable_accept(encodings, accept, sizeof(accept));
	refresh->client.ops = &ops;
	refresh->at = 0;
	refresh->len = snprintf(refresh->text, size, "GET %.*s HTTP/1.1\r\nHost: %.*s\r\nConnection: close\r\n%s%s\r\n",
				(int)((mark ? mark : end) - target), target, (int)(target - 1 - host), host, accept,
				forwarded(mark ? mark[1] : '\0'));
	return refresh;
}

bool refresh_begin(struct conn *conn, struct span key, unsigned int encodings, struct fetch *fetch)
{
	struct refresh *refresh = make(key, encodings);
	struct conn *own = refresh ? conn_stream(conn, &refresh->client) : NULL;

	if (!own) {
		free(refresh);
		return false;
	}
	/* It is nobody's, and there is no connection to hand off. */
	own->tls = conn->tls ? client_tls_of_nobody() : NULL;
	own->door = DOOR_TLS;
	own->site = conn->site;
	own->refreshes = true;
	own->fetch = fetch;
	own->asks = true;
	count(conn->worker, COUNTER_CACHE_REFRESHED);
	loop_again(&conn->worker->loop, &own->source);
	return true;
}
