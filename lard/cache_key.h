/* SPDX-License-Identifier: GPL-2.0 */
/* What a page of the cache is known by. */
#ifndef LARD_CACHE_KEY_H
#define LARD_CACHE_KEY_H

#include "cache.h"
#include "config.h"
#include "request.h"

struct conn;

#define CACHE_KEY_FORWARDED	2	/* of a key, for what cache_key_forwarded() says */
#define CACHE_KEY_SIZE		(REQUEST_HEADER_MAX + sizeof("https+65535  /") + CACHE_KEY_FORWARDED + VARIANT_SIZE)

/*
 * How the client came to whoever is before us, if that says so and we let it through: 's' by TLS, 'p' not, 0: nobody
 * says. -1: it says so in a way that back-ends may read in another.
 */
int cache_key_forwarded(const struct conn *conn, const struct request *r);

/*
 * Requests of the same key ask the same of a back-end: scheme, port, host and target as they go on. What was
 * kept with a Strict-Transport-Security of its own does not go out with ours, nor the other way round. What is
 * forwarded for a client of TLS may be another page than what is not.
 */
struct span cache_key_print(const struct conn *conn, const struct request *r, char key[CACHE_KEY_SIZE]);

/**
 * struct cache_target - what a key is made of, but for what is forwarded
 * @hsts:   see cache_key_print()
 * @host:   as in Host, with a port if it has one
 * @target: path and query
 */
struct cache_target {
	bool tls, hsts;
	unsigned int port;
	struct span host, target;
};

/* At most CACHE_KEY_SIZE - CACHE_KEY_FORWARDED - VARIANT_SIZE bytes of a request's. */
struct span cache_key_of(const struct cache_target *of, char key[CACHE_KEY_SIZE]);

#endif
