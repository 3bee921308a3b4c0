// SPDX-License-Identifier: GPL-2.0
/* Files of directives: lines, words and values. */
#include "tools/base/reader.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define WORDS_MAX	16
#define LINE_SIZE	4096
#define LINES_MAX	1000000	/* of all files together */

int reader_wrong(struct reader *r, const char *format, ...)
{
	va_list args;
	int n;

	n = snprintf(r->error, r->error_size, "%s:%u: ", r->path, r->line);
	if (n < 0 || (size_t)n >= r->error_size)
		return -EINVAL;
	va_start(args, format);
	vsnprintf(r->error + n, r->error_size - n, format, args);
	va_end(args);
	return -EINVAL;
}

int reader_number(struct reader *r, const char *name, const char *text, uint64_t low,
			uint64_t high, uint64_t *number)
{
	char *end;

	errno = 0;
	*number = strtoull(text, &end, 10);
	if (*text < '0' || *text > '9' || *end || errno || *number < low || *number > high)
		return reader_wrong(r, "%s must be a number from %" PRIu64 " to %" PRIu64 ", not \"%s\"",
				    name, low, high, text);
	return 0;
}

/* "20s", "500ms", "2m", "1h"; a bare number is seconds. */
int reader_time(struct reader *r, const char *name, const char *text, uint64_t *us)
{
	static const struct {
		const char *suffix;
		uint64_t us;
	} units[] = {
		{ "", 1000000 }, { "s", 1000000 }, { "ms", 1000 }, { "us", 1 },
		{ "m", 60000000 }, { "h", 3600000000ULL },
	};
	unsigned int i;
	uint64_t number;
	char *end;

	errno = 0;
	number = strtoull(text, &end, 10);
	if (*text >= '0' && *text <= '9' && !errno && number < 1000000000)
		for (i = 0; i < sizeof(units) / sizeof(units[0]); i++)
			if (!strcmp(end, units[i].suffix)) {
				*us = number * units[i].us;
				return 0;
			}
	return reader_wrong(r, "%s must be a time such as 20s or 500ms, not \"%s\"", name, text);
}

int reader_switch(struct reader *r, const char *name, const char *text, bool *on)
{
	*on = !strcmp(text, "on");
	return *on || !strcmp(text, "off") ? 0 : reader_wrong(r, "%s must be on or off", name);
}

int reader_text(struct reader *r, const char *name, const char *text, char *out, size_t size)
{
	if (strlen(text) >= size)
		return reader_wrong(r, "%s is longer than %zu characters", name, size - 1);
	strcpy(out, text);
	return 0;
}

/* Words apart at blanks; "..." keeps blanks; # begins a comment. Number of words, or -EINVAL. */
static int split(struct reader *r, char *line, char **argv)
{
	int argc = 0;

	for (;;) {
		line += strspn(line, " \t\r\n");
		if (!*line || *line == '#')
			return argc;
		if (argc == WORDS_MAX)
			return reader_wrong(r, "more than %d words", WORDS_MAX);
		if (*line == '"') {
			argv[argc++] = ++line;
			line = strchr(line, '"');
			if (!line)
				return reader_wrong(r, "a quotation mark is missing");
		} else {
			argv[argc++] = line;
			line += strcspn(line, " \t\r\n");
		}
		if (*line)
			*line++ = '\0';
	}
}

static int read_line(struct reader *r, char *line)
{
	char *argv[WORDS_MAX];
	int argc = split(r, line, argv);

	return argc > 0 ? r->run(r, argc, argv) : argc;
}

/* One that waits for a writer, or has no end, is no configuration. NULL with errno. */
static FILE *open_regular(const char *path)
{
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct stat st = { 0 };
	FILE *file = NULL;

	if (fd < 0)
		return NULL;
	if (fstat(fd, &st) || !S_ISREG(st.st_mode))
		errno = S_ISDIR(st.st_mode) ? EISDIR : EINVAL;
	else
		file = fdopen(fd, "r");
	if (!file)
		close(fd);
	return file;
}

static const char *open_error(int err)
{
	return err == EINVAL ? "it is not a regular file" : strerror(err);
}

/* 1: a line is there; 0: the end, or an error of @file's. */
static int next_line(struct reader *r, FILE *file, char *line)
{
	size_t len = 0;
	int c;

	while ((c = getc_unlocked(file)) != EOF && c != '\n') {
		if (!c)
			return reader_wrong(r, "a NUL byte");
		if (len == LINE_SIZE - 1)
			return reader_wrong(r, "a line of more than %d bytes", LINE_SIZE - 1);
		line[len++] = c;
	}
	line[len] = '\0';
	return c != EOF || len;
}

static int read_lines(struct reader *r, FILE *file)
{
	char line[LINE_SIZE];
	int more, err = 0;

	while (!err) {
		r->line++;
		more = next_line(r, file, line);
		if (more <= 0)
			return more;
		if (++r->lines > LINES_MAX)
			return reader_wrong(r, "more than %d lines", LINES_MAX);
		err = read_line(r, line);
	}
	return err;
}

int reader_file(struct reader *r, const char *path)
{
	const char *outer_path = r->path;
	unsigned int outer_line = r->line;
	FILE *file = open_regular(path);
	int err;

	if (!file) {
		err = -errno;
		if (r->depth)
			return reader_wrong(r, "cannot read %s: %s", path, open_error(-err));
		snprintf(r->error, r->error_size, "cannot read %s: %s", path, open_error(-err));
		return err;
	}
	r->path = path;
	r->line = 0;
	r->depth++;
	err = read_lines(r, file);
	if (!err && ferror(file))
		err = reader_wrong(r, "cannot read on: %s", strerror(errno));
	fclose(file);
	r->depth--;
	if (!err) {
		r->path = outer_path;
		r->line = outer_line;
	}
	return err;
}
