/* SPDX-License-Identifier: GPL-2.0 */
/* An HTTP request's header, parsed in one go once it is complete. */
#ifndef LARD_REQUEST_H
#define LARD_REQUEST_H

#include "message.h"

/**
 * struct request - all spans point into the buffer that was parsed
 * @length:         of the header with its blank line
 * @minor:          of HTTP/1.x
 * @content_length: with FRAMING_LENGTH
 * @keep_alive:     the client would send another request
 * @upgrade:        asks for another protocol (the value of Upgrade)
 * @error:          with a negative result: what is wrong
 */
struct request {
	size_t length;
	struct span method;
	struct span target;
	struct span host;
	struct span upgrade;
	unsigned int minor;
	enum framing framing;
	uint64_t content_length;
	bool keep_alive;
	bool head;
	const char *error;
	struct fields fields;
};

/*
 * 0: more is needed; 1: complete; negative: refuse it with this HTTP status. @searched, if not
 * NULL, is how far an earlier call for the same request has looked and is updated.
 */
int request_parse(struct request *r, const char *text, size_t len, size_t *searched);

#endif
