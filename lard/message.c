// SPDX-License-Identifier: GPL-2.0
/* Header fields. */
#include <ctype.h>
#include <string.h>
#include <strings.h>
#include "message.h"

/* The parser may give one field in several pieces; the buffer holds them side by side. */
void fields_name(struct fields *f, const char *at, size_t len)
{
	if (f->count && !f->in_value) {
		f->at[f->count - 1].name.len += len;
		return;
	}
	f->in_value = false;
	if (f->count == MESSAGE_FIELDS_MAX + MESSAGE_FIELDS_OWN) {
		f->excess = true;
		return;
	}
	f->at[f->count++] = (struct field){ .name = { at, len } };
}

void fields_value(struct fields *f, const char *at, size_t len)
{
	struct field *field = &f->at[f->count - 1];

	if (f->excess)
		return;
	if (!f->in_value) {
		f->in_value = true;
		field->value = (struct span){ at, len };
	} else if (at == field->value.at + field->value.len) {
		field->value.len += len;
	} else {
		f->folded = true;
	}
}

/* RFC 9110's tchar, a bit for each of the first 128 characters. */
static const uint32_t token_bits[4] = { 0, 0x03ff6cfa, 0xc7fffffe, 0x57ffffff };

static bool is_token(struct span s)
{
	size_t i;

	for (i = 0; i < s.len; i++) {
		unsigned char c = s.at[i];

		if (c > 127 || !(token_bits[c / 32] >> c % 32 & 1))
			return false;
	}
	return s.len;
}

bool fields_are_sound(const struct fields *f)
{
	unsigned int i;
	size_t j;

	for (i = 0; i < f->count; i++) {
		struct span value = f->at[i].value;

		if (!is_token(f->at[i].name))
			return false;
		for (j = 0; j < value.len; j++)
			if ((unsigned char)value.at[j] < ' ' && value.at[j] != '\t')
				return false;
	}
	return true;
}

bool span_is(struct span s, const char *word)
{
	return s.len == strlen(word) && !strncasecmp(s.at, word, s.len);
}

bool span_passes_for(struct span s, const char *word)
{
	size_t i;

	if (s.len != strlen(word))
		return false;
	for (i = 0; i < s.len; i++)
		if (word[i] == '-' ? isalnum((unsigned char)s.at[i]) :
				     tolower((unsigned char)s.at[i]) != word[i])
			return false;
	return true;
}

struct span span_trim(struct span s)
{
	while (s.len && (*s.at == ' ' || *s.at == '\t')) {
		s.at++;
		s.len--;
	}
	while (s.len && (s.at[s.len - 1] == ' ' || s.at[s.len - 1] == '\t'))
		s.len--;
	return s;
}

bool span_lists(struct span list, const char *word, size_t len)
{
	const char *at = list.at, *end = list.at + list.len;

	while (at < end) {
		const char *comma = memchr(at, ',', end - at);
		struct span item = { at, (comma ? comma : end) - at };

		item = span_trim(item);
		if (item.len == len && !strncasecmp(item.at, word, len))
			return true;
		at = comma ? comma + 1 : end;
	}
	return false;
}

bool field_is_hop_by_hop(const struct field *field, const struct fields *all)
{
	static const char *const names[] = {
		"connection", "keep-alive", "proxy-connection", "te", "upgrade",
	};
	unsigned int i;

	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (span_is(field->name, names[i]))
			return true;
	/* What frames the message cannot be made to vanish by naming it in Connection. */
	if (span_is(field->name, "content-length") || span_is(field->name, "transfer-encoding") ||
	    span_is(field->name, "host"))
		return false;
	for (i = 0; i < all->count; i++)
		if (span_is(all->at[i].name, "connection") &&
		    span_lists(all->at[i].value, field->name.at, field->name.len))
			return true;
	return false;
}

size_t message_header_length(const char *text, size_t len, size_t from)
{
	const char *at = text, *end = text + len, *lf;

	/* There may be less than there was. */
	if (from > len)
		from = len;
	/* Empty lines before a request line are ignored. */
	while (at < end && (*at == '\r' || *at == '\n'))
		at++;
	if (at < text + from)
		at = text + from;
	while ((lf = memchr(at, '\n', end - at))) {
		at = lf + 1;
		if (at < end && *at == '\n')
			return at + 1 - text;
		if (at + 1 < end && at[0] == '\r' && at[1] == '\n')
			return at + 2 - text;
	}
	return 0;
}
