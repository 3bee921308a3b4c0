/* SPDX-License-Identifier: GPL-2.0 */
/* TLS 1.3 of the load: whole handshakes, or resumed ones. */
#ifndef BENCH_SECURE_H
#define BENCH_SECURE_H

#include <openssl/ssl.h>
#include <stdbool.h>
#include <sys/types.h>

/**
 * secure_setup() - before the first connection
 * @suite: the only cipher suite that is offered, as OpenSSL calls it
 * @file:  a session that each connection resumes; made by secure_keep() where it is missing; NULL: none does
 */
void secure_setup(const char *suite, const char *file);

/* The newest session goes into the file, for the next load. */
void secure_keep(void);

SSL *secure_begin(int fd);

/* Is the handshake over? Ends the program when it fails, or is a whole one where it should not. */
bool secure_shaken(SSL *ssl);

/* As recv(): 0 when the server has said its end, -1 with EAGAIN when there is no more yet. */
ssize_t secure_read(SSL *ssl, void *into, size_t len);

bool secure_write(SSL *ssl, const void *from, size_t len);

/* We send no more. */
void secure_say_end(SSL *ssl);

/* NULL: there is none. */
void secure_end(SSL *ssl);

#endif
