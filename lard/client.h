/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Bytes from and to a client, through TLS where it came by that. As the system calls of these names:
 * -1 with errno, EAGAIN included; 0: the client has said all.
 */
#ifndef LARD_CLIENT_H
#define LARD_CLIENT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include "lard/http2/client_stream.h"

struct client_tls;
struct conn;
struct flt_tls;
struct tls_notes;
struct tls_site;

/*
 * Has a node given it back, with its keys (hand_back)? Then the kernel decrypts what it says and encrypts what
 * it is told, and it is one of TLS without a handshake.
 */
bool client_take(struct conn *conn);
bool client_is_kernels(const struct conn *conn);
/* 0 or -ENOMEM. */
int client_secure(struct conn *conn, struct tls_site *site);
/*
 * The handshake as far as it goes. 1: it is over; 0: it waits for the client; -1: it has failed, for
 * which client_failure() has a word.
 */
int client_shake(struct conn *conn);
const char *client_failure(const struct conn *conn);
/* It and we want to speak HTTP/2. */
bool client_wants_http2(const struct conn *conn);
bool client_resumed(const struct conn *conn);
const struct tls_notes *client_notes(const struct conn *conn);
/* For a request of our own that is as if it came by TLS: there is no connection, and no certificate. */
struct client_tls *client_tls_of_nobody(void);
/* What back-ends are told of its certificate, as identity.h has it; NULL: it has shown none. */
const char *client_identity(const struct conn *conn);

/* Not if it would only be what was peeked at the last time: that is EAGAIN, of TLS. */
#define CLIENT_MORE	MSG_MORE
/*
 * @flags: 0, MSG_PEEK, that with CLIENT_MORE, or MSG_TRUNC with a NULL @into: throws away what was peeked at.
 */
ssize_t client_recv(struct conn *conn, void *into, size_t len, int flags);
ssize_t client_send(struct conn *conn, const struct iovec *parts, size_t count);
/* Some of what client_send() did not take may be on its way: it must be sent, or the connection aborted. */
bool client_committed(const struct conn *conn);
/* What is wrong with its request, which could not be written down: the status to answer, 0: nothing. */
unsigned int client_fault(const struct conn *conn, const char **why);
/* The descriptor of its connection. */
int client_socket(const struct conn *conn);
/* How much is there to be read, more or less; 0: nothing. */
int client_waiting(const struct conn *conn);
/* More than the parser has searched, of what is there; about, as above. */
int client_unseen(const struct conn *conn);
/*
 * Behind what was peeked at is no data but a new key, an alert, or nothing of the client's: it is for OpenSSL
 * to read, here, before more comes. False: there is no such thing, or it is read already.
 */
bool client_unseal(struct conn *conn);
/* It has said all; what was peeked at may be there still. */
bool client_ended(const struct conn *conn);
/* Nothing more is sent. 0 or -1; -1 with EAGAIN: try again when it is writable. */
int client_shutdown(struct conn *conn);
/* No end of ours is told: the client must not take what it has got for all. */
void client_spoil(struct conn *conn);
/* Says that it is over, if that can be, and forgets the keys. The descriptor stays. */
void client_close(struct conn *conn);
/* Somebody else has the connection and says what is to be said: the keys are forgotten. */
void client_forget(struct conn *conn);

/*
 * What comes next from a connection of TLS is in its socket yet, and its keys can go along with it:
 * what MSG_PEEK has shown, too.
 */
bool client_sealed(const struct conn *conn);
/* 0; or -1: it is not. @keys is to be wiped; zeros: the kernel has them. */
int client_keys(const struct conn *conn, struct flt_tls *keys);

#endif
