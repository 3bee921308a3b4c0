// SPDX-License-Identifier: GPL-2.0
/*
 * A connection of HTTP/2. Within a callback of libnghttp2's nothing is done to a struct conn: its stream
 * is put on a list, whose turn comes when frames have been read. So a stream that is given up in the same
 * read as it is begun has never been anybody's request.
 */
#include "http2.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include "stream.h"

#define ROUNDS		16	/* reads of an event */
#define NOTICE_US	1000000	/* for streams that are on their way when their end is announced */
#define ACKS_MAX	100	/* of PING and SETTINGS, for who does not read them */

void http2_kick(struct http2 *h)
{
	http2_host_kick(h->conn);
}

/* --- frames that come --- */

static struct stream *find(struct http2 *h, int32_t id)
{
	return id ? nghttp2_session_get_stream_user_data(h->session, id) : NULL;
}

static int on_begin_frame(nghttp2_session *session, const nghttp2_frame_hd *hd, void *user)
{
	struct http2 *h = user;

	(void)session;
	guard_frame(&h->guard, hd);
	return 0;
}

static void refuse(struct http2 *h, int32_t id)
{
	nghttp2_submit_rst_stream(h->session, NGHTTP2_FLAG_NONE, id, NGHTTP2_REFUSED_STREAM);
}

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
	struct http2 *h = user;

	(void)session;
	if (frame->headers.cat != NGHTTP2_HCAT_REQUEST)
		return 0;
	h->opening = NULL;
	if (h->open < h->limits.streams)
		h->opening = stream_new(h, frame->hd.stream_id);
	if (!h->opening)
		refuse(h, frame->hd.stream_id);
	return 0;
}

/* Trailers are not passed on, as those of HTTP/1.1. */
static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
		     size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags, void *user)
{
	struct http2 *h = user;
	struct stream *s = find(h, frame->hd.stream_id);

	(void)session;
	(void)flags;
	if (s && frame->headers.cat == NGHTTP2_HCAT_REQUEST) {
		head_field(&s->head, (struct span){ (const char *)name, name_len },
			   (struct span){ (const char *)value, value_len });
		stream_hold_head(s);
	} else {
		s = NULL;
	}
	if (!s || s->head.status)
		guard_waste(&h->guard, name_len + value_len);
	return h->guard.why ? NGHTTP2_ERR_CALLBACK_FAILURE : 0;
}

/* What the library would leave out, and go on. */
static int on_invalid_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
			     size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags,
			     void *user)
{
	(void)name;
	(void)name_len;
	(void)value;
	(void)value_len;
	(void)flags;
	(void)user;
	nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, frame->hd.stream_id, NGHTTP2_PROTOCOL_ERROR);
	return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
}

static void say_goodbye(struct http2 *h)
{
	if (h->leaving)
		return;
	h->leaving = true;
	nghttp2_submit_goaway(h->session, NGHTTP2_FLAG_NONE,
			      nghttp2_session_get_last_proc_stream_id(h->session), NGHTTP2_NO_ERROR, NULL, 0);
}

static void begin_request(struct http2 *h, struct stream *s)
{
	h->opening = NULL;
	/* GOAWAY leaves it out, be it on its way or not: the client asks again elsewhere. */
	if (h->leaving || !stream_begin(s)) {
		refuse(h, s->id);
		stream_lose(s);
		return;
	}
	/* The next header may have begun when the time is looked at: it has its own. */
	h->wait = HTTP2_NOTHING;
	http2_host_wait(h->conn, HTTP2_NOTHING, false);
	http2_host_note(h->conn, HTTP2_STREAM);
	if (++h->served >= h->limits.requests)
		say_goodbye(h);
}

/* Until then a stream's window is what RFC 9113 says, and the connection's no more than that. */
static void agree(struct http2 *h)
{
	h->agreed = true;
	nghttp2_session_set_local_window_size(h->session, NGHTTP2_FLAG_NONE, 0, HTTP2_WINDOW);
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
	struct http2 *h = user;
	struct stream *s = find(h, frame->hd.stream_id);

	(void)session;
	if (frame->hd.type == NGHTTP2_RST_STREAM)
		guard_reset(&h->guard);
	if (frame->hd.type == NGHTTP2_SETTINGS && frame->hd.flags & NGHTTP2_FLAG_ACK)
		agree(h);
	if (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA)
		return 0;
	if (frame->hd.type == NGHTTP2_DATA && frame->data.padlen == frame->hd.length)
		guard_nothing(&h->guard);
	if (!s)
		return 0;
	s->ended |= frame->hd.flags & NGHTTP2_FLAG_END_STREAM;
	if (!s->conn)
		begin_request(h, s);
	else if (s->ended)
		stream_wake(s, EPOLLIN);
	return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *at, size_t len,
		   void *user)
{
	struct http2 *h = user;
	struct stream *s = find(h, id);

	(void)flags;
	if (s && stream_take(s, at, len)) {
		stream_lose(s);
		nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, id, NGHTTP2_INTERNAL_ERROR);
		s = NULL;
	}
	/* Nobody takes it, and it must not stop others. */
	if (!s)
		nghttp2_session_consume_connection(session, len);
	return 0;
}

static int on_stream_close(nghttp2_session *session, int32_t id, uint32_t error, void *user)
{
	struct http2 *h = user;
	struct stream *s = find(h, id);

	(void)session;
	(void)error;
	if (s)
		stream_lose(s);
	return 0;
}

/* --- frames that go --- */

static bool blames_client(uint32_t error)
{
	return error == NGHTTP2_PROTOCOL_ERROR || error == NGHTTP2_STREAM_CLOSED ||
	       error == NGHTTP2_FLOW_CONTROL_ERROR;
}

static void answer_is_out(struct http2 *h, struct stream *s)
{
	s->over = true;
	guard_answered(&h->guard);
	/* RFC 9113, 8.1: the rest of the request is of no use. */
	if (!s->ended)
		nghttp2_submit_rst_stream(h->session, NGHTTP2_FLAG_NONE, s->id, NGHTTP2_NO_ERROR);
	stream_wake(s, EPOLLOUT);
}

/* Its window, or the connection's, has no room for more. */
static bool is_cut(struct http2 *h, int32_t id)
{
	return !nghttp2_session_get_remote_window_size(h->session) ||
	       !nghttp2_session_get_stream_remote_window_size(h->session, id);
}

static int on_sent(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
	struct http2 *h = user;
	struct stream *s = find(h, frame->hd.stream_id);

	(void)session;
	if (frame->hd.type == NGHTTP2_RST_STREAM && blames_client(frame->rst_stream.error_code)) {
		http2_host_note(h->conn, HTTP2_BAD);
		guard_reset(&h->guard);
	}
	/* By us, or by libnghttp2, which knows how many there may be. */
	if (frame->hd.type == NGHTTP2_RST_STREAM && frame->rst_stream.error_code == NGHTTP2_REFUSED_STREAM)
		http2_host_note(h->conn, HTTP2_REFUSED);
	if (frame->hd.type == NGHTTP2_DATA)
		guard_sent(&h->guard, frame->hd.length, is_cut(h, frame->hd.stream_id));
	if (s && (frame->hd.type == NGHTTP2_DATA || frame->hd.type == NGHTTP2_HEADERS) &&
	    frame->hd.flags & NGHTTP2_FLAG_END_STREAM)
		answer_is_out(h, s);
	return 0;
}

/* Frames into @out. False: there are no more, or no room. */
static bool pull(struct http2 *h)
{
	const uint8_t *at;
	ssize_t n;

	if (h->out_end - h->out_start >= HTTP2_PULL)
		return false;
	if (h->out_start) {
		memmove(h->out, h->out + h->out_start, h->out_end - h->out_start);
		h->out_end -= h->out_start;
		h->out_start = 0;
	}
	n = nghttp2_session_mem_send(h->session, &at);
	if (n > 0 && !h->out)
		h->out = malloc(HTTP2_OUT);
	if (n < 0 || (n && !h->out) || (size_t)n > HTTP2_OUT - h->out_end) {
		h->broken = true;
		return false;
	}
	if (n)
		memcpy(h->out + h->out_end, at, n);
	h->out_end += n;
	return n;
}

static bool push(struct http2 *h)
{
	ssize_t n;

	if (h->out_start == h->out_end || h->blocked)
		return false;
	n = http2_host_send(h->conn, h->out + h->out_start, h->out_end - h->out_start);
	if (n > 0) {
		h->out_start += n;
		return true;
	}
	h->blocked = errno == EAGAIN;
	h->broken |= errno != EAGAIN && errno != EINTR;
	return false;
}

/* What the socket does not take is counted. */
static void hold_out(struct http2 *h)
{
	size_t need = h->out_start == h->out_end ? 0 : HTTP2_OUT;

	if (need == h->held)
		return;
	http2_host_stands(h->conn, need);
	if (http2_host_hold(h->conn, (ssize_t)need - (ssize_t)h->held))
		h->held = need;
	else
		h->broken = true;
}

void http2_flush(struct http2 *h)
{
	bool more = true;

	while (more && !h->broken) {
		while (!h->broken && pull(h))
			;
		more = !h->broken && push(h);
	}
	hold_out(h);
	if (h->broken)
		http2_kick(h);
}

/* --- the connection --- */

static nghttp2_session *open_session(struct http2 *h)
{
	nghttp2_session_callbacks *callbacks = NULL;
	nghttp2_option *option = NULL;
	nghttp2_session *session = NULL;

	if (!nghttp2_session_callbacks_new(&callbacks) && !nghttp2_option_new(&option)) {
		nghttp2_session_callbacks_set_on_begin_frame_callback(callbacks, on_begin_frame);
		nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers);
		nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
		nghttp2_session_callbacks_set_on_invalid_header_callback(callbacks, on_invalid_header);
		nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
		nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
		nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
		nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, on_sent);
		nghttp2_option_set_no_auto_window_update(option, 1);
		nghttp2_option_set_max_outbound_ack(option, ACKS_MAX);
		if (nghttp2_session_server_new2(&session, callbacks, h, option))
			session = NULL;
	}
	nghttp2_session_callbacks_del(callbacks);
	nghttp2_option_del(option);
	return session;
}

static int say_settings(struct http2 *h)
{
	const nghttp2_settings_entry settings[] = {
		{ NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, h->limits.streams },
		{ NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, h->first },
		{ NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, h->limits.header },
	};

	return nghttp2_submit_settings(h->session, NGHTTP2_FLAG_NONE, settings,
				       sizeof(settings) / sizeof(settings[0])) ? -ENOMEM : 0;
}

/*
 * The time of who has no request here, or half a header. Nothing but a request makes it longer, whatever
 * else he sends.
 */
static void set_timer(struct http2 *h)
{
	enum http2_wait wait = h->opening ? HTTP2_HEADER : h->asked ? HTTP2_NOTHING :
			       h->served ? HTTP2_IDLE : HTTP2_HEADER;

	if (wait == h->wait)
		return;
	h->wait = wait;
	http2_host_wait(h->conn, wait, h->opening);
}

struct http2 *http2_begin(struct conn *conn)
{
	struct http2 *h = calloc(1, sizeof(*h));

	if (!h)
		return NULL;
	h->conn = conn;
	h->limits = http2_host_limits(conn);
	h->readable = true;
	h->backlog = 2 * h->limits.streams + 2 * ACKS_MAX;
	h->first = HTTP2_UNREAD / h->limits.streams;
	if (h->first > HTTP2_STREAM_WINDOW)
		h->first = HTTP2_STREAM_WINDOW;
	h->spare = HTTP2_READ;
	list_init(&h->streams);
	list_init(&h->woken);
	guard_init(&h->guard, http2_host_clock(conn));
	h->session = open_session(h);
	if (!h->session || say_settings(h)) {
		nghttp2_session_del(h->session);
		free(h);
		return NULL;
	}
	http2_host_note(conn, HTTP2_CONNECTION);
	set_timer(h);
	http2_kick(h);
	return h;
}

void http2_close(struct http2 *h)
{
	if (!h)
		return;
	if (!h->broken && !h->leaving) {
		nghttp2_session_terminate_session(h->session, NGHTTP2_NO_ERROR);
		http2_flush(h);
	}
	while (!list_empty(&h->streams))
		stream_lose(container_of(h->streams.next, struct stream, link));
	nghttp2_session_del(h->session);
	http2_host_hold(h->conn, -(ssize_t)h->held);
	free(h->out);
	free(h);
}

static void end(struct http2 *h)
{
	struct conn *conn = h->conn;
	bool broken = h->broken;

	http2_close(h);
	http2_host_end(conn, broken);
}

bool http2_is_busy(const struct http2 *h)
{
	return h && (h->busy || h->asked);
}

static void flooded(struct http2 *h)
{
	http2_host_flooded(h->conn, h->guard.why);
	nghttp2_session_terminate_session(h->session, NGHTTP2_ENHANCE_YOUR_CALM);
	h->leaving = true;
	http2_flush(h);
	end(h);
}

static bool may_read(const struct http2 *h)
{
	return h->readable && !h->broken && !h->guard.why &&
	       (!h->blocked || nghttp2_session_get_outbound_queue_size(h->session) < h->backlog);
}

/* True: more may be there. */
static bool read_frames(struct http2 *h)
{
	unsigned int round;
	ssize_t n, used;
	char *at;

	for (round = 0; round < ROUNDS && may_read(h); round++) {
		n = http2_host_recv(h->conn, &at);
		if (n <= 0) {
			h->readable = n < 0 && errno == EINTR;
			h->broken |= !n || (errno != EAGAIN && errno != EINTR);
			break;
		}
		guard_refill(&h->guard, http2_host_clock(h->conn));
		used = nghttp2_session_mem_recv(h->session, (uint8_t *)at, n);
		if (used == NGHTTP2_ERR_BAD_CLIENT_MAGIC || used == NGHTTP2_ERR_NOMEM)
			h->broken = true;
		else if (used != n && !h->guard.why)
			h->guard.why = "more than libnghttp2 bears";
	}
	return round == ROUNDS;
}

/* Those that are there now; who is woken meanwhile comes next time. */
static void run_streams(struct http2 *h)
{
	unsigned int most = h->open;

	while (most-- && !list_empty(&h->woken)) {
		struct stream *s = container_of(h->woken.next, struct stream, woken);

		list_del(&s->woken);
		http2_host_run(s->conn);
	}
	if (!list_empty(&h->woken))
		http2_kick(h);
}

static bool is_over(const struct http2 *h)
{
	if (h->out_start != h->out_end && h->blocked)
		return false;
	return (h->leaving && !h->asked) || (!nghttp2_session_want_read(h->session) &&
					     !nghttp2_session_want_write(h->session));
}

/* Who is idle has no memory for frames. */
static void drop_out(struct http2 *h)
{
	free(h->out);
	h->out = NULL;
	h->out_start = h->out_end = 0;
}

void http2_ready(struct http2 *h, uint32_t events)
{
	bool more;

	if (events & EPOLLERR)
		h->broken = true;
	/* A record can make room, or need it, for one in the other direction. */
	if (events) {
		h->readable = true;
		h->blocked = false;
	}
	h->busy = true;
	run_streams(h);
	more = read_frames(h);
	http2_flush(h);
	h->busy = false;
	if (h->guard.why && !h->broken) {
		flooded(h);
	} else if (h->broken || is_over(h)) {
		end(h);
	} else {
		set_timer(h);
		if (!h->open && h->out_start == h->out_end)
			drop_out(h);
		if (more)
			http2_kick(h);
	}
}

void http2_expired(struct http2 *h)
{
	if (h->opening)
		http2_host_note(h->conn, HTTP2_LATE);
	end(h);
}

/* --- its end, announced --- */

/* RFC 9113, 6.8: first that there will be an end, then, when what was on its way is there, which. */
void http2_stop(struct http2 *h)
{
	uint64_t now = http2_host_clock(h->conn);

	if (!h->noticed_us) {
		h->noticed_us = now;
		nghttp2_submit_shutdown_notice(h->session);
		http2_kick(h);
	} else if (!h->leaving && now - h->noticed_us >= NOTICE_US) {
		say_goodbye(h);
		http2_kick(h);
	}
}

void http2_leave(struct http2 *h)
{
	say_goodbye(h);
	http2_kick(h);
}
