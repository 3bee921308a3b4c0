// SPDX-License-Identifier: GPL-2.0
/* Connections by client address. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>
#include "lard/address.h"
#include "lard/crowd.h"

#define MANY 200000

static union address at(const char *text)
{
	union address address;

	assert_int_equal(address_parse(text, 80, &address), 0);
	return address;
}

/* How many of @text come in beside who is there, if @most may; all of them leave again. */
static unsigned int come(struct crowd *crowd, const char *text, unsigned int most)
{
	struct crowd_address *here[8];
	union address address = at(text);
	unsigned int n = 0;

	while (n < 8 && (here[n] = crowd_enter(crowd, &address, most)))
		n++;
	most = n;
	while (n)
		crowd_leave(crowd, here[--n]);
	return most;
}

static void each_address_has_its_own(void **state)
{
	struct crowd *crowd = crowd_new(7);
	union address one = at("192.0.2.1");
	struct crowd_address *a = crowd_enter(crowd, &one, 3), *b;

	(void)state;
	assert_non_null(a);
	assert_int_equal(come(crowd, "192.0.2.1", 3), 2);
	assert_int_equal(come(crowd, "192.0.2.2", 3), 3);
	assert_int_equal(come(crowd, "192.0.2.1", 1), 0);
	b = crowd_enter(crowd, &one, 3);
	assert_int_equal(crowd_size(crowd), 1);
	crowd_leave(crowd, a);
	assert_int_equal(come(crowd, "192.0.2.1", 3), 2);
	crowd_leave(crowd, b);
	crowd_leave(crowd, NULL);
	assert_int_equal(crowd_size(crowd), 0);
	assert_int_equal(come(crowd, "192.0.2.1", 3), 3);
	crowd_free(crowd);
}

static void a_network_of_ipv6_is_one(void **state)
{
	struct crowd *crowd = crowd_new(7);
	union address one = at("2001:db8:0:1::1"), none = at("0.0.0.0");
	struct crowd_address *a = crowd_enter(crowd, &one, 2), *b = crowd_enter(crowd, &none, 2);

	(void)state;
	assert_non_null(a);
	assert_non_null(b);
	assert_int_equal(come(crowd, "2001:db8:0:1:ffff::9", 2), 1);
	assert_int_equal(come(crowd, "2001:db8:0:2::1", 2), 2);
	assert_int_equal(come(crowd, "::1", 2), 2);
	assert_int_equal(crowd_size(crowd), 2);
	crowd_free(crowd);			/* with who is still there */
}

static void many_leave_nothing_behind(void **state)
{
	struct crowd *crowd = crowd_new(7);
	struct crowd_address **all = calloc(MANY, sizeof(*all));
	union address address = at("10.0.0.0");
	unsigned int i;

	(void)state;
	for (i = 0; i < MANY; i++) {
		address.in.sin_addr.s_addr = htonl(0x0a000000 + i);
		all[i] = crowd_enter(crowd, &address, 1);
		assert_non_null(all[i]);
		assert_null(crowd_enter(crowd, &address, 1));
	}
	assert_int_equal(crowd_size(crowd), MANY);
	for (i = 0; i < MANY; i++)
		crowd_leave(crowd, all[i * 7919ULL % MANY]);
	assert_int_equal(crowd_size(crowd), 0);
	crowd_free(crowd);
	free(all);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_address_has_its_own),
		cmocka_unit_test(a_network_of_ipv6_is_one),
		cmocka_unit_test(many_leave_nothing_behind),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("lard_crowd", tests, NULL, NULL);
}
