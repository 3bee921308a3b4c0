/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Reads by io_uring: the kernel's own threads do what helper threads would, with no hand-over
 * between processes or threads of ours. What is read is thrown away, for it is the page cache
 * that is to have it. Names are still looked up by helper threads. Loop's thread only.
 */
#ifndef FLASH_HELPER_RING_H
#define FLASH_HELPER_RING_H

#include "job.h"

struct helper_ring;
struct worker;

/* NULL, with errno set: io_uring cannot be had. */
struct helper_ring *helper_ring_new(struct worker *w);
/* Waits for the reads on their way and does those that wait. NULL is fine. */
void helper_ring_free(struct helper_ring *h);
/* @job has a @pack, and @done is called later, from helper_ring_reap(). */
void helper_ring_submit(struct helper_ring *h, struct job *job);
/* After the loop was woken: ends what has been read, begins what waits. */
void helper_ring_reap(struct helper_ring *h);

#endif
