/* SPDX-License-Identifier: GPL-2.0 */
/* What requests and responses have in common: header fields and how a body is framed. */
#ifndef LARD_MESSAGE_H
#define LARD_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MESSAGE_FIELDS_MAX 100
#define MESSAGE_FIELDS_OWN 4	/* more in an answer that we have written: length, Age, HSTS, Connection */

struct span {
	const char *at;
	size_t len;
};

struct field {
	struct span name;
	struct span value;
};

enum framing {
	FRAMING_NONE,		/* no body */
	FRAMING_LENGTH,
	FRAMING_CHUNKED,
	FRAMING_EOF,		/* until the peer closes; responses only */
};

/**
 * struct fields - header fields of a message; spans point into the caller's buffer
 * @folded: a value went on on the next line (obsolete; refused)
 * @excess: more than there is room for
 */
struct fields {
	struct field at[MESSAGE_FIELDS_MAX + MESSAGE_FIELDS_OWN];
	unsigned int count;
	bool in_value;
	bool folded;
	bool excess;
};

/* More than somebody else's message may have. */
static inline bool fields_are_many(const struct fields *f)
{
	return f->excess || f->count > MESSAGE_FIELDS_MAX;
}

void fields_name(struct fields *f, const char *at, size_t len);
void fields_value(struct fields *f, const char *at, size_t len);

/* Names are tokens, values without control characters (lenient parsers let both pass). */
bool fields_are_sound(const struct fields *f);

bool span_is(struct span s, const char *word);
/*
 * Could a program that is told of fields by variables take it for @word? '-' becomes '_' there (CGI,
 * WSGI), and some servers make '_' of whatever is no letter or digit (lighttpd, Apache before 2.4).
 */
bool span_passes_for(struct span s, const char *word);
/* Is @word one of the comma-separated words of @list? Case is ignored. */
bool span_lists(struct span list, const char *word, size_t len);
struct span span_trim(struct span s);

/* Does the field concern only one hop (Connection, what it lists, Keep-Alive, ...)? */
bool field_is_hop_by_hop(const struct field *field, const struct fields *all);

/*
 * Length of the header with its blank line, 0 while it is not complete. @from: where the last
 * search of a shorter @len left off, so that a slow sender does not cost a search from the start.
 */
size_t message_header_length(const char *text, size_t len, size_t from);

#define CHUNK_HEAD	10	/* the longest size with its line end */
#define CHUNK_TAIL	7	/* a chunk's end and the last chunk */

/**
 * struct chunks - follows a chunked body
 * @got:      data that the last call found
 * @done:     the body has ended
 * @data, @overhead: bytes of data and of framing so far
 * @into:     while decoding: where data goes
 */
struct chunks {
	_Alignas(8) unsigned char parser[128];
	char *into;
	size_t got;
	uint64_t data, overhead;
	bool done;
};

void chunks_init(struct chunks *c);
/*
 * Bytes of @data that belong to the body, less than @len only at its end; -1: malformed. The
 * c->got bytes of data among them are moved to the front of @data.
 */
long chunks_decode(struct chunks *c, char *data, size_t len);
/*
 * Frames what was decoded last, which stands at @at + CHUNK_HEAD, with room for CHUNK_TAIL behind
 * it. Returns the length from @at on; 0: there was no data, and the body goes on.
 */
size_t chunks_encode(const struct chunks *c, char *at);

#endif
