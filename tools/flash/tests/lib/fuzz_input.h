/* SPDX-License-Identifier: GPL-2.0 */
/* What a fuzzer feeds: all parsers that see a client's bytes, with what must hold for any input. */
#ifndef FLASH_FUZZ_INPUT_H
#define FLASH_FUZZ_INPUT_H

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "tools/flash/body.h"
#include "tools/flash/httpdate.h"
#include "tools/flash/range.h"
#include "tools/flash/request.h"
#include "tools/flash/target.h"

static void inside(const struct slice *s, const char *buf, size_t len)
{
	if (s->len)
		assert(s->p >= buf && s->p + s->len <= buf + len);
}

static void fuzz_head(const char *buf, size_t len)
{
	const struct request_limits limits = { 8192, 100 };
	struct request req;
	struct slice name, value, etag = { "\"a-b\"", 5 };
	struct range ranges[RANGE_MAX];
	const char *pos = NULL;
	char *out;
	int i, n = request_parse(&req, buf, len, &limits);

	assert(n <= (int)len);
	if (n <= 0)
		return;
	/* What is complete stays the same, whatever follows, and is not complete any earlier. */
	assert(request_head_complete(buf, len, 0));
	assert(request_parse(&req, buf, n - 1, &limits) <= 0);
	assert(request_parse(&req, buf, n, &limits) == n);
	inside(&req.line, buf, n);
	inside(&req.method_name, buf, n);
	inside(&req.query, buf, n);
	inside(&req.host, buf, n);
	inside(&req.headers, buf, n);
	assert(!memchr(req.path.p, '\n', req.path.len) && !memchr(req.path.p, ' ', req.path.len));
	while (request_header_next(&req, &pos, &name, &value)) {
		inside(&name, buf, n);
		inside(&value, buf, n);
		assert(name.len && !memchr(value.p, '\n', value.len));
	}
	out = malloc(req.path.len + 1);
	if (req.path.p[0] == '/' && !target_decode(req.path.p, req.path.len, out)) {
		assert(out[0] == '/' && strlen(out) <= req.path.len);
		assert(!strstr(out, "/../") && !strstr(out, "//"));
	}
	free(out);
	n = req.range.p ? range_parse(&req.range, 1000, ranges) : 0;
	assert(n <= RANGE_MAX);
	for (i = 0; i < n; i++)
		assert(ranges[i].start <= ranges[i].end && ranges[i].end < 1000);
	cond_evaluate(&req, &etag, 784111777);
	cond_if_range(&req, &etag, 784111777);
}

/* The same bytes in one piece and in two give the same payload. */
static void fuzz_chunks(const char *buf, size_t len)
{
	struct chunked one = { 0 }, two = { 0 };
	char *a = malloc(len + 1), *b = malloc(len + 1);
	size_t cut = len / 3, n = len, pa, pb, pc, nb, nc;
	int ra, rb;

	memcpy(a, buf, len);
	memcpy(b, buf, len);
	ra = chunked_decode(&one, a, &n, &pa);
	nb = cut;
	rb = chunked_decode(&two, b, &nb, &pb);
	if (!rb) {
		nc = len - cut;
		rb = chunked_decode(&two, b + cut, &nc, &pc);
		if (rb >= 0)
			memmove(b + pb, b + cut, pc);
		pb += pc;
	}
	assert(ra == rb);
	if (ra >= 0)
		assert(pa <= len && pa == pb && !memcmp(a, b, pa));
	free(a);
	free(b);
}

static void fuzz_one(const uint8_t *data, size_t size)
{
	char *copy = malloc(size ? size : 1);	/* exactly as large as it is: ASan sees overruns */

	memcpy(copy, data, size);
	fuzz_head(copy, size);
	fuzz_chunks(copy, size);
	httpdate_parse(copy, size);
	free(copy);
}

#endif
