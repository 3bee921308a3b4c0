// SPDX-License-Identifier: GPL-2.0
/* Headers on their way through the proxy: built anew from what was parsed, hop by hop fields out. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "cache.h"
#include "client.h"
#include "conn.h"
#include "exchange.h"
#include "https.h"
#include "identity.h"
#include "request.h"
#include "response.h"
#include "worker.h"

struct text {
	char *at;
	size_t len, size;
	bool full;
};

static void put(struct text *t, const char *bytes, size_t len)
{
	if (len > t->size - t->len) {
		t->full = true;
		return;
	}
	memcpy(t->at + t->len, bytes, len);
	t->len += len;
}

static void put_string(struct text *t, const char *string)
{
	put(t, string, strlen(string));
}

static void put_span(struct text *t, struct span s)
{
	put(t, s.at, s.len);
}

static void put_field(struct text *t, const struct field *f)
{
	put_span(t, f->name);
	put(t, ": ", 2);
	put_span(t, f->value);
	put(t, "\r\n", 2);
}

/* What frames a message is said anew, in our own words; trailers are not passed on. */
static bool is_framing(const struct field *f)
{
	return span_is(f->name, "content-length") || span_is(f->name, "transfer-encoding") ||
	       span_is(f->name, "trailer");
}

static void put_framing(struct text *t, bool chunked, bool has_length, uint64_t length)
{
	char line[64];

	if (chunked) {
		put_string(t, "Transfer-Encoding: chunked\r\n");
	} else if (has_length) {
		snprintf(line, sizeof(line), "Content-Length: %" PRIu64 "\r\n", length);
		put_string(t, line);
	}
}

/* The version 2 header of the PROXY protocol: who the client is, in binary. */
size_t rewrite_prefix(struct exchange *ex)
{
	static const char signature[] = "\r\n\r\n\0\r\nQUIT\n\x21";
	const struct conn *conn = ex->conn;
	bool v6 = conn->peer.any.sa_family == AF_INET6;
	size_t size = v6 ? 52 : 28;
	struct text t = { .at = ex->up + UP_PREFIX - size, .size = size };
	uint16_t rest = htons(size - 16);
	union address server = { 0 };
	socklen_t len = sizeof(server);

	getsockname(client_socket(conn), &server.any, &len);
	put(&t, signature, 13);
	put(&t, v6 ? "\x21" : "\x11", 1);
	put(&t, (char *)&rest, 2);
	if (v6) {
		put(&t, (char *)&conn->peer.in6.sin6_addr, 16);
		put(&t, (char *)&server.in6.sin6_addr, 16);
	} else {
		put(&t, (char *)&conn->peer.in.sin_addr, 4);
		put(&t, (char *)&server.in.sin_addr, 4);
	}
	put(&t, (char *)&conn->peer.in.sin_port, 2);
	put(&t, (char *)&server.in.sin_port, 2);
	return size;
}

/* What a client says of it is worth nothing where we know. Addresses of proxies before us go on. */
static bool is_forged(const struct config *config, const char *scheme, const struct field *f)
{
	if (scheme && span_passes_for(f->name, "x-forwarded-proto"))
		return true;
	return config->forwarded_for && span_passes_for(f->name, "x-forwarded-for") &&
	       !span_is(f->name, "x-forwarded-for");
}

/* Who others wait for asks for all of it: a 304 would be of use to him alone. */
static bool is_condition(const struct field *f)
{
	return span_passes_for(f->name, "if-none-match") || span_passes_for(f->name, "if-modified-since");
}

/* Has what is in the cache changed? */
static void put_condition(struct text *t, const struct entry *entry)
{
	if (entry->etag.len) {
		put_string(t, "If-None-Match: ");
		put_span(t, entry->etag);
		put(t, "\r\n", 2);
	}
	if (entry->modified.len) {
		put_string(t, "If-Modified-Since: ");
		put_span(t, entry->modified);
		put(t, "\r\n", 2);
	}
}

int rewrite_request(struct exchange *ex, const struct config *config, const struct request *r)
{
	struct text t = { .at = ex->up, .len = UP_PREFIX, .size = sizeof(ex->up) };
	struct span host = { NULL, 0 }, target = request_origin_form(r, &host);
	const char *scheme = ex->conn->tls ? "https" : config->tls ? "http" : NULL;
	const char *identity = client_identity(ex->conn);
	char peer[INET6_ADDRSTRLEN];
	unsigned int i;

	put_span(&t, r->method);
	put_string(&t, target.len && *target.at != '?' ? " " : " /");
	put_span(&t, target);
	put_string(&t, r->minor ? " HTTP/1.1\r\n" : " HTTP/1.0\r\n");
	if (host.len) {
		put_string(&t, "Host: ");
		put_span(&t, host);
		put(&t, "\r\n", 2);
	}
	for (i = 0; i < r->fields.count; i++) {
		const struct field *f = &r->fields.at[i];

		if (!field_is_hop_by_hop(f, &r->fields) && !is_framing(f) && !identity_owns(f) &&
		    !is_forged(config, scheme, f) && !(ex->conn->asks && is_condition(f)) && !(host.len && span_is(f->name, "host")))
			put_field(&t, f);
	}
	if (ex->conn->checks)
		put_condition(&t, ex->conn->entry);
	put_framing(&t, r->framing == FRAMING_CHUNKED, r->has_length, r->content_length);
	if (ex->upgrade)
		put_string(&t, "Connection: Upgrade\r\nUpgrade: websocket\r\n");
	if (scheme) {
		put_string(&t, "X-Forwarded-Proto: ");
		put_string(&t, scheme);
		put(&t, "\r\n", 2);
	}
	if (*config->https.client_ca || identity)
		put_string(&t, identity ? identity : IDENTITY_NONE);
	if (config->forwarded_for) {
		put_string(&t, "X-Forwarded-For: ");
		put_string(&t, address_host(&ex->conn->peer, peer, sizeof(peer)));
		put(&t, "\r\n", 2);
	}
	put(&t, "\r\n", 2);
	ex->up_header = t.len;
	return t.full ? -ENOSPC : 0;
}

/* What is said to us, by a cache's back-ends. */
static bool is_for_us(const struct config *config, const struct field *f)
{
	return config->cache_size && span_is(f->name, "surrogate-control");
}

/* Of an answer, by who is nearest to the client. */
static void put_own(struct text *t, const struct exchange *ex)
{
	char hsts[100];

	put_string(t, https_hsts(ex->conn, hsts, sizeof(hsts)));
	if (!ex->client_keep)
		put_string(t, "Connection: close\r\n");
	else if (!ex->minor)
		put_string(t, "Connection: keep-alive\r\n");
}

int rewrite_response(struct exchange *ex, const struct response *r)
{
	struct text t = { .at = ex->header, .len = ex->header_end, .size = sizeof(ex->header) };
	const struct config *config = ex->conn->worker->config;
	struct span rest = r->status_line;
	bool switching = r->status == 101;
	unsigned int i;

	/* Our own version; the code and phrase are the server's. */
	put_string(&t, "HTTP/1.1");
	rest.at += 8;
	rest.len -= 8;
	put_span(&t, rest);
	put(&t, "\r\n", 2);
	for (i = 0; i < r->fields.count; i++) {
		const struct field *f = &r->fields.at[i];

		if (!field_is_hop_by_hop(f, &r->fields) && !is_framing(f) && !https_says(config, f) &&
		    !is_for_us(config, f))
			put_field(&t, f);
	}
	if (switching)
		put_string(&t, "Connection: Upgrade\r\nUpgrade: websocket\r\n");
	else if (r->status >= 200)
		put_own(&t, ex);
	if (r->status >= 200 && r->status != 204)
		put_framing(&t, r->framing == FRAMING_CHUNKED && exchange_chunks(ex), r->has_length,
			    r->content_length);
	put(&t, "\r\n", 2);
	ex->header_end = t.len;
	return t.full ? -ENOSPC : 0;
}

ssize_t rewrite_fields(const struct config *config, const struct response *r, char *into,
		       size_t size, struct span *etag, struct span *modified)
{
	struct text t = { .at = into, .size = size };
	unsigned int i;

	for (i = 0; i < r->fields.count; i++) {
		const struct field *f = &r->fields.at[i];
		struct span value = { into + t.len + f->name.len + 2, f->value.len };

		/* These are written anew for each client. */
		if (field_is_hop_by_hop(f, &r->fields) || is_framing(f) ||
		    span_is(f->name, "age") || https_says(config, f) || is_for_us(config, f))
			continue;
		put_field(&t, f);
		if (span_is(f->name, "etag"))
			*etag = value;
		else if (span_is(f->name, "last-modified"))
			*modified = value;
	}
	return t.full ? -ENOSPC : (ssize_t)t.len;
}

int rewrite_hit(struct exchange *ex, const struct entry *entry, bool unchanged, uint64_t age)
{
	struct text t = { .at = ex->header, .size = sizeof(ex->header) };
	char line[64];

	put_string(&t, unchanged ? "HTTP/1.1 304 Not Modified\r\n" : "HTTP/1.1 200 OK\r\n");
	put_span(&t, entry->fields);
	if (!unchanged) {
		snprintf(line, sizeof(line), "Content-Length: %zu\r\n", entry->length);
		put_string(&t, line);
	}
	snprintf(line, sizeof(line), "Age: %" PRIu64 "\r\n", age);
	put_string(&t, line);
	put_own(&t, ex);
	put(&t, "\r\n", 2);
	ex->header_start = 0;
	ex->header_end = t.len;
	return t.full ? -ENOSPC : 0;
}
