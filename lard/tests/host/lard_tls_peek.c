// SPDX-License-Identifier: GPL-2.0
/* The TLS of a connection that may be handed off, without the daemon: what is looked at stays in the socket. */
#include <dlfcn.h>
#include <errno.h>
#include <openssl/kdf.h>
#include <openssl/ssl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <cmocka.h>
#include "lard/client.h"
#include "lard/tests/lib/records.h"
#include "lard/tests/lib/tls_pair.h"
#include "lard/tls/ticket.h"

static const char request[] = "GET /a HTTP/1.1\r\nHost: a\r\n\r\n";

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tickets_are_counted_as_records),
		cmocka_unit_test(a_request_is_looked_at_and_stays),
		cmocka_unit_test(what_was_looked_at_can_be_taken_here),
		cmocka_unit_test(a_record_that_has_come_in_part_is_waited_for),
		cmocka_unit_test(bytes_of_an_unfinished_record_cost_no_look),
		cmocka_unit_test(behind_what_is_no_data_no_byte_costs_a_look),
		cmocka_unit_test(what_is_no_data_within_a_request_is_read_here),
		cmocka_unit_test(a_wrong_record_ends_it),
		cmocka_unit_test(a_replayed_record_is_not_given_twice),
		cmocka_unit_test(only_what_keys_are_known_of_is_sealed),
		cmocka_unit_test(a_request_of_many_records_is_one),
	};

	/* Before OpenSSL has any memory. */
	if (tls_wipe_freed())
		return 1;
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("lard_tls_peek", tests, make_certificate, remove_certificate);
}
