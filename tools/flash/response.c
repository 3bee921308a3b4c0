// SPDX-License-Identifier: GPL-2.0
#include "response.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "app.h"
#include "https.h"
#include "log.h"
#include "lookup.h"
#include "range.h"
#include "send.h"
#include "vhost.h"

/* Each is 32 bytes, blanks included, so that it keeps an aligned header aligned. */
#define CONNECTION_CLOSE "Connection: close             \r\n"
#define CONNECTION_KEEP  "Connection: keep-alive        \r\n"
#define CONNECTION_LEN 32

const char *connection_header(const struct request *req)
{
	if (!req || req->flags & REQ_CLOSE)
		return CONNECTION_CLOSE;
	return req->flags & REQ_HTTP10 ? CONNECTION_KEEP : "";
}

void respond_account(struct conn *c, const struct request *req, int status, uint64_t bytes)
{
	struct stats *stats = c->w->stats;

	if (status < 300)
		stats_add(stats, responses_2xx, 1);
	else if (status < 400)
		stats_add(stats, responses_3xx, 1);
	else if (status < 500)
		stats_add(stats, responses_4xx, 1);
	else
		stats_add(stats, responses_5xx, 1);
	c->status = status;
	if (c->w->log)
		log_request(c, req, status, bytes);
}

/* The connection's fate after a response that went out whole. */
static enum verdict sent(const struct request *req, bool more)
{
	if (!req)
		return LINGER;
	if (!(req->flags & REQ_CLOSE))
		return SERVED;
	return more || req->flags & REQ_BODY ? LINGER : CLOSE;
}

/* What did not fit becomes a response with pieces. */
static enum verdict blocked(struct conn *c, const struct request *req, struct response *r,
			    bool more)
{
	c->response = r;
	c->close = !req || req->flags & REQ_CLOSE;
	c->linger = !req || more || req->flags & REQ_BODY;
	conn_deadline(c, c->w->conf->send_timeout);
	return BLOCKED;
}

/*
 * Something follows the response at once: the next response, or the end of the connection, whose
 * FIN then travels in the last segment instead of one of its own.
 */
static bool followed(const struct request *req, bool more)
{
	return more || !req || req->flags & REQ_CLOSE;
}

static enum verdict start(struct conn *c, const struct request *req, struct response *r, bool more)
{
	enum verdict v;

	c->response = r;
	c->corked = !conn_is_secure(c) && followed(req, more);
	v = response_send(c, c->corked);
	if (v == BLOCKED) {
		c->close = !req || req->flags & REQ_CLOSE;
		c->linger = !req || more || req->flags & REQ_BODY;
		return v;
	}
	c->response = NULL;
	response_free(c->w, r);
	return v == SERVED ? sent(req, more) : v;
}

static enum verdict bytes_out(struct conn *c, const struct request *req, const char *p, size_t len,
			      bool more)
{
	struct response *r;
	ssize_t n;

	c->corked = !conn_is_secure(c) && followed(req, more);
	n = conn_send(c, p, len, c->corked);
	if (n < 0 && errno != EAGAIN && errno != EINTR)
		return CLOSE;
	if (n < 0)
		n = 0;
	stats_add(c->w->stats, bytes_sent, n);
	if ((size_t)n == len)
		return sent(req, more);
	r = response_new(1);
	if (!r)
		return CLOSE;
	if (!response_text(c, r, len - n)) {
		response_free(c->w, r);
		return CLOSE;
	}
	memcpy(r->text, p + n, len - n);
	response_add_mem(r, r->text, len - n);
	return blocked(c, req, r, more);
}

static enum verdict respond_page(struct conn *c, const struct request *req, int status,
				 const char *type, const char *extra, const char *body, size_t len,
				 bool more)
{
	struct worker *w = c->w;
	bool head = req && req->flags & REQ_HEAD;
	size_t n;

	n = snprintf(w->out, sizeof(w->out), "HTTP/1.1 %d %s\r\nDate: %s\r\nServer: flash\r\n%s%s%s",
		     status, status_text(status), w->loop.date, connection_header(req), https_hsts(c),
		     extra ? extra : "");
	if (n >= sizeof(w->out) - 256)
		return CLOSE;
	if (status != 204)
		n += snprintf(w->out + n, sizeof(w->out) - n,
			      "Content-Type: %s\r\nContent-Length: %zu\r\n", type, len);
	n += snprintf(w->out + n, sizeof(w->out) - n, "\r\n");
	if (head || status == 204)
		len = 0;
	respond_account(c, req, status, len);
	if (n + len > sizeof(w->out)) {
		struct response *r = response_new(2);

		if (!r)
			return CLOSE;
		if (!response_text(c, r, n + len)) {
			response_free(w, r);
			return CLOSE;
		}
		memcpy(r->text, w->out, n);
		memcpy(r->text + n, body, len);
		response_add_mem(r, r->text, n + len);
		r->head = n;
		return start(c, req, r, more);
	}
	memcpy(w->out + n, body, len);
	return bytes_out(c, req, w->out, n + len, more);
}

enum verdict respond_text(struct conn *c, const struct request *req, const char *type,
			  const char *body, size_t len, bool more)
{
	return respond_page(c, req, 200, type, "Cache-Control: no-store\r\n", body, len, more);
}

enum verdict respond_status(struct conn *c, const struct request *req, int status,
			    const char *extra, bool more)
{
	const struct error_page *page = NULL;
	const char *text = status_text(status);
	const struct vhost *v;
	char body[256];
	int n;

	if (req && status >= 400) {
		v = vhost_find(c->w->conf, req->host.p, req->host.len);
		page = vhost_error_page(v, status);
	}
	if (page)
		return respond_page(c, req, status, "text/html", extra, page->body, page->len,
				    more);
	n = snprintf(body, sizeof(body), "<!DOCTYPE html>\n<html><head><title>%d %s</title></head>"
		     "<body><h1>%d %s</h1></body></html>\n", status, text, status, text);
	return respond_page(c, req, status, "text/html", extra, body, n, more);
}

/* The contents (or a part) as a piece, from memory or from the file. */
static void add_contents(struct response *r, const struct file *f, uint64_t off, uint64_t len)
{
	if (f->fd < 0)
		response_add_mem(r, f->block + f->head_len + off, len);
	else
		response_add_file(r, off, len);
}

static struct response *response_about(struct conn *c, struct file *f, unsigned int pieces,
				       size_t text)
{
	struct response *r = response_new(pieces);

	if (!r)
		return NULL;
	if (!response_text(c, r, text + 1)) {
		response_free(c->w, r);
		return NULL;
	}
	r->file = file_get(c->w->cache, f);
	return r;
}

/* Header of a 200 in @out, from the cached one where that is allowed. Returns its length. */
static size_t compose(struct conn *c, const struct request *req, const struct file *f, char *out)
{
	const struct conf *conf = c->w->conf;
	const char *line = connection_header(req), *hsts = https_hsts(c);
	size_t n = f->head_len;

	if (conf->header_cache) {
		memcpy(out, f->block, n);
		memcpy(out + HEADER_DATE, c->w->loop.date, HTTPDATE_LEN);
	} else {
		struct header_options opt = {
			.status = 200, .length = f->id.size, .date = c->w->loop.date,
			.align = conf->header_align,
		};

		n = header_file(out, f, &opt);
	}
	if (*line) {
		memcpy(out + n - 2, line, CONNECTION_LEN);
		n += CONNECTION_LEN;
		memcpy(out + n - 2, "\r\n", 2);
	}
	if (*hsts)
		n += sprintf(out + n - 2, "%s\r\n", hsts) - 2;
	return n;
}

/* A whole file that cannot go out as one block. */
static enum verdict respond_whole(struct conn *c, const struct request *req, struct file *f,
				  bool more)
{
	uint64_t body = req->flags & REQ_HEAD ? 0 : f->id.size;
	struct worker *w = c->w;
	struct response *r;
	size_t n;

	n = compose(c, req, f, w->out);
	respond_account(c, req, 200, body);
	if (f->fd < 0 && n + body <= sizeof(w->out)) {
		memcpy(w->out + n, f->block + f->head_len, body);
		return bytes_out(c, req, w->out, n + body, more);
	}
	if (!body)
		return bytes_out(c, req, w->out, n, more);
	r = response_about(c, f, 2, n);
	if (!r)
		return CLOSE;
	memcpy(r->text, w->out, n);
	response_add_mem(r, r->text, n);
	add_contents(r, f, 0, body);
	r->head = n;
	return start(c, req, r, more);
}

/* The shortest way: header and contents lie in one block and leave in one call. */
static enum verdict respond_block(struct conn *c, const struct request *req, struct file *f,
				  bool more)
{
	struct worker *w = c->w;
	uint64_t body = req->flags & REQ_HEAD ? 0 : f->body_len, len = f->head_len + body;
	struct response *r;
	ssize_t n;

	if (f->date != w->loop.wall) {
		memcpy(f->block + HEADER_DATE, w->loop.date, HTTPDATE_LEN);
		f->date = w->loop.wall;
	}
	c->corked = more && !conn_is_secure(c);
	n = conn_send(c, f->block, len, c->corked);
	if (n < 0 && errno != EAGAIN && errno != EINTR)
		return CLOSE;
	if (n < 0)
		n = 0;
	respond_account(c, req, 200, body);
	stats_add(w->stats, bytes_sent, n);
	if ((size_t)n == len)
		return SERVED;
	/* The header's date may be renewed while the rest waits: keep a copy of its rest. */
	r = response_about(c, f, 2, f->head_len);
	if (!r)
		return CLOSE;
	if ((size_t)n < f->head_len) {
		memcpy(r->text, f->block + n, f->head_len - n);
		response_add_mem(r, r->text, f->head_len - n);
		n = f->head_len;
	}
	response_add_mem(r, f->block + n, len - n);
	return blocked(c, req, r, more);
}

static size_t put_header(char *out, struct conn *c, const struct request *req,
			 const struct file *f, struct header_options *opt)
{
	const char *line = connection_header(req);
	size_t n;

	opt->date = c->w->loop.date;
	opt->align = c->w->conf->header_align;
	n = header_file(out, f, opt);
	n += sprintf(out + n - 2, "%s%s\r\n", line, https_hsts(c)) - 2;
	return n;
}

static enum verdict respond_not_modified(struct conn *c, const struct request *req, struct file *f,
					 bool more)
{
	struct header_options opt = { .status = 304 };
	size_t n = put_header(c->w->out, c, req, f, &opt);

	respond_account(c, req, 304, 0);
	return bytes_out(c, req, c->w->out, n, more);
}

static enum verdict respond_range(struct conn *c, const struct request *req, struct file *f,
				  const struct range *range, bool more)
{
	char value[80];
	struct header_options opt = {
		.status = 206, .length = range->end - range->start + 1, .content_range = value,
	};
	struct response *r = response_about(c, f, 2, HEADER_MAX + HTTPS_HSTS_MAX);

	if (!r)
		return CLOSE;
	snprintf(value, sizeof(value), "bytes %llu-%llu/%llu", (unsigned long long)range->start,
		 (unsigned long long)range->end, (unsigned long long)f->id.size);
	r->head = put_header(r->text, c, req, f, &opt);
	response_add_mem(r, r->text, r->head);
	add_contents(r, f, range->start, opt.length);
	respond_account(c, req, 206, opt.length);
	return start(c, req, r, more);
}

static enum verdict respond_ranges(struct conn *c, const struct request *req, struct file *f,
				   const struct range *ranges, int nr, bool more)
{
	static unsigned int counter;
	char boundary[40], type[80], parts[RANGE_MAX][384];
	struct header_options opt = { .status = 206, .content_type = type };
	struct response *r;
	size_t len[RANGE_MAX], text = HEADER_MAX + HTTPS_HSTS_MAX + 64, n;
	int i;

	snprintf(boundary, sizeof(boundary), "flash-%08x-%08x", ++counter, f->head_len * 2654435761u);
	snprintf(type, sizeof(type), "multipart/byteranges; boundary=%s", boundary);
	for (i = 0; i < nr; i++) {
		len[i] = snprintf(parts[i], sizeof(parts[i]), "\r\n--%s\r\nContent-Type: %s\r\n"
				  "Content-Range: bytes %llu-%llu/%llu\r\n\r\n", boundary, f->mime,
				  (unsigned long long)ranges[i].start,
				  (unsigned long long)ranges[i].end,
				  (unsigned long long)f->id.size);
		opt.length += len[i] + ranges[i].end - ranges[i].start + 1;
		text += len[i];
	}
	r = response_about(c, f, 2 * nr + 2, text);
	if (!r)
		return CLOSE;
	n = strlen(boundary) + 8;
	opt.length += n;
	r->head = put_header(r->text, c, req, f, &opt);
	response_add_mem(r, r->text, r->head);
	text = r->head;
	for (i = 0; i < nr; i++) {
		memcpy(r->text + text, parts[i], len[i]);
		response_add_mem(r, r->text + text, len[i]);
		add_contents(r, f, ranges[i].start, ranges[i].end - ranges[i].start + 1);
		text += len[i];
	}
	sprintf(r->text + text, "\r\n--%s--\r\n", boundary);
	response_add_mem(r, r->text + text, n);
	respond_account(c, req, 206, opt.length);
	return start(c, req, r, more);
}

static struct file *choose_encoding(const struct request *req, const struct path *p)
{
	if (req->flags & REQ_BROTLI && p->files[ENC_BROTLI])
		return p->files[ENC_BROTLI];
	if (req->flags & REQ_GZIP && p->files[ENC_GZIP])
		return p->files[ENC_GZIP];
	return p->files[ENC_IDENTITY];
}

static enum verdict refuse_method(struct conn *c, const struct request *req, bool more)
{
	static const char allow[] = "Allow: GET, HEAD, OPTIONS\r\n";

	if (req->method == METHOD_OPTIONS)
		return respond_status(c, req, 204, allow, more);
	return respond_status(c, req, req->method == METHOD_OTHER ? 501 : 405, allow, more);
}

static enum verdict respond_file(struct conn *c, const struct request *req, struct path *p,
				 bool more)
{
	struct file *f = choose_encoding(req, p);
	struct range ranges[RANGE_MAX];
	char extra[64];
	int n;

	if (!(req->flags & REQ_SLOW) && !*https_hsts(c) && f->fd < 0 && c->w->conf->header_cache &&
	    !c->w->cache->shared)
		return respond_block(c, req, f, more);
	if (req->flags & REQ_NOT_GET)
		return refuse_method(c, req, more);
	if (req->flags & REQ_CONDITIONAL) {
		n = cond_evaluate(req, &f->etag, f->mtime);
		if (n == 304)
			return respond_not_modified(c, req, f, more);
		if (n)
			return respond_status(c, req, n, NULL, more);
	}
	if (req->flags & REQ_RANGE && !(req->flags & REQ_HEAD) &&
	    cond_if_range(req, &f->etag, f->mtime)) {
		n = range_parse(&req->range, f->id.size, ranges);
		if (n < 0) {
			snprintf(extra, sizeof(extra), "Content-Range: bytes */%llu\r\n",
				 (unsigned long long)f->id.size);
			return respond_status(c, req, 416, extra, more);
		}
		if (n == 1)
			return respond_range(c, req, f, ranges, more);
		if (n)
			return respond_ranges(c, req, f, ranges, n, more);
	}
	return respond_whole(c, req, f, more);
}

static enum verdict respond_redirect(struct conn *c, const struct request *req,
				     const struct path *p, bool more)
{
	char *extra;
	enum verdict v;

	if (asprintf(&extra, "Location: %s%s%.*s\r\n", p->location, req->query.p ? "?" : "",
		     (int)req->query.len, req->query.p ? req->query.p : "") < 0)
		return CLOSE;
	v = respond_status(c, req, 301, extra, more);
	free(extra);
	return v;
}

static enum verdict respond_counters(struct conn *c, const struct request *req, bool more)
{
	char *json = malloc(16384);
	enum verdict v;
	int n;

	if (!json)
		return respond_status(c, req, 503, NULL, more);
	n = stats_json(c->w->all_stats, c->w->nr_stats, json, 16384);
	v = respond_text(c, req, "application/json", json, n, more);
	free(json);
	return v;
}

static enum verdict respond_path(struct conn *c, const struct request *req, struct path *p,
				 bool more)
{
	switch (p->kind) {
	case PATH_FILE:
		return respond_file(c, req, p, more);
	case PATH_REDIRECT:
		if (req->flags & REQ_NOT_GET)
			return refuse_method(c, req, more);
		return respond_redirect(c, req, p, more);
	case PATH_APP:
		if (p->app->kind != APP_STATUS)
			return app_begin(c, req, p, more);
		if (req->flags & REQ_NOT_GET)
			return refuse_method(c, req, more);
		return respond_counters(c, req, more);
	}
	return respond_status(c, req, p->status, NULL, more);
}

/* Does somebody read the body? Otherwise the connection ends with the answer, which says so. */
static bool takes_body(const struct request *req, const struct path *p)
{
	return p->kind == PATH_APP && p->app->kind != APP_STATUS && req->method != METHOD_OTHER;
}

enum verdict serve(struct conn *c, struct request *req, bool more)
{
	struct worker *w = c->w;
	const struct vhost *vhost = w->conf->vhosts;
	struct path *p = c->path;
	enum verdict v;

	if (c->door == DOOR_REDIRECT && !p && https_redirects(c, req))
		return https_redirect(c, req, more);
	if (!p) {
		if (req->path.p[0] == '*') {
			if (req->flags & REQ_BODY)
				req->flags |= REQ_CLOSE;
			return refuse_method(c, req, more);
		}
		if (vhost->next)
			vhost = vhost_find(w->conf, req->host.p, req->host.len);
		p = lookup_path(w, vhost, &req->path, req->hash, &c->waiter);
		if (!p) {
			if (!list_empty(&c->waiter.node))
				return WAIT;
			if (req->flags & REQ_BODY)
				req->flags |= REQ_CLOSE;
			return respond_status(c, req, 503, NULL, more);
		}
	}
	c->path = NULL;
	if (req->flags & REQ_BODY && !takes_body(req, p))
		req->flags |= REQ_CLOSE;
	v = respond_path(c, req, p, more);
	path_put(w->cache, p);
	return v;
}
