// SPDX-License-Identifier: MIT
/*
 * libiolstdio: ordinary programs of stdio read and write by reference, relinked with it or with
 *	LD_PRELOAD=libiolstdio.so
 *
 * What stays is the copy between the program and its stream. A program that has no stream for
 * its data (cat, with read and write) gains nothing and loses nothing.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "stream.h"

/* Without the module there is nothing to gain; tests want it all the same. */
static bool wanted(void)
{
	const char *how = getenv("IOLSTDIO");

	if (how && !strcmp(how, "off"))
		return false;
	return (how && !strcmp(how, "always")) || IOL_domain();
}

static void *next(const char *name)
{
	return dlsym(RTLD_NEXT, name);
}

static FILE *converted(FILE *real, const char *mode)
{
	FILE *file = real && wanted() ? stream_make(real, mode) : NULL;

	return file ? file : real;
}

FILE *fopen(const char *path, const char *mode)
{
	FILE *(*call)(const char *, const char *) = next("fopen");

	return converted(call(path, mode), mode);
}

FILE *fopen64(const char *path, const char *mode)
{
	FILE *(*call)(const char *, const char *) = next("fopen64");

	return converted(call(path, mode), mode);
}

FILE *fdopen(int fd, const char *mode)
{
	FILE *(*call)(int, const char *) = next("fdopen");

	return converted(call(fd, mode), mode);
}

/* The library reopens only streams of its own kind. */
static FILE *reopened(FILE *(*call)(const char *, const char *, FILE *), const char *path,
		      const char *mode, FILE *file)
{
	struct stream *s = stream_of(file);

	return s ? stream_reopen(s, call, path, mode) : call(path, mode, file);
}

FILE *freopen(const char *path, const char *mode, FILE *file)
{
	return reopened(next("freopen"), path, mode, file);
}

FILE *freopen64(const char *path, const char *mode, FILE *file)
{
	return reopened(next("freopen64"), path, mode, file);
}

static void __attribute__((constructor)) iolstdio_start(void)
{
	FILE *file;

	if (!wanted())
		return;
	pthread_atfork(streams_before_fork, streams_in_parent, streams_in_child);
	file = stream_make(stdin, "r");
	if (file)
		stdin = file;
	file = stream_make(stdout, "w");
	if (file)
		stdout = file;
}
