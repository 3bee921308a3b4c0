// SPDX-License-Identifier: GPL-2.0
/* Which answers may be kept, for how long, and of which class they are. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "lard/cacheable.h"
#include "lard/request.h"
#include "lard/response.h"

#define NOW	1700000000	/* Tue, 14 Nov 2023 22:13:20 GMT */

static struct request request;
static struct response response;
static struct cache_policy policy;
static struct keeping k;

static void ask(const char *target, const char *fields)
{
	static char text[2048];
	int len = snprintf(text, sizeof(text), "GET %s HTTP/1.1\r\nHost: h\r\n%s\r\n", target, fields);

	assert_int_equal(request_parse(&request, text, len, NULL), 1);
}

static void answer(const char *fields)
{
	static char text[2048];
	int len = snprintf(text, sizeof(text), "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n%s\r\n", fields);

	assert_int_equal(response_parse(&response, text, len, false), 1);
}

/* How long it is fresh; 0: it is not kept. */
static uint64_t judged(const char *target, const char *asked, const char *fields)
{
	bool personal = false;
	unsigned int classes;

	ask(target, asked);
	answer(fields);
	assert_int_not_equal(cacheable_request(&request, &personal), CACHE_PASS);
	classes = cache_class_of_target(&policy, request.target);
	return cacheable_answer(&response, &policy, cache_class_of_answer(classes, &response), personal,
				cacheable_encodings(&request), NOW, &k) ? k.fresh : 0;
}

static void what_names_another_page_passes_by(void **state)
{
	static const char *const fields[] = {
		"Forwarded: host=evil\r\n", "X-Forwarded-Host: evil\r\n", "x-forwarded-prefix: /evil\r\n",
		"X-Host: evil\r\n", "X-Original-URL: /evil\r\n", "X-Rewrite-URL: /evil\r\n",
		"X-HTTP-Method-Override: DELETE\r\n", "X_Forwarded_Host: evil\r\n", "x.original.url: /evil\r\n",
		"Authorization: Basic eDp5\r\n",
	};
	bool personal;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
		ask("/a.css", fields[i]);
		assert_int_equal(cacheable_request(&request, &personal), CACHE_PASS);
	}
	ask("/a.css", "X-Forwarded-For: 192.0.2.1\r\n");
	assert_int_equal(cacheable_request(&request, &personal), CACHE_SERVE);
}

static uint64_t fresh(const char *fields)
{
	return judged("/a.css", "", fields);
}

static int reset(void **state)
{
	(void)state;
	memset(&policy, 0, sizeof(policy));
	return 0;
}

#define SC "Surrogate-Control: "
#define CC "Cache-Control: "

static void the_first_that_speaks_of_freshness_is_heard(void **state)
{
	static const struct {
		const char *fields;
		uint64_t fresh;
	} cases[] = {
		{ SC "max-age=7\r\n" CC "s-maxage=6, max-age=5\r\n", 7 },
		{ SC "max-age=7+20\r\n", 7 },
		{ SC "max-age=7, content=\"ESI/1.0\"\r\n" CC "no-store\r\n", 7 },
		{ SC "no-store\r\n" CC "max-age=5\r\n", 0 },
		{ SC "content=\"ESI/1.0\"\r\n" CC "max-age=5\r\n", 5 },
		{ CC "max-age=5, s-maxage=6\r\n", 6 }, { CC "s-maxage=0, max-age=5\r\n", 0 },
		{ CC "max-age=5\r\nExpires: Tue, 14 Nov 2023 23:13:20 GMT\r\n", 5 },
		{ CC "max-age=5, x=\"a, private\"\r\n", 5 }, { CC "max-age=5, x=\"a\\\"b\", private\r\n", 0 },
		{ CC "max-age=5, x=\"a, private\r\n", 0 }, { CC "max-age=5, x=\"a\\\r\n", 5 },
		{ "Expires: Tue, 14 Nov 2023 22:14:20 GMT\r\n", 60 },
		{ "Date: Tue, 14 Nov 2023 22:14:00 GMT\r\nExpires: Tue, 14 Nov 2023 22:14:20 GMT\r\n", 20 },
		{ "Expires: 0\r\n", 0 }, { "Expires: Tue, 14 Nov 2023 22:13:20 GMT\r\n", 0 },
		{ "Expires: Tue, 14 Nov 2023 22:14:20 GMT and more\r\n", 0 },
		{ CC "max-age=5, max-age=3\r\n", 3 }, { CC "max-age=5\r\nAge: 5\r\n", 0 },
		{ CC "max-age=5\r\nAge: 4\r\n", 5 }, { CC "max-age=\"5\"\r\n", 5 },
		{ CC "max-age=99999999999999999999\r\n", 31536000 }, { CC "max-age=-1\r\n", 0 },
		{ "", 0 }, { CC "public\r\n", 0 },
	};
	unsigned int i;

	(void)state;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (fresh(cases[i].fields) != cases[i].fresh)
			fail_msg("%s: %llu", cases[i].fields, (unsigned long long)k.fresh);
}

static void what_is_for_one_client_is_never_kept(void **state)
{
	static const char *const fields[] = {
		CC "max-age=9\r\nSet-Cookie: a=b\r\n", CC "max-age=9, private\r\n", CC "max-age=9, no-cache\r\n",
		CC "max-age=9\r\n" CC "no-store\r\n", CC "max-age=9\r\nVary: *\r\n", CC "max-age=9\r\nVary: Cookie\r\n",
		CC "max-age=9\r\nVary: Accept-Encoding, Origin\r\n", SC "max-age=9\r\nSet-Cookie: a=b\r\n",
		SC "max-age=9\r\nVary: User-Agent\r\n", CC "max-age=9\r\nSet-Cookie2: a=b\r\n", "Pragma: no-cache\r\n", "Set-Cookie: a=b\r\n",
	};
	unsigned int i;

	(void)state;
	for (i = 0; i < CACHE_CLASSES; i++) {
		policy.classes[i].on = true;
		policy.classes[i].ttl_us = 50000000;
	}
	for (i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
		if (fresh(fields[i]))
			fail_msg("%s", fields[i]);
	/* A request's cookie is somebody, unless the answer says that it is for all. */
	assert_int_equal(judged("/a", "Cookie: c\r\n", CC "max-age=9\r\n"), 0);
	assert_int_equal(judged("/a", "Cookie: c\r\n", ""), 0);
	assert_int_equal(judged("/a", "Cookie: c\r\n", CC "max-age=9, public\r\n"), 9);
	assert_int_equal(judged("/a", "Cookie: c\r\n", CC "s-maxage=9\r\n"), 9);
	assert_int_equal(judged("/a", "Cookie: c\r\n", SC "max-age=9\r\n"), 9);
}

static void what_is_not_kept_says_why(void **state)
{
	static const struct {
		const char *asked, *fields;
		enum cache_not why;
	} cases[] = {
		{ "", CC "max-age=9\r\n", NOT_KEPT_NONE },
		{ "", CC "max-age=9\r\nSet-Cookie: a=b\r\n", NOT_KEPT_SET_COOKIE },
		{ "", CC "private\r\nSet-Cookie2: a=b\r\n", NOT_KEPT_SET_COOKIE },
		{ "", CC "max-age=9\r\nContent-Range: bytes 0-4/5\r\n", NOT_KEPT_RANGE },
		{ "", CC "max-age=9\r\nVary: Cookie\r\n", NOT_KEPT_VARY },
		{ "Accept-Encoding: *\r\n", CC "max-age=9\r\nVary: Accept-Encoding\r\n", NOT_KEPT_ENCODING },
		{ "", CC "max-age=9\r\nVary: Accept-Encoding\r\nContent-Encoding: gzip\r\n", NOT_KEPT_ENCODING },
		{ "", CC "max-age=9\r\nAge: x\r\n", NOT_KEPT_AGE },
		{ "", CC "max-age=9, private\r\n", NOT_KEPT_CONTROL }, { "", SC "no-store\r\n", NOT_KEPT_CONTROL },
		{ "", "Pragma: no-cache\r\n", NOT_KEPT_PRAGMA },
		{ "Cookie: c\r\n", CC "max-age=9\r\n", NOT_KEPT_COOKIES },
		{ "", "", NOT_KEPT_SHORT }, { "", CC "max-age=9\r\nAge: 9\r\n", NOT_KEPT_SHORT },
	};
	unsigned int i;

	(void)state;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		bool is_kept = judged("/a.css", cases[i].asked, cases[i].fields);

		if (is_kept != !cases[i].why || k.why != cases[i].why)
			fail_msg("%s: %s", cases[i].fields, cacheable_not_name(k.why));
	}
	for (i = 0; i < NOT_KEPT_END; i++)
		assert_true(cacheable_not_name(i)[0] && cacheable_not_text(i)[0]);
}

static void each_setting_of_the_classes_keeps_its_own(void **state)
{
	static const struct {
		const char *target, *fields;
		enum cache_class class;
	} pages[] = {
		{ "/a.css", "ETag: \"x\"\r\nContent-Type: text/css\r\n", CLASS_STATIC },
		{ "/a", "Last-Modified: Sat, 01 Jan 2022 00:00:00 GMT\r\n", CLASS_STATIC },
		{ "/a.png", "Content-Type: image/png\r\n", CLASS_IMAGE },
		{ "/a", "Content-Type: IMAGE/PNG\r\n", CLASS_IMAGE },
		{ "/a.css", "Content-Type: text/css\r\n", CLASS_DYNAMIC },
		{ "/a.png?x", "Content-Type: image/png\r\nETag: \"x\"\r\n", CLASS_DYNAMIC },
		{ "/app/x.png", "Content-Type: image/png\r\nETag: \"x\"\r\n", CLASS_DYNAMIC },
	};
	unsigned int setting, i;

	(void)state;
	strcpy(policy.dynamic[policy.prefixes++], "/app/");
	for (setting = 0; setting < 1U << CACHE_CLASSES; setting++) {
		for (i = 0; i < CACHE_CLASSES; i++) {
			policy.classes[i].on = setting >> i & 1;
			policy.classes[i].ttl_us = (i + 1) * 10000000;
		}
		for (i = 0; i < sizeof(pages) / sizeof(pages[0]); i++) {
			bool on = setting >> pages[i].class & 1;
			char fields[256];

			if (judged(pages[i].target, "", pages[i].fields) !=
			    (on ? (pages[i].class + 1) * 10U : 0))
				fail_msg("setting %u, %s: %llu", setting, pages[i].target,
					 (unsigned long long)k.fresh);
			/* The answer overrules it, both ways. */
			snprintf(fields, sizeof(fields), "%s%s", pages[i].fields, CC "max-age=77\r\n");
			assert_int_equal(judged(pages[i].target, "", fields), 77);
			snprintf(fields, sizeof(fields), "%s%s", pages[i].fields, CC "no-store\r\n");
			assert_int_equal(judged(pages[i].target, "", fields), 0);
		}
	}
}

static bool is_proxied(const char *target)
{
	return cache_class_is_kept(&policy, (struct span){ target, strlen(target) });
}

static void a_target_says_of_which_classes_its_answer_may_be(void **state)
{
	(void)state;
	assert_false(is_proxied("/") || is_proxied("/a.png") || is_proxied("/a?b"));
	policy.classes[CLASS_IMAGE].on = true;
	assert_true(is_proxied("/a.png") && is_proxied("/b/a.JPEG"));
	assert_false(is_proxied("/a.css") || is_proxied("/a.png/") || is_proxied("/a.png?x") || is_proxied("/png"));
	policy.classes[CLASS_IMAGE].on = false;
	policy.classes[CLASS_STATIC].on = true;
	assert_true(is_proxied("/a.css") && is_proxied("/") && is_proxied("/b.c/a"));
	assert_false(is_proxied("/a.png") || is_proxied("/a.css?x"));
	policy.classes[CLASS_STATIC].on = false;
	policy.classes[CLASS_DYNAMIC].on = true;
	assert_true(is_proxied("/?") && is_proxied("/a") && is_proxied("/a.php"));
	assert_false(is_proxied("/a.css") || is_proxied("/a.png"));
}

static void what_is_stale_is_of_use_as_long_as_it_is_said(void **state)
{
	(void)state;
	policy.grace_us = 3000000;
	policy.if_error_us = 4000000;
	fresh(CC "max-age=9\r\n");
	assert_true(k.stale == 3 && k.if_error == 4);
	fresh(CC "max-age=9, stale-while-revalidate=30, stale-if-error=40\r\n");
	assert_true(k.stale == 30 && k.if_error == 40);
	fresh(CC "max-age=9, stale-while-revalidate=0\r\n");
	assert_true(k.stale == 0 && k.if_error == 4);
	fresh(CC "max-age=9, stale-if-error=40, must-revalidate\r\n");
	assert_true(k.fresh == 9 && !k.stale && !k.if_error);
	fresh(CC "max-age=9, proxy-revalidate\r\n");
	assert_true(k.fresh == 9 && !k.stale && !k.if_error);
	fresh(CC "s-maxage=9\r\n");
	assert_true(k.fresh == 9 && !k.stale && !k.if_error);
	fresh(CC "s-maxage=9, stale-if-error=5\r\n");
	assert_true(!k.stale && k.if_error == 5);
	fresh(SC "max-age=9+20\r\n");
	assert_true(k.stale == 20 && k.if_error == 20);
}

static unsigned int encodings(const char *value)
{
	char fields[256];

	snprintf(fields, sizeof(fields), "Accept-Encoding: %s\r\n", value);
	ask("/", fields);
	return cacheable_encodings(&request);
}

static void an_age_is_believed_when_it_is_one(void **state)
{
	(void)state;
	assert_int_equal(judged("/a", "", CC "max-age=9\r\nAge: 5\r\n"), 9);
	assert_int_equal(k.age, 5);
	assert_int_equal(judged("/a", "", CC "max-age=9\r\nAge: 2, 5\r\n"), 9);
	assert_int_equal(k.age, 5);
	assert_int_equal(judged("/a", "", CC "max-age=9\r\nAge: 7\r\nAge: 5\r\n"), 9);
	assert_int_equal(k.age, 7);
	/* What may be of any age is too old. */
	assert_int_equal(judged("/a", "", CC "max-age=9\r\nAge: 5, 600\r\n"), 0);
	assert_int_equal(judged("/a", "", CC "max-age=9\r\nAge: -1\r\n"), 0);
	assert_int_equal(judged("/a", "", CC "max-age=9\r\nAge: soon\r\n"), 0);
	assert_int_equal(judged("/a", "", CC "max-age=9\r\nAge:\r\n"), 0);
	assert_int_equal(judged("/a", "", CC "max-age=9\r\nAge: 99999999999999999999\r\n"), 0);
}

static void commas_are_between_tags_too(void **state)
{
	static const char lines[] = "A: b\r\nxkey: one, two,three\r\nXKey: four\r\n";
	const struct span all = { lines, sizeof(lines) - 1 };

	(void)state;
	assert_true(cacheable_has_tag(all, "one"));
	assert_true(cacheable_has_tag(all, "two"));
	assert_true(cacheable_has_tag(all, "three"));
	assert_true(cacheable_has_tag(all, "four"));
	assert_false(cacheable_has_tag(all, "one,"));
	assert_false(cacheable_has_tag(all, "b"));
}

static void who_can_decode_the_same_gets_the_same(void **state)
{
	static const char gzip[] = CC "max-age=9\r\nVary: Accept-Encoding\r\nContent-Encoding: gzip\r\n";

	(void)state;
	assert_int_equal(encodings("gzip, br"), encodings("br;q=0.5 , GZIP"));
	assert_int_equal(encodings("gzip;q=0, br"), encodings("br"));
	assert_int_equal(encodings("gzip;q=0.000"), 0);
	assert_int_equal(encodings("identity"), 0);
	assert_int_equal(encodings("gzip;q=0.001"), encodings("gzip"));
	assert_int_not_equal(encodings("gzip"), encodings("br"));
	assert_int_equal(encodings("*"), ENCODING_UNKNOWN);
	assert_int_equal(encodings("gzip, identity;q=0"), ENCODING_UNKNOWN);
	assert_int_equal(judged("/a", "Accept-Encoding: gzip\r\n", gzip), 9);
	assert_true(k.by_encoding);
	assert_int_equal(judged("/a", "Accept-Encoding: br\r\n", gzip), 0);
	assert_int_equal(judged("/a", "Accept-Encoding: *\r\n", gzip), 0);
	assert_int_equal(judged("/a", "", CC "max-age=9\r\nvary: accept-encoding,ACCEPT-Encoding\r\n"), 9);
	assert_true(k.by_encoding);
	judged("/a", "", CC "max-age=9\r\nVary: \r\n");
	assert_false(k.by_encoding);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(the_first_that_speaks_of_freshness_is_heard, reset),
		cmocka_unit_test_setup(what_is_for_one_client_is_never_kept, reset),
		cmocka_unit_test_setup(what_names_another_page_passes_by, reset),
		cmocka_unit_test_setup(what_is_not_kept_says_why, reset),
		cmocka_unit_test_setup(each_setting_of_the_classes_keeps_its_own, reset),
		cmocka_unit_test_setup(a_target_says_of_which_classes_its_answer_may_be, reset),
		cmocka_unit_test_setup(what_is_stale_is_of_use_as_long_as_it_is_said, reset),
		cmocka_unit_test_setup(who_can_decode_the_same_gets_the_same, reset),
		cmocka_unit_test_setup(an_age_is_believed_when_it_is_one, reset),
		cmocka_unit_test_setup(commas_are_between_tags_too, reset),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
