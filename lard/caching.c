// SPDX-License-Identifier: GPL-2.0
/* A proxied request and the cache. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "cache.h"
#include "cacheable.h"
#include "caching.h"
#include "client.h"
#include "conn.h"
#include "exchange.h"
#include "request.h"
#include "response.h"
#include "worker.h"

static struct cache *cache_of(const struct exchange *ex)
{
	return ex->conn->worker->lardd->cache;
}

/*
 * Requests of the same key ask the same of a back-end: scheme, port, host and target as they go on. What was
 * kept with a Strict-Transport-Security of its own does not go out with ours, nor the other way round.
 */
static bool make_key(struct exchange *ex, const struct request *r)
{
	struct span host = r->host, target = request_origin_form(r, &host);
	bool rooted = target.len && *target.at != '?';
	size_t size = host.len + target.len + sizeof("https+65535  /");
	char *key = malloc(size);

	if (!key)
		return false;
	ex->key.len = snprintf(key, size, "%s%s%u %.*s %s%.*s", ex->conn->tls ? "https" : "http",
			       *ex->conn->worker->config->hsts ? "+" : "", ex->conn->port,
			       (int)host.len, host.at, rooted ? "" : "/", (int)target.len, target.at);
	ex->key.at = key;
	return true;
}

static bool serve(struct exchange *ex, const struct request *r)
{
	struct worker *w = ex->conn->worker;
	struct entry *entry = cache_find(cache_of(ex), ex->key, w->loop.now);
	bool known;

	if (!entry) {
		count(w, COUNTER_CACHE_MISSES);
		return false;
	}
	known = cacheable_matches(r, entry->etag, entry->modified);
	ex->client_keep = ex->client_keep && conn_may_stay(ex->conn);
	if (rewrite_hit(ex, entry, known, (w->loop.now - entry->born_us) / 1000000)) {
		cache_put(cache_of(ex), entry);
		return false;
	}
	ex->hit = entry;
	ex->status = known ? 304 : 200;
	ex->down_start = 0;
	ex->down_end = known || r->head ? 0 : entry->length;
	ex->in_header = false;
	ex->complete = true;
	count(w, COUNTER_CACHE_HITS);
	if (known)
		count(w, COUNTER_CACHE_UNCHANGED);
	return true;
}

bool caching_request(struct exchange *ex, const struct request *r)
{
	if (!ex->conn->worker->config->cache_size)
		return false;
	ex->forgotten = cache_forgotten(cache_of(ex));
	ex->use = cacheable_request(r, &ex->personal);
	/* As with a password: what was made for it is for nobody else, unless the back-end says so. */
	ex->personal |= client_identity(ex->conn) != NULL;
	if (ex->use != CACHE_PASS && !make_key(ex, r))
		ex->use = CACHE_PASS;
	return (ex->use == CACHE_SERVE || ex->use == CACHE_HEAD) && serve(ex, r);
}

static struct span moved(struct span s, const char *from, const char *to)
{
	return s.at ? (struct span){ to + (s.at - from), s.len } : s;
}

void caching_answer(struct exchange *ex, const struct response *r)
{
	struct worker *w = ex->conn->worker;
	struct span etag = { NULL, 0 }, modified = { NULL, 0 };
	char text[HEADER_SIZE];
	uint64_t fresh, age;
	struct entry *entry;
	ssize_t len;

	if (ex->use == CACHE_CLEAR && r->status >= 200 && r->status < 400)
		cache_forget(cache_of(ex), ex->key);
	if (ex->use != CACHE_FILL && ex->use != CACHE_SERVE)
		return;
	fresh = cacheable_answer(r, ex->personal, &age);
	if (!fresh || r->content_length > w->config->cache_object_max)
		return;
	len = rewrite_fields(w->config, r, text, sizeof(text), &etag, &modified);
	if (len < 0)
		return;
	entry = cache_reserve(cache_of(ex), ex->key, (struct span){ text, len }, r->content_length,
			      ex->forgotten);
	if (!entry)
		return;
	entry->etag = moved(etag, text, entry->fields.at);
	entry->modified = moved(modified, text, entry->fields.at);
	entry->born_us = w->loop.now - age * 1000000;
	entry->fresh_us = fresh * 1000000;
	ex->fill = entry;
}

void caching_take(struct exchange *ex, const char *at, size_t len)
{
	if (!ex->fill)
		return;
	memcpy(ex->fill->body + ex->fill->have, at, len);
	ex->fill->have += len;
}

bool caching_is_full(const struct exchange *ex)
{
	return ex->fill && ex->fill->have == ex->fill->length;
}

void caching_end(struct exchange *ex)
{
	struct worker *w = ex->conn->worker;

	if (ex->hit)
		cache_put(cache_of(ex), ex->hit);
	if (caching_is_full(ex)) {
		cache_store(cache_of(ex), ex->fill);
		count(w, COUNTER_CACHE_STORED);
	} else if (ex->fill) {
		cache_put(cache_of(ex), ex->fill);
		count(w, COUNTER_CACHE_DROPPED);
	}
	free((char *)ex->key.at);
	ex->hit = ex->fill = NULL;
	ex->key = (struct span){ NULL, 0 };
}
