// SPDX-License-Identifier: GPL-2.0
/* HTTPS moves with its keys, or is proxied: the whole daemon on a kernel of pretence. */
#include <openssl/ssl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include "lard/tests/lib/daemon.h"
#include "lard/tests/lib/kernel.h"
#include "lard/tests/lib/records.h"

static char chain[CERTIFICATE_PATH], key[CERTIFICATE_PATH];

static int start_with_tls(const char *lines)
{
	char all[1024];

	assert_int_equal(certificate_make(chain, key), 0);
	snprintf(all, sizeof(all), "certificate %s %s\n%s", chain, key, lines);
	return start_with(all, DOOR_TLS);
}

static int start_https(void **state)
{
	(void)state;
	return start_with_tls("tls-port 8443\n");
}

static int start_https_without_tickets(void **state)
{
	(void)state;
	return start_with_tls("tls-port 8443\ntls-tickets off\n");
}

static int start_https_that_stays(void **state)
{
	(void)state;
	return start_with_tls("");
}

static int stop_https(void **state)
{
	certificate_remove(chain, key);
	return stop(state);
}

static SSL *connect_tls(int version, int *fd)
{
	SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
	SSL *ssl = SSL_new(ctx);

	*fd = connect_client("");
	SSL_set_max_proto_version(ssl, version);
	SSL_set_fd(ssl, *fd);
	assert_int_equal(SSL_connect(ssl), 1);
	assert_int_equal(SSL_write(ssl, REQUEST, strlen(REQUEST)), strlen(REQUEST));
	SSL_CTX_free(ctx);
	return ssl;
}

static void hang_up(SSL *ssl, int fd)
{
	SSL_set_shutdown(ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
	SSL_free(ssl);
	close(fd);
}

static void https_moves_with_its_keys(void **state)
{
	char got[64];
	int client, server, node;
	SSL *ssl = connect_tls(TLS1_3_VERSION, &client);

	(void)state;
	node = adopted(&server);
	UNTIL(counted(COUNTER_TLS_HANDED_OFF) == 1);
	assert_int_equal(kernel.keys[node].port, 8443);
	/* The node has the keys and what is unread, and nothing else. */
	receive_record(server, &kernel.keys[node], REQUEST);
	send_record(server, &kernel.keys[node], "answer");
	assert_int_equal(SSL_read(ssl, got, sizeof(got)), 6);
	assert_memory_equal(got, "answer", 6);
	/* lardd says nothing more: no close_notify of its own. */
	close(server);
	assert_int_equal(SSL_read(ssl, got, sizeof(got)), 0);
	assert_int_not_equal(SSL_get_error(ssl, 0), SSL_ERROR_ZERO_RETURN);
	kernel_emit(kernel.cookies[node], node + 1, HOF_EVENT_CLOSED, 0);
	UNTIL(all_closed());
	hang_up(ssl, client);
}

static void expect_https_answered(SSL *ssl, int client)
{
	char got[1024] = "";
	int len = 0, n;

	while (!strstr(got, "proxied")) {
		n = SSL_read(ssl, got + len, sizeof(got) - 1 - len);
		assert_true(n > 0);
		len += n;
	}
	hang_up(ssl, client);
}

static void expect_https_proxied(SSL *ssl, int client)
{
	serve_proxied();
	expect_https_answered(ssl, client);
}

static void https_that_cannot_move_is_proxied(void **state)
{
	static const enum flt_refusal refusals[] = { FLT_REFUSE_KEYS, FLT_REFUSE_KTLS, FLT_REFUSE_FULL };
	int client, i;
	SSL *ssl;

	(void)state;
	for (i = 0; i < 3; i++) {
		kernel.answers[0] = kernel.answers[1] = i == 1 ? REFUSES_LATER : REFUSES_AT_ONCE;
		kernel.refusal = refusals[i];
		kernel.submissions = 0;
		ssl = connect_tls(TLS1_3_VERSION, &client);
		expect_https_proxied(ssl, client);
		/* Where no node can be given keys, there is no use in asking another. */
		assert_int_equal(kernel.submissions, refusals[i] == FLT_REFUSE_FULL ? 2 : 1);
	}
	kernel.submissions = 0;
	ssl = connect_tls(TLS1_2_VERSION, &client);
	expect_https_proxied(ssl, client);
	assert_int_equal(kernel.submissions, 0);
}

static void a_node_without_that_listener_is_no_node_without_a_server(void **state)
{
	struct kept kept = { 0 };
	int client, i;
	SSL *ssl;

	(void)state;
	kernel.answers[0] = kernel.answers[1] = REFUSES_LATER;
	kernel.refusal = FLT_REFUSE_NOLISTENER;
	for (i = 0; i < 8; i++) {
		ssl = connect_tls(TLS1_3_VERSION, &client);
		serve_kept(&kept);
		expect_https_answered(ssl, client);
	}
	forget_kept(&kept);
	assert_int_equal(counted(COUNTER_PROXY_FALLBACK), 8);
	assert_in_range(kernel.submissions, 6, 15);
}

static void https_stays_unless_a_port_is_named(void **state)
{
	int client;
	SSL *ssl = connect_tls(TLS1_3_VERSION, &client);

	(void)state;
	expect_https_proxied(ssl, client);
	assert_int_equal(kernel.submissions, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(https_moves_with_its_keys, start_https, stop_https),
		{ "https_moves_without_tickets", https_moves_with_its_keys, start_https_without_tickets, stop_https, NULL },
		cmocka_unit_test_setup_teardown(https_that_cannot_move_is_proxied, start_https, stop_https),
		cmocka_unit_test_setup_teardown(a_node_without_that_listener_is_no_node_without_a_server,
						start_https, stop_https),
		cmocka_unit_test_setup_teardown(https_stays_unless_a_port_is_named, start_https_that_stays,
						stop_https),
	};

	return cmocka_run_group_tests_name("lard_give_tls", tests, NULL, NULL);
}
