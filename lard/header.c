// SPDX-License-Identifier: GPL-2.0
#include "header.h"
#include <string.h>
#include "httplib.h"

static int on_url(http_parser *p, const char *at, size_t len)
{
	struct header *h = p->data;

	if (!h->target.len)
		h->target.at = at;
	h->target.len += len;
	return 0;
}

static int on_name(http_parser *p, const char *at, size_t len)
{
	fields_name(((struct header *)p->data)->fields, at, len);
	return 0;
}

static int on_value(http_parser *p, const char *at, size_t len)
{
	fields_value(((struct header *)p->data)->fields, at, len);
	return 0;
}

static int on_complete(http_parser *p)
{
	struct header *h = p->data;

	h->complete = true;
	h->content_length = p->content_length;
	return 0;
}

static http_settings settings = {
	.on_url = on_url,
	.on_header_field = on_name,
	.on_header_value = on_value,
	.on_headers_complete = on_complete,
};

void header_parse(struct header *h, struct fields *fields, const char *text, size_t len,
		  bool response)
{
	http_parser p;

	memset(h, 0, sizeof(*h));
	h->fields = fields;
	fields->count = 0;
	fields->in_value = false;
	fields->folded = false;
	fields->excess = false;
	http_init(&p, &settings, response);
	p.data = h;
	http_feed(&p, &settings, text, len, &h->error);
	h->major = p.http_major;
	h->minor = p.http_minor ? 1 : 0;
	h->status = response ? p.status_code : 0;
}

bool header_framing_field(struct header_framing *h, const struct field *field, bool *keep_alive)
{
	if (span_is(field->name, "content-length")) {
		h->lengths++;
	} else if (span_is(field->name, "transfer-encoding")) {
		h->codings++;
		h->unknown_coding |= !span_is(field->value, "chunked");
	} else if (span_is(field->name, "connection")) {
		if (span_lists(field->value, "close", 5))
			*keep_alive = false;
		else if (span_lists(field->value, "keep-alive", 10))
			*keep_alive = true;
	} else {
		return false;
	}
	return true;
}
