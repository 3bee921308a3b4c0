// SPDX-License-Identifier: GPL-2.0
/*
 * A stream. What is sent is copied into a frame only when there is a window and room for it, out of the
 * exchange's own buffer: so nothing piles up for who takes nothing.
 */
#include "stream.h"
#include "http2.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

static struct stream *of(struct client_stream *client)
{
	return container_of(client, struct stream, client);
}

static void stream_free(struct stream *s)
{
	head_forget(&s->head);
	free(s->text);
	free(s->body);
	free(s->tail);
	free(s);
}

void stream_wake(struct stream *s, uint32_t events)
{
	s->events |= events;
	if (!s->conn)
		return;
	if (!s->http2) {
		http2_host_lost(s->conn);
		return;
	}
	if (list_empty(&s->woken))
		list_add_tail(&s->woken, &s->http2->woken);
	http2_kick(s->http2);
}

void http2_again(struct client_stream *client)
{
	stream_wake(of(client), EPOLLOUT);
}

/* --- from the client --- */

static bool hold(struct stream *s, ssize_t bytes)
{
	if (!http2_host_hold(s->http2->conn, bytes))
		return false;
	s->held += bytes;
	return true;
}

void stream_hold_head(struct stream *s)
{
	if (s->head.status || hold(s, s->head.total - s->held))
		return;
	s->head.status = 503;
	s->head.error = "no memory";
}

static ssize_t copy_out(void *into, size_t len, const char *from, size_t *start, size_t end, int flags)
{
	if (len > end - *start)
		len = end - *start;
	if (into)
		memcpy(into, from + *start, len);
	if (!(flags & MSG_PEEK))
		*start += len;
	return len;
}

/* Somebody reads it: it need not be slow, while there is room for such. */
static void widen(struct stream *s)
{
	struct http2 *h = s->http2;
	int32_t more = HTTP2_STREAM_WINDOW - h->first;

	if (more > h->spare / 2)
		more = h->spare / 2;
	if (s->more || s->ended || !h->agreed || more < h->first)
		return;
	s->more = more;
	h->spare -= more;
	nghttp2_session_set_local_window_size(h->session, NGHTTP2_FLAG_NONE, s->id, h->first + more);
}

static ssize_t stream_recv(struct client_stream *client, void *into, size_t len, int flags)
{
	struct stream *s = of(client);
	size_t before = s->body_start;
	ssize_t n;

	if (!s->http2) {
		errno = ECONNRESET;
		return -1;
	}
	if (s->text_start != s->text_end)
		return copy_out(into, len, s->text, &s->text_start, s->text_end, flags);
	if (s->body_start == s->body_end) {
		errno = EAGAIN;
		return s->ended ? 0 : -1;
	}
	n = copy_out(into, len, s->body, &s->body_start, s->body_end, flags);
	if (s->body_start != before) {
		nghttp2_session_consume(s->http2->session, s->id, s->body_start - before);
		widen(s);
		http2_kick(s->http2);
	}
	return n;
}

int stream_take(struct stream *s, const uint8_t *at, size_t len)
{
	if (s->body_start) {
		memmove(s->body, s->body + s->body_start, s->body_end - s->body_start);
		s->body_end -= s->body_start;
		s->body_start = 0;
	}
	if (s->body_end + len > s->body_size) {
		size_t size = s->body_size ? s->body_size : 4096;
		char *more;

		/* All that may come before somebody reads is not moved once more. */
		if (size < s->body_end + len && s->body_end + len <= (size_t)s->http2->first)
			size = s->http2->first;
		while (size < s->body_end + len)
			size *= 2;
		if (!hold(s, size - s->body_size))
			return -ENOMEM;
		more = realloc(s->body, size);
		if (!more)
			return -ENOMEM;
		s->body = more;
		s->body_size = size;
	}
	memcpy(s->body + s->body_end, at, len);
	s->body_end += len;
	stream_wake(s, EPOLLIN);
	return 0;
}

static unsigned int stream_fault(const struct client_stream *client, const char **why)
{
	const struct stream *s = container_of(client, const struct stream, client);

	*why = s->head.error;
	return s->head.status;
}

/* --- to the client --- */

ssize_t stream_give(struct stream *s, uint8_t *into, size_t len, uint32_t *flags)
{
	size_t done = 0, n;

	if (s->tail)
		done = copy_out(into, len, s->tail, &s->tail_start, s->tail_end, 0);
	while (!s->tail && s->give_count && done < len) {
		size_t left = s->give->iov_len - s->given;

		n = left < len - done ? left : len - done;
		if (n)
			memcpy(into + done, (char *)s->give->iov_base + s->given, n);
		done += n;
		s->given += n;
		if (s->given == s->give->iov_len) {
			s->give++;
			s->give_count--;
			s->given = 0;
		}
	}
	if (!s->tail && s->known)
		s->left -= done;
	if (s->tail ? s->tail_start == s->tail_end : s->known ? !s->left : s->shut && !s->give_count) {
		*flags |= NGHTTP2_DATA_FLAG_EOF;
		return done;
	}
	if (done)
		return done;
	/* There is room now, and nothing for it. */
	stream_wake(s, EPOLLOUT);
	return NGHTTP2_ERR_DEFERRED;
}

static ssize_t read_answer(nghttp2_session *session, int32_t id, uint8_t *into, size_t len,
			   uint32_t *flags, nghttp2_data_source *source, void *user)
{
	struct stream *s = nghttp2_session_get_stream_user_data(session, id);

	(void)source;
	(void)user;
	return s ? stream_give(s, into, len, flags) : NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
}

static const nghttp2_data_provider answer_body = { .read_callback = read_answer };

static size_t length(const struct iovec *parts, size_t count)
{
	size_t len = 0, i;

	for (i = 0; i < count; i++)
		len += parts[i].iov_len;
	return len;
}

/* The end of the answer, if that is little: who refuses or is small needs no window to be done with. */
static bool take_tail(struct stream *s, const struct iovec *parts, size_t count)
{
	size_t len = length(parts, count), at = 0, i;

	if (!s->known || s->left != len || len > HTTP2_TAIL)
		return false;
	s->tail = malloc(len ? len : 1);
	if (!s->tail)
		return false;
	for (i = 0; i < count; at += parts[i++].iov_len)
		if (parts[i].iov_len)
			memcpy(s->tail + at, parts[i].iov_base, parts[i].iov_len);
	s->tail_end = len;
	s->left = 0;
	return true;
}

bool http2_has_room(struct client_stream *client)
{
	struct stream *s = of(client);
	struct http2 *h = s->http2;

	if (!h || !s->answered)
		return true;
	if ((!h->blocked || h->out_end - h->out_start < HTTP2_PULL) &&
	    nghttp2_session_get_remote_window_size(h->session) > 0 &&
	    nghttp2_session_get_stream_remote_window_size(h->session, s->id) > 0)
		return true;
	nghttp2_session_resume_data(h->session, s->id);
	return false;
}

/* How much of @parts went. */
static size_t give(struct stream *s, const struct iovec *parts, size_t count)
{
	size_t before = length(parts, count), kept;

	if (take_tail(s, parts, count)) {
		nghttp2_session_resume_data(s->http2->session, s->id);
		http2_flush(s->http2);
		return before;
	}
	s->give = parts;
	s->give_count = count;
	s->given = 0;
	nghttp2_session_resume_data(s->http2->session, s->id);
	http2_flush(s->http2);
	kept = length(s->give, s->give_count) - s->given;
	s->give_count = s->given = 0;
	s->give = NULL;
	return before - kept;
}

static ssize_t stream_send(struct client_stream *client, const struct iovec *parts, size_t count)
{
	struct stream *s = of(client);
	struct iovec rest[2] = { 0 };
	size_t done = 0, i;
	ssize_t n;

	if (!s->http2) {
		errno = ECONNRESET;
		return -1;
	}
	for (i = 0; i < count && i < 2; i++)
		rest[i] = parts[i];
	while (!s->answered && rest[0].iov_len) {
		n = reply_head(s, rest[0].iov_base, rest[0].iov_len, &answer_body);
		if (n < 0) {
			errno = EPROTO;
			return -1;
		}
		rest[0].iov_base = (char *)rest[0].iov_base + n;
		rest[0].iov_len -= n;
		done += n;
	}
	/* Together with what there is of the body. */
	if (s->answered && length(rest, 2))
		done += give(s, rest, 2);
	else if (done)
		http2_flush(s->http2);
	errno = EAGAIN;
	return done ? (ssize_t)done : -1;
}

static int stream_shutdown(struct client_stream *client)
{
	struct stream *s = of(client);

	if (!s->http2 || !s->answered || s->spoiled || (s->known && s->left)) {
		errno = ECONNRESET;
		return -1;
	}
	s->shut = true;
	nghttp2_session_resume_data(s->http2->session, s->id);
	http2_flush(s->http2);
	return 0;
}

/* --- its beginning and end --- */

static void stream_spoil(struct client_stream *client)
{
	of(client)->spoiled = true;
}

static bool stream_done(const struct client_stream *client)
{
	const struct stream *s = container_of(client, const struct stream, client);

	return !s->http2 || s->over;
}

static uint32_t stream_events(struct client_stream *client)
{
	struct stream *s = of(client);
	uint32_t events = s->events;

	s->events = 0;
	return events;
}

static int stream_socket(const struct client_stream *client)
{
	const struct stream *s = container_of(client, const struct stream, client);

	return s->http2 ? http2_host_socket(s->http2->conn) : -1;
}

/* Takes it off the session. */
static void leave(struct stream *s)
{
	struct http2 *h = s->http2;

	nghttp2_session_set_stream_user_data(h->session, s->id, NULL);
	if (s->body_end != s->body_start)
		nghttp2_session_consume_connection(h->session, s->body_end - s->body_start);
	if (h->opening == s)
		h->opening = NULL;
	list_del(&s->link);
	list_del(&s->woken);
	h->open--;
	h->asked -= s->conn != NULL;
	h->spare += s->more;
	hold(s, -(ssize_t)s->held);
	s->http2 = NULL;
	http2_kick(h);
}

void stream_lose(struct stream *s)
{
	leave(s);
	if (!s->conn) {
		stream_free(s);
		return;
	}
	stream_wake(s, EPOLLERR | EPOLLHUP);
}

static void stream_close(struct client_stream *client)
{
	struct stream *s = of(client);

	if (s->http2) {
		if (!s->over)
			nghttp2_submit_rst_stream(s->http2->session, NGHTTP2_FLAG_NONE, s->id,
						  NGHTTP2_INTERNAL_ERROR);
		leave(s);
	}
	stream_free(s);
}

static const struct client_stream_ops ops = {
	.recv = stream_recv,
	.send = stream_send,
	.shutdown = stream_shutdown,
	.spoil = stream_spoil,
	.done = stream_done,
	.close = stream_close,
	.events = stream_events,
	.fault = stream_fault,
	.socket = stream_socket,
};

struct stream *stream_new(struct http2 *h, int32_t id)
{
	struct stream *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->client.ops = &ops;
	s->http2 = h;
	s->id = id;
	s->head.limit = h->limits.header;
	list_init(&s->woken);
	list_add_tail(&s->link, &h->streams);
	h->open++;
	nghttp2_session_set_stream_user_data(h->session, id, s);
	return s;
}

bool stream_begin(struct stream *s)
{
	s->text = head_text(&s->head, s->ended, &s->text_end, &s->is_head);
	if (!s->text)
		s->text_end = 0;
	s->conn = http2_host_request(s->http2->conn, &s->client);
	if (!s->conn)
		return false;
	s->http2->asked++;
	stream_wake(s, EPOLLIN | EPOLLOUT);
	return true;
}
