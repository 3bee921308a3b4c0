/* SPDX-License-Identifier: GPL-2.0 */
/* Howl's cache, and the ways in which it serves from it. See howl.c. */
#ifndef BENCH_HOWL_H
#define BENCH_HOWL_H

#include <stdbool.h>
#include <stddef.h>

#define REQUEST_MAX	4096

/**
 * struct answer - what is sent, made beforehand
 * @text:   head and body in one piece
 * @len:    of both
 * @file:   the same in a file in memory, to be sent from there; or -1
 * @closes: the head says that the connection ends
 */
struct answer {
	char *text;
	size_t len;
	int file;
	bool closes;
};

/* The answer to what was read in one piece; a 404 that closes to all that Howl does not have. */
const struct answer *answer_to(const char *request, size_t len);

/* Serves what comes to @listener with io_uring; does not return. */
void ring_serve(int listener) __attribute__((noreturn));

#endif
