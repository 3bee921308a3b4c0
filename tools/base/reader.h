/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Reading files of directives: one a line, words apart at blanks, "..." keeps blanks, # begins a
 * comment. Functions return 0, or -EINVAL after writing "file:line: sentence" into @error.
 */
#ifndef BASE_READER_H
#define BASE_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define READER_DEPTH	8	/* files within files */

struct config;

/**
 * struct reader - one reading of a configuration
 * @config: what the directives fill in
 * @run:    does what the words of a line say; there is one at least
 * @path:   of the file at hand, @line its line, @depth how many files are open
 * @lines:  of all files so far
 */
struct reader {
	struct config *config;
	int (*run)(struct reader *r, int argc, char **argv);
	const char *path;
	unsigned int line;
	unsigned int depth;
	unsigned int lines;
	char *error;
	size_t error_size;
};

/* Always -EINVAL. */
__attribute__((format(printf, 2, 3)))
int reader_wrong(struct reader *r, const char *format, ...);
int reader_number(struct reader *r, const char *name, const char *text, uint64_t low, uint64_t high,
		  uint64_t *number);
int reader_time(struct reader *r, const char *name, const char *text, uint64_t *us);
int reader_switch(struct reader *r, const char *name, const char *text, bool *on);
int reader_text(struct reader *r, const char *name, const char *text, char *out, size_t size);
/* All of a file; or -errno if the outermost cannot be opened. */
int reader_file(struct reader *r, const char *path);

#endif
