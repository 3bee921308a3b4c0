// SPDX-License-Identifier: GPL-2.0
/* Requests for the cache. A line is judged when its end has come; nothing is looked at again. */
#ifdef __KERNEL__
#include <linux/errno.h>
#include <linux/kernel.h>
#include <linux/string.h>
#else
#include <errno.h>
#include <string.h>
#include <strings.h>
#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#endif
#include "request.h"

/* What a byte may be. The kernel's own <linux/ctype.h> takes Latin-1 for letters. */
enum {
	TOKEN	= 1 << 0,	/* names of fields */
	NAME	= 1 << 1,	/* hosts */
	PATH	= 1 << 2,	/* paths and queries, but for '%' */
	HEX	= 1 << 3,
	DIGIT	= 1 << 4,
	CONTROL	= 1 << 5,	/* CR and LF at the end of a line, others nowhere */
};

#define ALNUM	(TOKEN | NAME | PATH)

static const unsigned char class[256] = {
	[0x00 ... 0x08] = CONTROL, [0x0a ... 0x1f] = CONTROL, [0x7f] = CONTROL,
	['0' ... '9'] = ALNUM | HEX | DIGIT,
	['A' ... 'F'] = ALNUM | HEX, ['G' ... 'Z'] = ALNUM,
	['a' ... 'f'] = ALNUM | HEX, ['g' ... 'z'] = ALNUM,
	['-'] = ALNUM, ['.'] = ALNUM, ['_'] = ALNUM,
	['~'] = TOKEN | PATH, ['!'] = TOKEN | PATH, ['$'] = TOKEN | PATH, ['&'] = TOKEN | PATH,
	['\''] = TOKEN | PATH, ['*'] = TOKEN | PATH, ['+'] = TOKEN | PATH,
	['#'] = TOKEN, ['%'] = TOKEN, ['^'] = TOKEN, ['`'] = TOKEN, ['|'] = TOKEN,
	['('] = PATH, [')'] = PATH, [','] = PATH, [';'] = PATH, ['='] = PATH,
	[':'] = PATH, ['@'] = PATH, ['/'] = PATH, ['?'] = PATH,
};

static bool is(char c, unsigned int what)
{
	return class[(unsigned char)c] & what;
}

static size_t name_length(const char *host, size_t len)
{
	size_t i;

	if (host[0] == '[') {
		for (i = 1; i < len && (is(host[i], HEX) || host[i] == ':' || host[i] == '.'); i++)
			;
		return i > 2 && i < len && host[i] == ']' ? i + 1 : 0;
	}
	for (i = 0; i < len && is(host[i], NAME); i++)
		if (host[i] == '.' && (!i || host[i - 1] == '.'))
			return 0;
	/* "a." is "a" for some and another host for others. */
	return i && host[i - 1] != '.' ? i : 0;
}

size_t afpa_host_length(const char *host, size_t len, __u16 *port)
{
	unsigned int number = 0;
	size_t name, i;

	if (!len)
		return 0;
	name = name_length(host, len);
	if (!name || name > AFPA_HOST_MAX)
		return 0;
	if (name < len) {
		if (host[name] != ':' || len - name < 2 || len - name > 6 || host[name + 1] == '0')
			return 0;
		for (i = name + 1; i < len; i++) {
			if (!is(host[i], DIGIT))
				return 0;
			number = number * 10 + host[i] - '0';
		}
		if (number > 65535)
			return 0;
	}
	if (port)
		*port = number;
	return name;
}

/* "%2e" is a dot for whoever decodes before he looks for dot segments. */
static size_t dot_length(const char *at, size_t len)
{
	if (len && *at == '.')
		return 1;
	return len >= 3 && at[0] == '%' && at[1] == '2' && (at[2] | 0x20) == 'e' ? 3 : 0;
}

/* "." or "..", at the path's end, or before a slash or before parameters that some cut off. */
static bool is_dots(const char *at, size_t len)
{
	size_t first = dot_length(at, len), used = first;

	if (first)
		used += dot_length(at + first, len - first);
	return first && (used == len || at[used] == '/' || at[used] == '?' || at[used] == ';');
}

bool afpa_path_is_sound(const char *path, size_t len)
{
	bool query = false;
	size_t i;

	if (!len || path[0] != '/')
		return false;
	for (i = 0; i < len; i++) {
		if (path[i] == '%') {
			if (len - i < 3 || !is(path[i + 1], HEX) || !is(path[i + 2], HEX))
				return false;
			if (path[i + 1] == '0' && path[i + 2] == '0')
				return false;
		} else if (!is(path[i], PATH)) {
			return false;
		}
		if (path[i] == '?')
			query = true;
		else if (path[i] == '/' && !query && is_dots(path + i + 1, len - i - 1))
			return false;
	}
	return true;
}

/* "http://host/path": the host of the target, which the Host field must then name, too. */
static bool take_authority(struct afpa_request *req, const char *buf, size_t *at, size_t end)
{
	static const char scheme[] = "http://";
	size_t start = *at + sizeof(scheme) - 1, i;

	if (end - *at < sizeof(scheme) - 1 || strncasecmp(buf + *at, scheme, sizeof(scheme) - 1))
		return false;
	for (i = start; i < end && buf[i] != '/' && buf[i] != '?'; i++)
		;
	req->host_at = start;
	req->host_len = afpa_host_length(buf + start, i - start, &req->port);
	req->absolute = true;
	*at = i;
	return req->host_len;
}

static enum afpa_why take_request_line(struct afpa_request *req, const char *buf, size_t end)
{
	static const char version[] = " HTTP/1.x";
	size_t at = buf[0] == 'G' ? 4 : 5, tail = sizeof(version) - 1;

	/* afpa_request_parse() has seen that the line begins with "GET " or "HEAD ". */
	if (end < at + 1 + tail)
		return AFPA_WHY_LINE;
	end -= tail;
	if (memcmp(buf + end, version, tail - 1))
		return AFPA_WHY_LINE;
	if (buf[end + tail - 1] != '0' && buf[end + tail - 1] != '1')
		return AFPA_WHY_LINE;
	req->minor = buf[end + tail - 1] - '0';
	req->method = at == 4 ? AFPA_METHOD_GET : AFPA_METHOD_HEAD;
	if (buf[at] != '/' && !take_authority(req, buf, &at, end))
		return AFPA_WHY_HOST;
	req->path_at = at;
	req->path_len = end - at;
	return afpa_path_is_sound(buf + at, end - at) ? AFPA_WHY_NONE : AFPA_WHY_PATH;
}

static bool take_host(struct afpa_request *req, const char *buf, size_t at, size_t len)
{
	size_t counts = afpa_host_length(buf + at, len, &req->port);

	if (!counts || req->named)
		return false;
	req->named = true;
	if (req->absolute)
		return len == (size_t)(req->path_at - req->host_at) &&
		       !strncasecmp(buf + at, buf + req->host_at, len);
	req->host_at = at;
	req->host_len = counts;
	return true;
}

static bool is_word(const char *at, size_t len, const char *word)
{
	return strlen(word) == len && !strncasecmp(at, word, len);
}

/* "close" or "keep-alive", or a list of one of them; other words name further fields. */
static bool take_connection(struct afpa_request *req, const char *at, size_t len)
{
	size_t start = 0, end, next;

	for (;;) {
		for (next = start; next < len && at[next] != ','; next++)
			;
		for (end = next; end > start && (at[end - 1] == ' ' || at[end - 1] == '\t'); end--)
			;
		while (start < end && (at[start] == ' ' || at[start] == '\t'))
			start++;
		if (is_word(at + start, end - start, "close"))
			req->closes = true;
		else if (is_word(at + start, end - start, "keep-alive"))
			req->keeps = true;
		else
			return false;
		if (next == len)
			return !(req->closes && req->keeps);
		start = next + 1;
	}
}

/*
 * Fields that say that there is more to the request than its line, or for whom the answer is.
 * A client that sends Cache-Control or Pragma asks for the origin's own answer, and gets it.
 */
static enum afpa_why why_deferred(const char *name, size_t len)
{
	static const struct {
		const char *name;
		enum afpa_why why;
	} deferred[] = {
		{ "authorization", AFPA_WHY_CREDENTIALS }, { "cache-control", AFPA_WHY_FRESH },
		{ "content-encoding", AFPA_WHY_BODY }, { "content-length", AFPA_WHY_BODY },
		{ "cookie", AFPA_WHY_COOKIE }, { "expect", AFPA_WHY_BODY },
		{ "http2-settings", AFPA_WHY_BODY }, { "pragma", AFPA_WHY_FRESH },
		{ "proxy-authorization", AFPA_WHY_CREDENTIALS },
		{ "proxy-connection", AFPA_WHY_CONNECTION }, { "range", AFPA_WHY_CONDITION },
		{ "te", AFPA_WHY_BODY }, { "trailer", AFPA_WHY_BODY },
		{ "transfer-encoding", AFPA_WHY_BODY }, { "upgrade", AFPA_WHY_BODY },
	};
	unsigned int i;

	if (len > 3 && !strncasecmp(name, "if-", 3))
		return AFPA_WHY_CONDITION;
	for (i = 0; i < ARRAY_SIZE(deferred); i++)
		if (is_word(name, len, deferred[i].name))
			return deferred[i].why;
	return AFPA_WHY_NONE;
}

size_t afpa_name_length(const char *at, size_t len)
{
	size_t n = 0;

	while (n < len && is(at[n], TOKEN))
		n++;
	return n;
}

static enum afpa_why take_field(struct afpa_request *req, const char *buf, size_t at, size_t end)
{
	const char *name = buf + at;
	size_t len;

	if (req->fields++ == AFPA_REQUEST_FIELDS)
		return AFPA_WHY_LARGE;
	/* A line that goes on with the last field begins with a blank: that is no name. */
	len = afpa_name_length(name, end - at);
	at += len;
	if (!len || at == end || buf[at] != ':')
		return AFPA_WHY_FIELD;
	at++;
	while (at < end && (buf[at] == ' ' || buf[at] == '\t'))
		at++;
	while (end > at && (buf[end - 1] == ' ' || buf[end - 1] == '\t'))
		end--;
	if (is_word(name, len, "host"))
		return take_host(req, buf, at, end - at) ? AFPA_WHY_NONE : AFPA_WHY_HOST;
	if (is_word(name, len, "connection"))
		return take_connection(req, buf + at, end - at) ? AFPA_WHY_NONE :
								  AFPA_WHY_CONNECTION;
	return why_deferred(name, len);
}

/* The empty line has come: is everything there that must be? */
static bool finish(struct afpa_request *req)
{
	if (!req->named && (req->minor || req->absolute))
		return false;
	req->keep_alive = req->minor ? !req->closes : req->keeps;
	return true;
}

static int refuse(struct afpa_request *req, enum afpa_why why)
{
	req->why = why;
	return -EOPNOTSUPP;
}

int afpa_request_parse(const char *buf, size_t len, struct afpa_request *req)
{
	size_t end = len < AFPA_REQUEST_MAX ? len : AFPA_REQUEST_MAX, at;
	enum afpa_why why;

	if (req->why)
		return -EOPNOTSUPP;
	if (req->scanned > end)
		return refuse(req, AFPA_WHY_LINE);
	/* Other methods, and other protocols, are known by their first bytes. */
	if (!req->line && memcmp(buf, "GET ", end < 4 ? end : 4) &&
	    memcmp(buf, "HEAD ", end < 5 ? end : 5))
		return refuse(req, AFPA_WHY_METHOD);
	for (at = req->scanned; at < end; at++) {
		bool after_cr = at > req->line && buf[at - 1] == '\r';

		/* Most bytes say nothing of a line's end. */
		if (!after_cr)
			while (at < end && !is(buf[at], CONTROL))
				at++;
		if (at == end)
			break;
		if (after_cr != (buf[at] == '\n') || (!after_cr && buf[at] != '\r'))
			return refuse(req, AFPA_WHY_LINE);
		if (!after_cr)
			continue;
		if (!req->line)
			why = take_request_line(req, buf, at - 1);
		else if (at - 1 > req->line)
			why = take_field(req, buf, req->line, at - 1);
		else
			return finish(req) ? (int)at + 1 : refuse(req, AFPA_WHY_HOST);
		if (why)
			return refuse(req, why);
		req->line = at + 1;
	}
	req->scanned = at;
	return len >= AFPA_REQUEST_MAX ? refuse(req, AFPA_WHY_LARGE) : 0;
}
