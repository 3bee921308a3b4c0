// SPDX-License-Identifier: GPL-2.0
/* Fields of a header: what the answers get of them, how long they live, and under which conditions. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "kmod/afpa/request.h"
#include "target.h"

/* Who says how long it lives: the first counts. */
enum { BY_DOOR, BY_SURROGATE, BY_CACHE };

/* The kernel's own, and those that an answer for everybody cannot have. */
static const char *const never[] = {
	"Connection", "Content-Length", "Content-Type", "Date", "Keep-Alive", "Set-Cookie", "Trailer",
	"Transfer-Encoding", "Upgrade", "Vary",
};

/* Handed on to clients as they are. */
static const char *const passed[] = {
	"Cache-Control", "Content-Disposition", "Content-Encoding", "Content-Language", "ETag", "Expires",
	"Last-Modified",
};

static bool in(const char *const list[], size_t nr, const char *name, size_t len)
{
	size_t i;

	for (i = 0; i < nr; i++)
		if (strlen(list[i]) == len && !strncasecmp(list[i], name, len))
			return true;
	return false;
}

static bool is_plain(const char *value)
{
	for (; *value; value++)
		if ((unsigned char)*value < ' ' || *value == 0x7f)
			return false;
	return true;
}

static const char *add_line(struct fields *f, const char *name, size_t len, const char *value)
{
	size_t have = strlen(f->headers);

	if (!is_plain(value))
		return "a field has a control character";
	if (have + len + strlen(value) + 4 > AFPA_HEADERS_MAX)
		return "the fields for clients have more than 2048 bytes";
	sprintf(f->headers + have, "%.*s: %s\r\n", (int)len, name, value);
	return NULL;
}

/* "Afpa-Header: Name: value" */
static const char *add_named(struct fields *f, const char *value)
{
	size_t len = afpa_name_length(value, strlen(value));

	if (!len || value[len] != ':')
		return "Afpa-Header is not like 'Name: value'";
	if (in(never, sizeof(never) / sizeof(never[0]), value, len))
		return "Afpa-Header names a field that one answer for all clients cannot have, or that has one of its own";
	return add_line(f, value, len, value + len + 1 + strspn(value + len + 1, " \t"));
}

/* @again: the shorter one counts. */
static void set_seconds(struct fields *f, int by, unsigned long long seconds, bool again)
{
	/* 49 days are the kernel's most. */
	uint32_t ms = seconds > UINT32_MAX / 1000 ? UINT32_MAX : seconds * 1000;

	if (!again || ms < f->ms[by])
		f->ms[by] = ms;
	f->given[by] = true;
}

/* One directive of Cache-Control or Surrogate-Control. */
static const char *take_directive(struct fields *f, int by, const char *at, size_t len, bool *shared)
{
	static const char s_maxage[] = "s-maxage", max_age[] = "max-age";
	size_t name = 0, i;
	bool is_shared;

	while (name < len && at[name] != '=' && at[name] != ' ' && at[name] != '\t')
		name++;
	if (in((const char *const[]){ "no-store", "private", "no-cache" }, 3, at, name))
		return by == BY_CACHE ? "Cache-Control says that it must not be cached" :
					"Surrogate-Control says that it must not be cached";
	is_shared = name == strlen(s_maxage) && !strncasecmp(at, s_maxage, name);
	if (!is_shared && (name != strlen(max_age) || strncasecmp(at, max_age, name)))
		return NULL;
	if (name == len || at[name] != '=' || name + 1 == len)
		return "max-age has no number";
	at += name + 1;
	len -= name + 1;
	if (len > 2 && at[0] == '"' && at[len - 1] == '"') {
		at++;
		len -= 2;
	}
	for (i = 0; i < len; i++)
		if (!isdigit((unsigned char)at[i]))
			return "max-age has no number";
	if (is_shared || !*shared)
		set_seconds(f, by, len > 12 ? UINT32_MAX : strtoull(at, NULL, 10), f->given[by] && is_shared == *shared);
	*shared |= is_shared;
	return NULL;
}

/* Up to its comma, which may be within quotes. False: these have no end. */
static bool measure_directive(const char *value, size_t *len)
{
	const char *at = value;

	for (; *at && *at != ','; at++) {
		if (*at != '"')
			continue;
		for (at++; *at && *at != '"'; at++)
			if (*at == '\\' && at[1])
				at++;
		if (!*at)
			return false;
	}
	*len = at - value;
	return true;
}

static const char *take_control(struct fields *f, int by, const char *value)
{
	const char *why = NULL;
	bool shared = false;
	size_t len;

	while (!why && *value) {
		value += strspn(value, " \t,");
		if (!measure_directive(value, &len))
			return "a directive has a quote without an end";
		while (len && (value[len - 1] == ' ' || value[len - 1] == '\t'))
			len--;
		if (len)
			why = take_directive(f, by, value, len, &shared);
		value += len + strspn(value + len, " \t");
	}
	return why;
}

/* Afpa-TTL: 500ms, 30s, 10m, 2h, 1d, or never. */
static const char *take_ttl(struct fields *f, const char *value)
{
	static const struct {
		const char *unit;
		uint64_t ms;
	} units[] = {
		{ "", 1000 }, { "ms", 1 }, { "s", 1000 }, { "m", 60000 }, { "h", 3600000 }, { "d", 86400000 },
	};
	unsigned long long number;
	unsigned int i;
	char *end;

	f->given[BY_DOOR] = true;
	if (!strcmp(value, "never"))
		return NULL;
	errno = 0;
	number = strtoull(value, &end, 10);
	for (i = 0; i < sizeof(units) / sizeof(units[0]); i++)
		if (!strcmp(end, units[i].unit))
			break;
	if (!isdigit((unsigned char)*value) || errno || i == sizeof(units) / sizeof(units[0]) || !number ||
	    number > UINT32_MAX / units[i].ms)
		return "Afpa-TTL is not like 500ms, 30s, 10m, 2h, 1d or never";
	f->ms[BY_DOOR] = number * units[i].ms;
	return NULL;
}

const char *tags_take(char tags[AFPA_TAGS_MAX + 1], const char *value)
{
	size_t have = strlen(tags), len;

	for (;;) {
		value += strspn(value, " \t,");
		len = strcspn(value, " \t,");
		if (!len)
			return NULL;
		for (size_t i = 0; i < len; i++)
			if (value[i] < '!' || value[i] > '~')
				return "a tag is not a word of printable ASCII characters";
		if (have + !!have + len > AFPA_TAGS_MAX)
			return "the tags have more than 1024 bytes";
		have += sprintf(tags + have, "%s%.*s", have ? " " : "", (int)len, value);
		value += len;
	}
}

static const char *take_since(struct fields *f, const char *value)
{
	char *end;

	errno = 0;
	f->since = strtoull(value, &end, 10);
	return isdigit((unsigned char)*value) && !*end && !errno && f->since ? NULL : "Afpa-Since is not a ticket";
}

static const char *take_word(const char *value, const char *yes, const char *no, bool *out, const char *why)
{
	*out = !strcmp(value, yes);
	return *out || !strcmp(value, no) ? NULL : why;
}

static const char *take_site(struct fields *f, const char *value)
{
	f->sited = true;
	return afpa_site_parse(&f->site, value) ? "Afpa-Site is not like 0.0.0.0:80 or [::]:80" : NULL;
}

static const char *take_type(struct fields *f, const char *value)
{
	if (!is_plain(value) || strlen(value) > AFPA_TYPE_MAX)
		return "Content-Type is too long, or has a control character";
	strcpy(f->type, value);
	return NULL;
}

/* @once: a second one is a mistake. */
static const char *take(struct fields *f, const char *name, const char *value)
{
	size_t len = strlen(name);
	const char *why;

	if (!strcasecmp(name, "Content-Type"))
		return take_type(f, value);
	if (!strcasecmp(name, "Afpa-Site"))
		return take_site(f, value);
	if (!strcasecmp(name, "Afpa-Wait"))
		return take_word(value, "local", "all", &f->local, "Afpa-Wait is not all or local");
	if (!strcasecmp(name, "Afpa-Peers"))
		return take_word(value, "none", "all", &f->alone, "Afpa-Peers is not all or none");
	if (!strcasecmp(name, "Afpa-Automatic"))
		return take_word(value, "yes", "no", &f->automatic, "Afpa-Automatic is not yes or no");
	if (!strcasecmp(name, "If-None-Match"))
		return take_word(value, "*", "*", &f->absent, "If-None-Match is taken as * only");
	if (!strcasecmp(name, "If-Match"))
		return take_word(value, "*", "*", &f->present, "If-Match is taken as * only");
	if (!strcasecmp(name, "Afpa-Since"))
		return take_since(f, value);
	if (!strcasecmp(name, "Afpa-TTL"))
		return take_ttl(f, value);
	if (!strcasecmp(name, "Surrogate-Control"))
		return take_control(f, BY_SURROGATE, value);
	why = strcasecmp(name, "Cache-Control") ? NULL : take_control(f, BY_CACHE, value);
	if (!why && in(passed, sizeof(passed) / sizeof(passed[0]), name, len))
		why = add_line(f, name, len, value);
	return why;
}

const char *fields_take(struct fields *fields, const char *name, const char *value)
{
	/* A bit each of @seen: two of one could be read differently. */
	static const char *const once[] = {
		"Authorization", "Host", "Content-Length", "Content-Type", "Afpa-Site", "Afpa-Wait", "Afpa-Peers",
		"Afpa-Automatic", "If-None-Match", "If-Match", "Afpa-Since", "Afpa-TTL", "Surrogate-Control",
		"Cache-Control", "ETag", "Expires", "Last-Modified", "Content-Encoding", "Transfer-Encoding",
	};
	unsigned int i;

	for (i = 0; i < sizeof(once) / sizeof(once[0]); i++) {
		if (strcasecmp(name, once[i]))
			continue;
		if (fields->seen & 1U << i)
			return "a field that may come once came twice";
		fields->seen |= 1U << i;
	}
	if (!strcasecmp(name, "Afpa-Header"))
		return add_named(fields, value);
	if (!strcasecmp(name, "xkey") || !strcasecmp(name, "Surrogate-Key"))
		return tags_take(fields->tags, value);
	if (!strcasecmp(name, "Vary") || !strcasecmp(name, "Set-Cookie"))
		return "one answer for all clients has no Vary and no Set-Cookie";
	if (!strcasecmp(name, "Content-Range"))
		return "a part of an object cannot be put";
	/* A word that is misspelt would be an option that is not heeded. */
	if (!strncasecmp(name, "Afpa-", 5) && !in(once, sizeof(once) / sizeof(once[0]), name, strlen(name)))
		return "there is no such field; see afpad(8)";
	return take(fields, name, value);
}

const char *fields_end(struct fields *f)
{
	unsigned int i;

	if (f->absent && f->present)
		return "If-Match and If-None-Match exclude each other";
	for (i = 0; i < 3; i++)
		if (f->given[i]) {
			f->lived = true;
			f->ttl_ms = f->ms[i];
			return i != BY_DOOR && !f->ttl_ms ? "max-age is 0: it would not be kept" : NULL;
		}
	return NULL;
}
