/* SPDX-License-Identifier: GPL-2.0 */
/* What helpers do, and the queue in which it waits for them. */
#ifndef FLASH_JOB_H
#define FLASH_JOB_H

#include <stdbool.h>
#include <stdint.h>

#include "tools/base/list.h"

struct helper_call;

enum job_kind { JOB_NAME, JOB_READ, JOB_KINDS };

/**
 * struct job
 * @run:    does it; on a helper thread, or where there is none on the loop
 * @done:   on the loop
 * @pack:   describes it for a helper process; NULL: only this process can run it
 * @answer: takes what a helper process found: 0 or a negative errno, and whether it waited for a disk
 * @size:   small-first: bytes of the file it is about
 * @passed: jobs that came later and went before
 * @tries:  helper processes that died of it
 */
struct job {
	struct list node;
	enum job_kind kind;
	unsigned int passed, tries;
	uint64_t size;
	void (*run)(struct job *job);
	void (*done)(struct job *job);
	void (*pack)(struct job *job, struct helper_call *call);
	void (*answer)(struct job *job, int err, bool cold);
};

/**
 * struct job_queue - jobs nobody has taken, by kind
 * @running: of each kind, taken and not yet ended
 * @max:     helpers
 * @small_first: reads of small files go before those of large ones, which wait a bounded time
 *
 * Guarded by its owner.
 */
struct job_queue {
	struct list waiting[JOB_KINDS];
	unsigned int running[JOB_KINDS], max;
	bool small_first;
};

void job_queue_init(struct job_queue *q, unsigned int max, bool small_first);
void job_queue_add(struct job_queue *q, struct job *job);
/* The next job for a free helper, or NULL; counted as running until job_queue_ended(). */
struct job *job_queue_take(struct job_queue *q);
void job_queue_ended(struct job_queue *q, const struct job *job);

#endif
