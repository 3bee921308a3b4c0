// SPDX-License-Identifier: GPL-2.0
/* Rows for people, for scripts (tabs) and for programs (JSON), from the same objects. */
#include <stdlib.h>
#include <string.h>
#include "cli.h"

#define CELL_SIZE	2400	/* the longest path of a cached object, and more */

void json_print(const struct cli *cli, json_t *value)
{
	json_dumpf(value, stdout, (cli->pretty ? JSON_INDENT(2) : JSON_COMPACT) |
		   JSON_ENCODE_ANY | JSON_ENSURE_ASCII);
	json_decref(value);
	putchar('\n');
}

void table_begin(struct table *t, const struct cli *cli, const struct column *columns,
		 unsigned int nr)
{
	*t = (struct table){ .cli = cli, .columns = columns, .nr_columns = nr };
	if (!cli->json && !cli->tabs)
		t->kept = json_array();
}

static void cell(const struct column *column, const json_t *row, bool human, char *text)
{
	const json_t *value = json_object_get(row, column->key);

	if (human && column->human && value)
		column->human(value, text, CELL_SIZE);
	else if (json_is_string(value))
		cli_plain_text(json_string_value(value), text, CELL_SIZE);
	else if (json_is_integer(value))
		snprintf(text, CELL_SIZE, "%lld", (long long)json_integer_value(value));
	else if (json_is_boolean(value))
		snprintf(text, CELL_SIZE, "%s", json_is_true(value) ? "yes" : "no");
	else
		text[0] = '\0';
	/* An empty field would shift the fields of awk and cut. */
	if (!text[0])
		strcpy(text, "-");
}

static void print_tabs(const struct table *t, const json_t *row)
{
	char text[CELL_SIZE];
	unsigned int i;

	for (i = 0; i < t->nr_columns; i++) {
		cell(&t->columns[i], row, false, text);
		printf("%s%c", text, i + 1 < t->nr_columns ? '\t' : '\n');
	}
}

void table_row(struct table *t, json_t *row)
{
	size_t flags = t->cli->pretty ? JSON_INDENT(2) : JSON_COMPACT;

	t->rows++;
	if (t->kept) {
		json_array_append(t->kept, row);
	} else if (t->cli->json) {
		fputs(t->rows == 1 ? "[" : ",", stdout);
		if (t->cli->pretty)
			putchar('\n');
		json_dumpf(row, stdout, flags);
	} else {
		print_tabs(t, row);
	}
	json_decref(row);
}

static void print_kept(const struct table *t)
{
	unsigned int *width = calloc(t->nr_columns, sizeof(*width)), i;
	char text[CELL_SIZE];
	const json_t *row;
	size_t nr;

	if (!width) {
		fputs("flotilla: out of memory\n", stderr);
		return;
	}
	for (i = 0; i < t->nr_columns; i++)
		width[i] = strlen(t->columns[i].title);
	json_array_foreach(t->kept, nr, row) {
		for (i = 0; i < t->nr_columns; i++) {
			cell(&t->columns[i], row, true, text);
			if (strlen(text) > width[i])
				width[i] = strlen(text);
		}
	}
	for (i = 0; i < t->nr_columns; i++)
		printf(i + 1 < t->nr_columns ? "%-*s  " : "%.0d%s\n",
		       i + 1 < t->nr_columns ? (int)width[i] : 0, t->columns[i].title);
	json_array_foreach(t->kept, nr, row) {
		for (i = 0; i < t->nr_columns; i++) {
			cell(&t->columns[i], row, true, text);
			if (i + 1 < t->nr_columns)
				printf("%-*s  ", (int)width[i], text);
			else
				printf("%s\n", text);
		}
	}
	free(width);
}

void table_end(struct table *t)
{
	if (t->cli->json)
		printf("%s%s]\n", t->rows ? "" : "[", t->cli->pretty && t->rows ? "\n" : "");
	else if (t->kept && t->rows)
		print_kept(t);
	json_decref(t->kept);
	t->kept = NULL;
}

void human_duration(const json_t *value, char *text, size_t size)
{
	unsigned long long ms = json_integer_value(value);

	if (!ms)
		snprintf(text, size, "-");
	else if (ms < 1000)
		snprintf(text, size, "%llums", ms);
	else if (ms < 100 * 1000)
		snprintf(text, size, "%llu.%llus", ms / 1000, ms / 100 % 10);
	else if (ms < 100 * 60 * 1000)
		snprintf(text, size, "%llum%llus", ms / 60000, ms / 1000 % 60);
	else
		snprintf(text, size, "%lluh%llum", ms / 3600000, ms / 60000 % 60);
}
