// SPDX-License-Identifier: MIT
/* The dispatch attributes are read and written whole, and only they. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include "kmod/lib/internal.h"

static char directory[64];

static int set_up(void **state)
{
	char path[128];
	FILE *f;

	(void)state;
	snprintf(directory, sizeof(directory), "/tmp/kmod_dispatch.XXXXXX");
	assert_non_null(mkdtemp(directory));
	flt_dispatch_dir = directory;
	snprintf(path, sizeof(path), "%s/policy", directory);
	f = fopen(path, "w");
	assert_non_null(f);
	fputs("lard/r\n", f);
	return fclose(f);
}

static int tear_down(void **state)
{
	char path[128];

	(void)state;
	snprintf(path, sizeof(path), "%s/policy", directory);
	unlink(path);
	return rmdir(directory);
}

static void value_comes_without_its_newline(void **state)
{
	char text[32];

	(void)state;
	assert_int_equal(flt_dispatch_get("policy", text, sizeof(text)), 0);
	assert_string_equal(text, "lard/r");
}

static void buffer_too_small_is_told(void **state)
{
	char text[8] = "";

	(void)state;
	assert_int_equal(flt_dispatch_get("policy", text, 0), -EINVAL);
	assert_int_equal(flt_dispatch_get("policy", text, 4), -ENOSPC);
	assert_int_equal(flt_dispatch_get("policy", text, 7), 0);
	assert_string_equal(text, "lard/r");
}

static void absent_attribute_is_enoent(void **state)
{
	char text[8];

	(void)state;
	assert_int_equal(flt_dispatch_get("t_low", text, sizeof(text)), -ENOENT);
	assert_int_equal(flt_dispatch_set("t_low", "1"), -ENOENT);
	assert_int_equal(flt_dispatch_watch("t_low"), -ENOENT);
}

static void name_cannot_leave_the_directory(void **state)
{
	static const char *const names[] = { "", ".", "..", "../policy", "a/b", "/etc/passwd" };
	char text[8];
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		assert_int_equal(flt_dispatch_get(names[i], text, sizeof(text)), -EINVAL);
		assert_int_equal(flt_dispatch_set(names[i], "x"), -EINVAL);
	}
}

static void watcher_rereads_through_its_descriptor(void **state)
{
	char text[32];
	int fd;

	(void)state;
	fd = flt_dispatch_watch("policy");
	assert_true(fd >= 0);
	assert_int_equal(flt_dispatch_set("policy", "wrr\n\n\n\n"), 0);
	assert_int_equal(flt_dispatch_read(fd, text, sizeof(text)), 0);
	assert_string_equal(text, "wrr");
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(value_comes_without_its_newline, set_up, tear_down),
		cmocka_unit_test_setup_teardown(buffer_too_small_is_told, set_up, tear_down),
		cmocka_unit_test_setup_teardown(absent_attribute_is_enoent, set_up, tear_down),
		cmocka_unit_test_setup_teardown(name_cannot_leave_the_directory, set_up, tear_down),
		cmocka_unit_test_setup_teardown(watcher_rereads_through_its_descriptor, set_up,
						tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
