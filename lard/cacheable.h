/* SPDX-License-Identifier: GPL-2.0 */
/*
 * HTTP's rules for a shared cache (RFC 9111, and RFC 5861 for what is stale). How long an answer is fresh is said by
 * the first of Surrogate-Control, s-maxage, max-age, Expires and the policy of its class.
 */
#ifndef LARD_CACHEABLE_H
#define LARD_CACHEABLE_H

#include <stdbool.h>
#include <stdint.h>
#include "cache_class.h"
#include "message.h"

struct request;
struct response;

/**
 * enum cache_use - what a request has to do with the cache
 * @CACHE_PASS:  nothing
 * @CACHE_FILL:  its answer may be stored, but must come from a back-end
 * @CACHE_SERVE: it may be answered from the cache, or its answer stored
 * @CACHE_HEAD:  it may be answered from the cache
 * @CACHE_CLEAR: when it succeeds, what is stored for its target is out of date
 */
enum cache_use { CACHE_PASS, CACHE_FILL, CACHE_SERVE, CACHE_HEAD, CACHE_CLEAR };

/* @personal: it carries cookies: only a public answer may be stored. */
enum cache_use cacheable_request(const struct request *r, bool *personal);

#define ENCODING_UNKNOWN	16	/* no variant is for it */

/**
 * enum cache_not - why an answer is not kept: the first of these that holds
 * @NOT_KEPT_COOKIES: its request had cookies, and it does not say that it is for all
 * @NOT_KEPT_SHORT:   nothing says that it is fresh, or it is not any more
 * @NOT_KEPT_LARGE:   it is larger than cache-object-max, or its header larger than we keep them
 * @NOT_KEPT_ROOM:    there was no room for it, or it might have been cut
 */
enum cache_not {
	NOT_KEPT_NONE, NOT_KEPT_STATUS, NOT_KEPT_NO_BODY, NOT_KEPT_SET_COOKIE, NOT_KEPT_RANGE, NOT_KEPT_VARY,
	NOT_KEPT_ENCODING, NOT_KEPT_AGE, NOT_KEPT_CONTROL, NOT_KEPT_PRAGMA, NOT_KEPT_COOKIES, NOT_KEPT_SHORT,
	NOT_KEPT_LARGE, NOT_KEPT_ROOM, NOT_KEPT_END
};

/* A word, and a sentence. */
const char *cacheable_not_name(enum cache_not why);
const char *cacheable_not_text(enum cache_not why);

/**
 * struct keeping - how an answer may be kept, in seconds
 * @age:         it has already
 * @fresh:       it is fresh, from its birth on; 0: it is not to be stored
 * @stale:       then it may be served while somebody asks anew,
 * @if_error:    or while nobody answers
 * @by_encoding: it is for clients that can decode the same (Vary: Accept-Encoding)
 * @why:         it is not to be stored
 */
struct keeping {
	uint64_t age, fresh, stale, if_error;
	bool by_encoding;
	enum cache_not why;
};

/*
 * @class: of the answer; @encodings: cacheable_encodings() of the request; @now: of day, in seconds since 1970.
 * False: it is not to be stored.
 */
bool cacheable_answer(const struct response *r, const struct cache_policy *policy,
		      enum cache_class class, bool personal, unsigned int encodings, int64_t now,
		      struct keeping *keeping);

/* What the client can decode, a bit for each coding that we know; ENCODING_UNKNOWN: it says more than that. */
unsigned int cacheable_encodings(const struct request *r);

/* An Accept-Encoding line that is read as @encodings; empty: none is needed. */
void cacheable_accept(unsigned int encodings, char *line, size_t size);

/* The client has this already (If-None-Match, else If-Modified-Since): 304. */
bool cacheable_matches(const struct request *r, struct span etag, struct span modified);

/* Tags of the same entity, be they weak or not. */
bool cacheable_same(struct span etag, struct span other);

/* What is between the tags of an xkey: blanks, and commas, which whoever joins fields puts there. */
#define XKEY_BREAKS	" \t\r\n,"

/* Header lines of an answer, each with its line end: does an xkey name @tag? */
bool cacheable_has_tag(struct span lines, const char *tag);

/* The first field of that name; at == NULL: none. */
struct span cacheable_field(const struct fields *fields, const char *name);

#endif
