// SPDX-License-Identifier: GPL-2.0
/* The TLS of a connection without the daemon: records that are sent in part, the age of tickets, what is wiped. */
#include <dlfcn.h>
#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <cmocka.h>
#include "lard/client.h"
#include "lard/tests/lib/tls_pair.h"
#include "lard/tls/ticket.h"

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
		cmocka_unit_test(only_http_is_answered_in_clear),
		cmocka_unit_test(what_openssl_frees_is_wiped),
	};

	/* Before OpenSSL has any memory. */
	if (tls_wipe_freed())
		return 1;
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("lard_tls_unit", tests, make_certificate, remove_certificate);
}
