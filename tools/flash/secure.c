// SPDX-License-Identifier: GPL-2.0
#include "secure.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "lard/tls/tls.h"

#define BARREN_MAX 64	/* records without data, in BARREN_MS */
#define BARREN_MS 1000
#define SHAKE_MAX 4096	/* records of a handshake */
#define KEY_UPDATE 24	/* RFC 8446, 4.6.3 */

/**
 * struct secure
 * @retry:  length of a record that is made, and has gone in part
 * @barren: records read without data, since @since or, in the handshake, its beginning
 * @barren_max: with more, nothing is read any more: SSL_read() goes on for as long as such come, and
 *	    meanwhile nobody else is served
 * @kernel: makes the records that are sent
 * @broken: no record can be made any more
 * @shut:   we have said all
 */
struct secure {
	SSL *ssl;
	struct tls_notes notes;
	size_t retry;
	unsigned int barren, barren_max;
	uint64_t since;
	bool kernel, broken, shut;
};

/*
 * A client that has new keys asks us for new ones, too. OpenSSL says yes, but the kernel goes on with
 * the old: nothing that is sent then can be read.
 */
static void note_record(int writing, int version, int type, const void *bytes, size_t len, SSL *ssl,
			void *arg)
{
	const unsigned char *p = bytes;
	struct secure *s = arg;

	(void)version;
	(void)ssl;
	if (writing)
		return;
	if (type == SSL3_RT_HEADER)
		s->barren++;
	else if (type == SSL3_RT_HANDSHAKE && s->kernel && len > 4 && p[0] == KEY_UPDATE && p[4])
		s->broken = true;
}

/* Before each read of OpenSSL's: -1 is an error of the socket's. */
static long may_read(BIO *bio, int what, const char *bytes, size_t len, int arg_int, long arg_long,
		     int result, size_t *done)
{
	const struct secure *s = (const struct secure *)BIO_get_callback_arg(bio);

	(void)bytes;
	(void)len;
	(void)arg_int;
	(void)arg_long;
	(void)done;
	if (what != BIO_CB_READ || s->barren <= s->barren_max)
		return result;
	BIO_clear_retry_flags(bio);
	return -1;
}

int secure_new(struct conn *c)
{
	struct secure *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->ssl = tls_site_connection(c->w->conf->tls, c->watch.fd, c->door, &s->notes);
	if (!s->ssl) {
		free(s);
		return -ENOMEM;
	}
	s->barren_max = SHAKE_MAX;
	if (c->w->conf->ktls)
		SSL_set_options(s->ssl, SSL_OP_ENABLE_KTLS);
	SSL_set_msg_callback(s->ssl, note_record);
	SSL_set_msg_callback_arg(s->ssl, s);
	BIO_set_callback_ex(SSL_get_rbio(s->ssl), may_read);
	BIO_set_callback_arg(SSL_get_rbio(s->ssl), (char *)s);
	c->tls = s;
	return 0;
}

void secure_free(struct conn *c)
{
	struct secure *s = c->tls;

	if (!s)
		return;
	SSL_free(s->ssl);
	free(s);
	c->tls = NULL;
	ERR_clear_error();
}

/* OpenSSL looks at the thread's queue of errors to say what a call came to. */
static void begin(void)
{
	ERR_clear_error();
	errno = 0;
}

/* What a call of OpenSSL's that did not succeed comes to: 0 at the end, or -1 with errno. */
static int judge(struct secure *s, int result)
{
	int err = errno;

	switch (SSL_get_error(s->ssl, result)) {
	case SSL_ERROR_WANT_READ:
	case SSL_ERROR_WANT_WRITE:
		errno = err == EINTR ? EINTR : EAGAIN;
		return -1;
	case SSL_ERROR_ZERO_RETURN:
		return 0;
	case SSL_ERROR_SYSCALL:
		s->broken = true;
		errno = err && err != EAGAIN && err != EINTR ? err : ECONNRESET;
		return -1;
	default:
		s->broken = true;
		errno = ECONNRESET;
		return -1;
	}
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

static void count_handshake(struct conn *c)
{
	const struct tls_notes *notes = &c->tls->notes;
	struct stats *stats = c->w->stats;

	stats_add(stats, tls_handshakes, 1);
	if (c->tls->kernel)
		stats_add(stats, tls_kernel, 1);
	if (notes->missed)
		stats_add(stats, tls_name_missed, 1);
	if (notes->unknown_ticket)
		stats_add(stats, tls_ticket_unknown, 1);
	if (SSL_session_reused(c->tls->ssl))
		stats_add(stats, tls_resumed, 1);
	else if (notes->stapled)
		stats_add(stats, tls_stapled, 1);
	else if (notes->unstapled)
		stats_add(stats, tls_unstapled, 1);
}

int secure_shake(struct conn *c)
{
	struct secure *s = c->tls;
	int n;

	begin();
	n = SSL_do_handshake(s->ssl);
	if (n == 1) {
		s->barren = 0;
		s->barren_max = BARREN_MAX;
		s->kernel = BIO_get_ktls_send(SSL_get_wbio(s->ssl));
		count_handshake(c);
		return 1;
	}
	if (judge(s, n) < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (ERR_GET_REASON(ERR_peek_error()) == SSL_R_HTTP_REQUEST)
		answer_in_clear(c->watch.fd);
	return -1;
}

ssize_t secure_recv(struct conn *c, void *into, size_t len)
{
	struct secure *s = c->tls;
	int n;

	if (s->broken) {
		errno = ECONNRESET;
		return -1;
	}
	if (c->w->loop.now - s->since >= BARREN_MS) {
		s->since = c->w->loop.now;
		s->barren = 0;
	}
	begin();
	n = SSL_read(s->ssl, into, len);
	if (n > 0 && s->barren)
		s->barren--;
	return n > 0 ? n : judge(s, n);
}

static ssize_t write_record(struct conn *c, const void *p, size_t len)
{
	struct secure *s = c->tls;
	int n;

	if (s->broken || s->shut) {
		errno = EPIPE;
		return -1;
	}
	begin();
	n = SSL_write(s->ssl, p, len);
	if (n > 0) {
		s->retry = 0;
		return n;
	}
	if (!judge(s, n))
		errno = EPIPE;
	else if (errno == EAGAIN || errno == EINTR)
		s->retry = len;
	return -1;
}

/* Less than all only where the socket takes no more: who asks waits for it to have room then. */
ssize_t secure_send(struct conn *c, const void *p, size_t len)
{
	struct secure *s = c->tls;
	size_t done = 0, size;
	ssize_t n;

	if (s->kernel && !s->broken && !s->shut)
		return send(c->watch.fd, p, len, MSG_NOSIGNAL);
	while (done < len) {
		size = len - done < SECURE_RECORD ? len - done : SECURE_RECORD;
		if (s->retry > size) {
			errno = EPIPE;
			return -1;
		}
		n = write_record(c, (const char *)p + done, s->retry ? s->retry : size);
		if (n < 0)
			return done ? (ssize_t)done : n;
		done += n;
	}
	return done;
}

bool secure_by_kernel(const struct conn *c)
{
	return c->tls->kernel;
}

bool secure_pending(const struct conn *c)
{
	return c->tls->retry;
}

ssize_t secure_flush(struct conn *c)
{
	/* What is in it is encrypted already: it is not looked at again. */
	return write_record(c, c->w->out, c->tls->retry);
}

ssize_t secure_sendfile(struct conn *c, int fd, off_t off, size_t len)
{
	struct secure *s = c->tls;
	ossl_ssize_t n;

	if (s->broken || s->shut) {
		errno = EPIPE;
		return -1;
	}
	begin();
	n = SSL_sendfile(s->ssl, fd, off, len, 0);
	if (n >= 0) {
		stats_add(c->w->stats, tls_sendfile, n);
		return n;
	}
	/* Its own word for a call that failed would be another than the kernel's. */
	return errno == EIO || errno == EINVAL ? n : judge(s, n);
}

bool secure_end(struct conn *c)
{
	struct secure *s = c->tls;
	int n;

	if (s->shut || s->broken || s->retry || !SSL_is_init_finished(s->ssl))
		return true;
	begin();
	n = SSL_shutdown(s->ssl);
	if (n < 0 && judge(s, n) < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	s->shut = true;
	ERR_clear_error();
	return true;
}

void secure_spoil(struct conn *c)
{
	c->tls->broken = true;
}
