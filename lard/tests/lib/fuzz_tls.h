/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What a fuzzer feeds to our own parsing of TLS: records that stay in the socket (lard/tls/seal.c), and the hello by
 * which a certificate is chosen (lard/tls/tls.c), with what must hold for any input.
 */
#ifndef LARD_FUZZ_TLS_H
#define LARD_FUZZ_TLS_H

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>
#include "lard/tls/host.h"
#include "lard/tls/session.h"
#include "lard/tls/tls.h"

#define assert_int_equal(a, b)		assert((long)(a) == (long)(b))
#define assert_memory_equal(a, b, n)	assert(!memcmp(a, b, n))
#include "lard/tests/lib/records.h"

#define FUZZ_RECORDS	10	/* two more than are looked at */
#define FUZZ_TEXT	(FUZZ_RECORDS * 16384)

static struct fuzz {
	struct tls_settings settings;
	struct tls_site *site;
	SSL_CTX *ctx;
	unsigned char hello[2048];
	size_t hello_len;
} fuzz = { .settings = { .certificate_count = 1, .tickets = true, .ticket_rotation_us = 1000000, .tls_port = 1 } };

uint64_t tls_host_clock(void)
{
	return 1;
}

void tls_host_warn(const char *event, const char *text)
{
	(void)event;
	(void)text;
}

bool tls_host_is_user(uid_t uid)
{
	(void)uid;
	return false;
}

int tls_host_open(const char *path, int flags)
{
	return open(path, flags);
}

const char *tls_host_user(void)
{
	return NULL;
}

/* Both ends after a handshake. */
struct fuzz_pair {
	struct tls_session server;
	SSL *client;
	int fd[2];
};

static void fuzz_open(struct fuzz_pair *p)
{
	int big = 1 << 20;

	memset(p, 0, sizeof(*p));
	assert(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, p->fd));
	setsockopt(p->fd[1], SOL_SOCKET, SO_SNDBUF, &big, sizeof(big));
	assert(!tls_session_open(&p->server, fuzz.site, p->fd[0], DOOR_TLS, false));
	p->client = SSL_new(fuzz.ctx);
	SSL_set_fd(p->client, p->fd[1]);
	SSL_set_tlsext_host_name(p->client, "one.test");
}

static void fuzz_close(struct fuzz_pair *p)
{
	tls_session_close(&p->server);
	SSL_free(p->client);
	close(p->fd[0]);
	close(p->fd[1]);
}

static void fuzz_begin(void)
{
	char error[256];
	struct fuzz_pair p;

	assert(!certificate_make(fuzz.settings.certificates[0].chain, fuzz.settings.certificates[0].key));
	fuzz.site = tls_site_new(&fuzz.settings, error, sizeof(error));
	assert(fuzz.site);
	fuzz.ctx = SSL_CTX_new(TLS_client_method());
	SSL_CTX_set_min_proto_version(fuzz.ctx, TLS1_3_VERSION);
	fuzz_open(&p);
	SSL_connect(p.client);
	fuzz.hello_len = recv(p.fd[0], fuzz.hello, sizeof(fuzz.hello), 0);
	fuzz_close(&p);
}

static void fuzz_end(void)
{
	certificate_remove(fuzz.settings.certificates[0].chain, fuzz.settings.certificates[0].key);
	tls_site_put(fuzz.site);
	SSL_CTX_free(fuzz.ctx);
}

/* A hello whose bytes are others: pairs of a place and a value, and where it is cut. */
static void fuzz_hello(const uint8_t *data, size_t size)
{
	unsigned char hello[sizeof(fuzz.hello)];
	size_t len = fuzz.hello_len, i;
	struct fuzz_pair p;
	const char *name;

	memcpy(hello, fuzz.hello, len);
	for (i = 0; i + 2 < size; i += 3)
		hello[(data[i] << 8 | data[i + 1]) % len] ^= data[i + 2];
	fuzz_open(&p);
	assert(send(p.fd[1], hello, len, 0) == (ssize_t)len);
	tls_session_shake(&p.server);
	/* What OpenSSL takes for the name is what was chosen by; no certificate here has one. */
	name = SSL_get_servername(p.server.ssl, TLSEXT_NAMETYPE_host_name);
	assert(!name || !*name || p.server.notes.missed);
	fuzz_close(&p);
}

/* One record of the client's keys: its length; the text at @text. */
static size_t fuzz_record(struct flt_tls *keys, const unsigned char *text, size_t len, unsigned char type, size_t pad,
			  unsigned char *out)
{
	size_t inner = len + 1 + pad, size = inner + 16;
	EVP_CIPHER_CTX *ctx = crypt_begin(keys, &keys->rx, true);
	unsigned char *plain = calloc(1, inner);
	int n, i;

	memcpy(out, (unsigned char[]){ 23, 3, 3, size >> 8, size }, 5);
	memcpy(plain, text, len);
	plain[len] = type;
	assert(EVP_CipherUpdate(ctx, NULL, &n, out, 5) == 1);
	assert(EVP_CipherUpdate(ctx, out + 5, &n, plain, inner) == 1);
	assert(EVP_CipherFinal_ex(ctx, out + 5 + n, &n) == 1);
	assert(EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_AEAD_GET_TAG, 16, out + 5 + inner) == 1);
	EVP_CIPHER_CTX_free(ctx);
	free(plain);
	for (i = 7; i >= 0 && !++keys->rx.rec_seq[i]; i--)
		;
	return size + 5;
}

static size_t fuzz_unread(int fd)
{
	int n = 0;

	ioctl(fd, FIONREAD, &n);
	return n;
}

/*
 * Records, each by four bytes: what kind, how long, how much padding, where it is cut in two. What is looked at is a
 * beginning of what OpenSSL then reads, whole or in pieces alike, and stays.
 */
static void fuzz_records(const uint8_t *data, size_t size)
{
	static unsigned char text[FUZZ_TEXT], seen[2][FUZZ_TEXT], raw[20000], got[FUZZ_TEXT];
	size_t at, there = 0, looked, all = 0, len = 16384;
	ssize_t n, last = -1, whole;
	struct fuzz_pair p;
	struct flt_tls keys;
	int over = 0, met = 0, i;
	bool waited, limited;

	fuzz_open(&p);
	for (i = 0; i < 20 && !(over && met); i++) {
		met = met || SSL_connect(p.client) == 1;
		over = over || tls_session_shake(&p.server) == 1;
	}
	assert(over && met && tls_session_sealed(&p.server) && !tls_session_keys(&p.server, &keys));
	for (at = 0; at + 3 < size && at < 4 * FUZZ_RECORDS && tls_session_sealed(&p.server); at += 4) {
		size_t long_ = data[at + 1] * (data[at] & 64 ? 64 : 1), pad = data[at + 2] * (data[at] & 128 ? 60 : 1);
		unsigned char type = data[at] % 8 == 7 ? 21 : data[at] % 8 == 6 ? 0 : 23;
		size_t bytes, cut;

		if (long_ + pad > 16384)
			pad = 16384 - long_;
		for (i = 0; i < (int)long_; i++)
			text[i] = at + i;
		bytes = fuzz_record(&keys, text, long_, type, pad, raw);
		if (data[at] % 8 == 5)				/* a byte of it is another */
			raw[data[at + 3] % bytes] ^= 1 << data[at + 2] % 8;
		cut = data[at + 3] * bytes / 256;
		for (i = 0; i < 2; i++) {
			if (send(p.fd[1], raw + (i ? cut : 0), i ? bytes - cut : cut, 0) < 0)
				break;
			there = fuzz_unread(p.fd[0]);
			n = tls_session_peek(&p.server, seen[0], len, true, &looked);
			assert(fuzz_unread(p.fd[0]) == there);
			assert(n <= (ssize_t)len && (n <= 0 || n >= last));
			last = n > 0 ? n : last;
			if (n < 0 && errno == EBADMSG)
				break;
		}
	}
	/* Behind that many nobody looks. */
	limited = at > 4 * 8 || there > 18000;
	waited = tls_session_sealed(&p.server);
	errno = 0;
	whole = waited ? tls_session_peek(&p.server, seen[1], len, false, &looked) : -1;
	/* All at once it is what it was in pieces, and what is not looked at was not waited for. */
	assert(whole >= 0 || !waited || errno != EBADMSG);
	if (whole > 0)
		assert(whole == last && !memcmp(seen[0], seen[1], whole));
	while (all < sizeof(got) && (n = tls_session_read(&p.server, got + all, sizeof(got) - all, 1)) > 0)
		all += n;
	if (last > 0)
		assert(all >= (size_t)last && !memcmp(got, seen[0], last));
	if (whole > 0 && all < len && !p.server.broken && !p.server.ended)
		assert(all == (size_t)whole || (limited && all > (size_t)whole));
	fuzz_close(&p);
}

static void fuzz_one(const uint8_t *data, size_t size)
{
	if (size && *data & 1)
		fuzz_hello(data + 1, size - 1);
	else if (size)
		fuzz_records(data + 1, size - 1);
}

#endif
