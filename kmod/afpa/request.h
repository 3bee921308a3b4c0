/* SPDX-License-Identifier: GPL-2.0 */
/*
 * HTTP requests that may be answered out of the cache, told from all others. The kernel and the
 * tests in user space build the same file: no allocation, no lock, nothing but the bytes given.
 *
 * Whatever two parsers could read differently, and whatever an answer would have to be made for
 * (bodies, conditions, ranges, credentials), is refused here, and goes untouched to a local server.
 */
#ifndef AFPA_REQUEST_H
#define AFPA_REQUEST_H

#ifdef __KERNEL__
#include <linux/types.h>
#else
#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>
#endif

#define AFPA_REQUEST_MAX	8192	/* bytes of a head with its empty line */
#define AFPA_REQUEST_FIELDS	100	/* as many as servers take by default */
#define AFPA_HOST_MAX		255	/* bytes of a host */

enum afpa_method {
	AFPA_METHOD_GET,
	AFPA_METHOD_HEAD,
};

/**
 * enum afpa_why - what a request is refused for: the first thing that showed it
 * @AFPA_WHY_NONE:       it is not refused
 * @AFPA_WHY_METHOD:     another method, or another protocol
 * @AFPA_WHY_LINE:       its first line, or the end of one, is not as HTTP/1.0 and 1.1 have it
 * @AFPA_WHY_PATH:       its path is not one that an object could have
 * @AFPA_WHY_HOST:       it names no host, two, or one of two spellings
 * @AFPA_WHY_FIELD:      a field that two parsers could read differently
 * @AFPA_WHY_CONNECTION: Connection names further fields
 * @AFPA_WHY_BODY:       there may be more to it than its head, or the answer needs another form
 * @AFPA_WHY_CONDITION:  a range, or a condition
 * @AFPA_WHY_COOKIE:     it has a cookie
 * @AFPA_WHY_CREDENTIALS: it says who asks
 * @AFPA_WHY_FRESH:      the client wants the server's own answer
 * @AFPA_WHY_LARGE:      more than AFPA_REQUEST_MAX bytes, or AFPA_REQUEST_FIELDS fields
 */
enum afpa_why {
	AFPA_WHY_NONE,
	AFPA_WHY_METHOD,
	AFPA_WHY_LINE,
	AFPA_WHY_PATH,
	AFPA_WHY_HOST,
	AFPA_WHY_FIELD,
	AFPA_WHY_CONNECTION,
	AFPA_WHY_BODY,
	AFPA_WHY_CONDITION,
	AFPA_WHY_COOKIE,
	AFPA_WHY_CREDENTIALS,
	AFPA_WHY_FRESH,
	AFPA_WHY_LARGE,
	AFPA_WHY_END
};

/**
 * struct afpa_request - a request, as far as it has come
 * @path_at:    where the path with its query begins; raw bytes, nothing is decoded
 * @path_len:   its length, at least 1: the first byte is '/'
 * @host_at:    where the host begins; compare it without regard to case
 * @host_len:   its length without a port; 0: HTTP/1.0 without Host, which may mean any site
 * @port:       that it names, 0: none
 * @method:     enum afpa_method
 * @minor:      0 or 1, of HTTP/1.x
 * @keep_alive: the client would send another request on this connection
 *
 * These are set once afpa_request_parse() has returned a length; offsets are into its @buf. What
 * follows belongs to the parser. It is of one connection: the caller sees to it that only one CPU
 * has it at a time.
 *
 * @scanned:    bytes seen
 * @line:       where the line that is not complete yet, or was refused, begins
 * @why:        enum afpa_why: it was not for us, and stays so; the caller may read it
 * @fields:     that have come
 * @named:      by a Host field
 * @absolute:   the target names a host; @host_at is of that one until the field is compared with it
 * @closes:     "close" was in a Connection field
 * @keeps:      "keep-alive" was
 */
struct afpa_request {
	__u16 path_at, path_len;
	__u16 host_at, host_len, port;
	__u8 method, minor;
	bool keep_alive;

	bool absolute, named, closes, keeps;
	__u8 why;
	__u8 fields;
	__u16 scanned, line;
};

/**
 * afpa_request_init() - before the first byte of each request
 * @req: of the connection
 */
static inline void afpa_request_init(struct afpa_request *req)
{
	*req = (struct afpa_request){ 0 };
}

/**
 * afpa_request_parse() - is this a request for the cache?
 * @buf: all that has come of the request; may lie elsewhere than last time
 * @len: of @buf; more bytes than the request has may follow, and are not looked at
 * @req: as afpa_request_init() or the last call left it
 *
 * Each byte is looked at once or twice, in however many pieces the request comes.
 *
 * Return: bytes of the request, when it is complete and may be answered from the cache; 0: more
 * are needed; -EOPNOTSUPP: it is for a local server, whatever follows.
 */
int afpa_request_parse(const char *buf, size_t len, struct afpa_request *req);

/**
 * afpa_host_length() - how much of a host is its name
 * @host: a name or an address, perhaps with a port
 * @len:  of @host
 * @port: out, if not NULL: the port, 0: none
 *
 * Keys of the cache are judged by the same rule as requests, so that both mean the same object.
 *
 * Return: the length of the name or address; 0: it is not a host, or one of which there are two
 * spellings (a trailing dot, a port with leading zeros).
 */
size_t afpa_host_length(const char *host, size_t len, __u16 *port);

/* How much of @at is the name of a field, as RFC 9110 has it. */
size_t afpa_name_length(const char *at, size_t len);

/**
 * afpa_path_is_sound() - could a request ask for this path?
 * @path: with its query
 * @len:  of @path
 *
 * Return: true: it begins with '/', has no dot segments, encoded or not, and nothing but what
 * RFC 3986 allows in a path and a query.
 */
bool afpa_path_is_sound(const char *path, size_t len);

#endif
