// SPDX-License-Identifier: GPL-2.0
/* Streams of libiolstdio are the C library's to a program. Runs without the module. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "iolite/lib/stream.h"

#define LONG	200000

static char dir[] = "/tmp/iolite-stdio-XXXXXX";

static const char *path(const char *name)
{
	static char text[2][64];
	static int turn;

	turn = !turn;
	snprintf(text[turn], sizeof(text[turn]), "%s/%s", dir, name);
	return text[turn];
}

/* @len bytes of @c in @name, by the C library's own stream: it writes a file. */
static void put(const char *name, char c, size_t len)
{
	FILE *file = fopen(path(name), "w");

	assert_non_null(file);
	while (len--)
		fputc(c, file);
	assert_int_equal(fclose(file), 0);
}

static void holds(const char *name, const char *text)
{
	char got[256] = "";
	FILE *file = fopen(path(name), "r");

	assert_non_null(file);
	assert_non_null(stream_of(file));
	assert_int_equal(fread(got, 1, sizeof(got) - 1, file), strlen(text));
	assert_string_equal(got, text);
	fclose(file);
}

/* How many bytes of @c come before the end. */
static size_t rest(FILE *file, char c)
{
	size_t n = 0;
	int got;

	while ((got = getc(file)) != EOF) {
		assert_int_equal(got, c);
		n++;
	}
	return n;
}

static void child_reads(FILE *file, char c, size_t len)
{
	pid_t child = fork();
	int status;

	if (!child)
		_exit(rest(file, c) != len);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

static void a_stream_that_reads_is_the_same_when_it_is_reopened(void **state)
{
	FILE *file;
	int round;

	(void)state;
	put("a", 'a', LONG);
	put("b", 'b', LONG);
	file = fopen(path("a"), "r");
	assert_non_null(stream_of(file));
	for (round = 0; round < 3; round++) {
		assert_int_equal(getc(file), 'a');
		assert_int_equal(ungetc('x', file), 'x');
		assert_ptr_equal(freopen(path("b"), "r", file), file);
		assert_int_equal(getc(file), 'b');
		assert_int_equal(ftell(file), 1);
		assert_int_equal(fseek(file, LONG - 5, SEEK_SET), 0);
		assert_int_equal(rest(file, 'b'), 5);
		assert_ptr_equal(freopen64(path("a"), "rb", file), file);
		assert_false(feof(file));
	}
	assert_int_equal(rest(file, 'a'), LONG);
	assert_int_equal(fseek(file, LONG - 5, SEEK_SET), 0);
	child_reads(file, 'a', 5);
	assert_int_equal(fclose(file), 0);
	assert_null(stream_of(file));
}

static void what_cannot_be_reopened_is_closed(void **state)
{
	FILE *file = fopen(path("a"), "r");
	int fd = fileno(file);

	(void)state;
	assert_non_null(stream_of(file));
	assert_int_equal(getc(file), 'a');
	assert_null(freopen(path("none"), "r", file));
	assert_null(stream_of(file));
	errno = 0;
	assert_int_equal(lseek(fd, 0, SEEK_CUR), -1);
	assert_int_equal(errno, EBADF);
	child_reads(stdin, 0, 0);
}

static void a_stream_that_writes_goes_on_elsewhere(void **state)
{
	char got[8] = "";
	FILE *file;
	int ends[2];

	(void)state;
	assert_int_equal(pipe(ends), 0);
	file = fdopen(ends[1], "w");
	assert_non_null(stream_of(file));
	fputs("pipe", file);
	assert_ptr_equal(freopen(path("w"), "w", file), file);
	assert_int_equal(read(ends[0], got, sizeof(got)), 4);
	assert_string_equal(got, "pipe");
	assert_int_equal(read(ends[0], got, sizeof(got)), 0);
	fputs("one", file);
	assert_int_equal(getc(file), EOF);
	assert_ptr_equal(freopen(path("w"), "a", file), file);
	fputs("two", file);
	assert_ptr_equal(freopen(path("w"), "r+", file), file);
	assert_int_equal(getc(file), 'o');
	assert_int_equal(fseek(file, 0, SEEK_END), 0);
	fputs("three", file);
	assert_int_equal(fclose(file), 0);
	holds("w", "onetwothree");
	close(ends[0]);
}

static int begin(void **state)
{
	(void)state;
	return mkdtemp(dir) && freopen("/dev/null", "r", stdin) ? setenv("IOLSTDIO", "always", 1) : -1;
}

static int end(void **state)
{
	(void)state;
	unlink(path("a"));
	unlink(path("b"));
	unlink(path("w"));
	return rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_stream_that_reads_is_the_same_when_it_is_reopened),
		cmocka_unit_test(what_cannot_be_reopened_is_closed),
		cmocka_unit_test(a_stream_that_writes_goes_on_elsewhere),
	};

	return cmocka_run_group_tests(tests, begin, end);
}
