// SPDX-License-Identifier: GPL-2.0
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
#include "lard/tests/lib/records.h"

static char chain[CERTIFICATE_PATH], key[CERTIFICATE_PATH];

int start_with_http2(const char *lines)
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

int start_patient(void **state)
{
	(void)state;
	return start_with_http2("tls-port-http2 8444\nhttp2-wait 600s\n");
}

int start_busy(void **state)
{
	(void)state;
	return start_with_http2("tls-port-http2 8444\nhttp2-wait 600s\nqueue-timeout 200ms\n");
}

int stop_http2(void **state)
{
	certificate_remove(chain, key);
	return stop(state);
}

/* --- a client --- */

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

void say(struct client *c, size_t to)
{
	if (to > c->sent)
		assert_int_equal(SSL_write(c->ssl, c->said + c->sent, to - c->sent), to - c->sent);
	c->sent = to;
}

void ask_with(struct client *c, const char *path, const char *name, const char *value)
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

void ask_for(struct client *c, const char *path)
{
	ask_with(c, path, "x", "");
}

void connect_http2(struct client *c, int version)
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

void hear(struct client *c)
{
	unsigned char got[17000];
	int n = SSL_read(c->ssl, got, sizeof(got));

	assert_true(n > 0);
	assert_int_equal(nghttp2_session_mem_recv(c->session, got, n), n);
	pull(c);
	say(c, c->len);
}

void connect_and_ask(struct client *c, int version, const char *path)
{
	connect_http2(c, version);
	ask_for(c, path);
	say(c, c->len);
}

void expect_answer(struct client *c, int stream, int status)
{
	while (!c->statuses[stream])
		hear(c);
	assert_int_equal(c->statuses[stream], status);
}

void hang_up(struct client *c)
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

void expect_moved(struct client *c)
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

int occupy(int *server)
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
