/* SPDX-License-Identifier: GPL-2.0 */
/* Responses: the short way for what fits one send(), and pieces in order for everything else. */
#ifndef FLASH_RESPONSE_H
#define FLASH_RESPONSE_H

#include "conn.h"

#define RETRY_AFTER "Retry-After: 1\r\n"	/* with 503 */

/* A request that has been parsed; @more: another one follows in the buffer. */
enum verdict serve(struct conn *c, struct request *req, bool more);

/*
 * A response without a file: an error, a redirection, an answer to OPTIONS. @req may be NULL, when
 * it could not be understood; the connection then ends. @extra: header lines with CRLF, or NULL.
 */
enum verdict respond_status(struct conn *c, const struct request *req, int status,
			    const char *extra, bool more);

/* Generated text as a 200. */
enum verdict respond_text(struct conn *c, const struct request *req, const char *type,
			  const char *body, size_t len, bool more);

/* Connection header that @req calls for, with CRLF, or "". */
const char *connection_header(const struct request *req);

/* Counts and logs a response with @bytes of body. */
void respond_account(struct conn *c, const struct request *req, int status, uint64_t bytes);

#endif
