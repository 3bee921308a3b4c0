// SPDX-License-Identifier: GPL-2.0
#include <stdio.h>
#include "cache_key.h"
#include "conn.h"
#include "worker.h"

int cache_key_forwarded(const struct conn *conn, const struct request *r)
{
	unsigned int i, said = 0;

	/* What a client says of it is nothing where we know: see rewrite_request(). */
	if (conn->tls || conn->worker->config->tls)
		return 0;
	for (i = 0; i < r->fields.count; i++) {
		const struct field *f = &r->fields.at[i];
		struct span value = span_trim(f->value);

		if (!span_passes_for(f->name, "x-forwarded-proto"))
			continue;
		if (said || !span_is(f->name, "x-forwarded-proto") ||
		    !(span_is(value, "https") || span_is(value, "http")))
			return -1;
		said = value.len == 5 ? 's' : 'p';
	}
	return said;
}

struct span cache_key_of(const struct cache_target *of, char key[CACHE_KEY_SIZE])
{
	bool rooted = of->target.len && *of->target.at != '?';
	int len = snprintf(key, CACHE_KEY_SIZE, "%s%s%u %.*s %s%.*s", of->tls ? "https" : "http",
			   of->hsts ? "+" : "", of->port, (int)of->host.len, of->host.at,
			   rooted ? "" : "/", (int)of->target.len, of->target.at);

	return (struct span){ key, len };
}

struct span cache_key_print(const struct conn *conn, const struct request *r, char key[CACHE_KEY_SIZE])
{
	struct cache_target of = { conn->tls, *conn->worker->config->hsts, conn->port, r->host, r->target };
	int forwarded = cache_key_forwarded(conn, r);
	struct span s;

	of.target = request_origin_form(r, &of.host);
	s = cache_key_of(&of, key);
	if (forwarded > 0) {
		key[s.len++] = ' ';
		key[s.len++] = forwarded;
	}
	return s;
}
