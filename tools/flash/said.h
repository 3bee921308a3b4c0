/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What programs say on their standard error, on its way to ours. A line of theirs is one line there,
 * begins with who said it, and cannot be taken for one of ours: what does not print is escaped as in
 * the access log. Long lines are cut, and a program that does not stop fills neither the disk nor the
 * loop's time: a worker passes on so much a second, the rest is counted. Each of a few programs has a
 * share of its own beside what there is for all: one that is loud does not drown one that is quiet.
 */
#ifndef FLASH_SAID_H
#define FLASH_SAID_H

#include <stdbool.h>
#include <stddef.h>

#include "loop.h"

struct worker;

#define SAID_SHARES 16		/* programs that have one, those heard last */
#define SAID_LINE 800		/* of a line, before it is escaped; what is longer is cut */

/* The beginning of a line that has not ended yet. */
struct said_line {
	unsigned int len;
	bool cut;
	char text[SAID_LINE];
};

/* Bytes that may be passed on now; they grow with the time since @since (ms). */
struct said_room {
	unsigned int bytes;
	uint64_t since;
};

/**
 * struct said - what a worker has passed on
 * @sources:  programs' standard errors, each a pipe
 * @all:      for every program
 * @shares:   for one, known by the sum of its name; what is left when @all is used up
 * @left_out: lines that nobody was told of yet; @tell does
 */
struct said {
	struct list sources;
	struct said_room all;
	struct {
		uint64_t who;
		struct said_room room;
	} shares[SAID_SHARES];
	unsigned int left_out;
	struct timer tell;
};

void said_init(struct worker *w);
/* The end of the worker: who still writes gets an error. */
void said_exit(struct worker *w);

/* Bytes that @who has said; whole lines are passed on. */
void said_add(struct worker *w, const char *who, struct said_line *line, const char *p, size_t len);
/* Nothing follows: the rest is a line, too. */
void said_end(struct worker *w, const char *who, struct said_line *line);

/* Passes on what comes out of the pipe @fd, which becomes ours, until its end. */
void said_watch(struct worker *w, const char *who, int fd);

#endif
