/* SPDX-License-Identifier: GPL-2.0 */
/* An HTTP response's header, for the proxy. */
#ifndef LARD_RESPONSE_H
#define LARD_RESPONSE_H

#include "message.h"

struct response {
	size_t length;
	unsigned int status;
	unsigned int minor;
	struct span status_line;	/* without line end */
	enum framing framing;
	uint64_t content_length;
	bool has_length;
	bool websocket;			/* of 101: what it switches to */
	bool keep_alive;
	const char *error;
	struct fields fields;
};

/* As request_parse(); @head: it answers a HEAD request. -1: malformed. */
int response_parse(struct response *r, const char *text, size_t len, bool head);
/* Likewise, as we have written it: with some fields more than it came with. */
int response_read(struct response *r, const char *text, size_t len, bool head);

#endif
