// SPDX-License-Identifier: GPL-2.0
/* Requests: the library takes the header apart, this file judges it. */
#include <string.h>
#include "header.h"
#include "request.h"

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
	struct header_framing framing = { 0 };
	unsigned int i, hosts = 0;

	for (i = 0; i < r->fields.count; i++) {
		struct field *f = &r->fields.at[i];

		f->value = span_trim(f->value);
		if (span_is(f->name, "host")) {
			r->host = f->value;
			hosts++;
		} else if (span_is(f->name, "upgrade")) {
			r->upgrade = f->value;
		} else {
			header_framing_field(&framing, f, &r->keep_alive);
		}
	}
	if (framing.unknown_coding)
		return refuse(r, 501, "unknown transfer coding");
	if (hosts > 1)
		return refuse(r, 400, "more than one Host");
	if (!hosts && r->minor)
		return refuse(r, 400, "no Host");
	if (!host_is_plausible(r->host))
		return refuse(r, 400, "malformed Host");
	/* Either of these is how requests are smuggled past a proxy. */
	if (framing.lengths + framing.codings > 1)
		return refuse(r, 400, "more than one length");
	if (framing.codings && !r->minor)
		return refuse(r, 400, "chunked body in HTTP/1.0");
	r->framing = framing.codings ? FRAMING_CHUNKED :
		     framing.lengths && r->content_length ? FRAMING_LENGTH : FRAMING_NONE;
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
	size_t from = searched ? *searched : 0, skipped = 0;
	bool first = !from, complete;
	struct header h;

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
	r->method = r->host = r->upgrade = (struct span){ NULL, 0 };
	header_parse(&h, &r->fields, text + skipped, (complete ? r->length : len) - skipped, false);
	r->target = h.target;
	r->error = h.error;
	if (r->error && !h.complete)
		return h.major > 1 ? refuse(r, 505, "unknown version of HTTP") : -400;
	if (!complete)
		return 0;
	if (!h.complete)
		return refuse(r, 400, "malformed header");
	if (h.major != 1)
		return refuse(r, h.major ? 505 : 400, "unknown version of HTTP");

	find_method(r, text + skipped);
	r->minor = h.minor;
	r->content_length = h.content_length;
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
