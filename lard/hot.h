/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The targets that are asked for most: up to HOT_MAX a worker, counted as Space-Saving does (Metwally et al.,
 * 2005). A target that is not among them takes the place and the count of the rarest; with more than HOT_MAX targets
 * a count may be too high by that much, and the most frequent ones are among them. Only with a status page.
 */
#ifndef LARD_HOT_H
#define LARD_HOT_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#define HOT_MAX		64
#define HOT_TEXT	160	/* of a target's name; what is longer is cut */

/**
 * struct hot - one worker's
 * @lock: the worker takes it for each request, the status page once a second
 */
struct hot {
	pthread_mutex_t lock;
	unsigned int used;
	uint64_t keys[HOT_MAX];
	uint64_t counts[HOT_MAX];
	char texts[HOT_MAX][HOT_TEXT];
};

/* NULL: no memory. */
struct hot *hot_new(void);
void hot_free(struct hot *hot);
/* One request more; @text is kept in printable ASCII. */
void hot_note(struct hot *hot, uint64_t key, const char *text, size_t len);
/* Adds what @from has to @to, which is nobody else's. */
void hot_add(struct hot *to, struct hot *from);
/* Half of each count: what was asked for long ago makes room for what is asked for now. */
void hot_age(struct hot *hot);
/* The most frequent first. */
void hot_sort(struct hot *hot);

#endif
