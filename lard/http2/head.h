/* SPDX-License-Identifier: GPL-2.0 */
/* The header of a stream's request, written down as one of HTTP/1.1, for request_parse() to judge. */
#ifndef LARD_HTTP2_HEAD_H
#define LARD_HTTP2_HEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "lard/message.h"

struct pile {
	char *at;
	size_t len, size;
};

/**
 * struct head - while its fields come
 * @pseudo: by enum head_pseudo; empty: it was not there
 * @host:   as the field says; compared with :authority
 * @cookie: all of them, as HTTP/1.1 has them in one field
 * @fields: the others, a line each
 * @total:  bytes of names and values so far, also of those that are not kept
 * @status: not 0: it is answered so, for @error
 */
enum head_pseudo { HEAD_METHOD, HEAD_SCHEME, HEAD_AUTHORITY, HEAD_PATH, HEAD_PSEUDOS };

struct head {
	struct pile pseudo[HEAD_PSEUDOS];
	struct pile host;
	struct pile cookie;
	struct pile fields;
	size_t limit;
	size_t total;
	bool has_length;
	unsigned int status;
	const char *error;
};

/* One field more. */
void head_field(struct head *h, struct span name, struct span value);
/*
 * The text, to be freed; @ended: no body follows. NULL: h->status is to be answered. @is_head: nothing but
 * a header answers it.
 */
char *head_text(struct head *h, bool ended, size_t *len, bool *is_head);
void head_forget(struct head *h);

#endif
