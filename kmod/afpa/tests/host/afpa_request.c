// SPDX-License-Identifier: GPL-2.0
/* timeout: 300 */
/* The kernel's request parser: what it takes for the cache, and what goes to a local server. */
#include <ctype.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "kmod/afpa/request.h"
#include "kmod/afpa/tests/lib/judge.h"
#include "kmod/afpa/tests/lib/mutate.h"

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define H	"Host: a\r\n"
#define V	" HTTP/1.1\r\n"
#define END	"\r\n"
#define GET	AFPA_METHOD_GET
#define HEAD	AFPA_METHOD_HEAD

static struct afpa_request req;

static int parse(const char *text, size_t len)
{
	afpa_request_init(&req);
	return afpa_request_parse(text, len, &req);
}

static bool span_equals(const char *text, unsigned int at, unsigned int len, const char *word)
{
	return strlen(word) == len && !memcmp(text + at, word, len);
}

static void what_the_cache_may_answer_is_taken_apart(void **state)
{
	static const struct {
		const char *text, *host, *path;
		enum afpa_method method;
		int minor, keep, port;
	} cases[] = {
		{ "GET /" V H END, "a", "/", GET, 1, 1, 0 },
		{ "HEAD /x HTTP/1.0\r\n" H END, "a", "/x", HEAD, 0, 0, 0 },
		{ "GET /x HTTP/1.0\r\nConnection: Keep-Alive\r\n" H END, "a", "/x", GET, 0, 1, 0 },
		{ "GET /x" V H "Connection: CLOSE\r\n" END, "a", "/x", GET, 1, 0, 0 },
		{ "GET /x" V H "Connection: close ,\tclose\r\nConnection: close\r\n" END, "a", "/x",
		  GET, 1, 0, 0 },
		{ "GET /x" V H "connection:keep-alive\r\n" END, "a", "/x", GET, 1, 1, 0 },
		{ "GET /x" V "HOST:\t A.example \t\r\n" END, "A.example", "/x", GET, 1, 1, 0 },
		{ "GET /x" V "Host: a:80\r\n" END, "a", "/x", GET, 1, 1, 80 },
		{ "GET /x" V "Host: a:8080\r\n" END, "a", "/x", GET, 1, 1, 8080 },
		{ "GET /x" V "Host: [fe80::1]:80\r\n" END, "[fe80::1]", "/x", GET, 1, 1, 80 },
		{ "GET /x" V "Host: 10.0.0.1:65535\r\n" END, "10.0.0.1", "/x", GET, 1, 1, 65535 },
		{ "GET http://a/x" V H END, "a", "/x", GET, 1, 1, 0 },
		{ "GET HTTP://A:80/x?y" V "Host: a:80\r\n" END, "A", "/x?y", GET, 1, 1, 80 },
		{ "GET /x HTTP/1.0\r\n\r\n", "", "/x", GET, 0, 0, 0 },
		/* Bytes as they are: nothing is decoded, and no two slashes become one. */
		{ "GET /%41//b%2Fc;d=(e)~!$&'*+,@:?f=/../%2e%2e?" V H END, "a",
		  "/%41//b%2Fc;d=(e)~!$&'*+,@:?f=/../%2e%2e?", GET, 1, 1, 0 },
		{ "GET /.x/..y/...;/z." V H END, "a", "/.x/..y/...;/z.", GET, 1, 1, 0 },
		{ "GET /" V H "User-Agent: \xc3\xa9\xff, \"x\"; y\tz\r\nX:\r\n"
		  "Accept-Encoding: gzip\r\nReferer: http://b/\r\nIfs: x\r\nIf: x\r\n" END,
		  "a", "/", GET, 1, 1, 0 },
	};
	unsigned int i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		const char *text = cases[i].text;
		size_t len = strlen(text);

		print_message("# case %u\n", i);
		assert_int_equal(parse(text, len), len);
		assert_true(span_equals(text, req.host_at, req.host_len, cases[i].host));
		assert_true(span_equals(text, req.path_at, req.path_len, cases[i].path));
		assert_int_equal(req.method, cases[i].method);
		assert_int_equal(req.minor, cases[i].minor);
		assert_int_equal(req.port, cases[i].port);
		assert_int_equal(req.keep_alive, cases[i].keep);
		assert_true(judge(text, len));
	}
}

/* Each differs from a request that is taken by what it is here for. */
static void all_else_is_for_a_local_server(void **state)
{
	static const struct {
		const char *text;
		size_t len;
	} cases[] = {
#define CASE(text) { text, sizeof(text) - 1 }
		CASE("POST /" V H END), CASE("get /" V H END), CASE("GETS /" V H END),
		CASE("HEADER /" V H END), CASE("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
		CASE("OPTIONS *" V H END), CASE("GET /\r\n"), CASE("GET / HTTP/0.9\r\n" H END),
		CASE("GET / HTTP/1.2\r\n" H END), CASE("GET / HTTP/2.0\r\n" H END),
		CASE("GET / HTTP/1.10\r\n" H END), CASE("GET / http/1.1\r\n" H END),
		CASE("GET / HTTP/1.1 \r\n" H END), CASE("GET /  HTTP/1.1\r\n" H END),
		CASE("GET  /" V H END), CASE("GET\t/" V H END), CASE("GET /\tHTTP/1.1\r\n" H END),
		CASE("GET / x" V H END), CASE(" GET /" V H END), CASE("\r\nGET /" V H END),
		CASE("\x16\x03\x01\x02"), CASE("GET HTTP/1.1\r\n" H END),
		CASE("GET  HTTP/1.1\r\n" H END), CASE("GET x" V H END),
		/* Line ends */
		CASE("GET / HTTP/1.1\n" H END), CASE("GET /" V "Host: a\n" END),
		CASE("GET /" V H "\n"), CASE("GET /" V "Host: a\r\r\n" END),
		CASE("GET /" V H "X: a\rb\r\n" END), CASE("GET /" V H "\r\r\n"),
		CASE("GET / HTTP/1.1\r\r\n" H END),
		/* Fields that another may see elsewhere */
		CASE("GET /" V H " X: y\r\n" END), CASE("GET /" V H "X: y\r\n\tz\r\n" END),
		CASE("GET /" V H "X : y\r\n" END), CASE("GET /" V H ": y\r\n" END),
		CASE("GET /" V H "X\r\n" END), CASE("GET /" V H "X(: y\r\n" END),
		CASE("GET /" V H "X\xe9: y\r\n" END), CASE("GET /" V H "X: y\0z\r\n" END),
		CASE("GET /" V H "X: y\x01\r\n" END), CASE("GET /" V H "X: \x7f\r\n" END),
		CASE("GET /" V H "X\0: y\r\n" END),
		/* Whose site? */
		CASE("GET /" V END), CASE("GET / HTTP/1.0\r\nHost:\r\n\r\n"),
		CASE("GET /" V "Host:\r\n" END), CASE("GET /" V H H END),
		CASE("GET /" V H "X: y\r\nhost: b\r\n" END), CASE("GET /" V "Host : a\r\n" END),
		CASE("GET /" V "Host: a, b\r\n" END), CASE("GET /" V "Host: a b\r\n" END),
		CASE("GET /" V "Host: a/\r\n" END), CASE("GET /" V "Host: u@a\r\n" END),
		CASE("GET /" V "Host: a.\r\n" END), CASE("GET /" V "Host: .a\r\n" END),
		CASE("GET /" V "Host: a..b\r\n" END), CASE("GET /" V "Host: .\r\n" END),
		CASE("GET /" V "Host: a:\r\n" END), CASE("GET /" V "Host: a:080\r\n" END),
		CASE("GET /" V "Host: a:0\r\n" END), CASE("GET /" V "Host: a:65536\r\n" END),
		CASE("GET /" V "Host: a:8x\r\n" END), CASE("GET /" V "Host: :80\r\n" END),
		CASE("GET /" V "Host: a:80:80\r\n" END), CASE("GET /" V "Host: a%41\r\n" END),
		CASE("GET /" V "Host: \xe9\r\n" END), CASE("GET /" V "Host: [::1\r\n" END),
		CASE("GET /" V "Host: []\r\n" END), CASE("GET /" V "Host: [::1]x\r\n" END),
		CASE("GET /" V "Host: [fe80::1%25eth0]\r\n" END),
		CASE("GET /" V "Host: \"a\"\r\n" END), CASE("GET http://b/" V H END),
		CASE("GET http://a/" V END), CASE("GET http://a/ HTTP/1.0\r\n\r\n"),
		CASE("GET http://a" V H END), CASE("GET http://a?x" V H END),
		CASE("GET http:///" V H END), CASE("GET https://a/" V H END),
		CASE("GET http://u@a/" V H END), CASE("GET http://a:80/" V H END),
		CASE("GET http:/a" V H END), CASE("GET http://a/" V H H END),
		CASE("GET //a/ x" V H END),
		/* Which object? */
		CASE("GET /../x" V H END), CASE("GET /x/.." V H END), CASE("GET /./x" V H END),
		CASE("GET /." V H END), CASE("GET /..?x" V H END), CASE("GET /%2e%2E/x" V H END),
		CASE("GET /.%2e" V H END), CASE("GET /%2e./" V H END),
		CASE("GET /..;a/x" V H END), CASE("GET /x#y" V H END), CASE("GET /x\\y" V H END),
		CASE("GET /%" V H END), CASE("GET /%4" V H END), CASE("GET /%4g" V H END),
		CASE("GET /%00" V H END), CASE("GET /\xc3\xa9" V H END), CASE("GET /<x>" V H END),
		CASE("GET /x\"" V H END), CASE("GET /x\x7f" V H END), CASE("GET /x\0" V H END),
		CASE("GET http://a/../x" V H END),
		/* More than its line says */
		CASE("GET /" V H "Content-Length: 0\r\n" END),
		CASE("GET /" V H "Transfer-Encoding: chunked\r\n" END),
		CASE("GET /" V H "Content-Encoding: gzip\r\n" END),
		CASE("GET /" V H "Trailer: x\r\n" END),
		CASE("GET /" V H "Expect: 100-continue\r\n" END),
		CASE("GET /" V H "Upgrade: h2c\r\n" END),
		CASE("GET /" V H "HTTP2-Settings: x\r\n" END),
		CASE("GET /" V H "TE: trailers\r\n" END),
		CASE("GET /" V H "Range: bytes=0-\r\n" END),
		CASE("GET /" V H "If-Range: \"x\"\r\n" END),
		CASE("GET /" V H "If-None-Match: *\r\n" END),
		CASE("GET /" V H "IF-MATCH: *\r\n" END),
		CASE("GET /" V H "If-Modified-Since: x\r\n" END),
		CASE("GET /" V H "If-Unmodified-Since: x\r\n" END),
		CASE("GET /" V H "Authorization: Basic x\r\n" END),
		CASE("GET /" V H "Proxy-Authorization: x\r\n" END),
		CASE("GET /" V H "cookie: a=b\r\n" END),
		CASE("GET /" V H "Cache-Control: no-cache\r\n" END),
		CASE("GET /" V H "Pragma: no-cache\r\n" END),
		CASE("GET /" V H "Proxy-Connection: close\r\n" END),
		CASE("GET /" V H "Connection: upgrade\r\n" END),
		CASE("GET /" V H "Connection: close, host\r\n" END),
		CASE("GET /" V H "Connection: close, keep-alive\r\n" END),
		CASE("GET /" V H "Connection:\r\n" END),
		CASE("GET /" V H "Connection: keep-alive\r\nConnection: close\r\n" END),
		CASE("GET /" V H "Connection: ,close\r\n" END),
		CASE("GET /" V H "Connection: close,\r\n" END),
		CASE("GET /" V H "Connection: close keep-alive\r\n" END),
		CASE("GET /" V H "Connection: closed\r\n" END),
#undef CASE
	};
	unsigned int i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		print_message("# case %u\n", i);
		assert_int_equal(parse(cases[i].text, cases[i].len), -EOPNOTSUPP);
		assert_false(judge(cases[i].text, cases[i].len));
	}
}

static void a_refusal_says_what_showed_it(void **state)
{
	static const struct {
		const char *text;
		enum afpa_why why;
		const char *line;
	} cases[] = {
		{ "POST /" V H END, AFPA_WHY_METHOD, "POST" },
		{ "\x16\x03\x01", AFPA_WHY_METHOD, "\x16" },
		{ "GET / HTTP/2.0\r\n", AFPA_WHY_LINE, "GET" },
		{ "GET /\n", AFPA_WHY_LINE, "GET" },
		{ "GET /" V H "X: y\n", AFPA_WHY_LINE, "X" },
		{ "GET /../x" V H END, AFPA_WHY_PATH, "GET" },
		{ "GET http://u@a/" V H END, AFPA_WHY_HOST, "GET" },
		{ "GET /" V END, AFPA_WHY_HOST, END },
		{ "GET /" V H H END, AFPA_WHY_HOST, H END },
		{ "GET /" V "Host: a.\r\n" END, AFPA_WHY_HOST, "Host: a." },
		{ "GET /" V H "X : y\r\n" END, AFPA_WHY_FIELD, "X : y" },
		{ "GET /" V H " y\r\n" END, AFPA_WHY_FIELD, " y" },
		{ "GET /" V H "Connection: upgrade\r\n" END, AFPA_WHY_CONNECTION, "Conn" },
		{ "GET /" V H "Proxy-Connection: close\r\n" END, AFPA_WHY_CONNECTION, "Proxy" },
		{ "GET /" V H "A: b\r\nContent-Length: 0\r\n" END, AFPA_WHY_BODY, "Content" },
		{ "GET /" V H "TE: trailers\r\n" END, AFPA_WHY_BODY, "TE" },
		{ "GET /" V H "If-None-Match: *\r\n" END, AFPA_WHY_CONDITION, "If" },
		{ "GET /" V H "Range: bytes=0-\r\n" END, AFPA_WHY_CONDITION, "Range" },
		{ "GET /" V H "cookie: a=b\r\nX : y\r\n" END, AFPA_WHY_COOKIE, "cookie" },
		{ "GET /" V H "Authorization: x\r\n" END, AFPA_WHY_CREDENTIALS, "Auth" },
		{ "GET /" V H "Cache-Control: no-cache\r\n" END, AFPA_WHY_FRESH, "Cache" },
		{ "GET /" V H "Pragma: no-cache\r\n" END, AFPA_WHY_FRESH, "Pragma" },
	};
	static char large[AFPA_REQUEST_MAX];
	unsigned int i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		print_message("# case %u\n", i);
		assert_int_equal(parse(cases[i].text, strlen(cases[i].text)), -EOPNOTSUPP);
		assert_int_equal(req.why, cases[i].why);
		assert_ptr_equal(strstr(cases[i].text + req.line, cases[i].line), cases[i].text + req.line);
	}
	memset(large, 'x', sizeof(large));
	memcpy(large, "GET /", 5);
	assert_int_equal(parse(large, sizeof(large)), -EOPNOTSUPP);
	assert_int_equal(req.why, AFPA_WHY_LARGE);
	assert_int_equal(parse("GET /" V H END, strlen("GET /" V H END)), strlen("GET /" V H END));
	assert_int_equal(req.why, AFPA_WHY_NONE);
}

/* Nobody waits for the end of what cannot become a request for the cache. */
static void it_is_deferred_as_soon_as_it_shows(void **state)
{
	static const char *const starts[] = {
		"P", "GE ", "HEAT", "GETX", "\x16", "\r", "GET /x\n", "GET /\x01",
		"GET / HTTP/1.0\r\nCookie:\r\n", "GET /../ HTTP/1.1\r\n",
		"GET /" V "A\r\n", "GET /" V "A\n", "GET /" V H "X: \x7f",
	};
	unsigned int i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(starts); i++) {
		print_message("# start %u\n", i);
		assert_int_equal(parse(starts[i], strlen(starts[i])), -EOPNOTSUPP);
		assert_int_equal(parse(starts[i], strlen(starts[i]) - 1), 0);
	}
}

/* A request of just @len bytes. */
static void fill(char *text, size_t len)
{
	size_t at = sprintf(text, "GET /" V H "X: ");

	memset(text + at, 'x', len - at - 4);
	memcpy(text + len - 4, "\r\n\r\n", 4);
}

static void a_head_has_at_most_8_kb(void **state)
{
	static char text[AFPA_REQUEST_MAX + 2000];

	(void)state;
	fill(text, AFPA_REQUEST_MAX);
	assert_int_equal(parse(text, sizeof(text)), AFPA_REQUEST_MAX);
	assert_true(judge(text, AFPA_REQUEST_MAX));
	fill(text, AFPA_REQUEST_MAX + 1);
	assert_int_equal(parse(text, AFPA_REQUEST_MAX - 1), 0);
	assert_int_equal(parse(text, AFPA_REQUEST_MAX), -EOPNOTSUPP);
	assert_int_equal(parse(text, AFPA_REQUEST_MAX + 1), -EOPNOTSUPP);
	assert_false(judge(text, AFPA_REQUEST_MAX + 1));
}

static void a_head_has_at_most_100_fields(void **state)
{
	char text[2000];
	size_t at;
	int more, i;

	(void)state;
	for (more = 0; more < 2; more++) {
		at = sprintf(text, "GET /" V H);
		for (i = 1; i < AFPA_REQUEST_FIELDS + more; i++)
			at += sprintf(text + at, "X: y\r\n");
		at += sprintf(text + at, "\r\n");
		assert_int_equal(parse(text, at) > 0, !more);
		assert_int_equal(judge(text, at), !more);
	}
}

/* What is left of an earlier state may not lead out of the bytes that are there. */
static void fewer_bytes_than_before_are_refused(void **state)
{
	static const char text[] = "GET /" V H;
	size_t len;

	(void)state;
	for (len = 0; len < sizeof(text) - 1; len++) {
		assert_int_equal(parse(text, sizeof(text) - 1), 0);
		assert_int_equal(afpa_request_parse(text, len, &req), -EOPNOTSUPP);
		assert_int_equal(afpa_request_parse(text, sizeof(text) - 1, &req), -EOPNOTSUPP);
	}
}

static bool path_is_sound(const char *path)
{
	size_t len = strlen(path);

	return afpa_path_is_sound(memcpy(at_the_brink(len), path, len), len);
}

static size_t host_length(const char *host)
{
	size_t len = strlen(host);

	return afpa_host_length(memcpy(at_the_brink(len), host, len), len, NULL);
}

/* The cache's keys, which nothing follows. */
static void keys_are_judged_by_their_own_bytes(void **state)
{
	(void)state;
	assert_true(path_is_sound("/") && path_is_sound("/a%2F?b=%41"));
	assert_false(path_is_sound("") || path_is_sound("a") || path_is_sound("/%") ||
		     path_is_sound("/%4"));
	assert_false(path_is_sound("/.") || path_is_sound("/..") || path_is_sound("/%2e") ||
		     path_is_sound("/.%2E"));
	assert_int_equal(afpa_name_length("X-y: z", 6), 3);
	assert_int_equal(afpa_name_length("X\xe9: z", 5), 1);
	assert_int_equal(host_length("a.b"), 3);
	assert_int_equal(host_length("[::1]:8080"), 5);
	assert_int_equal(host_length("") + host_length("a:") + host_length("[:"), 0);
}

static void one_request_ends_where_the_next_begins(void **state)
{
	static const char text[] = "GET /1" V H END "HEAD /22" V H END "GET /333" V H END
				   "POST /" V;
	const char *at = text;
	int i, len;

	(void)state;
	for (i = 1; i <= 3; i++) {
		len = parse(at, strlen(at));
		assert_true(len > 0 && req.path_len == i + 1 && at[req.path_at + 1] == '0' + i);
		at += len;
	}
	assert_int_equal(parse(at, strlen(at)), -EOPNOTSUPP);
}

static void kept_requests_of_the_fuzzer_are_judged(void **state)
{
	char path[4096], *line = NULL;
	unsigned int taken = 0, all = 0;
	size_t room = 0, len;
	ssize_t n;
	FILE *f;

	(void)state;
	snprintf(path, sizeof(path), "%s/kmod/afpa/tests/lib/corpus.txt", getenv("FLT_TOP") ?: ".");
	f = fopen(path, "re");
	assert_non_null(f);
	while ((n = getline(&line, &room, f)) > 0) {
		const char *from = line, *end = line + n - 1;

		for (len = 0; from < end; from++) {
			if (*from != '\\') {
				line[len++] = *from;
				continue;
			}
			from++;
			if (*from == 'x') {
				unsigned int byte;

				assert_int_equal(sscanf(from + 1, "%2x", &byte), 1);
				line[len++] = byte;
				from += 2;
			} else {
				line[len++] = *from == 'r' ? '\r' : *from == 'n' ? '\n' :
					      *from == 't' ? '\t' : '\\';
			}
		}
		taken += judge(line, len);
		all++;
	}
	free(line);
	fclose(f);
	print_message("# %u kept, of them %u for the cache\n", all, taken);
	assert_true(taken > 10 && all > taken + 10);
}

/* AFPA_ROUNDS and AFPA_SEED: more, and others. */
static void whatever_comes_is_read_as_others_read_it(void **state)
{
	uint64_t seed = strtoull(getenv("AFPA_SEED") ?: "1", NULL, 10);
	long i, rounds = atol(getenv("AFPA_ROUNDS") ?: "300000");
	char text[MUTATE_ROOM];
	long taken = 0;

	(void)state;
	for (i = 0; i < rounds; i++)
		taken += judge(text, mutate_request(&seed, text));
	print_message("# %ld requests, of them %ld for the cache\n", rounds, taken);
	assert_true(taken > rounds / 50);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_the_cache_may_answer_is_taken_apart),
		cmocka_unit_test(all_else_is_for_a_local_server),
		cmocka_unit_test(a_refusal_says_what_showed_it),
		cmocka_unit_test(it_is_deferred_as_soon_as_it_shows),
		cmocka_unit_test(a_head_has_at_most_8_kb),
		cmocka_unit_test(a_head_has_at_most_100_fields),
		cmocka_unit_test(fewer_bytes_than_before_are_refused),
		cmocka_unit_test(keys_are_judged_by_their_own_bytes),
		cmocka_unit_test(one_request_ends_where_the_next_begins),
		cmocka_unit_test(kept_requests_of_the_fuzzer_are_judged),
		cmocka_unit_test(whatever_comes_is_read_as_others_read_it),
	};

	cmocka_set_test_filter(getenv("AFPA_CLAIM"));
	return cmocka_run_group_tests_name("afpa_request", tests, NULL, NULL);
}
