/* SPDX-License-Identifier: GPL-2.0 */
/* What a fuzzer feeds to lard/http2/prelude.c, with what must hold for any input. */
#ifndef LARD_FUZZ_PRELUDE_H
#define LARD_FUZZ_PRELUDE_H

#include <assert.h>
#include <nghttp2/nghttp2.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "lard/http2/prelude.h"

#define FUZZ_LIMIT	8192

/* The first header block, as libnghttp2's server hears it. */
struct fuzz_heard {
	struct head head;
	int32_t stream;
	bool whole, ended, odd;
};

static int fuzz_on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_len,
			  const uint8_t *value, size_t value_len, uint8_t flags, void *user)
{
	struct fuzz_heard *heard = user;

	(void)session;
	(void)flags;
	heard->stream = heard->stream ? heard->stream : frame->hd.stream_id;
	if (heard->stream == frame->hd.stream_id && !heard->whole)
		head_field(&heard->head, (struct span){ (const char *)name, name_len },
			   (struct span){ (const char *)value, value_len });
	return 0;
}

static int fuzz_on_invalid(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_len,
			   const uint8_t *value, size_t value_len, uint8_t flags, void *user)
{
	struct fuzz_heard *heard = user;

	heard->odd |= !heard->whole;
	return fuzz_on_header(session, frame, name, name_len, value, value_len, flags, user);
}

static int fuzz_on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
	struct fuzz_heard *heard = user;

	(void)session;
	if (frame->hd.type != NGHTTP2_HEADERS || heard->whole || frame->hd.stream_id != heard->stream)
		return 0;
	heard->whole = true;
	heard->ended = frame->hd.flags & NGHTTP2_FLAG_END_STREAM;
	return 0;
}

static void fuzz_ask_library(struct fuzz_heard *heard, const uint8_t *data, size_t size)
{
	nghttp2_session_callbacks *callbacks;
	nghttp2_session *session;

	*heard = (struct fuzz_heard){ .head.limit = FUZZ_LIMIT };
	assert(!nghttp2_session_callbacks_new(&callbacks));
	nghttp2_session_callbacks_set_on_header_callback(callbacks, fuzz_on_header);
	nghttp2_session_callbacks_set_on_invalid_header_callback(callbacks, fuzz_on_invalid);
	nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, fuzz_on_frame);
	assert(!nghttp2_session_server_new(&session, callbacks, heard));
	assert(!nghttp2_submit_settings(session, NGHTTP2_FLAG_NONE, NULL, 0));
	(void)nghttp2_session_mem_recv(session, data, size);
	nghttp2_session_del(session);
	nghttp2_session_callbacks_del(callbacks);
}

/* Of just these bytes: one more that is read is seen by a sanitizer. */
static int fuzz_read(const uint8_t *data, size_t size, char **text, size_t *len)
{
	struct head head = { .limit = FUZZ_LIMIT };
	char *copy = malloc(size ? size : 1);
	bool ended, is_head;
	int verdict;

	memcpy(copy, data, size);
	verdict = prelude_read(copy, size, &head, &ended);
	/* A few bytes that stand for many make no work without an end. */
	assert(head.total <= FUZZ_LIMIT + 65536 + 4);
	*text = verdict > 0 ? head_text(&head, ended, len, &is_head) : NULL;
	assert(verdict >= -1 && verdict <= 1);
	head_forget(&head);
	free(copy);
	return verdict;
}

static void fuzz_same(const char *a, size_t a_len, const char *b, size_t b_len)
{
	assert(!a == !b);
	assert(!a || (a_len == b_len && !memcmp(a, b, a_len)));
}

/*
 * What was found is found of anything longer, what is refused stays so, and what is found is what the library finds,
 * where that finds the whole without a fault. @step: bytes from one length to the next.
 */
static int fuzz_one(const uint8_t *data, size_t size, size_t step)
{
	size_t len = 0, whole_len = 0, their_len = 0, cut;
	struct fuzz_heard heard;
	char *text, *whole, *theirs;
	bool is_head;
	int verdict = 0, all = fuzz_read(data, size, &whole, &whole_len);

	for (cut = 0; cut <= size; cut += step) {
		int now = fuzz_read(data, cut, &text, &len);

		assert(!verdict || now == verdict);
		verdict = now;
		assert(!now || now == all);
		if (now > 0)
			fuzz_same(text, len, whole, whole_len);
		free(text);
	}
	fuzz_ask_library(&heard, data, size);
	if (all > 0 && heard.whole && !heard.odd) {
		theirs = head_text(&heard.head, heard.ended, &their_len, &is_head);
		fuzz_same(whole, whole_len, theirs, their_len);
		free(theirs);
	}
	/* Nothing that the library takes for a first request is missed but what is left to it. */
	assert(!heard.whole || all);
	head_forget(&heard.head);
	free(whole);
	return all;
}

#endif
