// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include "kmod/afpa/request.h"
#include "lard/request.h"
#include "judge.h"
#include "show.h"

#define ROOM	(4 * 4096)	/* more than a request may have */

static const char *given;
static size_t given_len;

#define MUST(what) do { if (!(what)) fail(#what); } while (0)

static void fail(const char *what)
{
	fprintf(stderr, "not so: %s\n", what);
	show("of", given, given_len);
	abort();
}

char *at_the_brink(size_t len)
{
	static char *room;

	if (!room) {
		room = mmap(NULL, ROOM + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			    -1, 0);
		if (room == MAP_FAILED || mprotect(room + ROOM, 4096, PROT_NONE))
			abort();
	}
	return room + ROOM - len;
}

/* The verdict over the first @len bytes, none of those behind being there. */
static int parse(const char *bytes, size_t len, struct afpa_request *req)
{
	char *text = at_the_brink(len);
	int verdict;

	memcpy(text, bytes, len);
	verdict = afpa_request_parse(text, len, req);
	MUST(verdict == -EOPNOTSUPP || verdict >= 0);
	MUST(verdict < 0 || ((size_t)verdict <= len && verdict <= AFPA_REQUEST_MAX));
	/* So that the next piece costs no second look. */
	MUST(verdict || req->scanned == len);
	return verdict;
}

static bool same(const struct afpa_request *a, const struct afpa_request *b)
{
	return a->path_at == b->path_at && a->path_len == b->path_len && a->host_at == b->host_at &&
	       a->host_len == b->host_len && a->method == b->method && a->minor == b->minor &&
	       a->keep_alive == b->keep_alive;
}

/* In pieces of @step bytes: nothing, or what is said of the whole, and that again afterwards. */
static void judge_pieces(const char *bytes, size_t len, size_t step, int whole,
			 const struct afpa_request *of)
{
	struct afpa_request req;
	size_t n = 0;
	int verdict;

	afpa_request_init(&req);
	do {
		n = step < len - n ? n + step : len;
		verdict = parse(bytes, n, &req);
	} while (!verdict && n < len);
	MUST(verdict == whole);
	if (verdict > 0)
		MUST(same(&req, of) && n < (size_t)verdict + step);
	if (verdict < 0)
		MUST(parse(bytes, len, &req) == verdict && parse(bytes, 0, &req) == verdict);
}

static size_t name_and_port(char *text, const char *host, const struct afpa_request *req)
{
	memcpy(text, host, req->host_len);
	return req->host_len + (req->port ? sprintf(text + req->host_len, ":%u", req->port) : 0);
}

static bool span_equals(struct span s, const char *at, size_t len)
{
	return s.len == len && !strncasecmp(s.at, at, len);
}

/* What is taken here, llhttp takes, too, and reads the same in it. */
static void judge_by_another(const char *bytes, int whole, const struct afpa_request *req)
{
	struct span host = { NULL, 0 }, path;
	static struct request other;
	unsigned int i, named = 0;
	char text[AFPA_HOST_MAX + 10];

	MUST(request_parse(&other, bytes, whole, NULL) == 1 && other.length == (size_t)whole);
	MUST(span_is(other.method, req->method == AFPA_METHOD_HEAD ? "HEAD" : "GET"));
	path = request_origin_form(&other, &host);
	MUST(path.at == bytes + req->path_at && path.len == req->path_len);
	MUST(other.framing == FRAMING_NONE && !other.has_length && !other.websocket);
	MUST(other.keep_alive == req->keep_alive && other.minor == req->minor);
	for (i = 0; i < other.fields.count; i++)
		named += span_is(other.fields.at[i].name, "host");
	MUST(named == (req->host_len ? 1 : 0));
	MUST(named || !req->minor);
	if (!named)
		return;
	MUST(other.host.len == name_and_port(text, bytes + req->host_at, req));
	MUST(!strncasecmp(other.host.at, text, other.host.len));
	MUST(!host.at || span_equals(host, text, other.host.len));
}

static void judge_parts(const char *bytes, int whole, const struct afpa_request *req)
{
	const char *path = bytes + req->path_at, *host = bytes + req->host_at;
	size_t i;

	MUST(req->path_len && req->path_at + req->path_len <= whole && path[0] == '/');
	MUST(req->host_at + req->host_len <= whole);
	for (i = 0; i < req->path_len; i++)
		MUST(path[i] > ' ' && path[i] < 0x7f && path[i] != '#' && path[i] != '\\');
	for (i = 0; i < req->host_len; i++)
		MUST(host[i] > ' ' && host[i] < 0x7f && !strchr("/?#@\\,", host[i]));
	MUST(!memmem(path, req->path_len, "/../", 4) || memchr(path, '?', req->path_len));
	/* What was taken of a request can be a key of the cache. */
	MUST(afpa_host_length(host, req->host_len, NULL) == req->host_len);
	MUST(!req->host_len || host[req->host_len - 1] != '.');
	MUST(afpa_path_is_sound(path, req->path_len));
	MUST(!memcmp(bytes + whole - 4, "\r\n\r\n", 4));
	for (i = 1; i < (size_t)whole; i++)
		MUST((bytes[i] == '\n') == (bytes[i - 1] == '\r') && bytes[i]);
}

bool judge(const char *bytes, size_t len)
{
	static const size_t steps[] = { 2, 3, 7, 64, 1000 };
	struct afpa_request req;
	unsigned int i;
	int whole;

	given = bytes;
	given_len = len;
	if (len > ROOM)
		return false;
	afpa_request_init(&req);
	whole = parse(bytes, len, &req);
	judge_pieces(bytes, len, 1, whole, &req);
	for (i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
		judge_pieces(bytes, len, steps[i], whole, &req);
	if (len >= AFPA_REQUEST_MAX)
		MUST(whole);
	if (whole <= 0)
		return false;
	judge_parts(bytes, whole, &req);
	judge_by_another(bytes, whole, &req);
	return true;
}
