// SPDX-License-Identifier: GPL-2.0
#include "job.h"

#define PASSED_MAX 64	/* a read that so many went before waits in its place */

void job_queue_init(struct job_queue *q, unsigned int max, bool small_first)
{
	int i;

	for (i = 0; i < JOB_KINDS; i++)
		list_init(&q->waiting[i]);
	q->max = max;
	q->small_first = small_first;
}

/* Before the larger ones, as far as they have not been passed too often (Pai, 4.5.2, Zeus). */
void job_queue_add(struct job_queue *q, struct job *job)
{
	struct list *head = &q->waiting[job->kind], *at = head;

	while (q->small_first && at->prev != head) {
		struct job *before = list_entry(at->prev, struct job, node);

		if (before->size <= job->size || before->passed >= PASSED_MAX)
			break;
		before->passed++;
		at = at->prev;
	}
	list_add_tail(&job->node, at);
}

/* A read is not taken when it would occupy the last helper and names could come. */
struct job *job_queue_take(struct job_queue *q)
{
	struct job *job = NULL;

	if (!list_empty(&q->waiting[JOB_NAME]))
		job = list_entry(q->waiting[JOB_NAME].next, struct job, node);
	else if (!list_empty(&q->waiting[JOB_READ]) &&
		 (q->max == 1 || q->running[JOB_READ] + 1 < q->max))
		job = list_entry(q->waiting[JOB_READ].next, struct job, node);
	if (job) {
		list_del(&job->node);
		q->running[job->kind]++;
	}
	return job;
}

void job_queue_ended(struct job_queue *q, const struct job *job)
{
	q->running[job->kind]--;
}
