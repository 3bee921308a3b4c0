/* SPDX-License-Identifier: GPL-2.0 */
/* HTTP/1.x request heads: what the server needs of one, as slices of the buffer it came in. */
#ifndef FLASH_REQUEST_H
#define FLASH_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum method {
	METHOD_GET,
	METHOD_HEAD,
	METHOD_OPTIONS,
	METHOD_POST,
	METHOD_PUT,
	METHOD_DELETE,
	METHOD_PATCH,
	METHOD_OTHER,		/* a valid token that is none of the above */
};

/* Bits of struct request.flags. Those in REQ_SLOW keep a request off the shortest path. */
#define REQ_CLOSE		0x0001	/* the connection ends after the response */
#define REQ_HTTP10		0x0002
#define REQ_KEEPALIVE10		0x0004	/* HTTP/1.0 client that asked for keep-alive */
#define REQ_CONDITIONAL		0x0008	/* an If-* header other than If-Range */
#define REQ_RANGE		0x0010
#define REQ_BODY		0x0020	/* Content-Length above 0, or chunked */
#define REQ_CHUNKED		0x0040
#define REQ_EXPECT		0x0080	/* Expect: 100-continue */
#define REQ_GZIP		0x0100	/* Accept-Encoding admits gzip */
#define REQ_BROTLI		0x0200	/* Accept-Encoding admits br */
#define REQ_HEAD		0x0400
#define REQ_NOT_GET		0x0800	/* neither GET nor HEAD */
#define REQ_SLOW (REQ_CLOSE | REQ_HTTP10 | REQ_CONDITIONAL | REQ_RANGE | REQ_BODY | \
		  REQ_EXPECT | REQ_NOT_GET)

struct slice {
	const char *p;
	uint32_t len;
};

struct request {
	struct slice line;		/* the whole request line, for the log */
	struct slice method_name;
	struct slice path;		/* as sent, up to '?' */
	struct slice query;		/* after '?' */
	struct slice host;		/* without port, not lower-cased; may be empty */
	struct slice host_port;		/* as sent */
	struct slice range, if_range;
	struct slice if_match, if_none_match;
	struct slice if_modified_since, if_unmodified_since;
	struct slice referer, user_agent;
	struct slice headers;		/* all header lines, for request_header_next() */
	uint64_t content_length;
	uint32_t hash;			/* of @path */
	uint16_t flags;
	uint8_t method;
	bool has_host;
};

struct request_limits {
	uint32_t max_line;	/* bytes of the request line */
	uint32_t max_headers;	/* header lines */
};

/**
 * request_parse() - parse one request head
 * @req:    result; slices point into @buf
 * @buf:    bytes received
 * @len:    how many
 * @limits: bounds to enforce
 *
 * Return: length of the head including the empty line, 0 when it is not complete yet, or minus
 * the HTTP status to refuse it with. @req->line is valid for the log after a refusal or empty.
 */
int request_parse(struct request *req, const char *buf, size_t len,
		  const struct request_limits *limits);

/* Is there an empty line at or after @from? Cheap test before a head is parsed again. */
bool request_head_complete(const char *buf, size_t len, size_t from);

/* Walks @req->headers: *pos starts as NULL; names are as sent, values trimmed. */
bool request_header_next(const struct request *req, const char **pos, struct slice *name,
			 struct slice *value);

/* Hash used for request.hash, for those who build keys themselves. */
uint32_t request_path_hash(const char *p, size_t len);

bool slice_is(const struct slice *s, const char *lower);
/* A length as Content-Length has it: digits alone, at most eighteen. */
bool slice_length(const struct slice *v, uint64_t *out);

#endif
