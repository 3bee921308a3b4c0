// SPDX-License-Identifier: GPL-2.0
/*
 * HTTP/1.x request heads (RFC 9110, 9112).
 *
 * One pass, no allocation, nothing copied. Strict where leniency lets two servers disagree about
 * where a message ends: white space before a colon, folded lines, bare CR, repeated or conflicting
 * lengths and unknown transfer codings are refused. A bare LF ends a line, as RFC 9112 2.2 allows.
 */
#include "request.h"

#include <string.h>

/* 1: token character (RFC 9110 5.6.2), 2: allowed in a request target. */
#define T 3
#define U 2
static const uint8_t chars[256] = {
	['!'] = T, ['"'] = U, ['#'] = T, ['$'] = T, ['%'] = T, ['&'] = T, ['\''] = T, ['('] = U,
	[')'] = U, ['*'] = T, ['+'] = T, [','] = U, ['-'] = T, ['.'] = T, ['/'] = U,
	['0' ... '9'] = T, [':'] = U, [';'] = U, ['<'] = U, ['='] = U, ['>'] = U, ['?'] = U,
	['@'] = U, ['A' ... 'Z'] = T, ['['] = U, ['\\'] = U, [']'] = U, ['^'] = T, ['_'] = T,
	['`'] = T, ['a' ... 'z'] = T, ['{'] = U, ['|'] = T, ['}'] = U, ['~'] = T,
	[0x80 ... 0xff] = U,
};
#undef T
#undef U
#define IS_TOKEN 1
#define IS_TARGET 2

#define HASH_START 2166136261u
#define HASH_STEP(h, c) (((h) ^ (uint8_t)(c)) * 16777619u)

uint32_t request_path_hash(const char *p, size_t len)
{
	uint32_t h = HASH_START;

	while (len--)
		h = HASH_STEP(h, *p++);
	return h;
}

/* @lower holds only lower-case letters, digits and '-': or-ing 0x20 folds exactly these. */
static bool same_name(const char *p, const char *lower, size_t len)
{
	size_t i;

	for (i = 0; i < len; i++)
		if ((p[i] | 0x20) != lower[i])
			return false;
	return true;
}

bool slice_is(const struct slice *s, const char *lower)
{
	return s->len == strlen(lower) && same_name(s->p, lower, s->len);
}

bool request_head_complete(const char *buf, size_t len, size_t from)
{
	const char *p, *end = buf + len;

	p = buf + (from > 3 ? from - 3 : 0);
	while (p < end && (p = memchr(p, '\n', end - p))) {
		p++;
		if (p < end && *p == '\n')
			return true;
		if (p + 1 < end && p[0] == '\r' && p[1] == '\n')
			return true;
	}
	return false;
}

/* Next element of a comma-separated list, trimmed; parameters after ';' go to @params. */
static bool list_next(struct slice *rest, struct slice *item, struct slice *params)
{
	const char *p = rest->p, *end = rest->p + rest->len, *stop, *semi;

	while (p < end && (*p == ',' || *p == ' ' || *p == '\t'))
		p++;
	if (p == end)
		return false;
	stop = memchr(p, ',', end - p);
	if (!stop)
		stop = end;
	rest->p = stop;
	rest->len = end - stop;
	semi = memchr(p, ';', stop - p);
	params->p = semi ? semi + 1 : stop;
	params->len = stop - params->p;
	item->p = p;
	if (semi)
		stop = semi;
	while (stop > p && (stop[-1] == ' ' || stop[-1] == '\t'))
		stop--;
	item->len = stop - p;
	return true;
}

/* "q=0", "q=0.0": the client does not want it. */
static bool weight_is_zero(const struct slice *params)
{
	const char *p = params->p, *end = p + params->len;

	while (p < end && (*p == ' ' || *p == '\t'))
		p++;
	if (end - p < 3 || (*p | 0x20) != 'q' || p[1] != '=' || p[2] != '0')
		return false;
	for (p += 3; p < end; p++)
		if (*p >= '1' && *p <= '9')
			return false;
	return true;
}

static void parse_accept_encoding(struct request *req, struct slice v)
{
	struct slice item, params;

	while (list_next(&v, &item, &params)) {
		if (weight_is_zero(&params))
			continue;
		if (slice_is(&item, "gzip") || slice_is(&item, "x-gzip"))
			req->flags |= REQ_GZIP;
		else if (slice_is(&item, "br"))
			req->flags |= REQ_BROTLI;
	}
}

static void parse_connection(struct request *req, struct slice v)
{
	struct slice item, params;

	while (list_next(&v, &item, &params)) {
		if (slice_is(&item, "close"))
			req->flags |= REQ_CLOSE;
		else if (slice_is(&item, "keep-alive"))
			req->flags |= REQ_KEEPALIVE10;
	}
}

bool slice_length(const struct slice *v, uint64_t *out)
{
	uint64_t n = 0;
	uint32_t i;

	if (!v->len || v->len > 18)
		return false;
	for (i = 0; i < v->len; i++) {
		if (v->p[i] < '0' || v->p[i] > '9')
			return false;
		n = n * 10 + (v->p[i] - '0');
	}
	*out = n;
	return true;
}

static bool parse_host(struct request *req, const struct slice *v)
{
	const char *p = v->p, *end = v->p + v->len, *colon;

	req->host_port = *v;
	if (p < end && *p == '[') {		/* IPv6 literal keeps its brackets */
		colon = memchr(p, ']', end - p);
		if (!colon)
			return false;
		colon++;
		if (colon < end && *colon != ':')
			return false;
	} else {
		colon = memchr(p, ':', end - p);
		if (!colon)
			colon = end;
	}
	req->host.p = p;
	req->host.len = colon - p;
	for (; p < colon; p++)
		if (!(chars[(uint8_t)*p] & IS_TARGET) || *p == '/' || *p == '?' || *p == '#' ||
		    *p == '@' || *p == '\\')
			return false;
	for (p = colon + 1; p < end; p++)
		if (*p < '0' || *p > '9')
			return false;
	return true;
}

/* Header seen a second time where only one may stand. */
static bool set_once(struct slice *to, const struct slice *v)
{
	if (to->p)
		return false;
	*to = *v;
	return true;
}

enum { SEEN_LENGTH = 1, SEEN_CODING = 2, SEEN_EXPECT = 4 };

static int parse_header(struct request *req, const char *name, size_t len, struct slice *v,
			unsigned int *seen)
{
	struct request target;

	switch (len) {
	case 4:
		if (!same_name(name, "host", 4))
			return 0;
		if (req->has_host)
			return -400;
		req->has_host = true;
		/* An absolute-form target has set the host already and wins (RFC 9112 3.2.2). */
		if (req->host_port.p) {
			target = *req;
			return parse_host(&target, v) ? 0 : -400;
		}
		return parse_host(req, v) ? 0 : -400;
	case 5:
		if (same_name(name, "range", 5)) {
			if (!set_once(&req->range, v))
				return -400;
			req->flags |= REQ_RANGE;
		}
		return 0;
	case 6:
		if (same_name(name, "expect", 6)) {
			if (!slice_is(v, "100-continue"))
				return -417;
			req->flags |= REQ_EXPECT;
		}
		return 0;
	case 7:
		if (same_name(name, "referer", 7))
			req->referer = *v;
		return 0;
	case 8:
		if (same_name(name, "if-match", 8)) {
			req->if_match = *v;
			req->flags |= REQ_CONDITIONAL;
		} else if (same_name(name, "if-range", 8)) {
			req->if_range = *v;
		}
		return 0;
	case 10:
		if (same_name(name, "connection", 10))
			parse_connection(req, *v);
		else if (same_name(name, "user-agent", 10))
			req->user_agent = *v;
		return 0;
	case 13:
		if (same_name(name, "if-none-match", 13)) {
			req->if_none_match = *v;
			req->flags |= REQ_CONDITIONAL;
		}
		return 0;
	case 14:
		if (same_name(name, "content-length", 14)) {
			if (*seen & SEEN_LENGTH || !slice_length(v, &req->content_length))
				return -400;
			*seen |= SEEN_LENGTH;
			if (req->content_length)
				req->flags |= REQ_BODY;
		}
		return 0;
	case 15:
		if (same_name(name, "accept-encoding", 15))
			parse_accept_encoding(req, *v);
		return 0;
	case 17:
		if (same_name(name, "if-modified-since", 17)) {
			req->if_modified_since = *v;
			req->flags |= REQ_CONDITIONAL;
		} else if (same_name(name, "transfer-encoding", 17)) {
			if (*seen & SEEN_CODING)
				return -400;
			*seen |= SEEN_CODING;
			if (!slice_is(v, "chunked"))
				return -501;
			req->flags |= REQ_BODY | REQ_CHUNKED;
		}
		return 0;
	case 19:
		if (same_name(name, "if-unmodified-since", 19)) {
			req->if_unmodified_since = *v;
			req->flags |= REQ_CONDITIONAL;
		}
		return 0;
	}
	return 0;
}

static bool method_parse(struct request *req, const char *p, size_t len)
{
	static const struct {
		const char *name;
		uint8_t len, method;
	} methods[] = {
		{ "GET", 3, METHOD_GET }, { "HEAD", 4, METHOD_HEAD },
		{ "OPTIONS", 7, METHOD_OPTIONS }, { "POST", 4, METHOD_POST },
		{ "PUT", 3, METHOD_PUT }, { "DELETE", 6, METHOD_DELETE },
		{ "PATCH", 5, METHOD_PATCH },
	};
	size_t i;

	req->method_name.p = p;
	req->method_name.len = len;
	req->flags |= REQ_NOT_GET;
	for (i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
		if (len == methods[i].len && !memcmp(p, methods[i].name, len)) {
			req->method = methods[i].method;
			if (req->method == METHOD_HEAD)
				req->flags = (req->flags & ~REQ_NOT_GET) | REQ_HEAD;
			return true;
		}
	}
	req->method = METHOD_OTHER;
	for (i = 0; i < len; i++)
		if (!(chars[(uint8_t)p[i]] & IS_TOKEN))
			return false;
	return len > 0 && len <= 32;
}

/* Path and query of an origin-form target, hashed on the way. Returns its end or NULL. */
static const char *target_parse(struct request *req, const char *p, const char *end)
{
	uint32_t h = HASH_START;
	const char *start = p;

	for (; p < end; p++) {
		uint8_t c = *p;

		if (c == '?' || !(chars[c] & IS_TARGET))
			break;
		h = HASH_STEP(h, c);
	}
	req->path.p = start;
	req->path.len = p - start;
	req->hash = h;
	if (p < end && *p == '?') {
		start = ++p;
		while (p < end && chars[(uint8_t)*p] & IS_TARGET)
			p++;
		req->query.p = start;
		req->query.len = p - start;
	}
	return p < end && *p == ' ' ? p : NULL;
}

/* "http://host[:port]/path": a server must accept it (RFC 9112 3.2.2). */
static const char *absolute_form(struct request *req, const char *p, const char *end)
{
	struct slice host;
	const char *q;

	if (end - p < 9 || !same_name(p, "http", 4))
		return NULL;
	p += p[4] == 's' || p[4] == 'S' ? 5 : 4;
	if (memcmp(p, "://", 3))
		return NULL;
	p += 3;
	for (q = p; q < end && *q != '/' && *q != '?' && *q != ' '; q++)
		;
	host.p = p;
	host.len = q - p;
	if (!host.len || !parse_host(req, &host))
		return NULL;
	return q;
}

static int request_line(struct request *req, const char *p, const char *end)
{
	const char *q;

	req->line.p = p;
	req->line.len = end - p;
	if (end - p >= 4 && !memcmp(p, "GET ", 4)) {
		req->method = METHOD_GET;
		req->method_name.p = p;
		req->method_name.len = 3;
		p += 4;
	} else {
		q = memchr(p, ' ', end - p);
		if (!q || !method_parse(req, p, q - p))
			return -400;
		p = q + 1;
	}

	if (p < end && *p != '/') {
		if (*p == '*' && req->method == METHOD_OPTIONS) {
			req->path.p = p++;
			req->path.len = 1;
			req->hash = request_path_hash("*", 1);
			goto version;
		}
		p = absolute_form(req, p, end);
		if (!p)
			return -400;
		if (*p != '/') {	/* "http://host" or "http://host?q": the path is "/" */
			q = target_parse(req, p, end);
			req->path.p = "/";
			req->path.len = 1;
			req->hash = request_path_hash("/", 1);
			p = q;
			goto parsed;
		}
	}
	p = target_parse(req, p, end);
parsed:
	if (!p)
		return -400;
version:
	if (end - p != 9 || memcmp(p, " HTTP/", 6) || p[7] != '.' || p[6] < '0' || p[6] > '9' ||
	    p[8] < '0' || p[8] > '9')
		return -400;
	if (p[6] != '1')
		return -505;
	if (p[8] == '0')
		req->flags |= REQ_HTTP10;
	return 0;
}

/*
 * LF alone ends a line, as the standard allows; others do not think so. Whoever passed this on may
 * see another request in what follows: it is not looked at.
 */
static void doubt(struct request *req, const char *stop, const char *next)
{
	if (next - stop == 1)
		req->flags |= REQ_CLOSE;
}

/* End of the line at @p: *next is behind its LF. NULL with *next NULL: no LF yet. */
static const char *line_end(const char *p, const char *end, const char **next)
{
	const char *lf = memchr(p, '\n', end - p);

	if (!lf) {
		*next = NULL;
		return NULL;
	}
	*next = lf + 1;
	return lf > p && lf[-1] == '\r' ? lf - 1 : lf;
}

static int finish(struct request *req, unsigned int seen)
{
	if (seen & SEEN_CODING && (seen & SEEN_LENGTH || req->flags & REQ_HTTP10))
		return -400;
	if (req->flags & REQ_HTTP10) {
		if (!(req->flags & REQ_KEEPALIVE10))
			req->flags |= REQ_CLOSE;
		req->flags &= ~REQ_EXPECT;
	} else if (!req->has_host) {
		return -400;
	}
	if (!(req->flags & REQ_BODY))
		req->flags &= ~REQ_EXPECT;
	return 0;
}

int request_parse(struct request *req, const char *buf, size_t len,
		  const struct request_limits *limits)
{
	const char *p = buf, *end = buf + len, *stop, *next, *colon, *v;
	unsigned int seen = 0, lines = 0;
	struct slice value;
	int err;

	memset(req, 0, sizeof(*req));
	/* An empty line before the request line is to be ignored (RFC 9112 2.2). */
	while (p < end && p - buf < 8) {
		if (*p == '\n')
			p++;
		else if (*p == '\r' && end - p > 1 && p[1] == '\n')
			p += 2;
		else
			break;
	}

	stop = line_end(p, end, &next);
	if ((stop ? stop : end) - p > limits->max_line)
		return -414;
	if (!stop)
		return 0;
	err = request_line(req, p, stop);
	if (err)
		return err;

	doubt(req, stop, next);
	req->headers.p = next;
	for (p = next; ; p = next) {
		stop = line_end(p, end, &next);
		if (!stop)
			return 0;
		doubt(req, stop, next);
		if (stop == p)
			break;
		if (++lines > limits->max_headers)
			return -431;
		for (colon = p; colon < stop && chars[(uint8_t)*colon] & IS_TOKEN; colon++)
			;
		if (colon == p || colon == stop || *colon != ':')
			return -400;
		for (v = colon + 1; v < stop && (*v == ' ' || *v == '\t'); v++)
			;
		value.p = v;
		value.len = stop - v;
		if (memchr(v, '\r', value.len) || memchr(v, '\0', value.len))
			return -400;
		while (value.len && (v[value.len - 1] == ' ' || v[value.len - 1] == '\t'))
			value.len--;
		err = parse_header(req, p, colon - p, &value, &seen);
		if (err)
			return err;
	}
	req->headers.len = p - req->headers.p;
	err = finish(req, seen);
	return err ? err : (int)(next - buf);
}

bool request_header_next(const struct request *req, const char **pos, struct slice *name,
			 struct slice *value)
{
	const char *end = req->headers.p + req->headers.len, *stop, *next, *colon, *v;
	const char *p = *pos ? *pos : req->headers.p;

	if (p >= end)
		return false;
	stop = line_end(p, end, &next);
	if (!stop)
		return false;
	colon = memchr(p, ':', stop - p);
	if (!colon)
		return false;
	name->p = p;
	name->len = colon - p;
	for (v = colon + 1; v < stop && (*v == ' ' || *v == '\t'); v++)
		;
	while (stop > v && (stop[-1] == ' ' || stop[-1] == '\t'))
		stop--;
	value->p = v;
	value->len = stop - v;
	*pos = next;
	return true;
}
