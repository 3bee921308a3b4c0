// SPDX-License-Identifier: GPL-2.0
#include "helper.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>

#include "loop.h"

#define PASSED_MAX 64	/* a read that so many went before waits in its place */

/**
 * struct helpers - the pool of one worker
 * @lock:   guards all below; a leaf, never held while a job runs
 * @work:   signalled once per queued job
 * @queue:  jobs nobody has taken, by kind, first in first out unless @small_first
 * @done:   finished jobs, waiting for the loop
 * @idle:   threads in pthread_cond_wait()
 * @running: jobs of each kind that a thread has taken
 * @loop:   woken when @done becomes non-empty; never changes
 */
struct helpers {
	pthread_mutex_t lock;
	pthread_cond_t work;
	struct list queue[JOB_KINDS];
	struct list done;
	unsigned int idle, count, max;
	unsigned int running[JOB_KINDS];
	bool stop, small_first;
	struct loop *loop;
	pthread_t threads[];
};

/* A read is not taken when it would occupy the last thread and names could come. */
static struct job *take(struct helpers *h)
{
	struct job *job = NULL;

	if (!list_empty(&h->queue[JOB_NAME]))
		job = list_entry(h->queue[JOB_NAME].next, struct job, node);
	else if (!list_empty(&h->queue[JOB_READ]) &&
		 (h->max == 1 || h->running[JOB_READ] + 1 < h->max))
		job = list_entry(h->queue[JOB_READ].next, struct job, node);
	if (job) {
		list_del(&job->node);
		h->running[job->kind]++;
	}
	return job;
}

static void *helper_main(void *arg)
{
	struct helpers *h = arg;
	struct job *job = NULL;
	bool first;

	pthread_mutex_lock(&h->lock);
	for (;;) {
		while (!h->stop && !(job = take(h))) {
			h->idle++;
			pthread_cond_wait(&h->work, &h->lock);
			h->idle--;
		}
		if (h->stop)
			break;
		pthread_mutex_unlock(&h->lock);
		job->run(job);
		pthread_mutex_lock(&h->lock);
		h->running[job->kind]--;
		first = list_empty(&h->done);
		list_add_tail(&job->node, &h->done);
		if (first)
			loop_wake(h->loop);
	}
	pthread_mutex_unlock(&h->lock);
	return NULL;
}

struct helpers *helpers_new(struct loop *loop, unsigned int max, bool small_first)
{
	struct helpers *h = calloc(1, sizeof(*h) + max * sizeof(h->threads[0]));
	int i;

	if (!h)
		return NULL;
	pthread_mutex_init(&h->lock, NULL);
	pthread_cond_init(&h->work, NULL);
	for (i = 0; i < JOB_KINDS; i++)
		list_init(&h->queue[i]);
	list_init(&h->done);
	h->max = max;
	h->small_first = small_first;
	h->loop = loop;
	return h;
}

void helpers_free(struct helpers *h)
{
	unsigned int i;

	if (!h)
		return;
	pthread_mutex_lock(&h->lock);
	h->stop = true;
	pthread_cond_broadcast(&h->work);
	pthread_mutex_unlock(&h->lock);
	for (i = 0; i < h->count; i++)
		pthread_join(h->threads[i], NULL);
	for (i = 0; i < JOB_KINDS; i++) {
		while (!list_empty(&h->queue[i])) {
			struct job *job = list_entry(h->queue[i].next, struct job, node);

			list_del(&job->node);
			job->run(job);
			list_add_tail(&job->node, &h->done);
		}
	}
	helpers_reap(h);
	pthread_cond_destroy(&h->work);
	pthread_mutex_destroy(&h->lock);
	free(h);
}

/* Signals are for the loop's thread. */
static bool start_thread(struct helpers *h)
{
	sigset_t all, old;
	int err;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	err = pthread_create(&h->threads[h->count], NULL, helper_main, h);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (!err)
		h->count++;
	return !err;
}

/* Before the larger ones, as far as they have not been passed too often (spec 4.5.2, Zeus). */
static void enqueue(struct helpers *h, struct job *job)
{
	struct list *head = &h->queue[job->kind], *at = head;

	while (h->small_first && at->prev != head) {
		struct job *before = list_entry(at->prev, struct job, node);

		if (before->size <= job->size || before->passed >= PASSED_MAX)
			break;
		before->passed++;
		at = at->prev;
	}
	list_add_tail(&job->node, at);
}

void helper_submit(struct helpers *h, struct job *job)
{
	pthread_mutex_lock(&h->lock);
	if (!h->idle && h->count < h->max && !start_thread(h) && !h->count) {
		/* Not one thread to be had: better slow than never. */
		pthread_mutex_unlock(&h->lock);
		job->run(job);
		pthread_mutex_lock(&h->lock);
		list_add_tail(&job->node, &h->done);
		loop_wake(h->loop);
	} else {
		enqueue(h, job);
		pthread_cond_signal(&h->work);
	}
	pthread_mutex_unlock(&h->lock);
}

void helpers_reap(struct helpers *h)
{
	struct list done;
	struct job *job = NULL;

	if (!h)
		return;
	pthread_mutex_lock(&h->lock);
	list_take(&h->done, &done);
	pthread_mutex_unlock(&h->lock);
	while (!list_empty(&done)) {
		job = list_entry(done.next, struct job, node);
		list_del(&job->node);
		job->done(job);
	}
}
