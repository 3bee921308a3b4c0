// SPDX-License-Identifier: GPL-2.0
/* The TLS of a connection without the daemon: records that are sent in part, and the age of tickets. */
#include <errno.h>
#include <fcntl.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>
#include <cmocka.h>
#include "lard/client.h"
#include "lard/config.h"
#include "lard/conn.h"
#include "lard/privilege.h"
#include "lard/tls/ticket.h"
#include "lard/tls/tls.h"

#define ROTATION_US 3600000000ULL

static uint64_t now = ROTATION_US;
static struct config config = { .https = { .certificate_count = 1, .ticket_rotation_us = ROTATION_US } };

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

struct pair {
	struct tls_site *site;
	struct conn conn;
	SSL_CTX *ctx;
	SSL *client;
	int fd;
};

static int make_certificate(void **state)
{
	static char directory[] = "/tmp/lard_tls_unit.XXXXXX";
	EVP_PKEY *key = EVP_EC_gen("P-256");
	X509 *x = X509_new();
	FILE *file;

	(void)state;
	umask(077);
	if (!mkdtemp(directory))
		return -1;
	snprintf(config.https.certificates[0].chain, sizeof(config.https.certificates[0].chain), "%s/chain", directory);
	snprintf(config.https.certificates[0].key, sizeof(config.https.certificates[0].key), "%s/key", directory);
	X509_gmtime_adj(X509_getm_notBefore(x), 0);
	X509_gmtime_adj(X509_getm_notAfter(x), 86400);
	X509_set_pubkey(x, key);
	X509_sign(x, key, EVP_sha256());
	file = fopen(config.https.certificates[0].chain, "w");
	PEM_write_X509(file, x);
	fclose(file);
	file = fopen(config.https.certificates[0].key, "w");
	PEM_write_PrivateKey(file, key, NULL, NULL, 0, NULL, NULL);
	fclose(file);
	X509_free(x);
	EVP_PKEY_free(key);
	return 0;
}

static int remove_certificate(void **state)
{
	(void)state;
	unlink(config.https.certificates[0].key);
	unlink(config.https.certificates[0].chain);
	*strrchr(config.https.certificates[0].key, '/') = '\0';
	return rmdir(config.https.certificates[0].key);
}

/* Both ends, after the handshake. */
static void join(struct pair *p, int version, SSL_SESSION *session)
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_record_sent_in_part_goes_on_from_moved_buffers),
		cmocka_unit_test(fewer_bytes_than_are_under_way_are_an_error),
		cmocka_unit_test(tickets_have_their_age),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("lard_tls_unit", tests, make_certificate, remove_certificate);
}
