// SPDX-License-Identifier: GPL-2.0
/* Requests: the library takes the header apart, this file judges it. */
#include <string.h>
#include <strings.h>
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

/* "http://host/path" becomes "/path"; its host goes into @host. */
struct span request_origin_form(const struct request *r, struct span *host)
{
	static const char scheme[] = "http://";
	struct span target = r->target;
	size_t at = sizeof(scheme) - 1, start = at;

	if (target.len < at || strncasecmp(target.at, scheme, at))
		return target;
	while (at < target.len && target.at[at] != '/' && target.at[at] != '?')
		at++;
	*host = (struct span){ target.at + start, at - start };
	return (struct span){ target.at + at, target.len - at };
}

/* A path, "*" for OPTIONS, or a whole address that names the same host as the field does. */
static int judge_target(struct request *r)
{
	struct span host = { NULL, 0 }, path = request_origin_form(r, &host);

	if (memchr(r->target.at, '#', r->target.len))
		return refuse(r, 400, "a fragment in the target");
	if (host.at) {
		if (!host.len || !host_is_plausible(host))
			return refuse(r, 400, "malformed host in the target");
		if (r->host.at && (host.len != r->host.len ||
				   strncasecmp(host.at, r->host.at, host.len)))
			return refuse(r, 400, "two different hosts");
	} else if ((!path.len || *path.at != '/') &&
		   !(span_is(path, "*") && span_is(r->method, "OPTIONS"))) {
		return refuse(r, 400, "the target is not a path");
	}
	return 1;
}

static int judge_fields(struct request *r)
{
	struct header_framing framing = { 0 };
	unsigned int i, hosts = 0, upgrades = 0;
	bool asked = false;

	for (i = 0; i < r->fields.count; i++) {
		struct field *f = &r->fields.at[i];

		f->value = span_trim(f->value);
		if (span_is(f->name, "host")) {
			r->host = f->value;
			hosts++;
		} else if (span_is(f->name, "upgrade")) {
			r->websocket = span_is(f->value, "websocket");
			upgrades++;
		} else {
			if (span_is(f->name, "connection"))
				asked |= span_lists(f->value, "upgrade", 7);
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
	r->has_length = framing.lengths;
	r->framing = framing.codings ? FRAMING_CHUNKED :
		     framing.lengths && r->content_length ? FRAMING_LENGTH : FRAMING_NONE;
	r->websocket = r->websocket && asked && upgrades == 1 && r->minor && span_is(r->method, "GET") &&
		       r->framing == FRAMING_NONE;
	return judge_target(r);
}

/* Method, target and version with one blank between them, and nothing else. */
static int judge_line(struct request *r, const char *text)
{
	const char *end = r->target.at + r->target.len;

	r->method.at = text;
	while (text[r->method.len] != ' ')
		r->method.len++;
	r->head = r->method.len == 4 && !memcmp(text, "HEAD", 4);
	if (r->target.at != text + r->method.len + 1 || memcmp(end, " HTTP/1.", 8))
		return refuse(r, 400, "malformed request line");
	return 0;
}

int request_parse(struct request *r, const char *text, size_t len, size_t *searched)
{
	size_t from = searched ? *searched : 0, skipped = 0;
	bool first = !from, complete;
	struct header h;

	r->length = message_header_length(text, len, from);
	complete = r->length;
	if (searched)
		*searched = len > SEARCH_AGAIN ? len - SEARCH_AGAIN : 0;
	/* Nonsense is recognized in the first segment; after that only the end is waited for. */
	if (!complete && !first)
		return 0;

	while (skipped < len && (text[skipped] == '\r' || text[skipped] == '\n'))
		skipped++;
	if (skipped == len)
		return 0;
	r->method = r->host = (struct span){ NULL, 0 };
	r->websocket = false;
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

	if (judge_line(r, text + skipped))
		return -400;
	r->minor = h.minor;
	r->content_length = h.content_length;
	r->keep_alive = r->minor;
	if (fields_are_many(&r->fields))
		return refuse(r, 431, "too many header fields");
	if (r->fields.folded)
		return refuse(r, 400, "folded header field");
	if (!fields_are_sound(&r->fields))
		return refuse(r, 400, "malformed header field");
	if (span_is(r->method, "CONNECT"))
		return refuse(r, 501, "CONNECT is for forward proxies");
	return judge_fields(r);
}
