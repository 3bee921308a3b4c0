// SPDX-License-Identifier: GPL-2.0
/*
 * The TLS of a connection without the daemon: records that are sent in part, the age of tickets, and what
 * is looked at and stays.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/kdf.h>
#include <openssl/ssl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>
#include <cmocka.h>
#include "lard/client.h"
#include "lard/config.h"
#include "lard/conn.h"
#include "lard/privilege.h"
#include "lard/tests/lib/records.h"
#include "lard/tls/ticket.h"
#include "lard/tls/tls.h"

#define ROTATION_US 3600000000ULL

static uint64_t now = ROTATION_US;
static struct config config = {
	.https = { .certificate_count = 1, .tickets = true, .ticket_rotation_us = ROTATION_US },
};

uint64_t loop_clock(void)
{
	return now;
}

bool privilege_is_user(uid_t uid)
{
	(void)uid;
	return false;
}

const char *privilege_name(void)
{
	return NULL;
}

int privilege_open(const char *path, int flags)
{
	return open(path, flags);
}

struct pair {
	struct tls_site *site;
	struct conn conn;
	SSL_CTX *ctx;
	SSL *client;
	int fd;
};

static int make_certificate(void **state)
{
	(void)state;
	return certificate_make(config.https.certificates[0].chain, config.https.certificates[0].key);
}

static int remove_certificate(void **state)
{
	(void)state;
	return certificate_remove(config.https.certificates[0].chain, config.https.certificates[0].key);
}

/* Both ends, after the handshake. */
static void join_with(struct pair *p, int version, SSL_SESSION *session, const char *suites)
{
	int fds[2], small = 4096, over = 0, met = 0;
	char error[256];

	memset(p, 0, sizeof(*p));
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
	setsockopt(fds[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
	p->conn.source.fd = fds[0];
	p->conn.door = DOOR_TLS;
	p->fd = fds[1];
	p->site = tls_site_new(&config.https, error, sizeof(error));
	if (!p->site)
		fail_msg("%s", error);
	assert_int_equal(client_secure(&p->conn, p->site), 0);
	p->ctx = SSL_CTX_new(TLS_client_method());
	SSL_CTX_set_min_proto_version(p->ctx, version);
	SSL_CTX_set_max_proto_version(p->ctx, version);
	if (suites)
		SSL_CTX_set_ciphersuites(p->ctx, suites);
	p->client = SSL_new(p->ctx);
	SSL_set_fd(p->client, fds[1]);
	if (session)
		SSL_set_session(p->client, session);
	for (int i = 0; i < 100 && !(over && met); i++) {
		met = met || SSL_connect(p->client) == 1;
		over = over || client_shake(&p->conn) == 1;
	}
	assert_true(over && met);
}

static void join(struct pair *p, int version, SSL_SESSION *session)
{
	join_with(p, version, session, NULL);
}

static void part(struct pair *p)
{
	client_close(&p->conn);
	SSL_set_shutdown(p->client, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
	SSL_free(p->client);
	SSL_CTX_free(p->ctx);
	close(p->conn.source.fd);
	close(p->fd);
	tls_site_put(p->site);
}

/* Its bytes from @at on, in two parts that are elsewhere and cut elsewhere at each call. */
static ssize_t send_from(struct pair *p, const unsigned char *text, size_t at, size_t len)
{
	size_t cut = rand() % (len + 1);
	unsigned char *a = malloc(cut + 1), *b = malloc(len - cut + 1);
	struct iovec parts[] = { { a, cut }, { b, len - cut } };
	ssize_t n;
	int err;

	memcpy(a, text + at, cut);
	memcpy(b, text + at + cut, len - cut);
	n = client_send(&p->conn, parts, 2);
	err = errno;
	memset(a, 0xee, cut);
	memset(b, 0xee, len - cut);
	free(a);
	free(b);
	errno = err;
	return n;
}

static void a_record_sent_in_part_goes_on_from_moved_buffers(void **state)
{
	enum { SIZE = 1 << 20 };
	static unsigned char text[SIZE], got[SIZE];
	static const int versions[] = { TLS1_2_VERSION, TLS1_3_VERSION };

	(void)state;
	srand(18);
	for (size_t i = 0; i < SIZE; i++)
		text[i] = rand();
	for (size_t v = 0; v < 2; v++) {
		size_t sent = 0, there = 0, offered = 0, retries = 0;
		struct pair p;

		join(&p, versions[v], NULL);
		while (there < SIZE) {
			size_t least = client_committed(&p.conn) ? offered : 1;
			ssize_t n = 0;

			if (sent < SIZE) {
				/* What comes meanwhile from the back-end is behind it. */
				offered = least + rand() % 30000;
				if (offered > SIZE - sent)
					offered = SIZE - sent;
				n = send_from(&p, text, sent, offered);
				if (n < 0)
					assert_int_equal(errno, EAGAIN);
				retries += n < 0;
				sent += n > 0 ? n : 0;
				assert_int_equal(client_committed(&p.conn), n < 0);
			}
			n = SSL_read(p.client, got + there, 1 + rand() % (SIZE - there < 9000 ? SIZE - there : 9000));
			there += n > 0 ? n : 0;
		}
		assert_memory_equal(text, got, SIZE);
		assert_true(retries > 10);
		part(&p);
	}
}

static void fewer_bytes_than_are_under_way_are_an_error(void **state)
{
	static const unsigned char text[16384];
	struct pair p;
	int i;

	(void)state;
	join(&p, TLS1_3_VERSION, NULL);
	for (i = 0; i < 1000 && send_from(&p, text, 0, sizeof(text)) > 0; i++)
		;
	assert_true(client_committed(&p.conn));
	assert_int_equal(send_from(&p, text, 0, sizeof(text) - 1), -1);
	assert_int_equal(errno, EPIPE);
	part(&p);
}

/* Was @session resumed @after the time of the last call? It becomes the new one. */
static bool resumes(int version, uint64_t after, SSL_SESSION **session)
{
	struct pair p;
	bool reused;
	char c;

	now += after;
	join(&p, version, *session);
	SSL_read(p.client, &c, 1);		/* the tickets of 1.3 */
	reused = SSL_session_reused(p.client);
	assert_int_equal(client_resumed(&p.conn), reused);
	SSL_SESSION_free(*session);
	*session = SSL_get1_session(p.client);
	part(&p);
	return reused;
}

static void tickets_have_their_age(void **state)
{
	static const int versions[] = { TLS1_2_VERSION, TLS1_3_VERSION };

	(void)state;
	for (size_t v = 0; v < 2; v++) {
		SSL_SESSION *session = NULL;

		ticket_forget();
		assert_false(resumes(versions[v], 0, &session));
		assert_true(resumes(versions[v], ROTATION_US - 1, &session));
		assert_true(resumes(versions[v], 1, &session));		/* by the key before, and gets a new one */
		assert_true(resumes(versions[v], ROTATION_US, &session));
		assert_true(resumes(versions[v], ROTATION_US, &session));
		assert_false(resumes(versions[v], 2 * ROTATION_US, &session));
		assert_true(resumes(versions[v], 0, &session));
		SSL_SESSION_free(session);
	}
}

/* By the same ticket one would be known again by who only listens. */
static void who_resumes_by_1_3_gets_another_ticket(void **state)
{
	SSL_SESSION *first = NULL, *second;
	const unsigned char *a, *b;
	size_t a_len, b_len;

	(void)state;
	ticket_forget();
	assert_false(resumes(TLS1_3_VERSION, 0, &first));
	SSL_SESSION_up_ref(first);
	second = first;
	assert_true(resumes(TLS1_3_VERSION, 1, &second));
	SSL_SESSION_get0_ticket(first, &a, &a_len);
	SSL_SESSION_get0_ticket(second, &b, &b_len);
	assert_true(a_len && b_len && (a_len != b_len || memcmp(a, b, a_len)));
	SSL_SESSION_free(first);
	SSL_SESSION_free(second);
}

/* --- what stays in the socket --- */

static const char request[] = "GET /a HTTP/1.1\r\nHost: a\r\n\r\n";

static void join_sealed(struct pair *p, int version, const char *suites)
{
	config.https.tls_port = 8443;
	join_with(p, version, NULL, suites);
	config.https.tls_port = 0;
}

static size_t unread(const struct pair *p)
{
	int n = 0;

	assert_int_equal(ioctl(p->conn.source.fd, FIONREAD, &n), 0);
	return n;
}

static void a_request_is_looked_at_and_stays(void **state)
{
	static const char *const suites[] = {
		"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256",
	};
	char got[256];

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		struct flt_tls keys;
		struct pair p;
		size_t len = strlen(request), there;

		join_sealed(&p, TLS1_3_VERSION, suites[i]);
		assert_true(client_sealed(&p.conn));
		assert_int_equal(client_recv(&p.conn, got, sizeof(got), MSG_PEEK), -1);
		assert_int_equal(errno, EAGAIN);
		SSL_write(p.client, request, len);
		there = unread(&p);
		assert_int_equal(there, 5 + len + 1 + 16);
		for (int again = 0; again < 3; again++) {
			memset(got, 0, sizeof(got));
			assert_int_equal(client_recv(&p.conn, got, sizeof(got), MSG_PEEK), len);
			assert_string_equal(got, request);
			assert_int_equal(unread(&p), there);
		}
		/* Somebody else goes on with these keys. */
		assert_int_equal(client_keys(&p.conn, &keys), 0);
		client_forget(&p.conn);
		receive_record(p.conn.source.fd, &keys, request);
		send_record(p.conn.source.fd, &keys, "answer");
		assert_int_equal(SSL_read(p.client, got, sizeof(got)), 6);
		assert_memory_equal(got, "answer", 6);
		part(&p);
	}
}

/* Whoever goes on begins behind the tickets, and at 0 where there were none. */
static void tickets_are_counted_as_records(void **state)
{
	SSL_SESSION *session = NULL;

	(void)state;
	ticket_forget();
	for (int tickets = 2; tickets >= 0; tickets--) {
		struct flt_tls keys;
		struct pair p;
		char got[256];

		/* A whole handshake has two, a resumed one has one. */
		config.https.tickets = tickets;
		config.https.tls_port = 8443;
		join_with(&p, TLS1_3_VERSION, session, NULL);
		config.https.tls_port = 0;
		config.https.tickets = true;
		SSL_read(p.client, got, 1);
		assert_int_equal(SSL_session_reused(p.client), tickets == 1);
		SSL_SESSION_free(session);
		session = SSL_get1_session(p.client);
		assert_int_equal(SSL_SESSION_has_ticket(session), tickets > 0);
		SSL_write(p.client, request, strlen(request));
		assert_int_equal(client_recv(&p.conn, got, sizeof(got), MSG_PEEK), strlen(request));
		assert_int_equal(client_keys(&p.conn, &keys), 0);
		assert_int_equal(keys.tx.rec_seq[7], tickets);
		client_forget(&p.conn);
		receive_record(p.conn.source.fd, &keys, request);
		send_record(p.conn.source.fd, &keys, "answer");
		assert_int_equal(SSL_read(p.client, got, sizeof(got)), 6);
		part(&p);
	}
	SSL_SESSION_free(session);
}

static void what_was_looked_at_can_be_taken_here(void **state)
{
	char got[256];
	size_t len = strlen(request);
	struct pair p;

	(void)state;
	join_sealed(&p, TLS1_3_VERSION, NULL);
	for (int round = 0; round < 3; round++) {
		SSL_write(p.client, request, len);
		assert_true(client_sealed(&p.conn));
		assert_int_equal(client_recv(&p.conn, got, sizeof(got), MSG_PEEK), len);
		assert_int_equal(client_recv(&p.conn, NULL, 10, MSG_TRUNC), 10);
		assert_int_equal(unread(&p), 0);
		assert_false(client_sealed(&p.conn));
		assert_int_equal(client_recv(&p.conn, got, sizeof(got), 0), len - 10);
		assert_memory_equal(got, request + 10, len - 10);
		assert_int_equal(client_send(&p.conn, &(struct iovec){ "answer", 6 }, 1), 6);
		assert_int_equal(SSL_read(p.client, got, sizeof(got)), 6);
	}
	/* The records of all this are counted: the fourth request can go. */
	struct flt_tls keys;

	SSL_write(p.client, request, len);
	assert_int_equal(client_keys(&p.conn, &keys), 0);
	assert_int_equal(keys.rx.rec_seq[7], 3);
	client_forget(&p.conn);
	receive_record(p.conn.source.fd, &keys, request);
	send_record(p.conn.source.fd, &keys, "fourth");
	assert_int_equal(SSL_read(p.client, got, sizeof(got)), 6);
	part(&p);
}

static void a_record_that_has_come_in_part_is_waited_for(void **state)
{
	unsigned char record[512];
	char got[256];
	size_t len = strlen(request), there, at;
	struct pair p;

	(void)state;
	join_sealed(&p, TLS1_3_VERSION, NULL);
	SSL_write(p.client, request, len);
	there = recv(p.conn.source.fd, record, sizeof(record), 0);
	for (at = 0; at < there; at++) {
		assert_int_equal(client_recv(&p.conn, got, sizeof(got), MSG_PEEK), -1);
		assert_int_equal(errno, EAGAIN);
		assert_true(client_sealed(&p.conn));
		send(p.fd, record + at, 1, 0);
	}
	assert_int_equal(client_recv(&p.conn, got, sizeof(got), MSG_PEEK), len);
	part(&p);
}

static unsigned int derived, opened;

/* In the place of libcrypto's. */
int EVP_KDF_derive(EVP_KDF_CTX *ctx, unsigned char *key, size_t len, const OSSL_PARAM params[])
{
	int (*real)(EVP_KDF_CTX *, unsigned char *, size_t, const OSSL_PARAM[]) = dlsym(RTLD_NEXT, __func__);

	derived++;
	return real(ctx, key, len, params);
}

int EVP_DecryptFinal_ex(EVP_CIPHER_CTX *ctx, unsigned char *out, int *len)
{
	int (*real)(EVP_CIPHER_CTX *, unsigned char *, int *) = dlsym(RTLD_NEXT, __func__);

	opened++;
	return real(ctx, out, len);
}

static void bytes_of_an_unfinished_record_cost_no_look(void **state)
{
	unsigned char records[2][512];
	size_t len = strlen(request), there[2];
	char got[256];
	struct pair p;

	(void)state;
	join_sealed(&p, TLS1_3_VERSION, NULL);
	for (int i = 0; i < 2; i++) {
		SSL_write(p.client, request + i * 10, i ? len - 10 : 10);
		there[i] = recv(p.conn.source.fd, records[i], sizeof(records[i]), 0);
	}
	derived = opened = 0;
	for (int i = 0; i < 2; i++) {
		for (size_t at = 0; at < there[i]; at++) {
			send(p.fd, records[i] + at, 1, 0);
			if (at < there[i] - 1 || i) {
				assert_int_equal(opened, i);
				assert_int_equal(derived, 2 * i);
			}
			if (at == there[i] - 1)
				break;
			assert_int_equal(client_recv(&p.conn, got, sizeof(got), MSG_PEEK | CLIENT_MORE), -1);
			assert_int_equal(errno, EAGAIN);
			/* Of all that is there the text that has been seen is nothing to wait for. */
			assert_int_equal(client_unseen(&p.conn), i * 10);
		}
		assert_int_equal(client_recv(&p.conn, got, sizeof(got), MSG_PEEK | CLIENT_MORE), i ? len : 10);
	}
	assert_memory_equal(got, request, len);
	/* The first again and the second; who asks for all once more gets all. */
	assert_int_equal(opened, 3);
	assert_int_equal(derived, 2);
	assert_int_equal(client_recv(&p.conn, got, sizeof(got), MSG_PEEK | CLIENT_MORE), -1);
	assert_int_equal(opened, 3);
	assert_int_equal(client_recv(&p.conn, got, sizeof(got), MSG_PEEK), len);
	assert_int_equal(client_recv(&p.conn, NULL, len, MSG_TRUNC), len);
	assert_int_equal(unread(&p), 0);
	/* What comes after that is news. */
	SSL_write(p.client, request, len);
	assert_int_equal(client_recv(&p.conn, got, sizeof(got), MSG_PEEK | CLIENT_MORE), len);
	part(&p);
}

/* The reason of libcrypto's for which a handshake fails; 0: it does not. */
static int bad_curve;

/* In the place of libssl's. */
int SSL_do_handshake(SSL *ssl)
{
	int (*real)(SSL *) = dlsym(RTLD_NEXT, __func__);

	if (!bad_curve)
		return real(ssl);
	ERR_raise(ERR_LIB_EC, bad_curve);
	return -1;
}

/* A bad signature on a curve has the number of SSL_R_HTTP_REQUEST, in another library. */
static void only_http_is_answered_in_clear(void **state)
{
	char got[8192];
	struct pair p;
	ssize_t n;

	(void)state;
	join(&p, TLS1_3_VERSION, NULL);
	bad_curve = SSL_R_HTTP_REQUEST;
	assert_int_equal(client_shake(&p.conn), -1);
	bad_curve = 0;
	n = recv(p.fd, got, sizeof(got), 0);
	assert_true(n > 0);		/* tickets */
	assert_null(memmem(got, n, "HTTP/", 5));
	part(&p);
}

/* No more than what has been seen will ever be looked at: further bytes cost nothing. */
static void behind_what_is_no_data_no_byte_costs_a_look(void **state)
{
	static const unsigned char nonsense[] = { 21, 3, 3, 0, 30 };
	size_t len = strlen(request);
	char got[256];
	struct pair p;

	(void)state;
	for (int how = 0; how < 2; how++) {
		join_sealed(&p, TLS1_3_VERSION, NULL);
		SSL_write(p.client, request, len - 2);
		if (how)
			SSL_shutdown(p.client);
		else
			send(p.fd, nonsense, sizeof(nonsense), 0);
		assert_int_equal(client_recv(&p.conn, got, sizeof(got), MSG_PEEK | CLIENT_MORE), len - 2);
		opened = 0;
		for (int i = 0; i < 100; i++) {
			send(p.fd, "\x17", 1, 0);
			assert_int_equal(client_recv(&p.conn, got, sizeof(got), MSG_PEEK | CLIENT_MORE), -1);
			assert_int_equal(errno, EAGAIN);
		}
		assert_int_equal(opened, 0);
		part(&p);
	}
}

/* The client may wait for an answer to its new key before it goes on. */
static void what_is_no_data_within_a_request_is_read_here(void **state)
{
	size_t len = strlen(request);
	char got[256];
	struct pair p;

	(void)state;
	join_sealed(&p, TLS1_3_VERSION, NULL);
	SSL_write(p.client, request, 10);
	assert_int_equal(client_recv(&p.conn, got, sizeof(got), MSG_PEEK), 10);
	assert_false(client_unseal(&p.conn));
	SSL_key_update(p.client, SSL_KEY_UPDATE_REQUESTED);
	SSL_do_handshake(p.client);
	assert_int_equal(client_recv(&p.conn, got, sizeof(got), MSG_PEEK | CLIENT_MORE), 10);
	assert_false(client_sealed(&p.conn));
	assert_int_equal(client_recv(&p.conn, got, sizeof(got), MSG_PEEK), 10);
	assert_int_equal(unread(&p), 0);
	assert_false(client_unseal(&p.conn));
	SSL_write(p.client, request + 10, len - 10);
	assert_int_equal(client_recv(&p.conn, got, sizeof(got), MSG_PEEK), len);
	assert_memory_equal(got, request, len);
	part(&p);
}

/* Neither what is lost nor what is swapped or changed is taken for the client's. */
static void a_wrong_record_ends_it(void **state)
{
	unsigned char records[2][512];
	char got[256];
	size_t len = strlen(request), there[2];

	(void)state;
	for (int how = 0; how < 4; how++) {
		struct pair p;

		join_sealed(&p, TLS1_3_VERSION, NULL);
		for (int i = 0; i < 2; i++) {
			SSL_write(p.client, request, len);
			there[i] = recv(p.conn.source.fd, records[i], sizeof(records[i]), 0);
		}
		if (how == 0)			/* the first is lost, or they are swapped */
			send(p.fd, records[1], there[1], 0);
		if (how == 1)
			records[0][there[0] - 1] ^= 1;
		if (how == 2)			/* one byte of its text */
			records[0][7] ^= 1;
		if (how == 3)			/* its length */
			records[0][4]--;
		send(p.fd, records[0], there[0], 0);
		assert_int_equal(client_recv(&p.conn, got, sizeof(got), MSG_PEEK), -1);
		assert_int_equal(errno, ECONNRESET);
		assert_false(client_sealed(&p.conn));
		assert_true(client_ended(&p.conn));
		part(&p);
	}
}

static void a_replayed_record_is_not_given_twice(void **state)
{
	unsigned char record[512];
	char got[256];
	size_t len = strlen(request), there;
	struct pair p;

	(void)state;
	join_sealed(&p, TLS1_3_VERSION, NULL);
	SSL_write(p.client, request, len);
	there = recv(p.conn.source.fd, record, sizeof(record), MSG_PEEK);
	send(p.fd, record, there, 0);
	/* The first is its own. */
	assert_int_equal(client_recv(&p.conn, got, sizeof(got), MSG_PEEK), len);
	assert_int_equal(client_recv(&p.conn, NULL, len, MSG_TRUNC), len);
	assert_int_equal(client_recv(&p.conn, got, sizeof(got), MSG_PEEK), -1);
	assert_int_equal(errno, ECONNRESET);
	part(&p);
}

static void only_what_keys_are_known_of_is_sealed(void **state)
{
	char got[256];
	size_t len = strlen(request);
	struct pair p;

	(void)state;
	join(&p, TLS1_3_VERSION, NULL);
	assert_false(client_sealed(&p.conn));		/* handoff is not asked for */
	part(&p);
	join_sealed(&p, TLS1_2_VERSION, NULL);
	assert_false(client_sealed(&p.conn));
	SSL_write(p.client, request, len);
	assert_int_equal(client_recv(&p.conn, got, sizeof(got), MSG_PEEK), len);
	part(&p);
	join_sealed(&p, TLS1_3_VERSION, NULL);
	/* With other keys it is OpenSSL's to go on. */
	SSL_key_update(p.client, SSL_KEY_UPDATE_REQUESTED);
	SSL_write(p.client, request, len);
	assert_int_equal(client_recv(&p.conn, got, sizeof(got), MSG_PEEK), len);
	assert_false(client_sealed(&p.conn));
	assert_int_equal(client_recv(&p.conn, got, sizeof(got), 0), len);
	assert_false(client_sealed(&p.conn));
	SSL_write(p.client, request, len);
	assert_int_equal(client_recv(&p.conn, got, sizeof(got), MSG_PEEK), len);
	assert_memory_equal(got, request, len);
	part(&p);
}

static void a_request_of_many_records_is_one(void **state)
{
	char got[256];
	size_t len = strlen(request);
	struct pair p;

	(void)state;
	for (size_t step = 1; step < 12; step++) {
		join_sealed(&p, TLS1_3_VERSION, NULL);
		for (size_t at = 0; at < len; at += step)
			SSL_write(p.client, request + at, len - at < step ? len - at : step);
		if (len > 8 * step) {
			/* What eight records have may be enough; else it is read here. */
			assert_int_equal(client_recv(&p.conn, got, sizeof(got), MSG_PEEK), 8 * step);
			assert_memory_equal(got, request, 8 * step);
			assert_true(client_sealed(&p.conn));
			assert_int_equal(client_recv(&p.conn, got, sizeof(got), MSG_PEEK | CLIENT_MORE), -1);
			assert_int_equal(errno, EAGAIN);
			assert_true(client_unseal(&p.conn));
		}
		assert_int_equal(client_recv(&p.conn, got, sizeof(got), MSG_PEEK), len);
		assert_int_equal(client_sealed(&p.conn), len <= 8 * step);
		assert_int_equal(client_recv(&p.conn, got, 1, 0), 1);
		assert_int_equal(client_recv(&p.conn, got + 1, sizeof(got) - 1, MSG_PEEK), len - 1);
		assert_memory_equal(got, request, len);
		part(&p);
	}
}

/* What is in it when OpenSSL's memory goes back to malloc(). */
static const unsigned char *watched;
static size_t watched_len, left;

void __real_free(void *p);
void __wrap_free(void *p);

void __wrap_free(void *p)
{
	if (p && p == watched) {
		for (size_t i = 0; i < watched_len; i++)
			left += watched[i] != 0;
		watched = NULL;
	}
	__real_free(p);
}

static void *watch(size_t len)
{
	unsigned char *p = OPENSSL_malloc(len);

	assert_non_null(p);
	memset(p, 0xa5, len);
	watched = p;
	watched_len = len;
	left = 0;
	return p;
}

static void what_openssl_frees_is_wiped(void **state)
{
	static const size_t sizes[] = { 1, 24, 100, 4096, 17000, 300000 };
	void *p;

	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		OPENSSL_free(watch(sizes[i]));
		assert_null(watched);
		assert_int_equal(left, 0);
		p = OPENSSL_realloc(watch(sizes[i]), 2 * sizes[i]);
		assert_null(watched);
		assert_int_equal(left, 0);
		OPENSSL_free(p);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_record_sent_in_part_goes_on_from_moved_buffers),
		cmocka_unit_test(fewer_bytes_than_are_under_way_are_an_error),
		cmocka_unit_test(tickets_have_their_age),
		cmocka_unit_test(who_resumes_by_1_3_gets_another_ticket),
		cmocka_unit_test(tickets_are_counted_as_records),
		cmocka_unit_test(a_request_is_looked_at_and_stays),
		cmocka_unit_test(what_was_looked_at_can_be_taken_here),
		cmocka_unit_test(a_record_that_has_come_in_part_is_waited_for),
		cmocka_unit_test(bytes_of_an_unfinished_record_cost_no_look),
		cmocka_unit_test(behind_what_is_no_data_no_byte_costs_a_look),
		cmocka_unit_test(only_http_is_answered_in_clear),
		cmocka_unit_test(what_is_no_data_within_a_request_is_read_here),
		cmocka_unit_test(a_wrong_record_ends_it),
		cmocka_unit_test(a_replayed_record_is_not_given_twice),
		cmocka_unit_test(only_what_keys_are_known_of_is_sealed),
		cmocka_unit_test(a_request_of_many_records_is_one),
		cmocka_unit_test(what_openssl_frees_is_wiped),
	};

	/* Before OpenSSL has any memory. */
	if (tls_wipe_freed())
		return 1;
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("lard_tls_unit", tests, make_certificate, remove_certificate);
}
