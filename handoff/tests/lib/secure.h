/* SPDX-License-Identifier: GPL-2.0 */
/* TLS 1.3 of the client: whole handshakes, and sessions that are resumed. */
#ifndef HANDOFF_SECURE_H
#define HANDOFF_SECURE_H

#include <openssl/ssl.h>
#include <stdbool.h>
#include <sys/types.h>

void secure_setup(void);

/* @resumes: by the newest session, if there is one. */
SSL *secure_begin(int fd, bool resumes);

/*
 * 0: it is over. EAGAIN: it goes on when more has come. Other errors, of what follows too: EPROTO
 * when what came is not what the other side has sent, or is an alert; ECONNABORTED when TCP ends
 * and TLS has not.
 */
int secure_shake(SSL *ssl);

/* As send() and recv(). 0: an end that the server has said in TLS and then in TCP. */
ssize_t secure_send(SSL *ssl, const void *from, size_t len);
ssize_t secure_recv(SSL *ssl, void *into, size_t len);

/* Says nothing to the server. NULL: there is none. */
void secure_end(SSL *ssl);

#endif
