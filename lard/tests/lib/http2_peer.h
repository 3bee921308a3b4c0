/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A client of HTTP/2 and the node that it may move to, for a daemon on a kernel of pretence (daemon.h) that hands
 * HTTP/2 off to port 8444. Needs cmocka.h.
 */
#ifndef LARD_TEST_HTTP2_PEER_H
#define LARD_TEST_HTTP2_PEER_H

#include <nghttp2/nghttp2.h>
#include <openssl/ssl.h>
#include <stdbool.h>
#include <stddef.h>

/* Only the daemon's first listener is opened; what the file says of http2 is of another. 0, for a setup of cmocka. */
int start_with_http2(const char *lines);
/* It waits for a request as long as it takes. */
int start_patient(void **state);
/* And those who wait for a place wait for a moment. */
int start_busy(void **state);
int stop_http2(void **state);

struct client {
	nghttp2_session *session;
	SSL *ssl;
	int fd;
	unsigned char said[20000];	/* what the session wants to be sent, @sent bytes of it were */
	size_t len, sent;
	int statuses[32];		/* by stream */
	char body[1024];
	size_t body_len;
	bool settled, left;
};

/* Its handshake is over; preface and SETTINGS are in @said. */
void connect_http2(struct client *c, int version);
/* The request is in @said. */
void ask_with(struct client *c, const char *path, const char *name, const char *value);
void ask_for(struct client *c, const char *path);
/* A record with what it has not said yet, up to @to. */
void say(struct client *c, size_t to);
/* All of it at once. */
void connect_and_ask(struct client *c, int version, const char *path);
/* One record of what the other end says. */
void hear(struct client *c);
void expect_answer(struct client *c, int stream, int status);
void hang_up(struct client *c);

/* It has moved, and to this port: nobody but the node speaks to the client. */
void expect_moved(struct client *c);
/* A connection has moved and fills the one place that there is; the node, and its socket in *server. */
int occupy(int *server);

#endif
