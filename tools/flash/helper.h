/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Helpers: threads, processes or the kernel's io_uring that do what may wait for a disk, one job at a time (Pai, 4.4.1).
 *
 * Two queues, name look-ups and reads, so that a burst of long reads cannot keep names waiting.
 * Helpers are started when a job finds no idle one, up to the limit, and stay.
 */
#ifndef FLASH_HELPER_H
#define FLASH_HELPER_H

#include "job.h"

struct helpers;
struct worker;

/* As the configuration of @w says. NULL: out of memory. */
struct helpers *helpers_new(struct worker *w);
/* Once the loop of @w is there, before the first job. */
void helpers_begin(struct helpers *h, struct worker *w);
/* Finishes all jobs first. */
void helpers_free(struct helpers *h);

/* @done is called later, from helpers_reap() or an event, never before the return. */
void helper_submit(struct helpers *h, struct job *job);

/* Calls @done of everything that threads have finished. On the loop's thread. */
void helpers_reap(struct helpers *h);

#endif
