/* SPDX-License-Identifier: GPL-2.0 */
/* lardd's TLS of one connection, without the daemon, and its client. Needs cmocka.h. */
#ifndef LARD_TEST_TLS_PAIR_H
#define LARD_TEST_TLS_PAIR_H

#include <openssl/ssl.h>
#include <stddef.h>
#include <stdint.h>
#include "lard/config.h"
#include "lard/conn.h"
#include "lard/tls/tls.h"

#define ROTATION_US 3600000000ULL

/* What loop_clock() says; of all that a pair is made with, but for what join_sealed() adds. */
extern uint64_t now;
extern struct config config;

struct pair {
	struct tls_site *site;
	struct conn conn;
	SSL_CTX *ctx;
	SSL *client;
	int fd;
};

/* For cmocka: the certificate of @config. */
int make_certificate(void **state);
int remove_certificate(void **state);

/* Both ends, after the handshake. @suites: of the client; NULL: all */
void join_with(struct pair *p, int version, SSL_SESSION *session, const char *suites);
void join(struct pair *p, int version, SSL_SESSION *session);
/* The same with tls-port: what comes is looked at, and stays in the socket. */
void join_sealed(struct pair *p, int version, const char *suites);
void part(struct pair *p);

/* Bytes in the socket of lardd's end. */
size_t unread(const struct pair *p);

#endif
