// SPDX-License-Identifier: GPL-2.0
/* Words of a line are read as they were written, and rows have nothing that a terminal or a script obeys. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include "tools/flotilla/cli.h"

static void words_are_split_at_blanks(void **state)
{
	static const struct {
		const char *line;
		int nr;
		const char *words[4];
	} lines[] = {
		{ "", 0, { NULL } },
		{ " \t\r\n", 0, { NULL } },
		{ "# all of it", 0, { NULL } },
		{ " a  b\t# c", 2, { "a", "b" } },
		{ "a#b \"#\" c", 3, { "a#b", "#", "c" } },
		{ "\"a b\" c", 2, { "a b", "c" } },
		{ "a\" \"b", 1, { "a b" } },
		{ "\"\" x", 2, { "", "x" } },
		{ "\"a\\\"\\\\\\nb\\c\"", 1, { "a\"\\\nbc" } },
		{ "a\\b", 1, { "a\\b" } },
		{ "\"a", CLI_OPEN_QUOTE, { NULL } },
		{ "a b\"", CLI_OPEN_QUOTE, { NULL } },
		{ "\"a\\", CLI_OPEN_QUOTE, { NULL } },
		{ "\"a\\\"", CLI_OPEN_QUOTE, { NULL } },
	};
	char *words[CLI_WORDS], *copy;
	size_t i;
	int n;

	(void)state;
	for (i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		copy = strdup(lines[i].line);
		n = cli_split(copy, words);
		if (n != lines[i].nr)
			fail_msg("%s: %d words", lines[i].line, n);
		while (n-- > 0)
			assert_string_equal(words[n], lines[i].words[n]);
		free(copy);
	}
}

static void a_line_has_so_many_words(void **state)
{
	char line[2 * CLI_WORDS + 3] = "", *words[CLI_WORDS];
	int i;

	(void)state;
	for (i = 0; i < CLI_WORDS; i++)
		strcat(line, "x ");
	assert_int_equal(cli_split(line, words), CLI_WORDS);
	for (line[0] = '\0', i = 0; i < CLI_WORDS; i++)
		strcat(line, "x ");
	strcat(line, "x");
	assert_int_equal(cli_split(line, words), CLI_TOO_MANY);
	assert_string_equal(cli_split_why(CLI_TOO_MANY), "a line has 64 words at most");
}

static void what_is_written_is_read_as_it_was(void **state)
{
	static const char bytes[] = "ab#\"\\n \t\r\n\x80\xff";
	char random[3][12], *line, *words[CLI_WORDS];
	size_t size, i, j, len;
	unsigned int round;
	FILE *to;

	(void)state;
	srand(1);
	for (round = 0; round < 20000; round++) {
		to = open_memstream(&line, &size);
		for (i = 0; i < 3; i++) {
			len = rand() % 11;
			for (j = 0; j < len; j++)
				random[i][j] = bytes[rand() % (sizeof(bytes) - 1)];
			random[i][len] = '\0';
			cli_put_word(to, random[i]);
			putc(' ', to);
		}
		fclose(to);
		assert_null(strchr(line, '\n'));
		assert_int_equal(cli_split(line, words), 3);
		for (i = 0; i < 3; i++)
			assert_string_equal(words[i], random[i]);
		free(line);
	}
}

static void a_row_has_its_cells_whatever_is_in_them(void **state)
{
	static const struct column columns[] = { { "path", "PATH", NULL }, { "more", "MORE", NULL } };
	struct cli cli = { .tabs = true };
	char seen[256] = "";
	FILE *f = tmpfile();
	int out = dup(1);
	struct table t;

	(void)state;
	fflush(stdout);
	dup2(fileno(f), 1);
	table_begin(&t, &cli, columns, 2);
	table_row(&t, json_pack("{s:s, s:s}", "path", "/dev/a\tb\n\x1b[2J", "more", "gr\xc3\xbc\xc3\x9f" "e"));
	fflush(stdout);
	dup2(out, 1);
	close(out);
	rewind(f);
	assert_true(fread(seen, 1, sizeof(seen) - 1, f) > 0);
	fclose(f);
	assert_string_equal(seen, "/dev/a\\x09b\\x0a\\x1b[2J\tgr\xc3\xbc\xc3\x9f" "e\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(words_are_split_at_blanks),
		cmocka_unit_test(a_line_has_so_many_words),
		cmocka_unit_test(what_is_written_is_read_as_it_was),
		cmocka_unit_test(a_row_has_its_cells_whatever_is_in_them),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
