// SPDX-License-Identifier: GPL-2.0
/* Requests of HTTP/2 written down as those of HTTP/1.1, without a library that looks at them before. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "lard/http2/head.h"

struct pair {
	const char *name, *value;
	size_t len;	/* of @value, if that has a NUL */
};

static const struct pair good[] = {
	{ ":method", "GET", 0 }, { ":scheme", "https", 0 }, { ":authority", "h", 0 }, { ":path", "/a", 0 },
};

static void put(struct head *h, const struct pair *p)
{
	head_field(h, (struct span){ p->name, strlen(p->name) },
		   (struct span){ p->value, p->len ? p->len : strlen(p->value) });
}

/* A good one whose pseudo-field of @bad's name is @bad, or which has @bad behind them. */
static void begin(struct head *h, const struct pair *bad)
{
	size_t i;

	*h = (struct head){ .limit = 4096 };
	for (i = 0; i < 4; i++)
		put(h, bad && !strcmp(good[i].name, bad->name) ? bad : &good[i]);
	if (bad && *bad->name != ':')
		put(h, bad);
}

static void what_would_be_read_in_two_ways_is_refused(void **state)
{
	static const struct pair bad[] = {
		{ ":method", "GET /b HTTP/1.1\r\nx:", 0 }, { ":method", "G T", 0 }, { ":method", "", 0 },
		{ ":method", "CONNECT", 0 }, { ":scheme", "http", 0 }, { ":scheme", "", 0 },
		{ ":authority", "h\r\nx: y", 0 }, { ":authority", "h i", 0 }, { ":authority", "h\0i", 3 },
		{ ":path", "/a b", 0 }, { ":path", "/\r\n\r\nGET /b", 0 }, { ":path", "/\0", 2 }, { ":path", "/\x7f", 0 },
		{ ":path", "b", 0 }, { ":path", "", 0 }, { ":path", "*", 0 }, { ":path", "http://h/", 0 },
		{ "x", "a\r\n\r\nGET /b", 0 }, { "x", "a\nb: c", 0 }, { "x", "a\rb", 0 }, { "x", "a\0b", 3 },
		{ "x\r\ny", "a", 0 }, { "x y", "a", 0 }, { "x:", "a", 0 }, { "X", "a", 0 }, { "", "a", 0 },
		{ "cookie", "a\r\nx: y", 0 }, { "host", "i", 0 }, { "host", "h\r\nx: y", 0 },
		{ "connection", "close", 0 }, { "transfer-encoding", "chunked", 0 }, { "keep-alive", "1", 0 },
		{ "proxy-connection", "x", 0 }, { "upgrade", "websocket", 0 }, { "te", "gzip", 0 },
	};
	struct head h;
	bool is_head;
	size_t len, i;

	(void)state;
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		begin(&h, &bad[i]);
		assert_null(head_text(&h, true, &len, &is_head));
		assert_true(h.status == 400 || h.status == 501);
		assert_non_null(h.error);
		head_forget(&h);
	}
}

static void pseudo_fields_come_first_and_once(void **state)
{
	static const struct pair late[] = {
		{ ":path", "/b", 0 }, { ":status", "200", 0 }, { ":protocol", "websocket", 0 }, { ":authority", "i", 0 },
	};
	struct head h;
	bool is_head;
	size_t len, i;

	(void)state;
	for (i = 0; i < sizeof(late) / sizeof(late[0]); i++) {
		begin(&h, NULL);
		put(&h, &late[i]);
		assert_null(head_text(&h, true, &len, &is_head));
		assert_int_equal(h.status, 400);
		head_forget(&h);
	}
	h = (struct head){ .limit = 4096 };
	put(&h, &good[0]);
	put(&h, &good[1]);
	put(&h, &good[3]);
	put(&h, &(struct pair){ "host", "h", 0 });
	put(&h, &good[2]);
	assert_null(head_text(&h, true, &len, &is_head));
	assert_int_equal(h.status, 400);
	head_forget(&h);
}

static void check(struct head *h, bool ended, const char *wanted)
{
	bool is_head;
	size_t len;
	char *text = head_text(h, ended, &len, &is_head);

	assert_non_null(text);
	assert_int_equal(len, strlen(wanted));
	assert_memory_equal(text, wanted, len);
	free(text);
	head_forget(h);
}

static void what_is_good_is_written_down(void **state)
{
	static const struct pair more[] = {
		{ "cookie", "a=1", 0 }, { "te", "trailers", 0 }, { "x", "y z", 0 }, { "cookie", "b=2", 0 }, { "host", "H", 0 },
	};
	struct head h;
	size_t i;

	(void)state;
	begin(&h, NULL);
	for (i = 0; i < sizeof(more) / sizeof(more[0]); i++)
		put(&h, &more[i]);
	check(&h, true, "GET /a HTTP/1.1\r\nHost: h\r\nx: y z\r\nCookie: a=1; b=2\r\nConnection: close\r\n\r\n");
	begin(&h, NULL);
	check(&h, false, "GET /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n");
	begin(&h, NULL);
	put(&h, &(struct pair){ "content-length", "5", 0 });
	check(&h, false, "GET /a HTTP/1.1\r\nHost: h\r\ncontent-length: 5\r\nConnection: close\r\n\r\n");
}

static void what_is_too_long_is_kept_no_longer(void **state)
{
	char value[1000];
	struct head h;
	bool is_head;
	size_t len, i;

	(void)state;
	memset(value, 'a', sizeof(value) - 1);
	value[sizeof(value) - 1] = '\0';
	begin(&h, NULL);
	for (i = 0; i < 100000; i++)
		put(&h, &(struct pair){ "x", value, 0 });
	assert_true(h.fields.size <= 8192);
	assert_null(head_text(&h, true, &len, &is_head));
	assert_int_equal(h.status, 431);
	head_forget(&h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_would_be_read_in_two_ways_is_refused),
		cmocka_unit_test(pseudo_fields_come_first_and_once),
		cmocka_unit_test(what_is_good_is_written_down),
		cmocka_unit_test(what_is_too_long_is_kept_no_longer),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("lard_http2_head", tests, NULL, NULL);
}
