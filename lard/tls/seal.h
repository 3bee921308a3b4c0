/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Records of TLS 1.3 that are read without being taken: they stay in the socket, for whoever gets
 * the connection and its keys.
 *
 * OpenSSL reads a record at a time (SSL_set_read_ahead() is off), so what follows the client's
 * Finished is still in the socket when the handshake is over. The secrets come by its key log,
 * how many records have been made by its message callback.
 */
#ifndef LARD_SEAL_H
#define LARD_SEAL_H

#include <openssl/ssl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <flotilla/flotilla.h>

/**
 * struct seal_way - one direction
 * @secret:  of the application's traffic
 * @len:     of @secret; 0: there is none yet
 * @records: that had its keys
 * @keys:    of @secret, where they are @derived
 */
struct seal_way {
	unsigned char secret[EVP_MAX_MD_SIZE];
	size_t len;
	uint64_t records;
	struct flt_tls_way keys;
	bool derived;
};

/**
 * struct seal - what is known of a connection's keys
 * @rx, @tx: from the client and to it
 * @lost:    they have been changed, or what came cannot be read
 * @need:    bytes in the socket with which one more record is whole than at the last look; 0: that is not
 *	     known; SEAL_NEVER: what follows is not looked at
 * @whole:   bytes of the records that the last look opened, where @need is known
 */
struct seal {
	struct seal_way rx, tx;
	bool lost;
	size_t need, whole;
};

#define SEAL_NEVER	SIZE_MAX

/* A line of the key log. */
void seal_secret(struct seal *seal, const char *line);
/* What the message callback hears. */
void seal_note(struct seal *seal, int writing, int type, const unsigned char *bytes, size_t len);
/* Nothing of the next record has been taken from the socket, and its keys are known. */
bool seal_holds(const struct seal *seal, SSL *ssl);
/*
 * Up to @len bytes of what is next, which stay in @fd. 0: the client has said all; -1 with errno, EAGAIN
 * included; after EBADMSG the next record is for OpenSSL to judge. @more: what the last look gave is known,
 * and if it would be all again that is EAGAIN. @looked: bytes of the socket, with what is not whole.
 */
ssize_t seal_peek(struct seal *seal, SSL *ssl, int fd, void *into, size_t len, bool more, size_t *looked);
/* The keys as they are now; @keys is to be wiped. 0 or -1. */
int seal_keys(struct seal *seal, SSL *ssl, struct flt_tls *keys);
void seal_forget(struct seal *seal);

#endif
