/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Helpers as processes, as in the paper: what they touch is in memory afterwards, for all; only
 * the notice that it is done comes back (Pai, 4.4.1).
 *
 * A spawner, forked while the worker is still small, forks a helper whenever the loop sends it
 * a socket: the loop never copies its own page tables. The loop holds the other end, one job on
 * it at a time: struct helper_call and the name go there, for a read with the file's descriptor
 * (what the loop has open is what is read, whatever the name means by now); struct helper_answer
 * comes back. A helper that dies gives its job back to the queue; a job that three died of fails.
 */
#ifndef FLASH_HELPER_PROCESS_H
#define FLASH_HELPER_PROCESS_H

#include <limits.h>

#include "job.h"

struct helper_procs;
struct worker;

/**
 * struct helper_call - one job, as sent
 * @fd:     READ: not part of the message, goes as SCM_RIGHTS
 * @vhost:  NAME: struct vhost.id
 * @map:    READ: map and populate rather than read
 * @name:   NAME: decoded, begins with '/', ends in NUL, which counts in @name_len
 */
struct helper_call {
	uint32_t kind;
	int32_t fd, vhost;
	uint32_t map;
	uint64_t off;
	uint32_t len, name_len;
	char name[PATH_MAX];
};

struct helper_answer {
	int32_t err;		/* 0, or a negative errno */
	uint32_t cold;		/* it waited for a disk */
};

struct helper_procs *helper_procs_new(struct worker *w);
/* Jobs on their way are answered -EINTR. NULL is fine. */
void helper_procs_free(struct helper_procs *h);
void helper_procs_submit(struct helper_procs *h, struct job *job);
/* Ends the jobs that no helper could do, with -EIO. */
void helper_procs_reap(struct helper_procs *h);

#endif
