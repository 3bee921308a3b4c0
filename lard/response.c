// SPDX-License-Identifier: GPL-2.0
/* Responses of back-ends. */
#include <string.h>
#include "httplib.h"
#include "response.h"

struct parse {
	struct response *r;
	bool complete;
	uint64_t content_length;
};

static int on_name(http_parser *p, const char *at, size_t len)
{
	fields_name(&((struct parse *)p->data)->r->fields, at, len);
	return 0;
}

static int on_value(http_parser *p, const char *at, size_t len)
{
	fields_value(&((struct parse *)p->data)->r->fields, at, len);
	return 0;
}

static int on_headers_complete(http_parser *p)
{
	struct parse *parse = p->data;

	parse->complete = true;
	parse->content_length = p->content_length;
	return 0;
}

static http_settings settings = {
	.on_header_field = on_name,
	.on_header_value = on_value,
	.on_headers_complete = on_headers_complete,
};

static int refuse(struct response *r, const char *why)
{
	r->error = why;
	return -1;
}

static int judge_fields(struct response *r, bool head)
{
	unsigned int i, lengths = 0, codings = 0;

	for (i = 0; i < r->fields.count; i++) {
		struct field *f = &r->fields.at[i];

		f->value = span_trim(f->value);
		if (span_is(f->name, "content-length")) {
			lengths++;
		} else if (span_is(f->name, "transfer-encoding")) {
			codings++;
			if (!span_is(f->value, "chunked"))
				return refuse(r, "unknown transfer coding");
		} else if (span_is(f->name, "connection")) {
			if (span_lists(f->value, "close", 5))
				r->keep_alive = false;
			else if (span_lists(f->value, "keep-alive", 10))
				r->keep_alive = true;
		}
	}
	if (lengths + codings > 1)
		return refuse(r, "more than one length");
	if (head || r->status / 100 == 1 || r->status == 204 || r->status == 304)
		r->framing = FRAMING_NONE;
	else if (codings)
		r->framing = FRAMING_CHUNKED;
	else if (lengths)
		r->framing = r->content_length ? FRAMING_LENGTH : FRAMING_NONE;
	else
		r->framing = FRAMING_EOF;
	if (r->framing == FRAMING_EOF)
		r->keep_alive = false;
	return 1;
}

int response_parse(struct response *r, const char *text, size_t len, bool head)
{
	struct parse parse = { .r = r };
	const char *end;
	http_parser p;

	r->length = message_header_length(text, len, 0);
	if (!r->length)
		return 0;
	r->fields.count = 0;
	r->fields.in_value = r->fields.folded = r->fields.excess = false;
	r->error = NULL;

	http_init(&p, &settings, 1);
	p.data = &parse;
	http_feed(&p, &settings, text, r->length, &r->error);
	if (!parse.complete)
		return refuse(r, r->error ? r->error : "malformed header");
	r->error = NULL;
	if (p.http_major != 1)
		return refuse(r, "unknown version of HTTP");
	if (r->fields.excess || r->fields.folded || !fields_are_sound(&r->fields))
		return refuse(r, "header fields too many, folded or malformed");

	r->status = p.status_code;
	r->minor = p.http_minor ? 1 : 0;
	r->keep_alive = r->minor;
	r->content_length = parse.content_length;
	end = memchr(text, '\n', r->length);
	r->status_line = (struct span){ text, end - text };
	if (r->status_line.len && end[-1] == '\r')
		r->status_line.len--;
	if (!r->status_line.len)
		return refuse(r, "empty status line");
	return judge_fields(r, head);
}
