// SPDX-License-Identifier: GPL-2.0
/* The kernel's parser of memcached's gets: what it takes for the cache, and what is memcached's. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "kmod/afpa/get.h"
#include "kmod/afpa/tests/lib/judge_get.h"
#include "kmod/afpa/tests/lib/mutate.h"

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define TEN	"0123456789"
#define FIFTY	TEN TEN TEN TEN TEN
#define LONGEST	FIFTY FIFTY FIFTY FIFTY FIFTY

static int parse(const char *text, size_t len, struct afpa_get *get)
{
	*get = (struct afpa_get){ .keys = 0 };
	return afpa_get_parse(text, len, get);
}

static void keys_are_taken_apart(void **state)
{
	static const struct {
		const char *text;
		unsigned int keys;
		const char *last;
	} cases[] = {
		{ "get k\r\n", 1, "k" },
		{ "get k\r\nget l\r\n", 1, "k" },
		{ "get user:7 a/../%zz \xc3\xa9\r\n", 3, "\xc3\xa9" },
		{ "get a noreply\r\n", 2, "noreply" },
		{ "get k k k k k k k k k k k k k k k l\r\n", 16, "l" },
		{ "get " LONGEST "\r\n", 1, LONGEST },
		{ "get a " LONGEST "\r\n", 2, LONGEST },
	};
	struct afpa_get get;
	unsigned int i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		const char *text = cases[i].text;
		int len = parse(text, strlen(text), &get);

		print_message("# case %u\n", i);
		assert_int_equal(len, strchr(text, '\n') + 1 - text);
		assert_int_equal(get.keys, cases[i].keys);
		assert_int_equal(get.len[get.keys - 1], strlen(cases[i].last));
		assert_memory_equal(text + get.at[get.keys - 1], cases[i].last,
				    strlen(cases[i].last));
		assert_true(judge_get(text, strlen(text)));
	}
}

static void all_else_is_memcacheds(void **state)
{
	static const struct {
		const char *text;
		size_t len;
	} cases[] = {
#define CASE(text) { text, sizeof(text) - 1 }
		CASE("\x80"), CASE("set k 0 0 1\r\nx\r\n"), CASE("gets k\r\n"),
		CASE("GET k\r\n"), CASE("mg k v\r\n"),
		CASE("get\r\n"), CASE("get \r\n"), CASE("get  k\r\n"), CASE("get k \r\n"),
		CASE("get k\n"),
		CASE(" get k\r\n"), CASE("\r\n"), CASE("\n"), CASE("get\tk\r\n"),
		CASE("get k\tl\r\n"),
		CASE("get k\0l\r\n"), CASE("get k\x7f\r\n"), CASE("get k\rl\r\n"),
		CASE("get k\r\r\n"), CASE("get k\r "),
		CASE("get " LONGEST "x"), CASE("get a " LONGEST "x"), CASE("x"), CASE("gex"),
		CASE("get a b c d e f g h i j k l m n o p "),
		CASE("get a b c d e f g h i j k l m n o p q\r\n"),
	};
	struct afpa_get get;
	unsigned int i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		print_message("# case %u\n", i);
		assert_int_equal(parse(cases[i].text, cases[i].len, &get), -EOPNOTSUPP);
		/* It stays so, whatever comes. */
		assert_int_equal(afpa_get_parse("get k\r\n", 7, &get), -EOPNOTSUPP);
		assert_false(judge_get(cases[i].text, cases[i].len));
	}
}

static void a_line_without_an_end_is_refused_before_it_is_long(void **state)
{
	static char text[65536];
	struct afpa_get get;

	(void)state;
	memcpy(text, "get ", 4);
	memset(text + 4, 'k', sizeof(text) - 4);
	assert_int_equal(parse(text, 4 + AFPA_GET_KEY_MAX, &get), 0);
	assert_int_equal(parse(text, 4 + AFPA_GET_KEY_MAX + 1, &get), -EOPNOTSUPP);
	assert_int_equal(parse(text, sizeof(text), &get), -EOPNOTSUPP);
}

static void keys_of_objects_are_those_of_gets(void **state)
{
	static const char odd[] = { 0, ' ', '\r', '\n', '\t', 0x7f };
	char text[512];
	unsigned int c, len;
	struct afpa_get get;

	(void)state;
	for (c = 0; c < 256; c++) {
		len = sprintf(text, "get k");
		text[len++] = c;
		len += sprintf(text + len, "l\r\n");
		/* A space makes two keys of it. */
		if (c == ' ')
			continue;
		assert_int_equal(afpa_get_key_is_sound(text + 4, 3), parse(text, len, &get) > 0);
	}
	for (c = 0; c < sizeof(odd); c++)
		assert_false(afpa_get_key_is_sound(odd + c, 1));
	assert_false(afpa_get_key_is_sound("k", 0));
	assert_true(afpa_get_key_is_sound(LONGEST, AFPA_GET_KEY_MAX));
	assert_false(afpa_get_key_is_sound(LONGEST "x", AFPA_GET_KEY_MAX + 1));
}

/* Sound gets, and changes of some bytes of them. AFPA_ROUNDS and AFPA_SEED: more, and others. */
static void what_must_hold_of_any_bytes_does(void **state)
{
	uint64_t seed = strtoull(getenv("AFPA_SEED") ?: "7", NULL, 10);
	long i, rounds = atol(getenv("AFPA_ROUNDS") ?: "300000");
	char text[MUTATE_ROOM];
	long taken = 0;

	(void)state;
	for (i = 0; i < rounds; i++)
		taken += judge_get(text, mutate_get(&seed, text));
	print_message("# %ld of %ld were gets\n", taken, rounds);
	assert_in_range(taken, rounds / 20, rounds * 3 / 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(keys_are_taken_apart),
		cmocka_unit_test(all_else_is_memcacheds),
		cmocka_unit_test(a_line_without_an_end_is_refused_before_it_is_long),
		cmocka_unit_test(keys_of_objects_are_those_of_gets),
		cmocka_unit_test(what_must_hold_of_any_bytes_does),
	};

	cmocka_set_test_filter(getenv("AFPA_CLAIM"));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
