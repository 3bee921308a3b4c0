// SPDX-License-Identifier: GPL-2.0
/* Spellings of one URL have one key; different URLs have different ones. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "lard/url.h"

static const char *canonical(const char *host, const char *target)
{
	static char out[1024];

	assert_true(url_canonical(host, strlen(host), target, strlen(target), out,
				  sizeof(out)) > 0);
	return out;
}

static void spellings_become_one(void **state)
{
	static const char *const cases[][3] = {
		{ "Example.COM", "/", "example.com/" },
		{ "example.com:80", "/", "example.com/" },
		{ "example.com.:80", "/", "example.com/" },
		{ "example.com:8080", "/", "example.com:8080/" },
		{ "[::1]:80", "/", "[::1]/" },
		{ "h", "/a/b.html", "h/a/b.html" },
		{ "h", "//a///b", "h/a/b" },
		{ "h", "/a/./b/.", "h/a/b/" },
		{ "h", "/a/../b", "h/b" },
		{ "h", "/a/b/..", "h/a/" },
		{ "h", "/../../a", "h/a" },
		{ "h", "/a//../b", "h/b" },
		{ "h", "/...", "h/..." },
		{ "h", "/%61%2e%2E/x", "h/a../x" },
		{ "h", "/a/%2e%2E/x", "h/x" },
		{ "h", "/a%2Fb", "h/a/b" },
		{ "h", "/a%3fb", "h/a%3Fb" },
		{ "h", "/a%2541", "h/a%2541" },
		{ "h", "/a%zz%", "h/a%25zz%25" },
		{ "h", "/%c3%a9", "h/%C3%A9" },
		{ "h", "/\xc3\xa9", "h/%C3%A9" },
		{ "h", "/a%00b", "h/a%00b" },
		{ "h", "/a?x=%61&y=%2f", "h/a?x=a&y=%2F" },
		{ "h", "/a?", "h/a?" },
		{ "h", "/a?b/../c", "h/a?b/../c" },
		{ "h", "/a#frag", "h/a" },
		{ "h", "http://Other/x", "other/x" },
		{ "h", "http://Other:80?q", "other/?q" },
		{ "h", "*", "h*" },
		{ "", "/", "/" },
	};
	unsigned int i;

	(void)state;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_string_equal(canonical(cases[i][0], cases[i][1]), cases[i][2]);
}

static void arguments_make_another_target(void **state)
{
	char one[64], two[64];
	ssize_t a, b;

	(void)state;
	a = url_canonical("h", 1, "/cgi?x=1", 8, one, sizeof(one));
	b = url_canonical("h", 1, "/cgi?x=2", 8, two, sizeof(two));
	assert_true(url_key(one, a) != url_key(two, b));
}

static void too_little_room_is_an_error(void **state)
{
	char out[12];
	size_t size;

	(void)state;
	for (size = 0; size < sizeof(out); size++)
		assert_int_equal(url_canonical("host", 4, "/a/bcd", 6, out, size),
				 size < 11 ? -ENOSPC : 10);
}

/* Random bytes, rich in what matters; 200,000 rounds, seed 1. */
static void canonical_urls_are_fixed_points_and_fit(void **state)
{
	static const char pieces[] = "/./../%2f%25%41?#% ab\x80\xff\n";
	char target[64], once[256], twice[256];
	int round;

	(void)state;
	srand(1);
	for (round = 0; round < 200000; round++) {
		size_t len = rand() % 40, i;
		ssize_t n;

		target[0] = '/';
		for (i = 1; i <= len; i++)
			target[i] = pieces[rand() % (sizeof(pieces) - 1)];
		n = url_canonical("h", 1, target, len + 1, once, URL_CANONICAL_MAX(1, len + 1));
		assert_true(n > 1);
		assert_int_equal(strlen(once), n);
		assert_true(!strstr(once, "/../") || strchr(once, '?'));
		assert_int_equal(url_canonical("h", 1, once + 1, n - 1, twice, sizeof(twice)), n);
		assert_string_equal(once, twice);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(spellings_become_one),
		cmocka_unit_test(arguments_make_another_target),
		cmocka_unit_test(too_little_room_is_an_error),
		cmocka_unit_test(canonical_urls_are_fixed_points_and_fit),
	};

	return cmocka_run_group_tests_name("lard_url", tests, NULL, NULL);
}
