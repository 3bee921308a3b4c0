// SPDX-License-Identifier: GPL-2.0
#include "client.h"
#include <errno.h>
#include <linux/sockios.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include "conn.h"
#include "identity.h"
#include "tls/tls.h"

#define RECORD_MAX	16384
#define BARREN_MAX	64	/* records without data, in BARREN_US */
#define BARREN_US	1000000
#define SHAKE_MAX	4096	/* records of a handshake */

/**
 * struct client_tls - the TLS of one connection
 * @in:     what was decrypted and is not taken yet, @in_start to @in_end; NULL: nothing. A request
 *	    is peeked at until it is whole, which OpenSSL can do within a record only.
 * @barren: records read without data, since @since_us or, in the handshake, its beginning
 * @barren_max: with more, nothing is read any more: SSL_read() goes on for as long as such come, and
 *	    meanwhile nobody else is served
 * @retry:  length of a record that is made, and sent in part: the same bytes must come again
 * @notes:  see tls.h
 * @identity: of its certificate, see identity.h
 * @why:    it is not served, although the handshake is over
 * @ended:  the client has said all
 * @broken: no record can be made any more
 * @shut:   we have said all
 */
struct client_tls {
	SSL *ssl;
	struct tls_site *site;
	char *in;
	size_t in_start, in_end, in_size;
	size_t retry;
	unsigned int barren, barren_max;
	uint64_t since_us;
	bool ended;
	bool broken;
	bool shut;
	struct tls_notes notes;
	char *identity;
	const char *why;
};

static void note_record(int writing, int version, int type, const void *bytes, size_t len, SSL *ssl,
			void *arg)
{
	struct client_tls *tls = arg;

	(void)version;
	(void)bytes;
	(void)len;
	(void)ssl;
	if (!writing && type == SSL3_RT_HEADER)
		tls->barren++;
}

/* Before each read of OpenSSL's: -1 is an error of the socket's. */
static long may_read(BIO *bio, int what, const char *bytes, size_t len, int arg_int, long arg_long,
		     int result, size_t *done)
{
	const struct client_tls *tls = (const struct client_tls *)BIO_get_callback_arg(bio);

	(void)bytes;
	(void)len;
	(void)arg_int;
	(void)arg_long;
	(void)done;
	if (what != BIO_CB_READ || tls->barren <= tls->barren_max)
		return result;
	BIO_clear_retry_flags(bio);
	return -1;
}

int client_secure(struct conn *conn, struct tls_site *site)
{
	struct client_tls *tls = calloc(1, sizeof(*tls));

	if (!tls)
		return -ENOMEM;
	tls->ssl = tls_site_connection(site, conn->source.fd, conn->door, &tls->notes);
	if (!tls->ssl) {
		free(tls);
		return -ENOMEM;
	}
	tls->site = tls_site_get(site);
	tls->barren_max = SHAKE_MAX;
	SSL_set_msg_callback(tls->ssl, note_record);
	SSL_set_msg_callback_arg(tls->ssl, tls);
	BIO_set_callback_ex(SSL_get_rbio(tls->ssl), may_read);
	BIO_set_callback_arg(SSL_get_rbio(tls->ssl), (char *)tls);
	conn->tls = tls;
	return 0;
}

/* What a call of OpenSSL's that did not succeed comes to: 0 at the end, or -1 with errno. */
static int judge(struct client_tls *tls, int result)
{
	int err = errno;

	switch (SSL_get_error(tls->ssl, result)) {
	case SSL_ERROR_WANT_READ:
	case SSL_ERROR_WANT_WRITE:
		errno = EAGAIN;
		return -1;
	case SSL_ERROR_ZERO_RETURN:
		tls->ended = true;
		return 0;
	case SSL_ERROR_SYSCALL:
		tls->broken = true;
		errno = err && err != EAGAIN && err != EINTR ? err : ECONNRESET;
		return -1;
	default:
		tls->broken = true;
		errno = ECONNRESET;
		return -1;
	}
}

/* OpenSSL looks at the thread's queue of errors to say what a call came to. */
static void begin(void)
{
	ERR_clear_error();
	errno = 0;
}

/* Who takes the port for one of plain HTTP is told so in HTTP. */
static void answer_in_clear(int fd)
{
	static const char answer[] =
		"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nContent-Length: 58\r\n"
		"Connection: close\r\n\r\n"
		"This port speaks HTTPS: its addresses begin with https://\n";

	/* Nothing was sent before: there is room, or the client is gone. */
	(void)!send(fd, answer, sizeof(answer) - 1, MSG_NOSIGNAL);
}

int client_shake(struct conn *conn)
{
	int n;

	begin();
	n = SSL_do_handshake(conn->tls->ssl);
	if (n == 1) {
		conn->tls->barren = 0;
		conn->tls->barren_max = BARREN_MAX;
		conn->tls->why = identity_of(conn->tls->ssl, &conn->tls->identity);
		return conn->tls->why ? -1 : 1;
	}
	if (judge(conn->tls, n) < 0 && errno == EAGAIN)
		return 0;
	if (ERR_GET_REASON(ERR_peek_error()) == SSL_R_HTTP_REQUEST)
		answer_in_clear(conn->source.fd);
	return -1;
}

const char *client_failure(const struct conn *conn)
{
	const char *reason = conn->tls->why;

	reason = reason ? reason : ERR_reason_error_string(ERR_peek_error());

	return reason ? reason : "the client went away";
}

bool client_resumed(const struct conn *conn)
{
	return SSL_session_reused(conn->tls->ssl);
}

const struct tls_notes *client_notes(const struct conn *conn)
{
	return &conn->tls->notes;
}

const char *client_identity(const struct conn *conn)
{
	return conn->tls ? conn->tls->identity : NULL;
}

/* --- from the client --- */

static size_t buffered(const struct client_tls *tls)
{
	return tls->in_end - tls->in_start;
}

static void drop_buffer(struct client_tls *tls)
{
	/* It may hold what nobody else is to see. */
	OPENSSL_clear_free(tls->in, tls->in_size);
	tls->in = NULL;
	tls->in_start = tls->in_end = tls->in_size = 0;
}

static void consume(struct client_tls *tls, size_t len)
{
	tls->in_start += len;
	if (tls->in_start == tls->in_end)
		drop_buffer(tls);
}

static int make_room(struct client_tls *tls, size_t len)
{
	char *in;

	if (tls->in_start + len <= tls->in_size)
		return 0;
	if (len <= tls->in_size) {
		memmove(tls->in, tls->in + tls->in_start, buffered(tls));
	} else {
		in = OPENSSL_malloc(len);
		if (!in)
			return -1;
		if (tls->in)
			memcpy(in, tls->in + tls->in_start, buffered(tls));
		OPENSSL_clear_free(tls->in, tls->in_size);
		tls->in = in;
		tls->in_size = len;
	}
	tls->in_end -= tls->in_start;
	tls->in_start = 0;
	return 0;
}

static ssize_t read_some(struct client_tls *tls, void *into, size_t len)
{
	uint64_t now = loop_clock();
	int n;

	if (tls->ended)
		return 0;
	if (tls->broken) {
		errno = ECONNRESET;
		return -1;
	}
	if (now - tls->since_us >= BARREN_US) {
		tls->since_us = now;
		tls->barren = 0;
	}
	begin();
	n = SSL_read(tls->ssl, into, len);
	if (n > 0 && tls->barren)
		tls->barren--;
	return n > 0 ? n : judge(tls, n);
}

/* Until @len bytes are buffered or no more are there; what the last read came to. */
static ssize_t fill(struct client_tls *tls, size_t len)
{
	ssize_t n = 1;

	if (make_room(tls, len)) {
		errno = ENOMEM;
		return -1;
	}
	while (n > 0 && buffered(tls) < len) {
		n = read_some(tls, tls->in + tls->in_end, len - buffered(tls));
		if (n > 0)
			tls->in_end += n;
	}
	return n;
}

static ssize_t peek(struct client_tls *tls, void *into, size_t len)
{
	ssize_t n = buffered(tls) < len ? fill(tls, len) : 0;
	size_t there = buffered(tls) < len ? buffered(tls) : len;
	int err = errno;

	if (!there) {
		drop_buffer(tls);
		errno = err;
		return n;
	}
	memcpy(into, tls->in + tls->in_start, there);
	return there;
}

ssize_t client_recv(struct conn *conn, void *into, size_t len, int flags)
{
	struct client_tls *tls = conn->tls;

	if (!tls)
		return recv(conn->source.fd, into, len, flags);
	if (flags & MSG_PEEK)
		return peek(tls, into, len);
	if (!buffered(tls))
		return into ? read_some(tls, into, len) : 0;
	if (len > buffered(tls))
		len = buffered(tls);
	if (into)
		memcpy(into, tls->in + tls->in_start, len);
	consume(tls, len);
	return len;
}

int client_waiting(const struct conn *conn)
{
	int there = 0;

	if (conn->source.fd < 0 || ioctl(conn->source.fd, SIOCINQ, &there))
		there = 0;
	return conn->tls ? there + (int)buffered(conn->tls) + SSL_pending(conn->tls->ssl) : there;
}

bool client_ended(const struct conn *conn)
{
	return conn->tls && (conn->tls->ended || conn->tls->broken);
}

/* --- to the client --- */

/* The first @len bytes of @parts, in one piece: theirs where that is one, else in @copy. */
static const char *in_one(const struct iovec *parts, size_t count, size_t len, char *copy)
{
	size_t at = 0, i;

	for (i = 0; i < count && !parts[i].iov_len; i++)
		;
	if (i < count && parts[i].iov_len >= len)
		return parts[i].iov_base;
	for (; i < count && at < len; i++) {
		size_t piece = parts[i].iov_len < len - at ? parts[i].iov_len : len - at;

		memcpy(copy + at, parts[i].iov_base, piece);
		at += piece;
	}
	return copy;
}

/* One record. */
static ssize_t write_some(struct client_tls *tls, const struct iovec *parts, size_t count)
{
	char copy[RECORD_MAX];
	size_t len = 0, i;
	int n;

	for (i = 0; i < count; i++)
		len += parts[i].iov_len;
	if (len > RECORD_MAX)
		len = RECORD_MAX;
	if (tls->retry && tls->retry <= len)
		len = tls->retry;
	if (tls->broken || tls->shut || (tls->retry && tls->retry != len)) {
		errno = EPIPE;
		return -1;
	}
	begin();
	n = SSL_write(tls->ssl, in_one(parts, count, len, copy), len);
	if (n > 0) {
		tls->retry = 0;
		return n;
	}
	if (!judge(tls, n))
		errno = EPIPE;
	else if (errno == EAGAIN)
		tls->retry = len;
	return -1;
}

ssize_t client_send(struct conn *conn, const struct iovec *parts, size_t count)
{
	struct msghdr message = { .msg_iov = (struct iovec *)parts, .msg_iovlen = count };

	if (conn->tls)
		return write_some(conn->tls, parts, count);
	return sendmsg(conn->source.fd, &message, MSG_NOSIGNAL);
}

bool client_committed(const struct conn *conn)
{
	return conn->tls && conn->tls->retry;
}

/* --- the end --- */

static int say_end(struct client_tls *tls)
{
	int n;

	if (tls->shut || tls->broken || tls->retry || !SSL_is_init_finished(tls->ssl))
		return 0;
	begin();
	n = SSL_shutdown(tls->ssl);
	if (n < 0 && judge(tls, n) < 0 && errno == EAGAIN)
		return -1;
	tls->shut = true;
	ERR_clear_error();
	return 0;
}

int client_shutdown(struct conn *conn)
{
	if (conn->tls && say_end(conn->tls))
		return -1;
	return shutdown(conn->source.fd, SHUT_WR);
}

void client_spoil(struct conn *conn)
{
	if (conn->tls)
		conn->tls->broken = true;
}

void client_close(struct conn *conn)
{
	struct client_tls *tls = conn->tls;

	if (!tls)
		return;
	say_end(tls);
	SSL_free(tls->ssl);
	drop_buffer(tls);
	tls_site_put(tls->site);
	free(tls->identity);
	free(tls);
	conn->tls = NULL;
	ERR_clear_error();
}
