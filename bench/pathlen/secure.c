// SPDX-License-Identifier: GPL-2.0
#include "secure.h"
#include <errno.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <stdio.h>
#include <stdlib.h>

static SSL_CTX *context;
static SSL_SESSION *newest;
static const char *kept;
static bool resumes;	/* what is not resumed is an error */

__attribute__((noreturn)) static void die(const char *what)
{
	char why[256];

	ERR_error_string_n(ERR_get_error(), why, sizeof(why));
	fprintf(stderr, "load: %s: %s\n", what, why);
	exit(1);
}

static int on_session(SSL *ssl, SSL_SESSION *session)
{
	(void)ssl;
	SSL_SESSION_free(newest);
	newest = session;
	return 1;
}

static void read_session(void)
{
	FILE *file = fopen(kept, "r");

	if (!file)
		return;
	newest = PEM_read_SSL_SESSION(file, NULL, NULL, NULL);
	fclose(file);
	if (!newest)
		die(kept);
	resumes = true;
}

void secure_setup(const char *suite, const char *file)
{
	context = SSL_CTX_new(TLS_client_method());
	if (!context || !SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) ||
	    !SSL_CTX_set_ciphersuites(context, suite) || !SSL_CTX_set1_groups_list(context, "X25519"))
		die(suite);
	SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
	SSL_CTX_sess_set_new_cb(context, on_session);
	SSL_CTX_set_read_ahead(context, 1);
	kept = file;
	if (kept)
		read_session();
}

void secure_keep(void)
{
	FILE *file;

	if (!kept)
		return;
	if (!newest)
		die("no session: the server gives none");
	file = fopen(kept, "w");
	if (!file || !PEM_write_SSL_SESSION(file, newest) || fclose(file))
		die(kept);
}

/* A copy: OpenSSL resumes each once, and not every server sends another. */
static bool resume(SSL *ssl)
{
	SSL_SESSION *session = SSL_SESSION_dup(newest);
	bool done = session && SSL_set_session(ssl, session);

	SSL_SESSION_free(session);
	return done;
}

SSL *secure_begin(int fd)
{
	SSL *ssl = SSL_new(context);

	if (!ssl || !SSL_set_fd(ssl, fd) || (kept && newest && !resume(ssl)))
		die("a connection");
	SSL_set_connect_state(ssl);
	return ssl;
}

bool secure_shaken(SSL *ssl)
{
	int got = SSL_do_handshake(ssl);

	if (got != 1) {
		if (SSL_get_error(ssl, got) != SSL_ERROR_WANT_READ)
			die("handshake");
		return false;
	}
	if (resumes && !SSL_session_reused(ssl))
		die("a session was not resumed");
	return true;
}

ssize_t secure_read(SSL *ssl, void *into, size_t len)
{
	int got = SSL_read(ssl, into, len);

	if (got > 0)
		return got;
	switch (SSL_get_error(ssl, got)) {
	case SSL_ERROR_ZERO_RETURN:
		return 0;
	case SSL_ERROR_WANT_READ:
		errno = EAGAIN;
		return -1;
	default:
		die("read");
	}
}

bool secure_write(SSL *ssl, const void *from, size_t len)
{
	return SSL_write(ssl, from, len) == (int)len;
}

void secure_say_end(SSL *ssl)
{
	if (SSL_shutdown(ssl) < 0)
		die("close_notify");
}

void secure_end(SSL *ssl)
{
	/*
	 * Who goes says nothing: it would come when the server's socket is gone, and be answered by a RST. But the
	 * session of who has not said so could not be resumed.
	 */
	if (ssl)
		SSL_set_shutdown(ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
	SSL_free(ssl);
}
