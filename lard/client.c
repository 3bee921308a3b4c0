// SPDX-License-Identifier: GPL-2.0
#include "client.h"
#include <errno.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include "conn.h"
#include "identity.h"
#include "tls/session.h"

/**
 * struct client_tls - the TLS of one connection
 * @in:     what was decrypted and is not taken yet, @in_start to @in_end; NULL: nothing. A request
 *	    is peeked at until it is whole, which OpenSSL can do within a record only.
 * @peeked: with nothing in @in: so much of what is in the socket has been looked at (seal.h)
 * @looked: the same, as it is in the socket, with records that are not whole
 * @identity: of its certificate, see identity.h
 * @why:    it is not served, although the handshake is over
 */
struct client_tls {
	struct tls_session session;
	struct tls_site *site;
	char *in;
	size_t in_start, in_end, in_size;
	size_t peeked, looked;
	char *identity;
	const char *why;
};

/* Of all connections whose records the kernel makes and reads. */
static struct client_tls kernels;

bool client_is_kernels(const struct conn *conn)
{
	return conn->tls == &kernels;
}

bool client_take(struct conn *conn)
{
	char name[16] = "";
	socklen_t len = sizeof(name);

	if (getsockopt(conn->source.fd, IPPROTO_TCP, TCP_ULP, name, &len) || strncmp(name, "tls", sizeof(name)))
		return false;
	conn->tls = &kernels;
	return true;
}

int client_secure(struct conn *conn, struct tls_site *site)
{
	struct client_tls *tls = calloc(1, sizeof(*tls));

	if (!tls)
		return -ENOMEM;
	if (tls_session_open(&tls->session, site, conn->source.fd, conn->door, false)) {
		free(tls);
		return -ENOMEM;
	}
	tls->session.notes.http2 = conn->offers_http2;
	tls->site = tls_site_get(site);
	conn->tls = tls;
	return 0;
}

int client_shake(struct conn *conn)
{
	struct client_tls *tls = conn->tls;
	int over = tls_session_shake(&tls->session);

	if (over > 0)
		tls->why = identity_of(tls->session.ssl, &tls->identity);
	return tls->why ? -1 : over;
}

const char *client_failure(const struct conn *conn)
{
	const char *reason = conn->tls->why;

	reason = reason ? reason : ERR_reason_error_string(ERR_peek_error());

	return reason ? reason : "the client went away";
}

bool client_wants_http2(const struct conn *conn)
{
	return conn->tls && !client_is_kernels(conn) && tls_session_wants_http2(&conn->tls->session);
}

bool client_resumed(const struct conn *conn)
{
	return SSL_session_reused(conn->tls->session.ssl);
}

const struct tls_notes *client_notes(const struct conn *conn)
{
	return &conn->tls->session.notes;
}

const char *client_identity(const struct conn *conn)
{
	return conn->tls ? conn->tls->identity : NULL;
}

struct client_tls *client_tls_of_nobody(void)
{
	static struct client_tls nobody;

	return &nobody;
}

/* --- from the client --- */

static size_t buffered(const struct client_tls *tls)
{
	return tls->in_end - tls->in_start;
}

static void drop_buffer(struct client_tls *tls)
{
	/* It may hold what nobody else is to see. */
	OPENSSL_clear_free(tls->in, tls->in_size);
	tls->in = NULL;
	tls->in_start = tls->in_end = tls->in_size = 0;
}

static void consume(struct client_tls *tls, size_t len)
{
	tls->in_start += len;
	if (tls->in_start == tls->in_end)
		drop_buffer(tls);
}

static int make_room(struct client_tls *tls, size_t len)
{
	char *in;

	if (tls->in_start + len <= tls->in_size)
		return 0;
	if (len <= tls->in_size) {
		memmove(tls->in, tls->in + tls->in_start, buffered(tls));
	} else {
		in = OPENSSL_malloc(len);
		if (!in)
			return -1;
		if (tls->in)
			memcpy(in, tls->in + tls->in_start, buffered(tls));
		OPENSSL_clear_free(tls->in, tls->in_size);
		tls->in = in;
		tls->in_size = len;
	}
	tls->in_end -= tls->in_start;
	tls->in_start = 0;
	return 0;
}

static ssize_t read_some(struct client_tls *tls, void *into, size_t len)
{
	return tls_session_read(&tls->session, into, len, loop_clock());
}

/* Until @len bytes are buffered or no more are there; what the last read came to. */
static ssize_t fill(struct client_tls *tls, size_t len)
{
	ssize_t n = 1;

	if (make_room(tls, len)) {
		errno = ENOMEM;
		return -1;
	}
	while (n > 0 && buffered(tls) < len) {
		n = read_some(tls, tls->in + tls->in_end, len - buffered(tls));
		if (n > 0)
			tls->in_end += n;
	}
	return n;
}

bool client_sealed(const struct conn *conn)
{
	const struct client_tls *tls = conn->tls;

	return client_is_kernels(conn) || (tls && !conn->stream && !buffered(tls) && tls_session_sealed(&tls->session));
}

int client_keys(const struct conn *conn, struct flt_tls *keys)
{
	if (client_is_kernels(conn)) {
		memset(keys, 0, sizeof(*keys));
		return 0;
	}
	return client_sealed(conn) ? tls_session_keys(&conn->tls->session, keys) : -1;
}

bool client_unseal(struct conn *conn)
{
	return client_sealed(conn) && !client_is_kernels(conn) && tls_session_unseal(&conn->tls->session);
}

/* What was looked at in the socket is taken now, and is as if it had been peeked at here. */
static void unseal(struct client_tls *tls)
{
	size_t len = tls->peeked;

	tls->peeked = tls->looked = 0;
	if (len)
		fill(tls, len);
}

static ssize_t peek(struct client_tls *tls, void *into, size_t len)
{
	ssize_t n = buffered(tls) < len ? fill(tls, len) : 0;
	size_t there = buffered(tls) < len ? buffered(tls) : len;
	int err = errno;

	if (!there) {
		drop_buffer(tls);
		errno = err;
		return n;
	}
	memcpy(into, tls->in + tls->in_start, there);
	return there;
}

ssize_t client_recv(struct conn *conn, void *into, size_t len, int flags)
{
	struct client_tls *tls = conn->tls;

	if (conn->stream)
		return conn->stream->ops->recv(conn->stream, into, len, flags & ~CLIENT_MORE);
	if (!tls || client_is_kernels(conn))
		return recv(conn->source.fd, into, len, flags & ~CLIENT_MORE);
	if (flags & MSG_PEEK && conn->state != CONN_PROXY && client_sealed(conn)) {
		ssize_t n = tls_session_peek(&tls->session, into, len, flags & CLIENT_MORE,
					     &tls->looked);

		/* Without news it is what it was. */
		if (n >= 0 || errno != EAGAIN)
			tls->peeked = n > 0 ? n : 0;
		if (n >= 0 || errno != EBADMSG)
			return n;
	}
	unseal(tls);
	if (flags & MSG_PEEK)
		return peek(tls, into, len);
	if (!buffered(tls))
		return into ? read_some(tls, into, len) : 0;
	if (len > buffered(tls))
		len = buffered(tls);
	if (into)
		memcpy(into, tls->in + tls->in_start, len);
	consume(tls, len);
	return len;
}

int client_waiting(const struct conn *conn)
{
	int there = 0;

	if (conn->stream)
		return 0;
	if (conn->source.fd < 0 || ioctl(conn->source.fd, SIOCINQ, &there))
		there = 0;
	if (!conn->tls || client_is_kernels(conn))
		return there;
	return there + (int)buffered(conn->tls) + SSL_pending(conn->tls->session.ssl);
}

int client_unseen(const struct conn *conn)
{
	int there = client_waiting(conn) - (int)conn->searched;

	if (client_sealed(conn))
		there += (int)conn->tls->peeked - (int)conn->tls->looked;
	return there;
}

bool client_ended(const struct conn *conn)
{
	return conn->tls && !conn->stream && (conn->tls->session.ended || conn->tls->session.broken);
}

unsigned int client_fault(const struct conn *conn, const char **why)
{
	return conn->stream ? conn->stream->ops->fault(conn->stream, why) : 0;
}

int client_socket(const struct conn *conn)
{
	return conn->stream ? conn->stream->ops->socket(conn->stream) : conn->source.fd;
}

/* --- to the client --- */

/* The first @len bytes of @parts, in one piece: theirs where that is one, else in @copy. */
static const char *in_one(const struct iovec *parts, size_t count, size_t len, char *copy)
{
	size_t at = 0, i;

	for (i = 0; i < count && !parts[i].iov_len; i++)
		;
	if (i < count && parts[i].iov_len >= len)
		return parts[i].iov_base;
	for (; i < count && at < len; i++) {
		size_t piece = parts[i].iov_len < len - at ? parts[i].iov_len : len - at;

		memcpy(copy + at, parts[i].iov_base, piece);
		at += piece;
	}
	return copy;
}

/* One record. */
static ssize_t write_some(struct tls_session *session, const struct iovec *parts, size_t count)
{
	char copy[TLS_RECORD_MAX];
	size_t len = 0, i;

	for (i = 0; i < count; i++)
		len += parts[i].iov_len;
	if (len > TLS_RECORD_MAX)
		len = TLS_RECORD_MAX;
	if (session->retry && session->retry <= len)
		len = session->retry;
	return tls_session_write(session, in_one(parts, count, len, copy), len);
}

ssize_t client_send(struct conn *conn, const struct iovec *parts, size_t count)
{
	struct msghdr message = { .msg_iov = (struct iovec *)parts, .msg_iovlen = count };

	if (conn->stream)
		return conn->stream->ops->send(conn->stream, parts, count);
	if (conn->tls && !client_is_kernels(conn))
		return write_some(&conn->tls->session, parts, count);
	return sendmsg(conn->source.fd, &message, MSG_NOSIGNAL);
}

bool client_committed(const struct conn *conn)
{
	return conn->tls && !conn->stream && conn->tls->session.retry;
}

/* --- the end --- */

int client_shutdown(struct conn *conn)
{
	if (conn->stream)
		return conn->stream->ops->shutdown(conn->stream);
	if (conn->shut)
		return 0;
	if (conn->tls && !client_is_kernels(conn) && !tls_session_end(&conn->tls->session))
		return -1;
	/* Each one is an event of the socket, also where nothing is left to shut. */
	conn->shut = true;
	return shutdown(conn->source.fd, SHUT_WR);
}

void client_spoil(struct conn *conn)
{
	static const struct linger none = { .l_onoff = 1 };

	if (conn->stream)
		conn->stream->ops->spoil(conn->stream);
	else if (client_is_kernels(conn))
		setsockopt(conn->source.fd, SOL_SOCKET, SO_LINGER, &none, sizeof(none));
	else if (conn->tls)
		conn->tls->session.broken = true;
}

void client_forget(struct conn *conn)
{
	struct client_tls *tls = conn->tls;

	conn->tls = NULL;
	if (!tls || tls == &kernels)
		return;
	tls_session_close(&tls->session);
	drop_buffer(tls);
	tls_site_put(tls->site);
	free(tls->identity);
	free(tls);
}

void client_close(struct conn *conn)
{
	if (conn->stream) {
		conn->stream->ops->close(conn->stream);
		conn->stream = NULL;
		conn->tls = NULL;
		return;
	}
	if (conn->tls && !client_is_kernels(conn))
		tls_session_end(&conn->tls->session);
	client_forget(conn);
}
