// SPDX-License-Identifier: GPL-2.0
#include "session.h"
#include <errno.h>
#include <openssl/err.h>
#include <string.h>
#include <sys/socket.h>
#include "host.h"

#define BARREN_MAX	64	/* records without data, in BARREN_US */
#define BARREN_US	1000000
#define SHAKE_MAX	4096	/* records of a handshake */
#define KEY_UPDATE	24	/* RFC 8446, 4.6.3 */

/*
 * A client that has new keys asks us for new ones, too. OpenSSL says yes, but the kernel goes on with
 * the old: nothing that is sent then can be read.
 */
static void note_record(int writing, int version, int type, const void *bytes, size_t len, SSL *ssl,
			void *arg)
{
	const unsigned char *p = bytes;
	struct tls_session *s = arg;

	(void)version;
	(void)ssl;
	seal_note(&s->notes.seal, writing, type, bytes, len);
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
	const struct tls_session *s = (const struct tls_session *)BIO_get_callback_arg(bio);

	(void)bytes;
	(void)len;
	(void)arg_int;
	(void)arg_long;
	(void)done;
	if (what != BIO_CB_READ)
		return result;
	BIO_clear_retry_flags(bio);
	if (s->barren > s->barren_max)
		return -1;
	if (!s->patience_us || tls_host_clock() - s->began_us < s->patience_us)
		return result;
	BIO_set_retry_read(bio);
	return -1;
}

int tls_session_open(struct tls_session *s, struct tls_site *site, int fd, enum config_door door,
		     bool ktls)
{
	s->ssl = tls_site_connection(site, fd, door, &s->notes);
	if (!s->ssl)
		return -ENOMEM;
	s->barren_max = SHAKE_MAX;
	if (ktls)
		SSL_set_options(s->ssl, SSL_OP_ENABLE_KTLS);
	SSL_set_msg_callback(s->ssl, note_record);
	SSL_set_msg_callback_arg(s->ssl, s);
	BIO_set_callback_ex(SSL_get_rbio(s->ssl), may_read);
	BIO_set_callback_arg(SSL_get_rbio(s->ssl), (char *)s);
	return 0;
}

void tls_session_close(struct tls_session *s)
{
	SSL_free(s->ssl);
	s->ssl = NULL;
	seal_forget(&s->notes.seal);
	ERR_clear_error();
}

/* OpenSSL looks at the thread's queue of errors to say what a call came to. */
static void begin(void)
{
	ERR_clear_error();
	errno = 0;
}

static void begin_reading(struct tls_session *s)
{
	if (s->patience_us)
		s->began_us = tls_host_clock();
	begin();
}

/* What a call of OpenSSL's that did not succeed comes to: 0 at the end, or -1 with errno. */
static int judge(struct tls_session *s, int result)
{
	int err = errno;

	switch (SSL_get_error(s->ssl, result)) {
	case SSL_ERROR_WANT_READ:
	case SSL_ERROR_WANT_WRITE:
		errno = err == EINTR ? EINTR : EAGAIN;
		return -1;
	case SSL_ERROR_ZERO_RETURN:
		s->ended = true;
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

static bool waits(struct tls_session *s, int result)
{
	return judge(s, result) < 0 && (errno == EAGAIN || errno == EINTR);
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

int tls_session_shake(struct tls_session *s)
{
	int n;

	begin_reading(s);
	n = SSL_do_handshake(s->ssl);
	if (n == 1) {
		s->barren = 0;
		s->barren_max = BARREN_MAX;
		s->kernel = BIO_get_ktls_send(SSL_get_wbio(s->ssl));
		return 1;
	}
	if (waits(s, n))
		return 0;
	/* Other libraries have other reasons by the same number: 156 is a bad signature, too. */
	if (ERR_GET_LIB(ERR_peek_error()) == ERR_LIB_SSL &&
	    ERR_GET_REASON(ERR_peek_error()) == SSL_R_HTTP_REQUEST)
		answer_in_clear(SSL_get_fd(s->ssl));
	return -1;
}

bool tls_session_wants_http2(const struct tls_session *s)
{
	const unsigned char *protocol;
	unsigned int len;

	if (!s->notes.http2)
		return false;
	SSL_get0_alpn_selected(s->ssl, &protocol, &len);
	return len == 2 && !memcmp(protocol, "h2", 2);
}

ssize_t tls_session_read(struct tls_session *s, void *into, size_t len, uint64_t now_us)
{
	int n;

	if (s->ended)
		return 0;
	if (s->broken) {
		errno = ECONNRESET;
		return -1;
	}
	if (now_us - s->since_us >= BARREN_US) {
		s->since_us = now_us;
		s->barren = 0;
	}
	begin_reading(s);
	n = SSL_read(s->ssl, into, len);
	if (n > 0 && s->barren)
		s->barren--;
	return n > 0 ? n : judge(s, n);
}

bool tls_session_sealed(const struct tls_session *s)
{
	return !s->retry && !s->ended && !s->broken && !s->shut && seal_holds(&s->notes.seal, s->ssl);
}

ssize_t tls_session_peek(struct tls_session *s, void *into, size_t len, bool more, size_t *looked)
{
	return seal_peek(&s->notes.seal, s->ssl, SSL_get_fd(s->ssl), into, len, more, looked);
}

bool tls_session_unseal(struct tls_session *s)
{
	s->notes.seal.lost = s->notes.seal.need == SEAL_NEVER;
	return s->notes.seal.lost;
}

int tls_session_keys(struct tls_session *s, struct flt_tls *keys)
{
	return seal_keys(&s->notes.seal, s->ssl, keys);
}

ssize_t tls_session_write(struct tls_session *s, const void *p, size_t len)
{
	int n;

	if (s->broken || s->shut || (s->retry && s->retry != len)) {
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

ssize_t tls_session_sendfile(struct tls_session *s, int fd, off_t off, size_t len)
{
	ossl_ssize_t n;

	if (s->broken || s->shut) {
		errno = EPIPE;
		return -1;
	}
	begin();
	n = SSL_sendfile(s->ssl, fd, off, len, 0);
	/* Its own word for a call that failed would be another than the kernel's. */
	return n >= 0 || errno == EIO || errno == EINVAL ? n : judge(s, n);
}

bool tls_session_end(struct tls_session *s)
{
	int n;

	if (s->shut || s->broken || s->retry || !SSL_is_init_finished(s->ssl))
		return true;
	begin();
	n = SSL_shutdown(s->ssl);
	if (n < 0 && waits(s, n))
		return false;
	s->shut = true;
	ERR_clear_error();
	return true;
}
