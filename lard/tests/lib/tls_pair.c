// SPDX-License-Identifier: GPL-2.0
#include "lard/tests/lib/tls_pair.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>
#include "lard/client.h"
#include "lard/tests/lib/records.h"

uint64_t now = ROTATION_US;
struct config config = {
	.https = { .certificate_count = 1, .tickets = true, .ticket_rotation_us = ROTATION_US },
};

/* --- in the place of the daemon's --- */

uint64_t loop_clock(void)
{
	return now;
}

/* --- a pair --- */

int make_certificate(void **state)
{
	(void)state;
	return certificate_make(config.https.certificates[0].chain, config.https.certificates[0].key);
}

int remove_certificate(void **state)
{
	(void)state;
	return certificate_remove(config.https.certificates[0].chain, config.https.certificates[0].key);
}

void join_with(struct pair *p, int version, SSL_SESSION *session, const char *suites)
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

void join(struct pair *p, int version, SSL_SESSION *session)
{
	join_with(p, version, session, NULL);
}

void join_sealed(struct pair *p, int version, const char *suites)
{
	config.https.tls_port = 8443;
	join_with(p, version, NULL, suites);
	config.https.tls_port = 0;
}

void part(struct pair *p)
{
	client_close(&p->conn);
	SSL_set_shutdown(p->client, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
	SSL_free(p->client);
	SSL_CTX_free(p->ctx);
	close(p->conn.source.fd);
	close(p->fd);
	tls_site_put(p->site);
}

size_t unread(const struct pair *p)
{
	int n = 0;

	assert_int_equal(ioctl(p->conn.source.fd, FIONREAD, &n), 0);
	return n;
}
