// SPDX-License-Identifier: GPL-2.0
/* The parsers that touch a client's bytes: request head, target, ranges, dates, chunks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tools/flash/body.h"
#include "tools/flash/httpdate.h"
#include "tools/flash/range.h"
#include "tools/flash/request.h"
#include "tools/flash/target.h"

static const struct request_limits limits = { .max_line = 200, .max_headers = 10 };

static int parse(struct request *req, const char *text)
{
	return request_parse(req, text, strlen(text), &limits);
}

static void slice_equals(const struct slice *s, const char *want)
{
	assert_int_equal(s->len, strlen(want));
	assert_memory_equal(s->p, want, s->len);
}

static void head_is_split_into_slices(void **state)
{
	static const char text[] = "GET /a/b?c=d HTTP/1.1\r\nHost: ex.org:81\r\nUser-Agent:  x y \r\n"
				   "Range: bytes=0-1\r\nAccept-Encoding: br;q=1, gzip\r\n\r\nrest";
	struct request req;

	(void)state;
	assert_int_equal(parse(&req, text), (int)strlen(text) - 4);
	slice_equals(&req.path, "/a/b");
	slice_equals(&req.query, "c=d");
	slice_equals(&req.host, "ex.org");
	slice_equals(&req.host_port, "ex.org:81");
	slice_equals(&req.user_agent, "x y");
	slice_equals(&req.range, "bytes=0-1");
	assert_int_equal(req.flags, REQ_RANGE | REQ_GZIP | REQ_BROTLI);
	assert_int_equal(req.hash, request_path_hash("/a/b", 4));
}

static void every_prefix_is_incomplete(void **state)
{
	static const char text[] = "GET / HTTP/1.1\r\nHost: a\r\nX: y\r\n\r\n";
	struct request req;
	size_t i, n = strlen(text);

	(void)state;
	for (i = 0; i < n; i++) {
		/* An allocation of just this size: an access behind it is found by ASan. */
		char *copy = malloc(i + 1);

		memcpy(copy, text, i);
		assert_int_equal(request_parse(&req, copy, i, &limits), 0);
		assert_int_equal(request_head_complete(copy, i, i ? i - 1 : 0), 0);
		free(copy);
	}
	assert_int_equal(request_parse(&req, text, n, &limits), n);
	for (i = 0; i < n; i++)
		assert_true(request_head_complete(text, n, i));
}

static void limits_are_kept(void **state)
{
	struct request req;
	char text[512];

	(void)state;
	memset(text, 'a', sizeof(text));
	memcpy(text, "GET /", 5);
	assert_int_equal(request_parse(&req, text, 200, &limits), 0);
	assert_int_equal(request_parse(&req, text, 201, &limits), -414);
	strcpy(text, "GET / HTTP/1.1\r\nHost: a\r\n1:\r\n2:\r\n3:\r\n4:\r\n5:\r\n6:\r\n7:\r\n8:\r\n");
	strcat(text, "9:\r\n\r\n");
	assert_true(parse(&req, text) > 0);
	strcpy(text + strlen(text) - 2, "10:\r\n\r\n");
	assert_int_equal(parse(&req, text), -431);
}

static void headers_can_be_walked(void **state)
{
	struct request req;
	struct slice name, value;
	const char *pos = NULL;

	(void)state;
	assert_true(parse(&req, "GET / HTTP/1.1\r\nHost: a\r\nX-Y:\tz \r\nEmpty:\r\n\r\n") > 0);
	assert_true(request_header_next(&req, &pos, &name, &value));
	slice_equals(&name, "Host");
	assert_true(request_header_next(&req, &pos, &name, &value));
	slice_equals(&name, "X-Y");
	slice_equals(&value, "z");
	assert_true(request_header_next(&req, &pos, &name, &value));
	assert_int_equal(value.len, 0);
	assert_false(request_header_next(&req, &pos, &name, &value));
}

static void targets_are_normalised(void **state)
{
	static const char *const good[][2] = {
		{ "/", "/" }, { "/a/b", "/a/b" }, { "//a///b//", "/a/b/" }, { "/./a/.", "/a/" },
		{ "/a/../b", "/b" }, { "/a/b/..", "/a/" }, { "/a/b/../..", "/" },
		{ "/%61%20", "/a " }, { "/a/%2e%2e/b", "/b" }, { "/...", "/..." },
		{ "/a/..b/.c", "/a/..b/.c" }, { "/a/../../b", NULL }, { "/..", NULL },
		{ "/%2E%2E/", NULL },
	};
	char out[64];
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		int err = target_decode(good[i][0], strlen(good[i][0]), out);

		assert_int_equal(err, good[i][1] ? 0 : -403);
		if (good[i][1])
			assert_string_equal(out, good[i][1]);
	}
	assert_int_equal(target_decode("/%0", 3, out), -400);
	assert_int_equal(target_decode("/%00", 4, out), -400);
	assert_int_equal(target_decode("/a%2fb", 6, out), -400);
	assert_int_equal(target_decode("a", 1, out), -400);
	assert_int_equal(target_decode("", 0, out), -400);
}

/* Random segments: the result never leaves the root, whatever comes (seed and rounds fixed). */
static void no_target_climbs_out(void **state)
{
	static const char *const pieces[] = { "/", ".", "..", "a", "%2e", "%2E%2e", "//", "b" };
	char text[128], out[128];
	int i, j;

	(void)state;
	srand(1);
	for (i = 0; i < 200000; i++) {
		strcpy(text, "/");
		for (j = rand() % 12; j; j--)
			strcat(text, pieces[rand() % 8]);
		if (target_decode(text, strlen(text), out))
			continue;
		assert_int_equal(out[0], '/');
		assert_null(strstr(out, "//"));
		assert_null(strstr(out, "/../"));
		assert_null(strstr(out, "/./"));
		j = strlen(out);
		assert_false(j >= 3 && !strcmp(out + j - 3, "/.."));
	}
}

static void targets_are_encoded(void **state)
{
	char out[64];

	(void)state;
	target_encode("/a b<\"\xc3\xa4%", out);
	assert_string_equal(out, "/a%20b%3C%22%C3%A4%25");
}

static void dates_survive_both_ways(void **state)
{
	char text[HTTPDATE_LEN];
	time_t t;

	(void)state;
	for (t = 0; t < 4102444800; t += 86400 * 17 + 12345) {
		httpdate_format(t, text);
		assert_int_equal(httpdate_parse(text, HTTPDATE_LEN), t);
	}
	assert_int_equal(httpdate_parse("Sunday, 06-Nov-94 08:49:37 GMT", 30), 784111777);
	assert_int_equal(httpdate_parse("Sun Nov  6 08:49:37 1994", 24), 784111777);
	assert_int_equal(httpdate_parse("Sun, 06 Nov 1994 08:49:61 GMT", 29), -1);
	assert_int_equal(httpdate_parse("Sun, 06 Foo 1994 08:49:37 GMT", 29), -1);
	assert_int_equal(httpdate_parse("", 0), -1);
}

static void each_day_and_month_is_understood_in_all_formats(void **state)
{
	char text[64];
	struct tm tm;
	time_t t;
	int day;

	(void)state;
	/* Five years from 2024 on: each weekday in each month, a leap day. */
	for (day = 0; day < 5 * 366; day++) {
		t = 1704067200 + day * 86400l + day * 47 % 86400;
		gmtime_r(&t, &tm);
		strftime(text, sizeof(text), "%a, %d %b %Y %H:%M:%S GMT", &tm);
		assert_int_equal(httpdate_parse(text, strlen(text)), t);
		strftime(text, sizeof(text), "%A, %d-%b-%y %H:%M:%S GMT", &tm);
		assert_int_equal(httpdate_parse(text, strlen(text)), t);
		strftime(text, sizeof(text), "%a %b %e %H:%M:%S %Y", &tm);
		assert_int_equal(httpdate_parse(text, strlen(text)), t);
	}
	assert_int_equal(httpdate_parse("Sat, 30 Feb 2024 08:49:37 GMT", 29), -1);
	assert_int_equal(httpdate_parse("Fri, 29 Feb 2023 08:49:37 GMT", 29), -1);
	assert_int_equal(httpdate_parse("Wed, 06 Nov 2024 08:49:37 PST", 29), -1);
	assert_int_equal(httpdate_parse("Xyz, 06 Nov 2024 08:49:37 GMT", 29), -1);
}

static int if_range(const char *text, const char *etag, int64_t mtime)
{
	struct slice tag = { etag, strlen(etag) };
	struct request req = { .if_range = { text, strlen(text) } };

	return cond_if_range(&req, &tag, mtime);
}

static void if_range_is_a_date_on_each_day_and_a_strong_tag(void **state)
{
	char text[HTTPDATE_LEN + 1] = "";
	time_t t;

	(void)state;
	for (t = 1704067200; t < 1704067200 + 400 * 86400l; t += 86400) {
		httpdate_format(t, text);
		assert_true(if_range(text, "\"x\"", t));
		assert_false(if_range(text, "\"x\"", t + 1));
	}
	assert_true(if_range("\"x\"", "\"x\"", 0));
	assert_false(if_range("W/\"x\"", "\"x\"", 0));
	assert_false(if_range("\"x\"", "W/\"x\"", 0));
	assert_false(if_range("W", "\"x\"", 0));
}

static int ranges(const char *text, uint64_t size, struct range *out)
{
	struct slice s = { text, strlen(text) };

	return range_parse(&s, size, out);
}

static void ranges_are_clipped_and_merged(void **state)
{
	struct range r[RANGE_MAX];

	(void)state;
	assert_int_equal(ranges("bytes=0-0,5-9,-1", 10, r), 2);
	assert_int_equal(r[1].start, 5);
	assert_int_equal(r[1].end, 9);
	assert_int_equal(ranges("bytes=0-4,5-7,9-", 10, r), 2);
	assert_int_equal(r[0].end, 7);
	assert_int_equal(ranges("bytes=10-,0-1", 10, r), 1);
	assert_int_equal(ranges("bytes=10-", 10, r), -416);
	assert_int_equal(ranges("bytes=0-", 0, r), -416);
	assert_int_equal(ranges("bytes=0-18446744073709551615", 10, r), 0);
	assert_int_equal(ranges("bytes=1-0", 10, r), 0);
	assert_int_equal(ranges("bytes=,", 10, r), 0);
	/* Not a multiple of the file. */
	assert_int_equal(ranges("bytes=3-,2-,1-,0-", 10, r), 0);
	assert_int_equal(ranges("bytes=0-,0-,0-", 10, r), 1);
	assert_int_equal(ranges("bytes=5-9,0-4", 10, r), 2);
	assert_int_equal(ranges("bytes=5-9,0-5", 10, r), 0);
}

static int decode(const char *text, size_t step, char *out, size_t *got)
{
	size_t at = 0, n = strlen(text), len, payload;
	struct chunked d = { 0 };
	int err = 0;

	*got = 0;
	while (at < n && !err) {
		char *piece;

		len = n - at < step ? n - at : step;
		piece = malloc(len);
		memcpy(piece, text + at, len);
		err = chunked_decode(&d, piece, &len, &payload);
		if (err >= 0) {
			memcpy(out + *got, piece, payload);
			*got += payload;
			at += len;
		}
		free(piece);
	}
	return err;
}

static void chunks_decode_whatever_the_pieces(void **state)
{
	static const char text[] = "4;x=\"y\"\r\nWiki\r\n005\r\npedia\r\n0\r\nA: b\r\nC: d\r\n\r\n";
	char out[64];
	size_t step, got;

	(void)state;
	for (step = 1; step < sizeof(text); step++) {
		assert_int_equal(decode(text, step, out, &got), 1);
		assert_int_equal(got, 9);
		assert_memory_equal(out, "Wikipedia", 9);
	}
	assert_int_equal(decode("\r\n", 9, out, &got), -400);
	assert_int_equal(decode("1\r\nab\r\n", 9, out, &got), -400);
	assert_int_equal(decode("123456789abcdef01\r\n", 30, out, &got), -400);
	assert_int_equal(decode("0\n\n", 9, out, &got), -400);
	/* What other readers take for more, less or another chunk. */
	assert_int_equal(decode("1 2\r\n", 9, out, &got), -400);
	assert_int_equal(decode("1 ;x\r\na\r\n0\r\n\r\n", 9, out, &got), 1);
	assert_int_equal(decode("1 \r\na\r\n0\r\n\r\n", 9, out, &got), 1);
	assert_int_equal(decode("1;a\nb\r\n", 9, out, &got), -400);
	assert_int_equal(decode("1;a\rb\r\n", 9, out, &got), -400);
	assert_int_equal(decode("1;a\vb\r\n", 9, out, &got), -400);
	assert_int_equal(decode("1\v\r\n", 9, out, &got), -400);
	assert_int_equal(decode("0x1\r\n", 9, out, &got), -400);
	assert_int_equal(decode("+1\r\n", 9, out, &got), -400);
	assert_int_equal(decode("1\r\na\n0\r\n\r\n", 9, out, &got), -400);
	assert_int_equal(decode("0\r\n\rX\r\n\r\n", 9, out, &got), -400);
	assert_int_equal(decode("0\r\nA: b\n\r\n", 9, out, &got), -400);
	assert_int_equal(decode("0\r\nA: b\r\n c\r\n\r\n", 9, out, &got), -400);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(head_is_split_into_slices),
		cmocka_unit_test(every_prefix_is_incomplete),
		cmocka_unit_test(limits_are_kept),
		cmocka_unit_test(headers_can_be_walked),
		cmocka_unit_test(targets_are_normalised),
		cmocka_unit_test(no_target_climbs_out),
		cmocka_unit_test(targets_are_encoded),
		cmocka_unit_test(dates_survive_both_ways),
		cmocka_unit_test(each_day_and_month_is_understood_in_all_formats),
		cmocka_unit_test(if_range_is_a_date_on_each_day_and_a_strong_tag),
		cmocka_unit_test(ranges_are_clipped_and_merged),
		cmocka_unit_test(chunks_decode_whatever_the_pieces),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
