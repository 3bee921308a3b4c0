/* SPDX-License-Identifier: MIT */
/* Streams of stdio whose buffer is a buffer of iolite. */
#ifndef IOLITE_STREAM_H
#define IOLITE_STREAM_H

#include <stdbool.h>
#include <stdio.h>

#include <iolite.h>

/**
 * struct stream - one of them
 * @file:    what the program has
 * @real:    of the C library, which owns the descriptor
 * @fd:      descriptor
 * @agg:     reading: what @file reads from, or will; writing: what @file's buffer is
 * @at:      reading: bytes of @agg that @file has got
 * @fill:    writing: where @file's buffer begins
 * @first:   memory, the buffer until the first data comes
 * @plain:   in a child after fork, or reopened: @first is the buffer for good, and calls copy
 * @saved:   before fork: what was in the buffer
 * @saved_len: bytes of it
 */
struct stream {
	struct stream *next;
	FILE *file;
	FILE *real;
	int fd;
	bool writes;
	IOL_Agg *agg;
	size_t at;
	char *fill;
	char *first;
	bool plain;
	char *saved;
	size_t saved_len;
};

/* Bytes of the buffer of a stream that writes. */
#define STREAM_BUFFER	65536u

/*
 * A stream in place of @real, or NULL: not of a kind that gains, or memory is short. It closes @real
 * when it is closed.
 */
FILE *stream_make(FILE *real, const char *mode);

/* What @file is, or NULL: of the C library. */
struct stream *stream_of(FILE *file);

/*
 * freopen(): @reopen does it with what the C library has, and from then on calls copy. The same FILE,
 * which others may hold; or NULL, and it is closed.
 */
FILE *stream_reopen(struct stream *s, FILE *(*reopen)(const char *, const char *, FILE *),
		    const char *path, const char *mode);

/* Around fork: the child has no window, so what is in buffers goes with it as ordinary memory. */
void streams_before_fork(void);
void streams_in_parent(void);
void streams_in_child(void);

#endif
