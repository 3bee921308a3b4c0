/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Helpers: threads that do what may wait for a disk, one job at a time (spec 4.4.1).
 *
 * Two queues, name look-ups and reads, so that a burst of long reads cannot keep names waiting.
 * Threads are started when a job finds no idle one, up to the limit, and stay.
 */
#ifndef FLASH_HELPER_H
#define FLASH_HELPER_H

#include <stdbool.h>
#include <stdint.h>

#include "list.h"

struct helpers;
struct loop;

enum job_kind { JOB_NAME, JOB_READ, JOB_KINDS };

/**
 * struct job
 * @size:   small-first: bytes of the file it is about
 * @passed: jobs that came later and went before
 */
struct job {
	struct list node;
	enum job_kind kind;
	unsigned int passed;
	uint64_t size;
	void (*run)(struct job *job);	/* on a helper */
	void (*done)(struct job *job);	/* on the loop */
};

/* @small_first: reads of small files go before those of large ones, which wait a bounded time. */
struct helpers *helpers_new(struct loop *loop, unsigned int max, bool small_first);
/* Finishes all jobs first. */
void helpers_free(struct helpers *h);

/* @done is called later, from helpers_reap(), never before the return. */
void helper_submit(struct helpers *h, struct job *job);

/* Calls @done of everything finished. On the loop's thread. */
void helpers_reap(struct helpers *h);

#endif
