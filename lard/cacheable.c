// SPDX-License-Identifier: GPL-2.0
/* HTTP's rules for a shared cache. */
#include <string.h>
#include <strings.h>
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

/* The first item of a comma-separated list, taken off it; false: there is none. */
static bool next_item(struct span *list, struct span *item)
{
	const char *end = list->at + list->len, *at = list->at;
	bool quoted = false;

	if (!list->len)
		return false;
	for (; at < end && (quoted || *at != ','); at++)
		quoted ^= *at == '"';
	*item = span_trim((struct span){ list->at, at - list->at });
	list->at = at < end ? at + 1 : end;
	list->len = end - list->at;
	return true;
}

/* A number of seconds; what is none counts as 0, what is too large as the largest. */
static uint64_t seconds(struct span s)
{
	uint64_t n = 0;
	size_t i;

	if (s.len >= 2 && *s.at == '"' && s.at[s.len - 1] == '"')
		s = (struct span){ s.at + 1, s.len - 2 };
	if (!s.len)
		return 0;
	for (i = 0; i < s.len; i++) {
		if (s.at[i] < '0' || s.at[i] > '9')
			return 0;
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
 */
struct control {
	bool no_store;
	bool forbids;
	bool limits;
	bool is_public;
	bool has_shared, has_age;
	uint64_t shared, age;
};

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
	} else if (span_is(name, "s-maxage")) {
		/* Given twice: the shorter. */
		if (!c->has_shared || seconds(value) < c->shared)
			c->shared = seconds(value);
		c->has_shared = true;
	} else if (span_is(name, "max-age")) {
		if (!c->has_age || seconds(value) < c->age)
			c->age = seconds(value);
		c->has_age = c->limits = true;
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

enum cache_use cacheable_request(const struct request *r, bool *personal)
{
	static const char *const particular[] = {
		"authorization", "range", "if-range", "if-match", "if-unmodified-since",
	};
	struct control c;
	unsigned int i;

	if (!span_is(r->method, "GET") && !r->head)
		return span_is(r->method, "OPTIONS") || span_is(r->method, "TRACE") ? CACHE_PASS :
		       CACHE_CLEAR;
	if (r->framing != FRAMING_NONE || r->websocket)
		return CACHE_PASS;
	for (i = 0; i < sizeof(particular) / sizeof(particular[0]); i++)
		if (has(&r->fields, particular[i]))
			return CACHE_PASS;
	*personal = has(&r->fields, "cookie");
	c = read_control(&r->fields);
	if (c.no_store)
		return CACHE_PASS;
	if (c.forbids || c.limits || span_lists(cacheable_field(&r->fields, "pragma"), "no-cache", 8))
		return r->head ? CACHE_PASS : CACHE_FILL;
	return r->head ? CACHE_HEAD : CACHE_SERVE;
}

uint64_t cacheable_answer(const struct response *r, bool personal, uint64_t *age)
{
	struct control c = read_control(&r->fields);
	uint64_t fresh = c.has_shared ? c.shared : c.age;

	*age = seconds(cacheable_field(&r->fields, "age"));
	if (r->status != 200 || r->framing != FRAMING_LENGTH || c.forbids || *age >= fresh ||
	    has(&r->fields, "set-cookie") || has(&r->fields, "vary") ||
	    has(&r->fields, "content-range") || (personal && !c.is_public && !c.has_shared))
		return 0;
	return fresh;
}

/* Without the mark of a weak one. */
static struct span opaque(struct span etag)
{
	if (etag.len > 2 && !strncmp(etag.at, "W/", 2))
		return (struct span){ etag.at + 2, etag.len - 2 };
	return etag;
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
