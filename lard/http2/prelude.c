// SPDX-License-Identifier: GPL-2.0
#include "prelude.h"
#include <nghttp2/nghttp2.h>
#include <string.h>

#define FRAME		9	/* its header, RFC 9113, 4.1 */
#define FRAME_MAX	16384	/* of its payload, unless we had said otherwise */
#define PRIORITY	5	/* bytes of it in HEADERS */

struct frame {
	size_t len;
	unsigned int type, flags;
	uint32_t stream;
	const uint8_t *payload;
};

/* How much of @at it is; 0: it is not there whole; -1: too long. */
static ssize_t frame_at(struct frame *f, const uint8_t *at, size_t len)
{
	if (len < FRAME)
		return 0;
	f->len = at[0] << 16 | at[1] << 8 | at[2];
	f->type = at[3];
	f->flags = at[4];
	f->stream = (at[5] & 0x7fU) << 24 | at[6] << 16 | at[7] << 8 | at[8];
	f->payload = at + FRAME;
	if (f->len > FRAME_MAX)
		return -1;
	return len - FRAME < f->len ? 0 : (ssize_t)(FRAME + f->len);
}

/* Of frames that may come before a request none needs an answer of ours but those that -1 is for. */
static bool is_passed_over(const struct frame *f, bool first)
{
	if (first || f->type == NGHTTP2_SETTINGS)
		return f->type == NGHTTP2_SETTINGS && !f->stream && !(f->flags & NGHTTP2_FLAG_ACK);
	switch (f->type) {
	case NGHTTP2_DATA:
	case NGHTTP2_RST_STREAM:
	case NGHTTP2_PUSH_PROMISE:
	case NGHTTP2_GOAWAY:
	case NGHTTP2_CONTINUATION:
		return false;
	default:
		return true;
	}
}

/* The part of a header block that is in HEADERS. False: malformed. */
static bool strip(struct frame *f)
{
	size_t front = 0, pad = 0;

	if (!(f->stream & 1))
		return false;
	if (f->flags & NGHTTP2_FLAG_PADDED) {
		if (!f->len)
			return false;
		pad = f->payload[front++];
	}
	if (f->flags & NGHTTP2_FLAG_PRIORITY)
		front += PRIORITY;
	if (f->len < front + pad)
		return false;
	f->payload += front;
	f->len -= front + pad;
	return true;
}

static bool inflate(nghttp2_hd_inflater *inflater, const struct frame *f, bool last, struct head *head)
{
	uint8_t *in = (uint8_t *)f->payload;
	size_t left = f->len;
	nghttp2_nv nv;
	ssize_t n;
	int flags;

	do {
		flags = 0;
		n = nghttp2_hd_inflate_hd2(inflater, &nv, &flags, in, left, last);
		if (n < 0)
			return false;
		in += n;
		left -= n;
		if (flags & NGHTTP2_HD_INFLATE_EMIT)
			head_field(head, (struct span){ (const char *)nv.name, nv.namelen },
				   (struct span){ (const char *)nv.value, nv.valuelen });
		/* A few bytes may stand for many fields of 4 KB: not one more than are kept. */
		if (head->status)
			return false;
	} while (!(flags & NGHTTP2_HD_INFLATE_FINAL) && (flags & NGHTTP2_HD_INFLATE_EMIT || left));
	return true;
}

/* The header block that begins with @f, which ends at @at; see prelude_read(). */
static int read_block(struct frame *f, const uint8_t *at, size_t len, struct head *head)
{
	const uint32_t stream = f->stream;
	nghttp2_hd_inflater *inflater;
	bool last, good;
	ssize_t n;

	if (!strip(f) || nghttp2_hd_inflate_new(&inflater))
		return -1;
	for (;;) {
		last = f->flags & NGHTTP2_FLAG_END_HEADERS;
		good = inflate(inflater, f, last, head);
		n = 0;
		if (!good || last)
			break;
		n = frame_at(f, at, len);
		if (n > 0 && (f->type != NGHTTP2_CONTINUATION || f->stream != stream))
			n = -1;
		if (n <= 0)
			break;
		at += n;
		len -= n;
	}
	nghttp2_hd_inflate_del(inflater);
	return good && n >= 0 ? last : -1;
}

int prelude_read(const char *text, size_t len, struct head *head, bool *ended)
{
	const uint8_t *at = (const uint8_t *)text;
	size_t magic = len < NGHTTP2_CLIENT_MAGIC_LEN ? len : NGHTTP2_CLIENT_MAGIC_LEN;
	struct frame f;
	bool first;
	ssize_t n;

	if (memcmp(at, NGHTTP2_CLIENT_MAGIC, magic))
		return -1;
	at += magic;
	len -= magic;
	for (first = true;; first = false) {
		n = frame_at(&f, at, len);
		if (n <= 0)
			return n;
		at += n;
		len -= n;
		if (!first && f.type == NGHTTP2_HEADERS)
			break;
		if (!is_passed_over(&f, first))
			return -1;
	}
	*ended = f.flags & NGHTTP2_FLAG_END_STREAM;
	return read_block(&f, at, len, head);
}
