// SPDX-License-Identifier: GPL-2.0
#include "secure.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "lard/tls/session.h"

#define PATIENCE_US 1000000	/* in mp and mt; then deadlines and signals have their turn, as without TLS */

int secure_new(struct conn *c)
{
	struct tls_session *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->notes.http2 = c->offers_http2;
	if (tls_session_open(s, c->w->conf->tls, c->watch.fd, c->door, c->w->conf->ktls)) {
		free(s);
		return -ENOMEM;
	}
	if (c->w->blocking)
		s->patience_us = PATIENCE_US;
	c->tls = s;
	return 0;
}

void secure_free(struct conn *c)
{
	if (!c->tls)
		return;
	tls_session_close(c->tls);
	free(c->tls);
	c->tls = NULL;
}

static void count_handshake(struct conn *c)
{
	const struct tls_notes *notes = &c->tls->notes;
	struct stats *stats = c->w->stats;

	stats_add(stats, tls_handshakes, 1);
	if (c->tls->kernel)
		stats_add(stats, tls_kernel, 1);
	if (notes->missed)
		stats_add(stats, tls_name_missed, 1);
	if (notes->unknown_ticket)
		stats_add(stats, tls_ticket_unknown, 1);
	if (SSL_session_reused(c->tls->ssl))
		stats_add(stats, tls_resumed, 1);
	else if (notes->stapled)
		stats_add(stats, tls_stapled, 1);
	else if (notes->unstapled)
		stats_add(stats, tls_unstapled, 1);
}

int secure_shake(struct conn *c)
{
	int over = tls_session_shake(c->tls);

	if (over > 0)
		count_handshake(c);
	return over;
}

bool secure_wants_http2(const struct conn *c)
{
	return tls_session_wants_http2(c->tls);
}

ssize_t secure_recv(struct conn *c, void *into, size_t len)
{
	return tls_session_read(c->tls, into, len, c->w->loop.now * 1000);
}

/* Less than all only where the socket takes no more: who asks waits for it to have room then. */
ssize_t secure_send(struct conn *c, const void *p, size_t len)
{
	struct tls_session *s = c->tls;
	size_t done = 0, size;
	ssize_t n;

	if (s->kernel && !s->broken && !s->shut)
		return send(c->watch.fd, p, len, MSG_NOSIGNAL);
	while (done < len) {
		size = len - done < TLS_RECORD_MAX ? len - done : TLS_RECORD_MAX;
		if (s->retry > size) {
			errno = EPIPE;
			return -1;
		}
		n = tls_session_write(s, (const char *)p + done, s->retry ? s->retry : size);
		if (n < 0)
			return done ? (ssize_t)done : n;
		done += n;
	}
	return done;
}

bool secure_by_kernel(const struct conn *c)
{
	return c->tls->kernel;
}

bool secure_pending(const struct conn *c)
{
	return c->tls->retry;
}

ssize_t secure_flush(struct conn *c)
{
	/* What is in it is encrypted already: it is not looked at again. */
	return tls_session_write(c->tls, c->w->out, c->tls->retry);
}

ssize_t secure_sendfile(struct conn *c, int fd, off_t off, size_t len)
{
	ssize_t n = tls_session_sendfile(c->tls, fd, off, len);

	if (n > 0)
		stats_add(c->w->stats, tls_sendfile, n);
	return n;
}

bool secure_end(struct conn *c)
{
	return tls_session_end(c->tls);
}

void secure_spoil(struct conn *c)
{
	c->tls->broken = true;
}
