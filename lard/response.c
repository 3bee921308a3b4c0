// SPDX-License-Identifier: GPL-2.0
/* Responses of back-ends. */
#include <string.h>
#include "header.h"
#include "response.h"

static int refuse(struct response *r, const char *why)
{
	r->error = why;
	return -1;
}

static int judge_fields(struct response *r, bool head)
{
	struct header_framing framing = { 0 };
	unsigned int i;

	for (i = 0; i < r->fields.count; i++) {
		struct field *f = &r->fields.at[i];

		f->value = span_trim(f->value);
		if (span_is(f->name, "upgrade"))
			r->websocket = span_is(f->value, "websocket");
		header_framing_field(&framing, f, &r->keep_alive);
	}
	if (framing.unknown_coding)
		return refuse(r, "unknown transfer coding");
	if (framing.lengths + framing.codings > 1)
		return refuse(r, "more than one length");
	/* In HTTP/1.0 nobody knows what it means; without a body it means nothing. */
	if (framing.codings && (!r->minor || r->status / 100 == 1 || r->status == 204))
		return refuse(r, "a transfer coding where there is none");
	r->has_length = framing.lengths;
	if (head || r->status / 100 == 1 || r->status == 204 || r->status == 304)
		r->framing = FRAMING_NONE;
	else if (framing.codings)
		r->framing = FRAMING_CHUNKED;
	else if (framing.lengths)
		r->framing = r->content_length ? FRAMING_LENGTH : FRAMING_NONE;
	else
		r->framing = FRAMING_EOF;
	if (r->framing == FRAMING_EOF)
		r->keep_alive = false;
	return 1;
}

int response_read(struct response *r, const char *text, size_t len, bool head)
{
	const char *end;
	struct header h;

	r->length = message_header_length(text, len, 0);
	if (!r->length)
		return 0;
	header_parse(&h, &r->fields, text, r->length, true);
	if (!h.complete)
		return refuse(r, h.error ? h.error : "malformed header");
	r->error = NULL;
	if (h.major != 1)
		return refuse(r, "unknown version of HTTP");
	/* Less than any that there is, "050" would pass for one of the interim answers. */
	if (h.status < 100)
		return refuse(r, "no status of HTTP");
	if (r->fields.excess || r->fields.folded || !fields_are_sound(&r->fields))
		return refuse(r, "header fields too many, folded or malformed");

	r->status = h.status;
	r->minor = h.minor;
	r->keep_alive = r->minor;
	r->content_length = h.content_length;
	r->websocket = false;
	end = memchr(text, '\n', r->length);
	r->status_line = (struct span){ text, end - text };
	if (r->status_line.len && end[-1] == '\r')
		r->status_line.len--;
	if (!r->status_line.len)
		return refuse(r, "empty status line");
	return judge_fields(r, head);
}

int response_parse(struct response *r, const char *text, size_t len, bool head)
{
	int verdict = response_read(r, text, len, head);

	return verdict > 0 && fields_are_many(&r->fields) ? refuse(r, "too many header fields") : verdict;
}
