// SPDX-License-Identifier: GPL-2.0
/* Connections of HTTP/2 that do not move, the whole daemon on a kernel of pretence: lardd speaks for back-ends. */
#include <nghttp2/nghttp2.h>
#include <openssl/ssl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include "lard/tests/lib/daemon.h"
#include "lard/tests/lib/http2_peer.h"
#include "lard/tests/lib/kernel.h"

static char log_path[64];

static int start_impatient(void **state)
{
	(void)state;
	return start_with_http2("tls-port 8443\ntls-port-http2 8444\nhttp2-wait 50ms\n");
}

/* Its access log says what became of streams. */
static int start_logging(void **state)
{
	char lines[300];
	int fd;

	(void)state;
	strcpy(log_path, "/tmp/lard_keep_http2.XXXXXX");
	fd = mkstemp(log_path);
	assert_true(fd >= 0);
	close(fd);
	snprintf(lines, sizeof(lines), "tls-port-http2 8444\nhttp2-wait 600s\naccess-log %s\n", log_path);
	return start_with_http2(lines);
}

static int start_caching(void **state)
{
	(void)state;
	return start_with_http2("tls-port-http2 8444\nhttp2-wait 600s\ncache-size 1000000\ncache-object-max 1000\n"
				"cache-class static on\ncache-class dynamic on 10m\n");
}

static int start_that_stays(void **state)
{
	(void)state;
	return start_with_http2("tls-port 8443\nhttp2-wait 600s\n");
}

static void expect_streamed(struct client *c)
{
	serve_proxied();
	expect_answer(c, 1, 200);
	while (c->body_len < 7)
		hear(c);
	assert_memory_equal(c->body, "proxied", 7);
}

/* How many lines of the log have @word. */
static int logged(const char *word)
{
	FILE *file = fopen(log_path, "r");
	char line[2000];
	int count = 0;

	while (fgets(line, sizeof(line), file))
		count += !!strstr(line, word);
	fclose(file);
	return count;
}

static void what_no_node_takes_is_streamed(void **state)
{
	static const enum flt_refusal refusals[] = { FLT_REFUSE_KEYS, FLT_REFUSE_KTLS, FLT_REFUSE_FULL };
	struct client c;
	unsigned int i;

	(void)state;
	for (i = 0; i < 3; i++) {
		kernel.answers[0] = kernel.answers[1] = i == 1 ? REFUSES_LATER : REFUSES_AT_ONCE;
		kernel.refusal = refusals[i];
		kernel.submissions = 0;
		connect_http2(&c, TLS1_3_VERSION);
		ask_for(&c, "/a");
		say(&c, c.len);
		expect_streamed(&c);
		assert_int_equal(kernel.submissions, refusals[i] == FLT_REFUSE_FULL ? 2 : 1);
		assert_int_equal(counted(COUNTER_PROXY_FALLBACK), i + 1);
		/* The connection's is the stream's. */
		assert_int_equal(counted(COUNTER_REQUESTS), i + 1);
		UNTIL(outstanding() == 0);
		hang_up(&c);
	}
	assert_int_equal(counted(COUNTER_HTTP2_CONNECTIONS), 3);
	assert_int_equal(counted(COUNTER_HTTP2_HANDED_OFF), 0);
	UNTIL(logged("") == 3);
	assert_int_equal(logged("proxy-fallback"), 3);
	unlink(log_path);
}

/* It is up, and is asked for everything else. */
static void a_node_without_that_listener_is_no_node_without_a_server(void **state)
{
	struct kept kept = { 0 };
	struct client c;
	int i;

	(void)state;
	kernel.answers[0] = kernel.answers[1] = REFUSES_AT_ONCE;
	kernel.refusal = FLT_REFUSE_NOLISTENER;
	for (i = 0; i < 8; i++) {
		connect_and_ask(&c, TLS1_3_VERSION, "/a");
		serve_kept(&kept);
		expect_answer(&c, 1, 200);
		UNTIL(outstanding() == 0);
		hang_up(&c);
	}
	forget_kept(&kept);
	assert_int_equal(counted(COUNTER_PROXY_FALLBACK), 8);
	/* Nor is each connection kept waiting for a refusal. */
	assert_in_range(kernel.submissions, 6, 15);
	kernel.answers[0] = kernel.answers[1] = TAKES;
	usleep(1100000);
	connect_and_ask(&c, TLS1_3_VERSION, "/a");
	expect_moved(&c);
	hang_up(&c);
}

static void what_cannot_move_is_streamed(void **state)
{
	struct client c;

	(void)state;
	connect_and_ask(&c, TLS1_2_VERSION, "/a");
	expect_streamed(&c);
	hang_up(&c);

	/* Another key, between SETTINGS and the request. */
	connect_http2(&c, TLS1_3_VERSION);
	say(&c, c.len);
	assert_int_equal(SSL_key_update(c.ssl, SSL_KEY_UPDATE_NOT_REQUESTED), 1);
	ask_for(&c, "/a");
	say(&c, c.len);
	expect_streamed(&c);
	hang_up(&c);
	assert_int_equal(kernel.submissions, 0);
}

/* It would be the end for a kernel that does not know other keys. Seen with the request, it goes nowhere. */
static void a_new_key_behind_the_request_keeps_it_here(void **state)
{
	struct client c;
	char wire[8192];
	BIO *out = BIO_new(BIO_s_mem());
	int n;

	(void)state;
	connect_http2(&c, TLS1_3_VERSION);
	SSL_set0_wbio(c.ssl, out);
	ask_for(&c, "/a");
	say(&c, c.len);
	assert_int_equal(SSL_key_update(c.ssl, SSL_KEY_UPDATE_NOT_REQUESTED), 1);
	assert_int_equal(SSL_do_handshake(c.ssl), 1);
	ask_for(&c, "/b");
	say(&c, c.len);
	n = BIO_read(out, wire, sizeof(wire));
	assert_int_equal(send(c.fd, wire, n, 0), n);
	SSL_set0_wbio(c.ssl, BIO_new_socket(c.fd, BIO_NOCLOSE));
	serve_proxied();
	serve_proxied();
	expect_answer(&c, 1, 200);
	expect_answer(&c, 3, 200);
	hang_up(&c);
	assert_int_equal(kernel.submissions, 0);
}

/* Of HTTP/1.1 nothing was said in tls-port-http2. */
static void the_other_protocol_has_its_own_word(void **state)
{
	SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
	SSL *ssl = SSL_new(ctx);
	int fd = connect_client("");
	char got[1024] = "";
	int len = 0, n;

	(void)state;
	SSL_CTX_free(ctx);
	SSL_set_fd(ssl, fd);
	assert_int_equal(SSL_connect(ssl), 1);
	assert_int_equal(SSL_write(ssl, REQUEST, strlen(REQUEST)), strlen(REQUEST));
	serve_proxied();
	while (!strstr(got, "proxied")) {
		n = SSL_read(ssl, got + len, sizeof(got) - 1 - len);
		assert_true(n > 0);
		len += n;
	}
	assert_int_equal(kernel.submissions, 0);
	SSL_free(ssl);
	close(fd);
}

static void without_its_port_it_is_streamed(void **state)
{
	struct client c;

	(void)state;
	connect_http2(&c, TLS1_3_VERSION);
	/* Nobody waits for his request. */
	while (!c.settled)
		hear(&c);
	ask_for(&c, "/a");
	say(&c, c.len);
	expect_streamed(&c);
	hang_up(&c);
	assert_int_equal(kernel.submissions, 0);
}

static void who_waits_for_our_settings_gets_them(void **state)
{
	struct client c;
	int words;

	(void)state;
	/* Whether he has said his own or nothing at all. */
	for (words = 0; words < 2; words++) {
		connect_http2(&c, TLS1_3_VERSION);
		say(&c, words ? c.len : 0);
		while (!c.settled)
			hear(&c);
		ask_for(&c, "/a");
		say(&c, c.len);
		expect_streamed(&c);
		hang_up(&c);
	}
	assert_int_equal(kernel.submissions, 0);
	assert_int_equal(counted(COUNTER_HTTP2_CONNECTIONS), 2);
}

static void what_is_beyond_the_bounds_is_answered(void **state)
{
	static char value[9000];
	struct client c;

	(void)state;
	memset(value, '~', sizeof(value) - 1);
	connect_http2(&c, TLS1_3_VERSION);
	ask_with(&c, "/a", "x", value);
	say(&c, c.len);
	expect_answer(&c, 1, 431);
	hang_up(&c);

	/* In the socket it is short. */
	memset(value, 'a', sizeof(value) - 1);
	connect_http2(&c, TLS1_3_VERSION);
	ask_with(&c, "/a", "x", value);
	assert_true(c.len < 8000);
	say(&c, c.len);
	expect_answer(&c, 1, 431);
	hang_up(&c);
	assert_int_equal(kernel.submissions, 0);
}

static void what_is_malformed_is_answered(void **state)
{
	struct client c;

	(void)state;
	connect_http2(&c, TLS1_3_VERSION);
	ask_with(&c, "/a", "host", "another");
	say(&c, c.len);
	expect_answer(&c, 1, 400);
	hang_up(&c);

	/* HEADERS of an index that is not there. */
	connect_http2(&c, TLS1_3_VERSION);
	memcpy(c.said + c.len, "\0\0\1\1\5\0\0\0\1\xfe", 10);
	c.len += 10;
	say(&c, c.len);
	while (!c.left)
		hear(&c);
	hang_up(&c);
	assert_int_equal(kernel.submissions, 0);
	UNTIL(all_closed());
}

/* And not after the time of a second wait, as a stream. */
static void who_waits_in_vain_is_told(void **state)
{
	int server, node = occupy(&server);
	struct client c;

	(void)state;
	connect_and_ask(&c, TLS1_3_VERSION, "/late");
	expect_answer(&c, 1, 503);
	assert_int_equal(counted(COUNTER_QUEUED), 1);
	assert_int_equal(counted(COUNTER_UNAVAILABLE), 1);
	/* What is asked next is asked as by anybody. */
	kernel_emit(kernel.cookies[node], node + 1, HOF_EVENT_CLOSED, 0);
	UNTIL(outstanding() == 0);
	ask_for(&c, "/later");
	say(&c, c.len);
	serve_proxied();
	expect_answer(&c, 3, 200);
	close(server);
	hang_up(&c);
}

static void what_the_cache_wants_is_streamed(void **state)
{
	struct client c;

	(void)state;
	connect_and_ask(&c, TLS1_3_VERSION, "/a.css");
	expect_streamed(&c);
	hang_up(&c);
	UNTIL(counted(COUNTER_CACHE_STORED) == 1);

	/* And what it has. */
	connect_and_ask(&c, TLS1_3_VERSION, "/a.css");
	expect_answer(&c, 1, 200);
	hang_up(&c);
	assert_int_equal(counted(COUNTER_CACHE_HITS), 1);
	assert_int_equal(kernel.submissions, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(what_no_node_takes_is_streamed, start_logging, stop_http2),
		cmocka_unit_test_setup_teardown(a_node_without_that_listener_is_no_node_without_a_server,
						start_patient, stop_http2),
		cmocka_unit_test_setup_teardown(what_cannot_move_is_streamed, start_patient, stop_http2),
		cmocka_unit_test_setup_teardown(a_new_key_behind_the_request_keeps_it_here, start_patient, stop_http2),
		cmocka_unit_test_setup_teardown(the_other_protocol_has_its_own_word, start_patient, stop_http2),
		cmocka_unit_test_setup_teardown(without_its_port_it_is_streamed, start_that_stays, stop_http2),
		cmocka_unit_test_setup_teardown(who_waits_for_our_settings_gets_them, start_impatient, stop_http2),
		cmocka_unit_test_setup_teardown(what_is_beyond_the_bounds_is_answered, start_patient, stop_http2),
		cmocka_unit_test_setup_teardown(what_is_malformed_is_answered, start_patient, stop_http2),
		cmocka_unit_test_setup_teardown(who_waits_in_vain_is_told, start_busy, stop_http2),
		cmocka_unit_test_setup_teardown(what_the_cache_wants_is_streamed, start_caching, stop_http2),
	};

	return cmocka_run_group_tests_name("lard_keep_http2", tests, NULL, NULL);
}
