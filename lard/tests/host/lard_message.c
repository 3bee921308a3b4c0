// SPDX-License-Identifier: GPL-2.0
/* Parsing requests, responses and chunks, however they are cut into pieces. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "lard/request.h"
#include "lard/response.h"

static struct request request;
static struct response response;

static int parse(const char *text)
{
	return request_parse(&request, text, strlen(text), NULL);
}

static void a_request_is_taken_apart(void **state)
{
	static const char text[] = "POST /a?b HTTP/1.1\r\nHost:  h:8080 \r\nContent-Length: 12\r\n\r\nbody";

	(void)state;
	assert_int_equal(parse(text), 1);
	assert_int_equal(request.length, strlen(text) - 4);
	assert_true(span_is(request.method, "POST") && span_is(request.target, "/a?b"));
	assert_true(span_is(request.host, "h:8080"));
	assert_int_equal(request.framing, FRAMING_LENGTH);
	assert_int_equal(request.content_length, 12);
	assert_true(request.keep_alive);
	assert_int_equal(request.fields.count, 2);
}

/* Every prefix needs more; none is refused, none taken for whole. */
static void every_prefix_waits_for_the_rest(void **state)
{
	static const char text[] =
		"\r\nGET /some/where HTTP/1.1\r\nHost: example.com\r\nX: y\r\nTransfer-Encoding: chunked\r\n\r\n";
	size_t len, searched = 0;

	(void)state;
	for (len = 1; len < strlen(text); len++)
		assert_int_equal(request_parse(&request, text, len, NULL), 0);
	/* Byte by byte, remembering how far it was searched. */
	for (len = 1; len < strlen(text); len++)
		assert_int_equal(request_parse(&request, text, len, &searched), 0);
	assert_int_equal(request_parse(&request, text, len, &searched), 1);
	assert_int_equal(request.length, len);
	assert_int_equal(request.framing, FRAMING_CHUNKED);
}

/* Less than was searched before: nothing behind its end is looked at. */
static void a_text_that_has_shrunk_is_not_left(void **state)
{
	static const char text[] = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";
	size_t searched;

	(void)state;
	assert_int_equal(message_header_length(text, 16, strlen(text) - 3), 0);
	assert_int_equal(message_header_length("a", 1, SIZE_MAX), 0);
	for (searched = 1; searched < 2 * strlen(text); searched++) {
		size_t from = searched;

		assert_int_equal(request_parse(&request, text, 16, &from), 0);
	}
}

static void keep_alive_follows_version_and_connection(void **state)
{
	static const struct {
		const char *text;
		bool keep;
	} cases[] = {
		{ "GET / HTTP/1.1\r\nHost: h\r\n\r\n", true },
		{ "GET / HTTP/1.1\r\nHost: h\r\nConnection: x, Close\r\n\r\n", false },
		{ "GET / HTTP/1.0\r\n\r\n", false },
		{ "GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", true },
		{ "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\nConnection: keep-alive\r\n\r\n", false },
	};
	unsigned int i;

	(void)state;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(parse(cases[i].text), 1);
		assert_int_equal(request.keep_alive, cases[i].keep);
	}
}

static void refusals_have_their_status(void **state)
{
	static const struct {
		const char *text;
		int status;
	} cases[] = {
		{ "GET / HTTP/1.1\r\n\r\n", 400 },
		{ "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400 },
		{ "GET / HTTP/1.1\r\nHost: a b\r\n\r\n", 400 },
		{ "GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
		  400 },
		{ "GET / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked"
		  "\r\n\r\n", 400 },
		{ "GET / HTTP/3.0\r\nHost: h\r\n\r\n", 505 },
		{ "CONNECT h:1 HTTP/1.1\r\nHost: h\r\n\r\n", 501 },
		{ "\x16\x03\x01\r\n\r\n", 400 },
		{ "GET / HTTP/1.1\r\nHost: h\r\nA: b\r\n\rX: y\r\n\r\n", 400 },
		{ "GET / HTTP/1.1\nHost: h\n\n", 400 },
		{ "GET / HTTP/1.1\r\nHost: h\r\nA: b\n\r\n", 400 },
		{ "GET / HTTP/1.1\r\nHost: h\r\nA: b\rC: d\r\n\r\n", 400 },
		{ "GET / HTTP/1.1\r\nHost: h\r\nA : b\r\n\r\n", 400 },
		{ "GET / HTTP/1.1\r\nHost: h\r\nA: b\r\n c\r\n\r\n", 400 },
		{ "GET / HTTP/1.1\r\n A: b\r\nHost: h\r\n\r\n", 400 },
		{ "GET  / HTTP/1.1\r\nHost: h\r\n\r\n", 400 },
		{ "GET / HTTP/1.1 \r\nHost: h\r\n\r\n", 400 },
		{ "SOURCE / ICE/1.0\r\nHost: h\r\n\r\n", 400 },
		{ "GET /#x HTTP/1.1\r\nHost: h\r\n\r\n", 400 },
		{ "GET x HTTP/1.1\r\nHost: h\r\n\r\n", 400 },
		{ "GET * HTTP/1.1\r\nHost: h\r\n\r\n", 400 },
		{ "GET ftp://h/ HTTP/1.1\r\nHost: h\r\n\r\n", 400 },
		{ "GET http://a/ HTTP/1.1\r\nHost: b\r\n\r\n", 400 },
		{ "GET http://u@h/ HTTP/1.1\r\nHost: u@h\r\n\r\n", 400 },
		{ "GET http:///x HTTP/1.1\r\nHost: h\r\n\r\n", 400 },
		{ "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: +1\r\n\r\n", 400 },
		{ "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1, 1\r\n\r\n", 400 },
		{ "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n", 400 },
		{ "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 18446744073709551616\r\n\r\n", 400 },
		{ "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked, identity\r\n\r\n", 400 },
		{ "POST / HTTP/1.0\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n", 400 },
	};
	unsigned int i;

	(void)state;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (parse(cases[i].text) != -cases[i].status)
			fail_msg("case %u: %d", i, parse(cases[i].text));
		assert_non_null(request.error);
	}
}

static void framing_of_responses(void **state)
{
	static const struct {
		const char *text;
		bool head;
		enum framing framing;
		bool keep;
	} cases[] = {
		{ "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", false, FRAMING_LENGTH, true },
		{ "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", true, FRAMING_NONE, true },
		{ "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", false, FRAMING_NONE, true },
		{ "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", false, FRAMING_CHUNKED, true },
		{ "HTTP/1.1 200 OK\r\n\r\n", false, FRAMING_EOF, false },
		{ "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", false, FRAMING_NONE, true },
		{ "HTTP/1.1 204 No Content\r\n\r\n", false, FRAMING_NONE, true },
		{ "HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\n", false, FRAMING_LENGTH, false },
		{ "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\n", false,
		  FRAMING_LENGTH, false },
	};
	static const char *const bad[] = {
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
		"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
		"HTTP/1.1 204 No\r\nTransfer-Encoding: chunked\r\n\r\n",
		"HTTP/1.1 100 Go on\r\nTransfer-Encoding: chunked\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
		"HTTP/1.1 200 OK\nContent-Length: 5\n\n",
		"HTTP/1.1 200 OK\r\nA: b\r\n\rX\r\n\r\n",
		"HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length : 5\r\n\r\n",
	};
	unsigned int i;

	(void)state;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(response_parse(&response, cases[i].text, strlen(cases[i].text),
						cases[i].head), 1);
		assert_int_equal(response.framing, cases[i].framing);
		assert_int_equal(response.keep_alive, cases[i].keep);
	}
	assert_int_equal(response_parse(&response, "HTTP/1.1 2", 10, false), 0);
	assert_int_equal(response_parse(&response, "nonsense\r\n\r\n", 12, false), -1);
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (response_parse(&response, bad[i], strlen(bad[i]), false) != -1)
			fail_msg("answer %u is accepted", i);
}

static void chunks_end_at_the_same_byte_however_they_come(void **state)
{
	static const char text[] = "5\r\nhello\r\na;x=y\r\n0123456789\r\n0\r\nT: t\r\n\r\nGET /";
	char copy[sizeof(text)], data[sizeof(text)];
	size_t body = strlen(text) - 5, cut, second, got;
	struct chunks c;

	(void)state;
	for (cut = 0; cut <= body; cut++) {
		chunks_init(&c);
		memcpy(copy, text, sizeof(text));
		assert_int_equal(chunks_decode(&c, copy, cut), cut);
		assert_int_equal(c.done, cut == body);
		got = c.got;
		memcpy(data, copy, got);
		if (!c.done) {
			second = chunks_decode(&c, copy + cut, strlen(text) - cut);
			assert_int_equal(cut + second, body);
			assert_true(c.done);
			memcpy(data + got, copy + cut, c.got);
			got += c.got;
		}
		assert_int_equal(got, 15);
		assert_memory_equal(data, "hello0123456789", 15);
	}
}

/* What other parsers take for something else, and what never comes to an end. */
static void doubtful_chunks_are_malformed(void **state)
{
	static const char *const bad[] = {
		"xyz\r\n", "5\nhello\r\n", "5;a\nb\r\nhello\r\n0\r\n\r\n", "5;\rx\r\nhello", "5 \r\nhello",
		"5\r\nhelloX\r\n", "5\r\nhello\n0\n\n", "-5\r\n", "+5\r\n", "0x5\r\n", "\r\n5\r\n", " 5\r\n",
		"10000000000000000\r\n", "5\r\nhello\r\n0\r\nX: y\nZ\r\n\r\n", "5;a=\"\n\"\r\nhello",
		"5\r\nhello\r\n0\r\n\rX\r\n",
	};
	char copy[65536];
	struct chunks c;
	unsigned int i;
	size_t sent;

	(void)state;
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		chunks_init(&c);
		strcpy(copy, bad[i]);
		if (chunks_decode(&c, copy, strlen(copy)) != -1)
			fail_msg("case %u is accepted", i);
	}
	/* An extension without an end. */
	chunks_init(&c);
	memset(copy, 'a', sizeof(copy));
	memcpy(copy, "5;", 2);
	for (sent = 0; chunks_decode(&c, copy, 1000) >= 0; sent += 1000) {
		memset(copy, 'a', sizeof(copy));
		assert_true(sent < 65536);
	}
}

/* A thousand random bodies, seed 5, cut at random places: what is made of them says the same. */
static void what_is_framed_anew_says_the_same(void **state)
{
	char in[4096], work[8192], out[16384], data[4096], back[4096];
	int round;

	(void)state;
	srand(5);
	for (round = 0; round < 1000; round++) {
		size_t len = 0, size = 0, at = 0, made = 0, found = 0;
		struct chunks c;
		int n = rand() % 9;

		while (n--) {
			size_t part = 1 + rand() % 200, i;

			len += sprintf(in + len, "%zx%s\r\n", part, rand() % 2 ? ";ext=\"v\"" : "");
			for (i = 0; i < part; i++)
				in[len++] = data[size++] = rand();
			len += sprintf(in + len, "\r\n");
		}
		len += sprintf(in + len, "0\r\n%s\r\nrest", rand() % 2 ? "Trailer: t\r\n" : "");
		chunks_init(&c);
		while (!c.done) {
			size_t piece = 1 + rand() % 97;
			long used;

			piece = piece < len - at ? piece : len - at;
			memcpy(work + CHUNK_HEAD, in + at, piece);
			used = chunks_decode(&c, work + CHUNK_HEAD, piece);
			assert_true(used > 0);
			at += used;
			piece = chunks_encode(&c, work);
			memcpy(out + made, work, piece);
			made += piece;
		}
		assert_memory_equal(in + at, "rest", 4);
		assert_null(memmem(out, made, "Trailer", 7));
		chunks_init(&c);
		at = 0;
		while (!c.done) {
			size_t piece = made - at < 300 ? made - at : 300;
			long used;

			memcpy(work, out + at, piece);
			used = chunks_decode(&c, work, piece);
			assert_true(used > 0);
			at += used;
			memcpy(back + found, work, c.got);
			found += c.got;
		}
		assert_int_equal(at, made);
		assert_int_equal(found, size);
		assert_memory_equal(back, data, size);
	}
}

static void hop_by_hop_fields_are_known(void **state)
{
	(void)state;
	assert_int_equal(parse("GET / HTTP/1.1\r\nHost: h\r\nConnection: X-A ,Host, content-length\r\n"
			       "X-A: 1\r\nX-B: 2\r\nContent-Length: 0\r\nUpgrade: w\r\n\r\n"), 1);
	assert_false(field_is_hop_by_hop(&request.fields.at[0], &request.fields));	/* Host */
	assert_true(field_is_hop_by_hop(&request.fields.at[1], &request.fields));
	assert_true(field_is_hop_by_hop(&request.fields.at[2], &request.fields));	/* X-A */
	assert_false(field_is_hop_by_hop(&request.fields.at[3], &request.fields));
	assert_false(field_is_hop_by_hop(&request.fields.at[4], &request.fields));
	assert_true(field_is_hop_by_hop(&request.fields.at[5], &request.fields));
}

static void names_are_tokens(void **state)
{
	char name[2] = "x";
	struct fields f = { .count = 1 };
	int c;

	(void)state;
	for (c = 1; c < 256; c++) {
		bool token = c < 128 && (strchr("!#$%&'*+-.^_`|~", c) || (c >= '0' && c <= '9') ||
					 ((c | 32) >= 'a' && (c | 32) <= 'z'));

		name[0] = c;
		f.at[0].name = (struct span){ name, 1 };
		if (fields_are_sound(&f) != token)
			fail_msg("character %d", c);
	}
}

/* 100,000 random heaps of header pieces, seed 3: whatever is accepted is sound. */
static void what_is_accepted_is_sound(void **state)
{
	static const char *const pieces[] = {
		"GET / HTTP/1.1\r\n", "POST http://a/b?c HTTP/1.0\r\n", "Host: h\r\n", "X", ": ", "\r\n",
		"\n", "\r\n\r\n", "Content-Length: 4\r\n", "Transfer-Encoding: chunked\r\n", " ", "\t",
		"\r", "Connection: close\r\n", "HTTP/1.1", "A: b\r\n", "\x01", "\xff", "?",
	};
	char text[512];
	int round, accepted = 0;

	(void)state;
	srand(3);
	for (round = 0; round < 100000; round++) {
		int n = rand() % 8, i, verdict;
		unsigned int j;

		strcpy(text, pieces[rand() % 2]);
		for (i = 0; i < n; i++)
			strcat(text, pieces[rand() % (sizeof(pieces) / sizeof(pieces[0]))]);
		verdict = parse(text);
		assert_true(verdict == 0 || verdict == 1 || (verdict <= -400 && verdict > -600));
		if (verdict != 1)
			continue;
		accepted++;
		assert_in_range(request.length, 16, strlen(text));
		assert_int_equal(text[request.length - 1], '\n');
		assert_true(request.target.len && request.method.len);
		for (j = 0; j < request.fields.count; j++) {
			const struct field *f = &request.fields.at[j];

			assert_true(f->name.at > text && f->name.len);
			assert_null(memchr(f->name.at, ' ', f->name.len));
			if (f->value.len)
				assert_null(memchr(f->value.at, '\n', f->value.len));
		}
	}
	assert_true(accepted > 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_request_is_taken_apart),
		cmocka_unit_test(every_prefix_waits_for_the_rest),
		cmocka_unit_test(a_text_that_has_shrunk_is_not_left),
		cmocka_unit_test(keep_alive_follows_version_and_connection),
		cmocka_unit_test(refusals_have_their_status),
		cmocka_unit_test(framing_of_responses),
		cmocka_unit_test(chunks_end_at_the_same_byte_however_they_come),
		cmocka_unit_test(doubtful_chunks_are_malformed),
		cmocka_unit_test(what_is_framed_anew_says_the_same),
		cmocka_unit_test(hop_by_hop_fields_are_known),
		cmocka_unit_test(names_are_tokens),
		cmocka_unit_test(what_is_accepted_is_sound),
	};

	return cmocka_run_group_tests_name("lard_message", tests, NULL, NULL);
}
