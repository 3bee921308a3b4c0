// SPDX-License-Identifier: GPL-2.0
/*
 * The first request of a connection of HTTP/2, looked at where it is. LARD_FUZZ_ROUNDS and LARD_FUZZ_SEED choose other
 * mutations; with a directory as argument the corpus is written there.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>
#include "lard/tests/lib/fuzz_prelude.h"

#define REQUEST	"POST /a HTTP/1.1\r\nHost: h\r\nx: yyyyyyyyyyyyyyyy\r\nTransfer-Encoding: chunked\r\n" \
		"Connection: close\r\n\r\n"

struct bytes {
	uint8_t at[40000];
	size_t len;
};

static const nghttp2_nv fields[] = {
	{ (uint8_t *)":method", (uint8_t *)"POST", 7, 4, 0 }, { (uint8_t *)":scheme", (uint8_t *)"https", 7, 5, 0 },
	{ (uint8_t *)":authority", (uint8_t *)"h", 10, 1, 0 }, { (uint8_t *)":path", (uint8_t *)"/a", 5, 2, 0 },
	{ (uint8_t *)"x", (uint8_t *)"yyyyyyyyyyyyyyyy", 1, 16, 0 },
};

static void put(struct bytes *b, const void *at, size_t len)
{
	assert_true(len <= sizeof(b->at) - b->len);
	memcpy(b->at + b->len, at, len);
	b->len += len;
}

static void frame(struct bytes *b, unsigned int type, unsigned int flags, uint32_t stream, const void *at, size_t len)
{
	put(b, (uint8_t[]){ len >> 16, len >> 8, len, type, flags, stream >> 24, stream >> 16, stream >> 8, stream }, 9);
	put(b, at, len);
}

static void magic(struct bytes *b)
{
	b->len = 0;
	put(b, NGHTTP2_CLIENT_MAGIC, NGHTTP2_CLIENT_MAGIC_LEN);
}

static void begin(struct bytes *b)
{
	magic(b);
	frame(b, NGHTTP2_SETTINGS, 0, 0, (uint8_t[]){ 0, 3, 0, 0, 0, 100, 0, 4, 0, 16, 0, 0 }, 12);
}

static size_t deflate_fields(uint8_t *block, size_t size, const nghttp2_nv *nva, size_t count)
{
	nghttp2_hd_deflater *deflater;
	ssize_t n;

	assert_int_equal(nghttp2_hd_deflate_new(&deflater, 4096), 0);
	n = nghttp2_hd_deflate_hd(deflater, block, size, nva, count);
	assert_true(n > 0);
	nghttp2_hd_deflate_del(deflater);
	return n;
}

/* A request in @parts frames, with everything that may come before it and in it. */
static void request(struct bytes *b, unsigned int parts)
{
	static const uint8_t pad[7];
	uint8_t block[200], front[6] = { sizeof(pad), 0x80, 0, 0, 3, 200 };
	size_t len = deflate_fields(block, sizeof(block), fields, 5), done, first = len / parts;
	struct bytes payload = { .len = 0 };
	unsigned int i;

	begin(b);
	frame(b, NGHTTP2_WINDOW_UPDATE, 0, 0, "\0\0\xff\0", 4);
	frame(b, NGHTTP2_PRIORITY, 0, 3, "\0\0\0\0\xc8", 5);
	frame(b, NGHTTP2_SETTINGS, 0, 0, "", 0);
	frame(b, 0xfa, 0xff, 9, "grease", 6);
	frame(b, NGHTTP2_PING, 0, 0, "12345678", 8);
	put(&payload, front, sizeof(front));
	put(&payload, block, first);
	put(&payload, pad, sizeof(pad));
	frame(b, NGHTTP2_HEADERS,
	      NGHTTP2_FLAG_PADDED | NGHTTP2_FLAG_PRIORITY | (parts == 1 ? NGHTTP2_FLAG_END_HEADERS : 0), 13,
	      payload.at, payload.len);
	for (i = 1, done = first; i < parts; i++, done += first)
		frame(b, NGHTTP2_CONTINUATION, i == parts - 1 ? NGHTTP2_FLAG_END_HEADERS : 0, 13, block + done,
		      i == parts - 1 ? len - done : first);
}

static int look(const struct bytes *b, size_t len)
{
	char *text;
	size_t size;
	int verdict = fuzz_read(b->at, len, &text, &size);

	if (verdict > 0) {
		assert_non_null(text);
		assert_int_equal(size, strlen(REQUEST));
		assert_memory_equal(text, REQUEST, size);
	}
	free(text);
	return verdict;
}

static void a_first_request_is_found_wherever_it_is_cut(void **state)
{
	static const unsigned int parts[] = { 1, 2, 5, 20 };
	struct bytes b;
	size_t whole, i, cut;

	(void)state;
	for (i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		request(&b, parts[i]);
		whole = b.len;
		/* What follows is nobody's business here. */
		frame(&b, NGHTTP2_DATA, 0, 13, "body", 4);
		frame(&b, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, 2, "\xff\xff", 2);
		for (cut = 0; cut <= b.len; cut++)
			assert_int_equal(look(&b, cut), cut >= whole);
		fuzz_one(b.at, b.len, 1);
	}
}

static void a_request_without_a_body_has_none(void **state)
{
	struct head head = { .limit = FUZZ_LIMIT };
	uint8_t block[200];
	size_t len = deflate_fields(block, sizeof(block), fields, 4);
	struct bytes b;
	bool ended = false;

	(void)state;
	begin(&b);
	frame(&b, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS | NGHTTP2_FLAG_END_STREAM, 1, block, len);
	assert_int_equal(prelude_read((char *)b.at, b.len, &head, &ended), 1);
	assert_true(ended);
	head_forget(&head);
}

/* One frame, or two, behind the preface and, where @settled, SETTINGS. */
struct bad {
	bool settled;
	unsigned int type, flags, stream, len;
	const char *payload;
	unsigned int next, next_stream;
};

static void what_is_no_beginning_is_left_to_who_speaks_the_protocol(void **state)
{
	static const char zeros[17000];
	static const struct bad bad[] = {
		{ false, NGHTTP2_HEADERS, 4, 1, 1, "\x82", 0, 0 },
		{ false, NGHTTP2_PING, 0, 0, 8, zeros, 0, 0 },
		{ false, NGHTTP2_SETTINGS, 1, 0, 0, zeros, 0, 0 },	/* it acknowledges what nobody has said */
		{ false, NGHTTP2_SETTINGS, 0, 1, 0, zeros, 0, 0 },
		{ true, NGHTTP2_SETTINGS, 1, 0, 0, zeros, 0, 0 },
		{ true, NGHTTP2_DATA, 0, 1, 4, zeros, 0, 0 },
		{ true, NGHTTP2_RST_STREAM, 0, 1, 4, zeros, 0, 0 },
		{ true, NGHTTP2_PUSH_PROMISE, 4, 1, 4, zeros, 0, 0 },
		{ true, NGHTTP2_GOAWAY, 0, 0, 8, zeros, 0, 0 },
		{ true, NGHTTP2_CONTINUATION, 4, 1, 1, "\x82", 0, 0 },
		{ true, NGHTTP2_WINDOW_UPDATE, 0, 0, 16385, zeros, 0, 0 },
		{ true, 0xfa, 0, 0, 16385, zeros, 0, 0 },
		{ true, NGHTTP2_HEADERS, 4, 0, 1, "\x82", 0, 0 },
		{ true, NGHTTP2_HEADERS, 4, 2, 1, "\x82", 0, 0 },
		{ true, NGHTTP2_HEADERS, 4 | 8, 1, 0, zeros, 0, 0 },
		{ true, NGHTTP2_HEADERS, 4 | 8, 1, 2, "\x02\x82", 0, 0 },
		{ true, NGHTTP2_HEADERS, 4 | 32, 1, 4, zeros, 0, 0 },
		{ true, NGHTTP2_HEADERS, 4, 1, 1, "\xff", 0, 0 },	/* an index that goes on */
		{ true, NGHTTP2_HEADERS, 4, 1, 1, "\x80", 0, 0 },	/* index 0 */
		{ true, NGHTTP2_HEADERS, 4, 1, 1, "\xbe", 0, 0 },	/* one of an empty table */
		{ true, NGHTTP2_HEADERS, 4, 1, 4, "\x3f\xe2\x1f\x82", 0, 0 },	/* a table of 4097 bytes */
		{ true, NGHTTP2_HEADERS, 4, 1, 3, "\x00\x01x", 0, 0 },	/* a field without a value */
		{ true, NGHTTP2_HEADERS, 0, 1, 1, "\x82", NGHTTP2_DATA, 1 },
		{ true, NGHTTP2_HEADERS, 0, 1, 1, "\x82", NGHTTP2_CONTINUATION, 3 },
		{ true, NGHTTP2_HEADERS, 0, 1, 1, "\x82", NGHTTP2_PING, 0 },
		{ true, NGHTTP2_HEADERS, 0, 1, 1, "\x82", 0xfa, 1 },
	};
	struct bytes b;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		if (bad[i].settled)
			begin(&b);
		else
			magic(&b);
		frame(&b, bad[i].type, bad[i].flags, bad[i].stream, bad[i].payload, bad[i].len);
		if (bad[i].next || bad[i].next_stream)
			frame(&b, bad[i].next, NGHTTP2_FLAG_END_HEADERS, bad[i].next_stream, "\x82", 1);
		if (look(&b, b.len) != -1)
			fail_msg("number %zu is taken for a beginning", i);
		fuzz_one(b.at, b.len, b.len > 1000 ? 101 : 1);
	}
	for (i = 0; i < NGHTTP2_CLIENT_MAGIC_LEN; i++) {
		request(&b, 1);
		b.at[i] ^= 1;
		assert_int_equal(look(&b, i), 0);
		assert_int_equal(look(&b, i + 1), -1);
	}
}

/* One field of 3000 bytes in the table, and 4000 times a byte that stands for it. */
static void a_few_bytes_that_stand_for_many_are_not_expanded(void **state)
{
	static char value[3000];
	struct head head = { .limit = FUZZ_LIMIT };
	nghttp2_nv long_field = { (uint8_t *)"x", (uint8_t *)value, 1, sizeof(value), 0 };
	uint8_t block[16000];
	struct bytes b;
	bool ended;
	size_t len;

	(void)state;
	memset(value, 'a', sizeof(value));
	len = deflate_fields(block, sizeof(block), &long_field, 1);
	memset(block + len, 0xbe, 4000);
	begin(&b);
	frame(&b, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, 1, block, len + 4000);
	assert_int_equal(prelude_read((char *)b.at, b.len, &head, &ended), -1);
	assert_int_equal(head.status, 431);
	assert_true(head.total <= FUZZ_LIMIT + sizeof(value) + 5);
	assert_true(head.fields.size <= 2 * FUZZ_LIMIT);
	head_forget(&head);
}

static unsigned long long random_state;

static unsigned int rnd(unsigned int n)
{
	random_state = random_state * 6364136223846793005ull + 1442695040888963407ull;
	return (random_state >> 33) % n;
}

static void what_is_found_is_what_the_library_finds(void **state)
{
	const char *rounds = getenv("LARD_FUZZ_ROUNDS"), *seed = getenv("LARD_FUZZ_SEED");
	long i, n = rounds ? atol(rounds) : 20000, found = 0;
	struct bytes b;
	unsigned int j;

	(void)state;
	random_state = seed ? strtoull(seed, NULL, 10) : 1;
	for (i = 0; i < n; i++) {
		request(&b, 1 + rnd(4));
		for (j = rnd(4); j; j--)
			b.at[rnd(rnd(2) ? b.len : 80)] = rnd(2) ? rnd(256) : rnd(14);
		if (!rnd(4))
			b.len -= rnd(b.len / 2);
		found += fuzz_one(b.at, b.len, 1 + b.len / 16) > 0;
	}
	/* Neither all nor none, or the library would have been compared with nothing. */
	assert_true(found > n / 20 && found < n - n / 20);
}

static void write_corpus(const char *directory)
{
	static const unsigned int parts[] = { 1, 2, 5 };
	char path[300];
	struct bytes b;
	unsigned int i;
	FILE *file;

	for (i = 0; i < 3; i++) {
		request(&b, parts[i]);
		snprintf(path, sizeof(path), "%s/%u", directory, i);
		file = fopen(path, "w");
		assert(file && fwrite(b.at, b.len, 1, file) == 1 && !fclose(file));
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_first_request_is_found_wherever_it_is_cut),
		cmocka_unit_test(a_request_without_a_body_has_none),
		cmocka_unit_test(what_is_no_beginning_is_left_to_who_speaks_the_protocol),
		cmocka_unit_test(a_few_bytes_that_stand_for_many_are_not_expanded),
		cmocka_unit_test(what_is_found_is_what_the_library_finds),
	};

	if (argc > 1) {
		write_corpus(argv[1]);
		return 0;
	}
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("lard_prelude", tests, NULL, NULL);
}
