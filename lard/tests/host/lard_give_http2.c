// SPDX-License-Identifier: GPL-2.0
/* Connections of HTTP/2 move whole: the whole daemon on a kernel of pretence. */
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

static int start_small(void **state)
{
	(void)state;
	return start_with_http2("tls-port-http2 8444\nhttp2-wait 600s\nmax-connections 3\n");
}

static void a_connection_moves_whole(void **state)
{
	struct client c;

	(void)state;
	connect_http2(&c, TLS1_3_VERSION);
	ask_for(&c, "/a");
	ask_for(&c, "/b");
	say(&c, c.len);
	expect_moved(&c);
	UNTIL(counted(COUNTER_HTTP2_HANDED_OFF) == 1);
	assert_int_equal(counted(COUNTER_TLS_HANDED_OFF), 1);
	assert_int_equal(counted(COUNTER_HANDED_OFF), 1);
	assert_int_equal(counted(COUNTER_REQUESTS), 1);
	assert_int_equal(counted(COUNTER_HTTP2_CONNECTIONS), 0);
	UNTIL(all_closed());
	assert_int_equal(outstanding(), 0);
	hang_up(&c);
}

/* More records than are looked at, and all at once. */
static void what_comes_behind_the_request_is_no_matter(void **state)
{
	struct client c;
	char wire[8192];
	BIO *out = BIO_new(BIO_s_mem());
	int i, n;

	(void)state;
	connect_http2(&c, TLS1_3_VERSION);
	SSL_set0_wbio(c.ssl, out);
	for (i = 0; i < 20; i++) {
		ask_for(&c, "/a");
		say(&c, c.len);
	}
	n = BIO_read(out, wire, sizeof(wire));
	assert_int_equal(send(c.fd, wire, n, 0), n);
	expect_moved(&c);
	hang_up(&c);
}

static void the_request_may_come_later(void **state)
{
	struct client c;

	(void)state;
	connect_http2(&c, TLS1_3_VERSION);
	say(&c, c.len);
	UNTIL(lardd->worker[0]->live[CONN_READ] == 1);
	assert_int_equal(kernel.submissions, 0);
	ask_for(&c, "/a");
	say(&c, c.sent + 10);
	say(&c, c.len);
	expect_moved(&c);
	hang_up(&c);
}

/* In two records at each byte, and each time in pieces of the segments' own. */
static void records_and_segments_may_end_anywhere(void **state)
{
	struct client c;
	char wire[8192];
	size_t cut;
	int n, at;
	BIO *out;

	(void)state;
	for (cut = 0, c.len = 1; cut <= c.len; cut++) {
		connect_http2(&c, TLS1_3_VERSION);
		ask_with(&c, "/a", "x", "a field of some length");
		out = BIO_new(BIO_s_mem());
		SSL_set0_wbio(c.ssl, out);
		say(&c, cut);
		say(&c, c.len);
		n = BIO_read(out, wire, sizeof(wire));
		for (at = 0; at < n; at += 1 + cut)
			assert_int_equal(send(c.fd, wire + at, n - at < 1 + (int)cut ? n - at : 1 + (int)cut, 0),
					 n - at < 1 + (int)cut ? n - at : 1 + (int)cut);
		expect_moved(&c);
		hang_up(&c);
	}
	UNTIL(counted(COUNTER_HTTP2_HANDED_OFF) == cut);
	UNTIL(all_closed());
}

static void who_leaves_amid_it_is_forgotten(void **state)
{
	struct client c;

	(void)state;
	connect_http2(&c, TLS1_3_VERSION);
	say(&c, c.len);
	UNTIL(lardd->worker[0]->live[CONN_READ] == 1);
	hang_up(&c);
	UNTIL(all_closed());
	assert_int_equal(counted(COUNTER_HTTP2_CONNECTIONS), 0);
}

static void who_says_half_makes_room_for_others(void **state)
{
	struct client waiting[3], c;
	int i;

	(void)state;
	for (i = 0; i < 3; i++) {
		connect_http2(&waiting[i], TLS1_3_VERSION);
		say(&waiting[i], waiting[i].len);
		UNTIL(lardd->worker[0]->live[CONN_READ] == 1U + i);
	}
	connect_and_ask(&c, TLS1_3_VERSION, "/a");
	expect_moved(&c);
	assert_int_equal(counted(COUNTER_RECYCLED), 1);
	hang_up(&c);
	for (i = 0; i < 3; i++)
		hang_up(&waiting[i]);
}

static void what_waits_at_the_limit_moves_later(void **state)
{
	int server, node = occupy(&server);
	struct client c;

	(void)state;
	connect_and_ask(&c, TLS1_3_VERSION, "/late");
	UNTIL(lardd->waiters == 1);
	assert_int_equal(kernel.submissions, 1);
	kernel_emit(kernel.cookies[node], node + 1, HOF_EVENT_CLOSED, 0);
	expect_moved(&c);
	UNTIL(counted(COUNTER_HTTP2_HANDED_OFF) == 2);
	close(server);
	hang_up(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_connection_moves_whole, start_patient, stop_http2),
		cmocka_unit_test_setup_teardown(what_comes_behind_the_request_is_no_matter, start_patient, stop_http2),
		cmocka_unit_test_setup_teardown(the_request_may_come_later, start_patient, stop_http2),
		cmocka_unit_test_setup_teardown(records_and_segments_may_end_anywhere, start_patient, stop_http2),
		cmocka_unit_test_setup_teardown(who_leaves_amid_it_is_forgotten, start_patient, stop_http2),
		cmocka_unit_test_setup_teardown(who_says_half_makes_room_for_others, start_small, stop_http2),
		cmocka_unit_test_setup_teardown(what_waits_at_the_limit_moves_later, start_busy, stop_http2),
	};

	return cmocka_run_group_tests_name("lard_give_http2", tests, NULL, NULL);
}
