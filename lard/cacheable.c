// SPDX-License-Identifier: GPL-2.0
/* HTTP's rules for a shared cache. */
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include "cacheable.h"
#include "request.h"
#include "response.h"

#define FRESH_MAX	31536000	/* a year, as RFC 9111 advises */

struct span cacheable_field(const struct fields *fields, const char *name)
{
	unsigned int i;

	for (i = 0; i < fields->count; i++)
		if (span_is(fields->at[i].name, name))
			return span_trim(fields->at[i].value);
	return (struct span){ NULL, 0 };
}

static bool has(const struct fields *fields, const char *name)
{
	return cacheable_field(fields, name).at;
}

/* Where the string that begins at @at ends, or @at: it has no end, and the quote means nothing. */
static const char *skip_quoted(const char *at, const char *end)
{
	const char *c;

	for (c = at + 1; c < end && *c != '"'; c++)
		if (*c == '\\')
			c++;
	return c < end ? c : at;
}

/* The first item of a comma-separated list, taken off it; false: there is none. */
static bool next_item(struct span *list, struct span *item)
{
	const char *end = list->at + list->len, *at = list->at;

	if (!list->len)
		return false;
	for (; at < end && *at != ','; at++)
		if (*at == '"')
			at = skip_quoted(at, end);
	*item = span_trim((struct span){ list->at, at - list->at });
	list->at = at < end ? at + 1 : end;
	list->len = end - list->at;
	return true;
}

static bool is_number(struct span s)
{
	size_t i;

	for (i = 0; i < s.len; i++)
		if (s.at[i] < '0' || s.at[i] > '9')
			return false;
	return s.len;
}

/* A number of seconds; what is none counts as 0, what is too large as the largest. */
static uint64_t seconds(struct span s)
{
	uint64_t n = 0;
	size_t i;

	if (s.len >= 2 && *s.at == '"' && s.at[s.len - 1] == '"')
		s = (struct span){ s.at + 1, s.len - 2 };
	if (!is_number(s))
		return 0;
	for (i = 0; i < s.len; i++) {
		n = n * 10 + s.at[i] - '0';
		if (n > FRESH_MAX)
			n = FRESH_MAX;
	}
	return n;
}

/**
 * struct control - all Cache-Control fields of a message
 * @forbids: no-store, no-cache or private
 * @limits:  one that asks for a certain age
 * @strict:  nothing stale: must-revalidate or proxy-revalidate
 */
struct control {
	bool no_store;
	bool forbids;
	bool limits;
	bool is_public;
	bool strict;
	bool has_shared, has_age, has_stale, has_if_error;
	uint64_t shared, age, stale, if_error;
};

/* Given twice: the shorter. */
static void take_seconds(struct span value, bool *has, uint64_t *out)
{
	uint64_t n = seconds(value);

	if (!*has || n < *out)
		*out = n;
	*has = true;
}

static void control_item(struct control *c, struct span item)
{
	const char *equals = memchr(item.at, '=', item.len);
	struct span name = { item.at, equals ? (size_t)(equals - item.at) : item.len };
	struct span value = { NULL, 0 };

	if (equals)
		value = (struct span){ equals + 1, item.len - name.len - 1 };
	if (span_is(name, "no-store")) {
		c->no_store = c->forbids = true;
	} else if (span_is(name, "no-cache") || span_is(name, "private")) {
		c->forbids = true;
	} else if (span_is(name, "public")) {
		c->is_public = true;
	} else if (span_is(name, "must-revalidate") || span_is(name, "proxy-revalidate")) {
		c->strict = true;
	} else if (span_is(name, "s-maxage")) {
		take_seconds(value, &c->has_shared, &c->shared);
	} else if (span_is(name, "max-age")) {
		take_seconds(value, &c->has_age, &c->age);
		c->limits = true;
	} else if (span_is(name, "stale-while-revalidate")) {
		take_seconds(value, &c->has_stale, &c->stale);
	} else if (span_is(name, "stale-if-error")) {
		take_seconds(value, &c->has_if_error, &c->if_error);
	} else if (span_is(name, "min-fresh")) {
		c->limits = true;
	}
}

static struct control read_control(const struct fields *fields)
{
	struct control c = { 0 };
	unsigned int i;

	for (i = 0; i < fields->count; i++) {
		struct span list = fields->at[i].value, item;

		if (span_is(fields->at[i].name, "cache-control"))
			while (next_item(&list, &item))
				control_item(&c, item);
	}
	return c;
}

/*
 * Edge Architecture: what is said to us overrules what is said to all caches. "max-age=N+M": M more when it is stale.
 * False: nothing is said of keeping.
 */
static bool read_surrogate(const struct fields *fields, struct control *c)
{
	struct control own = { 0 };
	unsigned int i;

	for (i = 0; i < fields->count; i++) {
		struct span list = fields->at[i].value, item;

		if (!span_is(fields->at[i].name, "surrogate-control"))
			continue;
		while (next_item(&list, &item)) {
			const char *plus = memchr(item.at, '+', item.len);
			size_t len = plus ? (size_t)(plus - item.at) : item.len;

			control_item(&own, (struct span){ item.at, len });
			if (plus && own.has_age)
				take_seconds((struct span){ plus + 1, item.len - len - 1 }, &own.has_stale,
					     &own.stale);
		}
	}
	if (!own.has_age && !own.no_store)
		return false;
	own.shared = own.age;
	own.has_shared = own.has_age;
	own.if_error = own.stale;
	own.has_if_error = own.has_stale;
	*c = own;
	return true;
}

/* Seconds since 1970, as RFC 9110 has dates; -1: it is none. */
static int64_t date(struct span s)
{
	char text[40];
	struct tm tm = { 0 };
	const char *end;

	if (s.len >= sizeof(text))
		return -1;
	memcpy(text, s.at, s.len);
	text[s.len] = '\0';
	end = strptime(text, "%a, %d %b %Y %H:%M:%S GMT", &tm);
	return end && !*end ? (int64_t)timegm(&tm) : -1;
}

/* What is no date has expired. False: there is none. */
static bool read_expires(const struct fields *fields, int64_t now, uint64_t *fresh)
{
	struct span text = cacheable_field(fields, "expires"), made = cacheable_field(fields, "date");
	int64_t until, from = now;

	if (!text.at)
		return false;
	until = date(text);
	if (made.at && date(made) >= 0)
		from = date(made);
	*fresh = until > from ? until - from : 0;
	if (*fresh > FRESH_MAX)
		*fresh = FRESH_MAX;
	return true;
}

/* Vary: Accept-Encoding, and nothing else. False: it depends on more. */
static bool read_vary(const struct fields *fields, bool *by_encoding)
{
	unsigned int i;

	*by_encoding = false;
	for (i = 0; i < fields->count; i++) {
		struct span list = fields->at[i].value, item;

		if (!span_is(fields->at[i].name, "vary"))
			continue;
		while (next_item(&list, &item)) {
			if (!item.len)
				continue;
			if (!span_is(item, "accept-encoding"))
				return false;
			*by_encoding = true;
		}
	}
	return true;
}

static const char *const codings[] = { "gzip", "br", "zstd", "deflate" };

static unsigned int coding_bit(struct span name)
{
	unsigned int i;

	for (i = 0; i < sizeof(codings) / sizeof(codings[0]); i++)
		if (span_is(name, codings[i]))
			return 1U << i;
	return span_is(name, "x-gzip");
}

static bool weighs_nothing(struct span weight)
{
	size_t i;

	if (weight.len < 3 || strncasecmp(weight.at, "q=0", 3))
		return false;
	for (i = 3; i < weight.len; i++)
		if (weight.at[i] != '0' && weight.at[i] != '.')
			return false;
	return true;
}

unsigned int cacheable_encodings(const struct request *r)
{
	unsigned int all = 0, i;

	for (i = 0; i < r->fields.count; i++) {
		struct span list = r->fields.at[i].value, item;

		if (!span_is(r->fields.at[i].name, "accept-encoding"))
			continue;
		while (next_item(&list, &item)) {
			const char *mark = item.len ? memchr(item.at, ';', item.len) : NULL;
			struct span name = item, weight = { NULL, 0 };

			if (mark) {
				name = span_trim((struct span){ item.at, mark - item.at });
				weight = span_trim((struct span){ mark + 1, item.at + item.len - mark - 1 });
			}
			if (span_is(name, "*") || (span_is(name, "identity") && weighs_nothing(weight)))
				return ENCODING_UNKNOWN;
			if (!weighs_nothing(weight))
				all |= coding_bit(name);
		}
	}
	return all;
}

void cacheable_accept(unsigned int encodings, char *line, size_t size)
{
	size_t len = 0;
	unsigned int i;

	*line = '\0';
	for (i = 0; i < sizeof(codings) / sizeof(codings[0]); i++)
		if (encodings != ENCODING_UNKNOWN && encodings & 1U << i)
			len += snprintf(line + len, size - len, "%s%s", len ? ", " : "Accept-Encoding: ", codings[i]);
	if (len)
		snprintf(line + len, size - len, "\r\n");
}

/* CGI, WSGI and the like make the same variable of X_Forwarded_Host. */
static bool passes_for_one(const struct fields *fields, const char *name)
{
	unsigned int i;

	for (i = 0; i < fields->count; i++)
		if (span_passes_for(fields->at[i].name, name))
			return true;
	return false;
}

enum cache_use cacheable_request(const struct request *r, bool *personal)
{
	static const char *const particular[] = {
		"authorization", "range", "if-range", "if-match", "if-unmodified-since",
		/* Back-ends may make another page of these, and the key does not have them. */
		"forwarded", "x-forwarded-host", "x-forwarded-prefix", "x-forwarded-port", "x-host",
		"x-original-url", "x-rewrite-url", "x-http-method-override", "x-method-override",
	};
	struct control c;
	unsigned int i;

	if (!span_is(r->method, "GET") && !r->head)
		return span_is(r->method, "OPTIONS") || span_is(r->method, "TRACE") ? CACHE_PASS :
		       CACHE_CLEAR;
	if (r->framing != FRAMING_NONE || r->websocket)
		return CACHE_PASS;
	for (i = 0; i < sizeof(particular) / sizeof(particular[0]); i++)
		if (passes_for_one(&r->fields, particular[i]))
			return CACHE_PASS;
	*personal = has(&r->fields, "cookie");
	c = read_control(&r->fields);
	if (c.no_store)
		return CACHE_PASS;
	if (c.forbids || c.limits || span_lists(cacheable_field(&r->fields, "pragma"), "no-cache", 8))
		return r->head ? CACHE_PASS : CACHE_FILL;
	return r->head ? CACHE_HEAD : CACHE_SERVE;
}

/*
 * Of several the largest, also in one field, as who joins fields writes them. False: one is no number, and the answer
 * may be as old as can be (RFC 9111, 5.1).
 */
static bool read_age(const struct fields *fields, uint64_t *age)
{
	unsigned int i;

	*age = 0;
	for (i = 0; i < fields->count; i++) {
		struct span list = fields->at[i].value, item;

		if (!span_is(fields->at[i].name, "age"))
			continue;
		if (!list.len)
			return false;
		while (next_item(&list, &item)) {
			uint64_t n;

			if (!is_number(item))
				return false;
			n = seconds(item);
			if (n > *age)
				*age = n;
		}
	}
	return true;
}

const char *cacheable_not_name(enum cache_not why)
{
	static const char *const names[NOT_KEPT_END] = {
		"kept", "status", "no-body", "set-cookie", "range", "vary", "encoding", "age", "cache-control",
		"pragma", "cookies", "short", "large", "room",
	};

	return names[why];
}

const char *cacheable_not_text(enum cache_not why)
{
	static const char *const texts[NOT_KEPT_END] = {
		[NOT_KEPT_NONE] = "it is kept",
		[NOT_KEPT_STATUS] = "its status is not 200",
		[NOT_KEPT_NO_BODY] = "it has no body",
		[NOT_KEPT_SET_COOKIE] = "it has Set-Cookie",
		[NOT_KEPT_RANGE] = "it is a part of something",
		[NOT_KEPT_VARY] = "its Vary names more than Accept-Encoding",
		[NOT_KEPT_ENCODING] = "it depends on encodings that are not told apart",
		[NOT_KEPT_AGE] = "its Age is no number",
		[NOT_KEPT_CONTROL] = "its Cache-Control or Surrogate-Control forbids it",
		[NOT_KEPT_PRAGMA] = "it has Pragma, and no max-age",
		[NOT_KEPT_COOKIES] = "its request had cookies or a certificate, and it does not say that it is for all",
		[NOT_KEPT_SHORT] = "nothing says that it is fresh (cache-class), or it is so no more",
		[NOT_KEPT_LARGE] = "it is larger than cache-object-max, or its header is too large",
		[NOT_KEPT_ROOM] = "there was no room, or nobody could tell whether it was cut",
	};

	return texts[why];
}

/* Whatever is said of its freshness. */
static enum cache_not may_be_stored(const struct response *r, unsigned int encodings, struct keeping *k)
{
	struct span coding = cacheable_field(&r->fields, "content-encoding");

	if (r->status != 200)
		return NOT_KEPT_STATUS;
	if (r->framing == FRAMING_NONE)
		return NOT_KEPT_NO_BODY;
	if (has(&r->fields, "set-cookie") || has(&r->fields, "set-cookie2"))
		return NOT_KEPT_SET_COOKIE;
	if (has(&r->fields, "content-range"))
		return NOT_KEPT_RANGE;
	if (!read_vary(&r->fields, &k->by_encoding))
		return NOT_KEPT_VARY;
	/* What we do not know we would not tell apart. */
	if (k->by_encoding && (encodings == ENCODING_UNKNOWN ||
			       (coding.at && !span_is(coding, "identity") && !(coding_bit(coding) & encodings))))
		return NOT_KEPT_ENCODING;
	return read_age(&r->fields, &k->age) ? NOT_KEPT_NONE : NOT_KEPT_AGE;
}

bool cacheable_answer(const struct response *r, const struct cache_policy *policy,
		      enum cache_class class, bool personal, unsigned int encodings, int64_t now,
		      struct keeping *k)
{
	struct control c = read_control(&r->fields);
	bool said = true;

	*k = (struct keeping){ 0 };
	k->why = may_be_stored(r, encodings, k);
	if (k->why)
		return false;
	if (!read_surrogate(&r->fields, &c) && has(&r->fields, "pragma"))
		said = c.has_shared || c.has_age;
	if (c.forbids)
		k->why = NOT_KEPT_CONTROL;
	else if (!said)
		k->why = NOT_KEPT_PRAGMA;
	else if (personal && !c.is_public && !c.has_shared)
		k->why = NOT_KEPT_COOKIES;
	if (k->why)
		return false;
	if (c.has_shared)
		k->fresh = c.shared;
	else if (c.has_age)
		k->fresh = c.age;
	else if (!read_expires(&r->fields, now, &k->fresh) && policy->classes[class].on)
		k->fresh = policy->classes[class].ttl_us / 1000000;
	if (k->age >= k->fresh) {
		k->why = NOT_KEPT_SHORT;
		return false;
	}
	if (c.strict)
		return true;
	/* s-maxage forbids what is not said of the stale (RFC 9111, 5.2.2.10). */
	k->stale = c.has_stale ? c.stale : c.has_shared ? 0 : policy->grace_us / 1000000;
	k->if_error = c.has_if_error ? c.if_error : c.has_shared ? 0 : policy->if_error_us / 1000000;
	return true;
}

/* Without the mark of a weak one. */
static struct span opaque(struct span etag)
{
	if (etag.len > 2 && !strncmp(etag.at, "W/", 2))
		return (struct span){ etag.at + 2, etag.len - 2 };
	return etag;
}

bool cacheable_same(struct span etag, struct span other)
{
	etag = opaque(etag);
	other = opaque(other);
	return etag.len == other.len && !memcmp(etag.at, other.at, etag.len);
}

bool cacheable_matches(const struct request *r, struct span etag, struct span modified)
{
	struct span list = cacheable_field(&r->fields, "if-none-match"), since, item;

	if (list.at) {
		etag = opaque(etag);
		while (next_item(&list, &item)) {
			item = opaque(item);
			if (span_is(item, "*") ||
			    (etag.len && item.len == etag.len && !memcmp(item.at, etag.at, etag.len)))
				return true;
		}
		return false;
	}
	/* Only the very date that was given out: no need to read dates. */
	since = cacheable_field(&r->fields, "if-modified-since");
	return modified.len && since.len == modified.len &&
	       !memcmp(since.at, modified.at, modified.len);
}

bool cacheable_has_tag(struct span lines, const char *tag)
{
	const char *at = lines.at, *end = at + lines.len;

	while (at < end) {
		const char *line = at, *colon = memchr(at, ':', end - at), *word;

		at = (const char *)memchr(line, '\n', end - line) + 1;
		if (!span_is((struct span){ line, colon - line }, "xkey"))
			continue;
		for (word = colon + 1; word < at; word++) {
			size_t len = 0;

			while (word + len < at && !strchr(XKEY_BREAKS, word[len]))
				len++;
			if (len && len == strlen(tag) && !memcmp(word, tag, len))
				return true;
			word += len;
		}
	}
	return false;
}
