// SPDX-License-Identifier: GPL-2.0
/* Requests: the library takes the header apart, this file judges it. */
#include <string.h>
#include "httplib.h"
#include "request.h"

struct parse {
	struct request *r;
	bool complete;
	uint64_t content_length;
};

static int on_url(http_parser *p, const char *at, size_t len)
{
	struct request *r = ((struct parse *)p->data)->r;

	if (!r->target.len)
		r->target.at = at;
	r->target.len += len;
	return 0;
}

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
	.on_url = on_url,
	.on_header_field = on_name,
	.on_header_value = on_value,
	.on_headers_complete = on_headers_complete,
};

static int refuse(struct request *r, int status, const char *why)
{
	r->error = why;
	return -status;
}

/* A name or an address, perhaps with a port: nothing that could pass for a path. */
static bool host_is_plausible(struct span host)
{
	size_t i;

	for (i = 0; i < host.len; i++) {
		unsigned char c = host.at[i];

		if (c <= ' ' || c > '~' || strchr("/?#@\\\"<>", c))
			return false;
	}
	return true;
}

static int judge_fields(struct request *r)
{
	unsigned int i, hosts = 0, lengths = 0, codings = 0;

	for (i = 0; i < r->fields.count; i++) {
		struct field *f = &r->fields.at[i];

		f->value = span_trim(f->value);
		if (span_is(f->name, "host")) {
			r->host = f->value;
			hosts++;
		} else if (span_is(f->name, "content-length")) {
			lengths++;
		} else if (span_is(f->name, "transfer-encoding")) {
			codings++;
			if (!span_is(f->value, "chunked"))
				return refuse(r, 501, "unknown transfer coding");
		} else if (span_is(f->name, "upgrade")) {
			r->upgrade = f->value;
		} else if (span_is(f->name, "connection")) {
			if (span_lists(f->value, "close", 5))
				r->keep_alive = false;
			else if (span_lists(f->value, "keep-alive", 10))
				r->keep_alive = true;
		}
	}
	if (hosts > 1)
		return refuse(r, 400, "more than one Host");
	if (!hosts && r->minor)
		return refuse(r, 400, "no Host");
	if (!host_is_plausible(r->host))
		return refuse(r, 400, "malformed Host");
	/* Either of these is how requests are smuggled past a proxy. */
	if (lengths + codings > 1)
		return refuse(r, 400, "more than one length");
	if (codings && !r->minor)
		return refuse(r, 400, "chunked body in HTTP/1.0");
	r->framing = codings ? FRAMING_CHUNKED :
		     lengths && r->content_length ? FRAMING_LENGTH : FRAMING_NONE;
	return 1;
}

/* The library knows methods that it knows; a token is a token. */
static void find_method(struct request *r, const char *text)
{
	r->method.at = text;
	while (text[r->method.len] != ' ')
		r->method.len++;
	r->head = r->method.len == 4 && !memcmp(text, "HEAD", 4);
}

int request_parse(struct request *r, const char *text, size_t len, size_t *searched)
{
	struct parse parse = { .r = r };
	size_t from = searched ? *searched : 0, skipped = 0, fed;
	bool first = !from, complete;
	http_parser p;

	r->length = message_header_length(text, len, from);
	complete = r->length;
	if (searched)
		*searched = len > 3 ? len - 3 : 0;
	/* Nonsense is recognized in the first segment; after that only the end is waited for. */
	if (!complete && !first)
		return 0;

	while (skipped < len && (text[skipped] == '\r' || text[skipped] == '\n'))
		skipped++;
	if (skipped == len)
		return 0;
	r->method = r->target = r->host = r->upgrade = (struct span){ NULL, 0 };
	r->fields.count = 0;
	r->fields.in_value = r->fields.folded = r->fields.excess = false;
	r->error = NULL;

	http_init(&p, &settings, 0);
	p.data = &parse;
	fed = complete ? r->length : len;
	http_feed(&p, &settings, text + skipped, fed - skipped, &r->error);
	if (r->error && !parse.complete)
		return p.http_major > 1 ? refuse(r, 505, "unknown version of HTTP") : -400;
	if (!complete)
		return 0;
	if (!parse.complete)
		return refuse(r, 400, "malformed header");
	if (p.http_major != 1)
		return refuse(r, p.http_major ? 505 : 400, "unknown version of HTTP");

	find_method(r, text + skipped);
	r->minor = p.http_minor ? 1 : 0;
	r->content_length = parse.content_length;
	r->keep_alive = r->minor;
	if (r->fields.excess)
		return refuse(r, 431, "too many header fields");
	if (r->fields.folded)
		return refuse(r, 400, "folded header field");
	if (!fields_are_sound(&r->fields))
		return refuse(r, 400, "malformed header field");
	if (span_is(r->method, "CONNECT"))
		return refuse(r, 501, "CONNECT is for forward proxies");
	return judge_fields(r);
}
