/* SPDX-License-Identifier: GPL-2.0 */
/*
 * TLS of one connection. Once the kernel makes its records ("kernel TLS"), what is sent goes to the
 * socket as without TLS, and files by sendfile; else OpenSSL makes them, of 16 KB at most.
 */
#ifndef FLASH_SECURE_H
#define FLASH_SECURE_H

#include "conn.h"

/* The connection's TLS, its first step ahead. 0 or -ENOMEM. */
int secure_new(struct conn *c);
void secure_free(struct conn *c);

/* The handshake as far as it goes. 1: it is over; 0: it waits for the client; -1: it has failed. */
int secure_shake(struct conn *c);

/* It was offered HTTP/2, and wants that. */
bool secure_wants_http2(const struct conn *c);

/* As recv(2), and as send(2) with MSG_NOSIGNAL. */
ssize_t secure_recv(struct conn *c, void *into, size_t len);
ssize_t secure_send(struct conn *c, const void *p, size_t len);

/* Does the kernel make the records of what is sent? */
bool secure_by_kernel(const struct conn *c);
/* A record that is made and has gone in part: secure_flush() must come first, and says what was in it. */
bool secure_pending(const struct conn *c);
ssize_t secure_flush(struct conn *c);
/* Of a file, by the kernel; as sendfile(2). */
ssize_t secure_sendfile(struct conn *c, int fd, off_t off, size_t len);

/* Nothing more is sent: says so. False: not now, try again when the socket has room. */
bool secure_end(struct conn *c);
/* No end of ours is told: the client must not take what it has got for all. */
void secure_spoil(struct conn *c);

#endif
