/* SPDX-License-Identifier: GPL-2.0 */
/*
 * HTTP's rules for a shared cache (RFC 9111), the careful half of them: only what a back-end
 * declares fresh by max-age or s-maxage is stored, and nothing is served that is not fresh.
 */
#ifndef LARD_CACHEABLE_H
#define LARD_CACHEABLE_H

#include <stdbool.h>
#include <stdint.h>
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

/* Seconds for which the answer may be served, 0: it is not to be stored; its @age so far. */
uint64_t cacheable_answer(const struct response *r, bool personal, uint64_t *age);

/* The client has this already (If-None-Match, else If-Modified-Since): 304. */
bool cacheable_matches(const struct request *r, struct span etag, struct span modified);

/* The first field of that name; at == NULL: none. */
struct span cacheable_field(const struct fields *fields, const char *name);

#endif
