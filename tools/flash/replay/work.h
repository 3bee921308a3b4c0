/* SPDX-License-Identifier: GPL-2.0 */
/* What is asked for, in which order. */
#ifndef REPLAY_WORK_H
#define REPLAY_WORK_H

#include <stdbool.h>
#include <stdint.h>

/**
 * struct work - requests to be made
 * @path:    of each target
 * @size:    its bytes as far as the input tells, else 0
 * @order:   target of each request, as in the input
 * @random:  draw requests from @order instead of going through it in a loop
 * @next:    position in the loop, or state of the draw
 */
struct work {
	char **path;
	uint64_t *size;
	uint32_t targets;
	uint32_t *order;
	uint64_t requests;
	bool random;
	uint64_t next;
};

/*
 * From a compact trace of lardsim (target N is @prefix followed by N), an access log in Common or
 * Combined Log Format (GET and HEAD with status 2xx or 304), or a list of paths, one a line, each
 * perhaps followed by its size. 0, or -1 with a sentence in @why.
 */
int work_load(struct work *w, const char *file, const char *prefix, const char **why);

/*
 * Keeps the longest beginning whose distinct targets have at most @bytes in all: the data set.
 * Return: bytes of the data set.
 */
uint64_t work_truncate(struct work *w, uint64_t bytes);

/* Path of the next request. */
const char *work_next(struct work *w);
void work_free(struct work *w);

#endif
