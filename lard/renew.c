// SPDX-License-Identifier: GPL-2.0
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include "cache.h"
#include "renew.h"
#include "response.h"

/* What a 304 says takes the place of what was said before, but for what describes the body. */
static bool says(const struct response *r, struct span name)
{
	unsigned int i;

	for (i = 0; i < r->fields.count; i++)
		if (r->fields.at[i].name.len == name.len &&
		    !strncasecmp(r->fields.at[i].name.at, name.at, name.len))
			return true;
	return false;
}

static bool is_of_body(struct span name)
{
	return (name.len > 8 && !strncasecmp(name.at, "content-", 8)) || span_is(name, "transfer-encoding") ||
	       span_is(name, "trailer");
}

bool renew_answer(const struct response *r, const struct entry *entry, char *text, size_t size, struct response *whole)
{
	const char *at = entry->fields.at, *end = at + entry->fields.len;
	size_t len = sprintf(text, "HTTP/1.1 200 OK\r\n");
	unsigned int i;

	for (i = 0; i < r->fields.count; i++) {
		const struct field *f = &r->fields.at[i];

		if (is_of_body(f->name) || field_is_hop_by_hop(f, &r->fields))
			continue;
		if (len + f->name.len + f->value.len + 8 > size)
			return false;
		len += sprintf(text + len, "%.*s: %.*s\r\n", (int)f->name.len, f->name.at, (int)f->value.len,
			       f->value.at);
	}
	while (at < end) {
		const char *line = at, *colon = memchr(at, ':', end - at);
		struct span name = { line, colon - line };

		at = (const char *)memchr(line, '\n', end - line) + 1;
		if (says(r, name) && !is_of_body(name))
			continue;
		if (len + (at - line) + 4 > size)
			return false;
		memcpy(text + len, line, at - line);
		len += at - line;
	}
	memcpy(text + len, "\r\n", 2);
	len += 2;
	if (response_parse(whole, text, len, false) != 1)
		return false;
	whole->framing = FRAMING_LENGTH;
	whole->has_length = true;
	whole->content_length = entry->length;
	return true;
}
