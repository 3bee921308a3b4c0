/* SPDX-License-Identifier: GPL-2.0 */
/* What the converted programs have in common. */
#ifndef IOLITE_PROGRAM_H
#define IOLITE_PROGRAM_H

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <iolite.h>

/* As much as one call gives: 16 chunks. */
#define PROGRAM_READ	(1u << 20)

static inline void program_check(IOL_Err err, const char *what)
{
	if (!err)
		return;
	fprintf(stderr, "%s: %s\n", what, strerror(-err));
	exit(2);
}

/* The one option of these programs. */
static inline void program_version(int argc, char **argv, const char *name)
{
	if (argc != 2 || strcmp(argv[1], "--version"))
		return;
	printf("%s %s\n", name, FLT_VERSION);
	exit(0);
}

/* A name, or standard input for none and "-". */
static inline int program_open(const char *name)
{
	int fd;

	if (!name || !strcmp(name, "-"))
		return STDIN_FILENO;
	fd = open(name, O_RDONLY);
	if (fd < 0) {
		perror(name);
		exit(2);
	}
	return fd;
}

/* All of it, to standard output. */
static inline void program_write(IOL_Agg *agg)
{
	size_t at = 0, n;
	IOL_Agg *rest;

	program_check(IOL_write(STDOUT_FILENO, agg, &n), "write");
	for (at = n; at < IOL_length(agg); at += n) {
		program_check(IOL_select(&rest, agg, at, IOL_length(agg) - at), "write");
		program_check(IOL_write(STDOUT_FILENO, rest, &n), "write");
		IOL_destroy(rest);
	}
}

#endif
