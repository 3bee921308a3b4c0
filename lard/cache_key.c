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

struct span cache_key_print(const struct conn *conn, const struct request *r, char key[CACHE_KEY_SIZE])
{
	struct span host = r->host, target = request_origin_form(r, &host);
	bool rooted = target.len && *target.at != '?';
	int forwarded = cache_key_forwarded(conn, r);
	int len = snprintf(key, CACHE_KEY_SIZE, "%s%s%u %.*s %s%.*s", conn->tls ? "https" : "http",
			   *conn->worker->config->hsts ? "+" : "", conn->port, (int)host.len, host.at,
			   rooted ? "" : "/", (int)target.len, target.at);

	if (forwarded > 0) {
		key[len++] = ' ';
		key[len++] = forwarded;
	}
	return (struct span){ key, len };
}
