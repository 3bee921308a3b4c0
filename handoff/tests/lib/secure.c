// SPDX-License-Identifier: GPL-2.0
#include "secure.h"
#include <errno.h>
#include <openssl/err.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

static SSL_CTX *context;
static SSL_SESSION *newest;

__attribute__((noreturn)) static void die(const char *what)
{
	char why[256];

	ERR_error_string_n(ERR_get_error(), why, sizeof(why));
	fprintf(stderr, "handoff-client: %s: %s\n", what, why);
	exit(1);
}

static int on_session(SSL *ssl, SSL_SESSION *session)
{
	(void)ssl;
	SSL_SESSION_free(newest);
	newest = session;
	return 1;
}

void secure_setup(void)
{
	context = SSL_CTX_new(TLS_client_method());
	if (!context || !SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION))
		die("TLS 1.3");
	SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
	SSL_CTX_sess_set_new_cb(context, on_session);
	/* What has not been sent is asked for again, and more with it. */
	SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
	SSL_CTX_set_read_ahead(context, 1);
}

/* A copy: OpenSSL resumes each once. */
static bool resume(SSL *ssl)
{
	SSL_SESSION *session = SSL_SESSION_dup(newest);
	bool done = session && SSL_set_session(ssl, session);

	SSL_SESSION_free(session);
	return done;
}

SSL *secure_begin(int fd, bool resumes)
{
	SSL *ssl = SSL_new(context);

	if (!ssl || !SSL_set_fd(ssl, fd) || (resumes && newest && !resume(ssl)))
		die("a connection");
	SSL_set_connect_state(ssl);
	return ssl;
}

/* -1, and errno for what OpenSSL says of its last call. */
static ssize_t failed(SSL *ssl, int got)
{
	int why;

	switch (SSL_get_error(ssl, got)) {
	case SSL_ERROR_WANT_READ:
	case SSL_ERROR_WANT_WRITE:
		errno = EAGAIN;
		break;
	case SSL_ERROR_SYSCALL:
		break;
	default:
		why = ERR_GET_REASON(ERR_peek_error());
		errno = why == SSL_R_UNEXPECTED_EOF_WHILE_READING ? ECONNABORTED : EPROTO;
	}
	return -1;
}

int secure_shake(SSL *ssl)
{
	int got;

	ERR_clear_error();
	got = SSL_do_handshake(ssl);
	return got == 1 ? 0 : failed(ssl, got);
}

ssize_t secure_send(SSL *ssl, const void *from, size_t len)
{
	int got;

	ERR_clear_error();
	got = SSL_write(ssl, from, len);
	return got > 0 ? got : failed(ssl, got);
}

ssize_t secure_recv(SSL *ssl, void *into, size_t len)
{
	ssize_t got;

	ERR_clear_error();
	got = SSL_read(ssl, into, len);
	if (got > 0)
		return got;
	if (SSL_get_error(ssl, got) != SSL_ERROR_ZERO_RETURN)
		return failed(ssl, got);
	got = recv(SSL_get_fd(ssl), into, len, 0);
	if (got <= 0)
		return got;
	errno = EPROTO;
	return -1;
}

void secure_end(SSL *ssl)
{
	/* The session of who has not said so could not be resumed. */
	if (ssl)
		SSL_set_shutdown(ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
	SSL_free(ssl);
}
