/* SPDX-License-Identifier: GPL-2.0 */
/* The header of a message as the library takes it apart; request.c and response.c judge it. */
#ifndef LARD_HEADER_H
#define LARD_HEADER_H

#include "message.h"

/**
 * struct header - what the library found
 * @fields:   where header fields go
 * @target:   of a request
 * @status:   of a response
 * @complete: the header's end was reached
 * @error:    a sentence, or NULL
 */
struct header {
	struct fields *fields;
	struct span target;
	uint64_t content_length;
	unsigned int major, minor, status;
	bool complete;
	const char *error;
};

void header_parse(struct header *h, struct fields *fields, const char *text, size_t len,
		  bool response);

/* What the fields say about the body and the connection, in requests and responses alike. */
struct header_framing {
	unsigned int lengths, codings;
	bool unknown_coding;
	bool close;
};

/* True when @field was one of these; *@keep_alive follows a Connection field. */
bool header_framing_field(struct header_framing *h, const struct field *field, bool *keep_alive);

#endif
