// SPDX-License-Identifier: GPL-2.0
/*
 * What would end a line, or frame a body, must not get into the text from here, whatever the library
 * lets pass: back-ends would take what is behind it for another request.
 */
#include "head.h"
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static bool pile_put(struct pile *p, const char *at, size_t len)
{
	if (len > p->size - p->len) {
		size_t size = p->size ? p->size : 64;
		char *more;

		while (size - p->len < len)
			size *= 2;
		more = realloc(p->at, size);
		if (!more)
			return false;
		p->at = more;
		p->size = size;
	}
	if (len)
		memcpy(p->at + p->len, at, len);
	p->len += len;
	return true;
}

static bool pile_string(struct pile *p, const char *string)
{
	return pile_put(p, string, strlen(string));
}

static bool pile_add(struct pile *p, const struct pile *other)
{
	return pile_put(p, other->at, other->len);
}

static struct span of(const struct pile *p)
{
	return (struct span){ p->at, p->len };
}

static void refuse(struct head *h, unsigned int status, const char *why)
{
	if (h->status)
		return;
	h->status = status;
	h->error = why;
}

static bool is_same(struct span a, struct span b)
{
	return a.len == b.len && !strncasecmp(a.at, b.at, a.len);
}

/* No line ends with it, and in a request's line no word does either. */
static bool is_plain(struct span s, bool word)
{
	size_t i;

	for (i = 0; i < s.len; i++) {
		unsigned char c = s.at[i];

		if (c == '\r' || c == '\n' || !c || (word && (c <= ' ' || c == 0x7f)))
			return false;
	}
	return true;
}

static bool is_name(struct span s)
{
	size_t i;

	for (i = 0; i < s.len; i++)
		if ((s.at[i] >= 'A' && s.at[i] <= 'Z') || s.at[i] == ':')
			return false;
	return s.len && is_plain(s, true);
}

/* RFC 9113, 8.2.2: of the connection, which a stream has no say in. */
static bool is_connections(struct span name, struct span value)
{
	static const char *const names[] = {
		"connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade",
	};
	size_t i;

	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (span_is(name, names[i]))
			return true;
	return span_is(name, "te") && !span_is(value, "trailers");
}

static void put_pseudo(struct head *h, struct span name, struct span value)
{
	static const char *const names[HEAD_PSEUDOS] = { ":method", ":scheme", ":authority", ":path" };
	size_t i;

	for (i = 0; i < HEAD_PSEUDOS; i++)
		if (span_is(name, names[i]))
			break;
	if (i == HEAD_PSEUDOS || h->pseudo[i].len || !value.len || h->fields.len || h->host.len ||
	    h->cookie.len)
		refuse(h, 400, "an unknown, empty or second pseudo-field, or one that is late");
	else if (!is_plain(value, true))
		refuse(h, 400, "a blank or a control character in a pseudo-field");
	else if (!pile_put(&h->pseudo[i], value.at, value.len))
		refuse(h, 503, "no memory");
}

static bool put_cookie(struct head *h, struct span value)
{
	return (!h->cookie.len || pile_string(&h->cookie, "; ")) &&
	       pile_put(&h->cookie, value.at, value.len);
}

static bool put_line(struct pile *p, struct span name, struct span value)
{
	return pile_put(p, name.at, name.len) && pile_string(p, ": ") &&
	       pile_put(p, value.at, value.len) && pile_string(p, "\r\n");
}

static void put_field(struct head *h, struct span name, struct span value)
{
	bool done;

	if (!is_name(name) || !is_plain(value, false)) {
		refuse(h, 400, "malformed header field");
		return;
	}
	if (is_connections(name, value)) {
		refuse(h, 400, "a field of the connection in a stream");
		return;
	}
	if (span_is(name, "te"))
		return;
	h->has_length |= span_is(name, "content-length");
	if (span_is(name, "host")) {
		if (h->host.len)
			refuse(h, 400, "more than one Host");
		done = pile_put(&h->host, value.at, value.len);
	} else if (span_is(name, "cookie")) {
		done = put_cookie(h, value);
	} else {
		done = put_line(&h->fields, name, value);
	}
	if (!done)
		refuse(h, 503, "no memory");
}

void head_field(struct head *h, struct span name, struct span value)
{
	h->total += name.len + value.len + 4;
	if (h->total > h->limit)
		refuse(h, 431, "header beyond the limit");
	if (h->status)
		return;
	if (name.len && *name.at == ':')
		put_pseudo(h, name, value);
	else
		put_field(h, name, value);
}

static void judge(struct head *h)
{
	struct span method = of(&h->pseudo[HEAD_METHOD]), path = of(&h->pseudo[HEAD_PATH]);
	struct span authority = of(&h->pseudo[HEAD_AUTHORITY]), host = of(&h->host);

	if (span_is(method, "CONNECT"))
		refuse(h, 501, "CONNECT is for forward proxies");
	else if (!method.len || !span_is(of(&h->pseudo[HEAD_SCHEME]), "https"))
		refuse(h, 400, "no method, or another scheme than https");
	else if (!path.len || (*path.at != '/' && !(span_is(path, "*") && span_is(method, "OPTIONS"))))
		refuse(h, 400, "the target is not a path");
	else if (authority.len && host.len && !is_same(authority, host))
		refuse(h, 400, "two different hosts");
	else if (!authority.len && !host.len)
		refuse(h, 400, "no Host");
}

static bool write_down(const struct head *h, bool ended, struct pile *p)
{
	const struct pile *authority = &h->pseudo[HEAD_AUTHORITY];
	const struct pile *host = authority->len ? authority : &h->host;

	return pile_add(p, &h->pseudo[HEAD_METHOD]) && pile_string(p, " ") &&
	       pile_add(p, &h->pseudo[HEAD_PATH]) && pile_string(p, " HTTP/1.1\r\n") &&
	       put_line(p, (struct span){ "Host", 4 }, of(host)) && pile_add(p, &h->fields) &&
	       (!h->cookie.len || put_line(p, (struct span){ "Cookie", 6 }, of(&h->cookie))) &&
	       (ended || h->has_length || pile_string(p, "Transfer-Encoding: chunked\r\n")) &&
	       /* It is the only request of its struct conn. */
	       pile_string(p, "Connection: close\r\n\r\n");
}

char *head_text(struct head *h, bool ended, size_t *len, bool *is_head)
{
	struct pile text = { 0 };

	judge(h);
	*is_head = span_is(of(&h->pseudo[HEAD_METHOD]), "HEAD");
	if (!h->status && !write_down(h, ended, &text))
		refuse(h, 503, "no memory");
	if (!h->status && text.len > h->limit)
		refuse(h, 431, "header beyond the limit");
	if (h->status) {
		free(text.at);
		return NULL;
	}
	*len = text.len;
	return text.at;
}

void head_forget(struct head *h)
{
	size_t i;

	for (i = 0; i < HEAD_PSEUDOS; i++)
		free(h->pseudo[i].at);
	free(h->host.at);
	free(h->cookie.at);
	free(h->fields.at);
	memset(h, 0, offsetof(struct head, limit));
}
