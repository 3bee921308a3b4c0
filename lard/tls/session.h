/* SPDX-License-Identifier: GPL-2.0 */
/*
 * TLS of one connection, over a socket that does not wait, or not for long (@patience_us). As the system
 * calls of these names: -1 with errno, EAGAIN included; 0: the client has said all.
 */
#ifndef LARD_TLS_SESSION_H
#define LARD_TLS_SESSION_H

#include <openssl/ssl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "tls.h"

#define TLS_RECORD_MAX	16384

/**
 * struct tls_session
 * @notes:  see tls.h
 * @retry:  length of a record that is made, and sent in part: the same bytes must come again
 * @barren: records read without data, since @since_us or, in the handshake, its beginning
 * @barren_max: with more, nothing is read any more: SSL_read() goes on for as long as such come, and
 *	    meanwhile nobody else is served
 * @patience_us: not 0 where the socket waits: a call that has read for so long is over, with EAGAIN. By itself
 *	    OpenSSL goes on until a record is whole, however slowly its bytes come
 * @began_us: the call that reads
 * @kernel: makes the records that are sent
 * @ended:  the client has said all
 * @broken: no record can be made any more
 * @shut:   we have said all
 */
struct tls_session {
	SSL *ssl;
	struct tls_notes notes;
	size_t retry;
	unsigned int barren, barren_max;
	uint64_t since_us, patience_us, began_us;
	bool kernel, ended, broken, shut;
};

/* Of a zeroed one, which stays where it is. @ktls: by the kernel if it can. 0 or -ENOMEM. */
int tls_session_open(struct tls_session *s, struct tls_site *site, int fd, enum config_door door,
		     bool ktls);
/* Keys are forgotten; the descriptor stays. */
void tls_session_close(struct tls_session *s);
/*
 * The handshake as far as it goes. 1: it is over; 0: it waits for the client; -1: it has failed, and
 * OpenSSL's queue of errors says why.
 */
int tls_session_shake(struct tls_session *s);
/* @now_us: microseconds that only grow */
ssize_t tls_session_read(struct tls_session *s, void *into, size_t len, uint64_t now_us);
/* HTTP/2 was agreed on. */
bool tls_session_wants_http2(const struct tls_session *s);
/*
 * What comes next is in the socket yet, all that was made is sent, and the keys are known (seal.h): it can
 * be looked at there, and can go to somebody else with the keys.
 */
bool tls_session_sealed(const struct tls_session *s);
/* Of a sealed one, as seal_peek() and seal_keys(). */
ssize_t tls_session_peek(struct tls_session *s, void *into, size_t len, bool more, size_t *looked);
/* Will more never be looked at? It is not sealed any more. */
bool tls_session_unseal(struct tls_session *s);
int tls_session_keys(struct tls_session *s, struct flt_tls *keys);
/* One record at most; with @retry set of just that length. */
ssize_t tls_session_write(struct tls_session *s, const void *p, size_t len);
/* Of a file, by the kernel, which makes the records. */
ssize_t tls_session_sendfile(struct tls_session *s, int fd, off_t off, size_t len);
/* Nothing more is sent: says so. False: not now, try again when the socket has room. */
bool tls_session_end(struct tls_session *s);

#endif
