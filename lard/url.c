// SPDX-License-Identifier: GPL-2.0
/* Canonical URLs. */
#include <errno.h>
#include <string.h>
#include <strings.h>
#include "mix.h"
#include "url.h"

/* Where output goes; @full says that something did not fit. */
struct sink {
	char *out;
	size_t size;
	size_t len;
	int full;
};

static void put(struct sink *s, char c)
{
	if (s->len + 1 < s->size)
		s->out[s->len++] = c;
	else
		s->full = 1;
}

static void put_encoded(struct sink *s, unsigned char c)
{
	static const char hex[] = "0123456789ABCDEF";

	put(s, '%');
	put(s, hex[c >> 4]);
	put(s, hex[c & 15]);
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return -1;
}

/* The byte of the %-sequence at @p, or -1. */
static int decode(const char *p, const char *end)
{
	int high, low;

	if (end - p < 3 || *p != '%')
		return -1;
	high = hex_digit(p[1]);
	low = hex_digit(p[2]);
	return high < 0 || low < 0 ? -1 : high << 4 | low;
}

static int unreserved(unsigned char c)
{
	return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
	       c == '-' || c == '.' || c == '_' || c == '~';
}

static void put_host(struct sink *s, const char *host, size_t len)
{
	size_t i;

	if (len > 3 && !memcmp(host + len - 3, ":80", 3))
		len -= 3;
	else if (len && host[len - 1] == ':')
		len--;
	if (len > 1 && host[len - 1] == '.')
		len--;
	for (i = 0; i < len; i++) {
		char c = host[i];

		put(s, c >= 'A' && c <= 'Z' ? c | 0x20 : c);
	}
}

/* The segment that just ended began at @start: resolve it if it is "." or "..". */
static void end_segment(struct sink *s, size_t root, size_t start)
{
	size_t len = s->len - start;

	if (len == 1 && s->out[start] == '.') {
		s->len = start;
	} else if (len == 2 && s->out[start] == '.' && s->out[start + 1] == '.') {
		s->len = start;
		/* Back over the slash before it and the segment before that, not over the root. */
		if (s->len > root + 1) {
			s->len--;
			while (s->out[s->len - 1] != '/')
				s->len--;
		}
	}
}

/* @out[root] is the path's first slash. */
static void put_path(struct sink *s, const char *p, const char *end)
{
	size_t root = s->len, start;

	put(s, '/');
	start = s->len;
	while (p < end) {
		int decoded = decode(p, end);
		unsigned char c = decoded < 0 ? *p : decoded;

		if (c == '/') {
			end_segment(s, root, start);
			/* After a resolved segment, or "//", the slash is already there. */
			if (s->len && s->out[s->len - 1] != '/')
				put(s, '/');
			start = s->len;
		} else if (c <= ' ' || c > '~' || c == '%' || c == '?' || c == '#') {
			put_encoded(s, c);
		} else {
			put(s, c);
		}
		if (s->full)
			return;
		p += decoded < 0 ? 1 : 3;
	}
	end_segment(s, root, start);
}

static void put_query(struct sink *s, const char *p, const char *end)
{
	put(s, '?');
	while (p < end) {
		int decoded = decode(p, end);
		unsigned char c = decoded < 0 ? *p : decoded;

		if (decoded < 0 ? c > ' ' && c <= '~' && c != '%' : unreserved(c))
			put(s, c);
		else
			put_encoded(s, c);
		p += decoded < 0 ? 1 : 3;
	}
}

ssize_t url_canonical(const char *host, size_t host_len, const char *target, size_t target_len,
		      char *out, size_t size)
{
	struct sink s = { .out = out, .size = size };
	const char *end = target + target_len, *query, *fragment;

	if (!size)
		return -ENOSPC;
	fragment = memchr(target, '#', end - target);
	if (fragment)
		end = fragment;
	if (end - target > 7 && !strncasecmp(target, "http://", 7)) {
		host = target + 7;
		for (target = host; target < end && *target != '/' && *target != '?'; target++)
			;
		host_len = target - host;
	}

	put_host(&s, host, host_len);
	if (end - target == 1 && *target == '*') {
		put(&s, '*');
	} else {
		query = memchr(target, '?', end - target);
		put_path(&s, target, query ? query : end);
		if (query)
			put_query(&s, query + 1, end);
	}
	if (s.full)
		return -ENOSPC;
	out[s.len] = '\0';
	return s.len;
}

uint64_t url_key(const char *canonical, size_t len)
{
	return hash_bytes(canonical, len);
}
