// SPDX-License-Identifier: GPL-2.0
/* Connections of HTTP/2 move whole, or lardd speaks for their back-ends: the whole daemon on a kernel of pretence. */
#include <nghttp2/nghttp2.h>
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

static char chain[CERTIFICATE_PATH], key[CERTIFICATE_PATH], log_path[64];

/* Only the daemon's first listener is opened; what the file says of http2 is of another. */
static int start_with_http2(const char *lines)
{
	char all[1024];
	int err;

	assert_int_equal(certificate_make(chain, key), 0);
	snprintf(all, sizeof(all), "certificate %s %s\nlisten 127.0.0.1:1 tls http2\n%s", chain, key, lines);
	offer_http2 = true;
	err = start_with(all, DOOR_TLS);
	offer_http2 = false;
	return err;
}

static int start_patient(void **state)
{
	(void)state;
	return start_with_http2("tls-port-http2 8444\nhttp2-wait 600s\n");
}

static int start_impatient(void **state)
{
	(void)state;
	return start_with_http2("tls-port 8443\ntls-port-http2 8444\nhttp2-wait 50ms\n");
}

static int start_busy(void **state)
{
	(void)state;
	return start_with_http2("tls-port-http2 8444\nhttp2-wait 600s\nqueue-timeout 200ms\n");
}

/* Its access log says what became of streams. */
static int start_logging(void **state)
{
	char lines[300];
	int fd;

	(void)state;
	strcpy(log_path, "/tmp/lard_give_http2.XXXXXX");
	fd = mkstemp(log_path);
	assert_true(fd >= 0);
	close(fd);
	snprintf(lines, sizeof(lines), "tls-port-http2 8444\nhttp2-wait 600s\naccess-log %s\n", log_path);
	return start_with_http2(lines);
}

static int start_small(void **state)
{
	(void)state;
	return start_with_http2("tls-port-http2 8444\nhttp2-wait 600s\nmax-connections 3\n");
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

static int stop_http2(void **state)
{
	certificate_remove(chain, key);
	return stop(state);
}

/* --- a client --- */

struct client {
	nghttp2_session *session;
	SSL *ssl;
	int fd;
	unsigned char said[20000];	/* what the session wants to be sent, @sent bytes of it were */
	size_t len, sent;
	int statuses[32];		/* by stream */
	char body[1024];
	size_t body_len;
	bool settled, left;
};

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_len,
		     const uint8_t *value, size_t value_len, uint8_t flags, void *user)
{
	struct client *c = user;

	(void)session;
	(void)value_len;
	(void)flags;
	if (name_len == 7 && !memcmp(name, ":status", 7))
		c->statuses[frame->hd.stream_id % 32] = atoi((const char *)value);
	return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *at, size_t len, void *user)
{
	struct client *c = user;

	(void)session;
	(void)flags;
	(void)id;
	assert_true(len < sizeof(c->body) - c->body_len);
	memcpy(c->body + c->body_len, at, len);
	c->body_len += len;
	return 0;
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
	struct client *c = user;

	(void)session;
	c->settled |= frame->hd.type == NGHTTP2_SETTINGS && !(frame->hd.flags & NGHTTP2_FLAG_ACK);
	c->left |= frame->hd.type == NGHTTP2_GOAWAY;
	return 0;
}

static void pull(struct client *c)
{
	const uint8_t *at;
	ssize_t n;

	while ((n = nghttp2_session_mem_send(c->session, &at)) > 0) {
		assert_true(n <= (ssize_t)(sizeof(c->said) - c->len));
		memcpy(c->said + c->len, at, n);
		c->len += n;
	}
	assert_int_equal(n, 0);
}

/* A record with what it has not said yet, up to @to. */
static void say(struct client *c, size_t to)
{
	if (to > c->sent)
		assert_int_equal(SSL_write(c->ssl, c->said + c->sent, to - c->sent), to - c->sent);
	c->sent = to;
}

static void ask_with(struct client *c, const char *path, const char *name, const char *value)
{
	const nghttp2_nv fields[] = {
		{ (uint8_t *)":method", (uint8_t *)"GET", 7, 3, 0 },
		{ (uint8_t *)":scheme", (uint8_t *)"https", 7, 5, 0 },
		{ (uint8_t *)":authority", (uint8_t *)"h", 10, 1, 0 },
		{ (uint8_t *)":path", (uint8_t *)path, 5, strlen(path), 0 },
		{ (uint8_t *)name, (uint8_t *)value, strlen(name), strlen(value), 0 },
	};

	assert_true(nghttp2_submit_request(c->session, NULL, fields, 5, NULL, NULL) > 0);
	pull(c);
}

static void ask_for(struct client *c, const char *path)
{
	ask_with(c, path, "x", "");
}

/* Its handshake is over; preface and SETTINGS are in @said. */
static void connect_http2(struct client *c, int version)
{
	SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
	nghttp2_session_callbacks *callbacks;

	memset(c, 0, sizeof(*c));
	c->ssl = SSL_new(ctx);
	SSL_CTX_free(ctx);
	c->fd = connect_client("");
	SSL_set_max_proto_version(c->ssl, version);
	SSL_set_alpn_protos(c->ssl, (const unsigned char *)"\x02h2", 3);
	SSL_set_fd(c->ssl, c->fd);
	assert_int_equal(SSL_connect(c->ssl), 1);
	nghttp2_session_callbacks_new(&callbacks);
	nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
	nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
	assert_int_equal(nghttp2_session_client_new(&c->session, callbacks, c), 0);
	nghttp2_session_callbacks_del(callbacks);
	assert_int_equal(nghttp2_submit_settings(c->session, NGHTTP2_FLAG_NONE, NULL, 0), 0);
	pull(c);
}

/* One record of what the other end says. */
static void hear(struct client *c)
{
	unsigned char got[17000];
	int n = SSL_read(c->ssl, got, sizeof(got));

	assert_true(n > 0);
	assert_int_equal(nghttp2_session_mem_recv(c->session, got, n), n);
	pull(c);
	say(c, c->len);
}

/* All of it at once. */
static void connect_and_ask(struct client *c, int version, const char *path)
{
	connect_http2(c, version);
	ask_for(c, path);
	say(c, c->len);
}

static void expect_answer(struct client *c, int stream, int status)
{
	while (!c->statuses[stream])
		hear(c);
	assert_int_equal(c->statuses[stream], status);
}

static void expect_streamed(struct client *c)
{
	serve_proxied();
	expect_answer(c, 1, 200);
	while (c->body_len < 7)
		hear(c);
	assert_memory_equal(c->body, "proxied", 7);
}

static void hang_up(struct client *c)
{
	nghttp2_session_del(c->session);
	SSL_set_shutdown(c->ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
	SSL_free(c->ssl);
	close(c->fd);
}

/* --- a node --- */

/* The records that are in the socket, opened by the keys that it was given, are @c's words. */
static void expect_said(int server, struct flt_tls *keys, const struct client *c)
{
	unsigned char record[17000], plain[17000];
	size_t at = 0, size;
	int n, i;

	while (at < c->len) {
		EVP_CIPHER_CTX *ctx = crypt_begin(keys, &keys->rx, false);

		assert_int_equal(recv(server, record, 5, MSG_WAITALL), 5);
		size = (record[3] << 8 | record[4]) - 16;
		assert_int_equal(recv(server, record + 5, size + 16, MSG_WAITALL), size + 16);
		assert_int_equal(EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_AEAD_SET_TAG, 16, record + 5 + size), 1);
		assert_int_equal(EVP_CipherUpdate(ctx, NULL, &n, record, 5), 1);
		assert_int_equal(EVP_CipherUpdate(ctx, plain, &n, record + 5, size), 1);
		assert_int_equal(EVP_CipherFinal_ex(ctx, plain + n, &n), 1);
		EVP_CIPHER_CTX_free(ctx);
		for (i = 7; i >= 0 && !++keys->rx.rec_seq[i]; i--)
			;
		assert_int_equal(plain[size - 1], 23);
		assert_true(size - 1 <= c->len - at);
		assert_memory_equal(plain, c->said + at, size - 1);
		at += size - 1;
	}
}

/* It has moved, and to this port: nobody but the node speaks to the client. */
static void expect_moved(struct client *c)
{
	char got[64];
	int server, node = adopted(&server);

	assert_int_equal(kernel.keys[node].port, 8444);
	expect_said(server, &kernel.keys[node], c);
	send_record(server, &kernel.keys[node], "answer");
	assert_int_equal(SSL_read(c->ssl, got, sizeof(got)), 6);
	assert_memory_equal(got, "answer", 6);
	close(server);
	kernel_emit(kernel.cookies[node], node + 1, HOF_EVENT_CLOSED, 0);
}

/* --- claims --- */

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

static int occupy(int *server)
{
	struct client c;
	int node;

	kernel.max_outstanding = 1;
	kernel_changed();
	UNTIL(limit() == 1);
	connect_and_ask(&c, TLS1_3_VERSION, "/a");
	node = adopted(server);
	hang_up(&c);
	UNTIL(counted(COUNTER_HTTP2_HANDED_OFF) == 1);
	return node;
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
		cmocka_unit_test_setup_teardown(a_connection_moves_whole, start_patient, stop_http2),
		cmocka_unit_test_setup_teardown(what_comes_behind_the_request_is_no_matter, start_patient, stop_http2),
		cmocka_unit_test_setup_teardown(the_request_may_come_later, start_patient, stop_http2),
		cmocka_unit_test_setup_teardown(records_and_segments_may_end_anywhere, start_patient, stop_http2),
		cmocka_unit_test_setup_teardown(what_no_node_takes_is_streamed, start_logging, stop_http2),
		cmocka_unit_test_setup_teardown(a_node_without_that_listener_is_no_node_without_a_server,
						start_patient, stop_http2),
		cmocka_unit_test_setup_teardown(what_cannot_move_is_streamed, start_patient, stop_http2),
		cmocka_unit_test_setup_teardown(a_new_key_behind_the_request_keeps_it_here, start_patient, stop_http2),
		cmocka_unit_test_setup_teardown(who_leaves_amid_it_is_forgotten, start_patient, stop_http2),
		cmocka_unit_test_setup_teardown(who_says_half_makes_room_for_others, start_small, stop_http2),
		cmocka_unit_test_setup_teardown(the_other_protocol_has_its_own_word, start_patient, stop_http2),
		cmocka_unit_test_setup_teardown(without_its_port_it_is_streamed, start_that_stays, stop_http2),
		cmocka_unit_test_setup_teardown(who_waits_for_our_settings_gets_them, start_impatient, stop_http2),
		cmocka_unit_test_setup_teardown(what_is_beyond_the_bounds_is_answered, start_patient, stop_http2),
		cmocka_unit_test_setup_teardown(what_is_malformed_is_answered, start_patient, stop_http2),
		cmocka_unit_test_setup_teardown(what_waits_at_the_limit_moves_later, start_busy, stop_http2),
		cmocka_unit_test_setup_teardown(who_waits_in_vain_is_told, start_busy, stop_http2),
		cmocka_unit_test_setup_teardown(what_the_cache_wants_is_streamed, start_caching, stop_http2),
	};

	return cmocka_run_group_tests_name("lard_give_http2", tests, NULL, NULL);
}
