/* SPDX-License-Identifier: GPL-2.0 */
/* Request bodies, by length or chunked, collected whole before a program sees them. */
#ifndef FLASH_BODY_H
#define FLASH_BODY_H

#include <stddef.h>
#include <stdint.h>

#include "request.h"

/* Decoder of the chunked coding (RFC 9112 7.1), fed with whatever has come. */
struct chunked {
	unsigned int state, line;
	uint64_t left;
};

/*
 * Decodes in place: the payload of [@buf, @buf + *@len) is moved to its front, *@payload says how
 * much that is, *@len how many bytes were used up.
 * Return: 1 at the end of the body, 0 to be fed on, -400 on bad coding.
 */
int chunked_decode(struct chunked *d, char *buf, size_t *len, size_t *payload);

struct body;

/* NULL when memory is short. */
struct body *body_new(const struct request *req, uint64_t max);
void body_free(struct body *b);
/* It is not in chunks, whatever the request says: all that comes is of it. */
void body_take_all(struct body *b);

/* Takes from @buf; *@len becomes what was used. 1: complete, 0: more, or minus a status. */
int body_feed(struct body *b, char *buf, size_t *len);

/* A descriptor positioned at the start of the collected body, and its length. */
int body_fd(struct body *b);
uint64_t body_length(const struct body *b);

#endif
