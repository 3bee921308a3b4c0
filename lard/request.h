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
 * @has_length:     it says how long its body is, be it 0
 * @keep_alive:     the client would send another request
 * @websocket:      asks to go on as a WebSocket; other upgrades are not passed on
 * @error:          with a negative result: what is wrong
 */
struct request {
	size_t length;
	struct span method;
	struct span target;
	struct span host;
	unsigned int minor;
	enum framing framing;
	uint64_t content_length;
	bool has_length;
	bool keep_alive;
	bool head;
	bool websocket;
	const char *error;
	struct fields fields;
};

#define SEARCH_AGAIN	3	/* bytes that a search for the end of a header begins before new ones */

/*
 * 0: more is needed; 1: complete; negative: refuse it with this HTTP status. @searched, if not
 * NULL, is how far an earlier call for the same request has looked and is updated.
 */
int request_parse(struct request *r, const char *text, size_t len, size_t *searched);

/* The target as a server takes it; of an absolute one, its host goes into @host. */
struct span request_origin_form(const struct request *r, struct span *host);

#endif
