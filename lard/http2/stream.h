/* SPDX-License-Identifier: GPL-2.0 */
/* A stream as what its struct conn reads from and writes to, and the session that it is of. */
#ifndef LARD_HTTP2_STREAM_H
#define LARD_HTTP2_STREAM_H

#include <nghttp2/nghttp2.h>
#include "client_stream.h"
#include "guard.h"
#include "head.h"
#include "host.h"
#include "tools/base/list.h"

struct conn;

#define HTTP2_STREAM_WINDOW	65535	/* of a body: what is taken before somebody reads it */
#define HTTP2_UNREAD		(26 * HTTP2_STREAM_WINDOW)	/* of all of a connection's that nobody reads yet */
#define HTTP2_READ		(8 * HTTP2_STREAM_WINDOW)	/* what those that are read have beyond that */
/*
 * A connection's: never what stops one of its streams, or those that wait would stop the one that they wait
 * for. Up to half of it may have been taken without the client's being told.
 */
#define HTTP2_WINDOW		(2 * (HTTP2_UNREAD + HTTP2_READ))
#define HTTP2_PULL		16384	/* with less than that to be sent, more is made */
#define HTTP2_OUT		(HTTP2_PULL + 9 + 16384 + 256)
#define HTTP2_TAIL		512	/* the end of an answer that is taken without room for it, as errors are */

/**
 * struct http2 - a connection's session
 * @streams:    all that libnghttp2 knows and we have not given up
 * @woken:      of these, whose struct conn has something to do, the first come first
 * @opening:    whose header block comes
 * @open:       how many are on @streams
 * @asked:      of these, who are requests by now; nothing else is a reason to stay
 * @first:      window of a stream that nobody reads yet
 * @spare:      of HTTP2_READ
 * @agreed:     the client knows of our settings
 * @served:     requests so far
 * @noticed_us: when the client was told that this will end; 0: it was not
 * @busy:       its frames are being read or its streams run
 * @leaving:    new streams are not answered any more
 * @blocked:    the socket takes no more of @out, @out_start to @out_end
 * @out:        frames; NULL while there are none, and no streams
 * @held:       bytes of that which are counted
 * @backlog:    frames that may wait to be sent before reading waits, too
 */
struct http2 {
	nghttp2_session *session;
	struct conn *conn;
	struct list streams;
	struct list woken;
	struct stream *opening;
	struct http2_limits limits;
	struct guard guard;
	uint64_t noticed_us;
	uint64_t served;
	unsigned int open, asked, backlog;
	enum http2_wait wait;
	int32_t first, spare;
	bool agreed, busy, leaving, blocked, readable, broken;
	size_t out_start, out_end;
	size_t held;
	char *out;
};

/**
 * struct stream - see above
 * @http2:    NULL: the connection, or the stream, is gone
 * @conn:     NULL: its header is not whole
 * @events:   EPOLL* bits that @conn has not been told
 * @held:     bytes of what the client has sent that are counted
 * @text:     the request's header, @text_start to @text_end is not taken yet
 * @body:     likewise what came behind it
 * @more:     what its window has of HTTP2_READ
 * @ended:    the client has said all
 * @answered: the final header is with libnghttp2
 * @known:    @left bytes of the answer's body are still to come; else it ends with @shut
 * @over:     the frame with END_STREAM was sent
 * @give:     of an answer, while stream_send() runs; @given of it was taken
 * @tail:     @tail_start to @tail_end are still to be sent
 */
struct stream {
	struct client_stream client;
	struct http2 *http2;
	struct conn *conn;
	struct list link;
	struct list woken;
	int32_t id;
	uint32_t events;
	struct head head;
	size_t held;
	char *text;
	size_t text_start, text_end;
	char *body;
	size_t body_start, body_end, body_size;
	int32_t more;
	bool is_head, ended, answered, known, shut, spoiled, over;
	uint64_t left;
	const struct iovec *give;
	size_t give_count, given;
	char *tail;
	size_t tail_start, tail_end;
};

/* NULL: no memory. */
struct stream *stream_new(struct http2 *h, int32_t id);
/* Its header is whole. False: there is no place for it. */
bool stream_begin(struct stream *s);
/* Its header has become longer: they are counted. */
void stream_hold_head(struct stream *s);
/* Bytes of a body. 0 or -ENOMEM. */
int stream_take(struct stream *s, const uint8_t *at, size_t len);
/* It is not the session's any more: @s may be freed, or else its struct conn hears of it. */
void stream_lose(struct stream *s);
/* Tell its struct conn, in its turn. */
void stream_wake(struct stream *s, uint32_t events);
/* For libnghttp2: of an answer's body. */
ssize_t stream_give(struct stream *s, uint8_t *into, size_t len, uint32_t *flags);

/* reply.c: a header of an answer in HTTP/1.1, at the beginning of @text, for libnghttp2. Its length, or -1. */
ssize_t reply_head(struct stream *s, const char *text, size_t len, const nghttp2_data_provider *body);

/* session.c: libnghttp2 sends as much as the socket takes. */
void http2_flush(struct http2 *h);
/* Look after the session in the next batch. */
void http2_kick(struct http2 *h);

#endif
