// SPDX-License-Identifier: GPL-2.0
#include "helper.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "helper_process.h"
#include "helper_ring.h"
#include "worker.h"

/**
 * struct helpers - the pool of one worker
 * @procs:  helper processes instead, for jobs that one can do; the rest is done by threads
 * @ring:   reads go there instead; only by the loop
 * @lock:   guards all below; a leaf, never held while a job runs
 * @work:   signalled once per queued job
 * @done:   finished jobs, waiting for the loop
 * @idle:   threads in pthread_cond_wait()
 * @loop:   woken when @done becomes non-empty; never changes
 */
struct helpers {
	struct helper_procs *procs;
	struct helper_ring *ring;
	pthread_mutex_t lock;
	pthread_cond_t work;
	struct job_queue queue;
	struct list done;
	unsigned int idle, count;
	bool stop;
	struct loop *loop;
	pthread_t threads[];
};

static void *helper_main(void *arg)
{
	struct helpers *h = arg;
	struct job *job = NULL;
	bool first;

	pthread_mutex_lock(&h->lock);
	for (;;) {
		while (!h->stop && !(job = job_queue_take(&h->queue))) {
			h->idle++;
			pthread_cond_wait(&h->work, &h->lock);
			h->idle--;
		}
		if (h->stop)
			break;
		pthread_mutex_unlock(&h->lock);
		job->run(job);
		pthread_mutex_lock(&h->lock);
		job_queue_ended(&h->queue, job);
		first = list_empty(&h->done);
		list_add_tail(&job->node, &h->done);
		if (first)
			loop_wake(h->loop);
	}
	pthread_mutex_unlock(&h->lock);
	return NULL;
}

struct helpers *helpers_new(struct worker *w)
{
	const struct conf *conf = w->conf;
	struct helpers *h = calloc(1, sizeof(*h) + conf->helpers * sizeof(h->threads[0]));

	if (!h)
		return NULL;
	pthread_mutex_init(&h->lock, NULL);
	pthread_cond_init(&h->work, NULL);
	job_queue_init(&h->queue, conf->helpers, conf->schedule == SCHEDULE_SMALL_FIRST);
	list_init(&h->done);
	h->loop = &w->loop;
	if (conf->helper_kind == HELPERS_PROCESSES) {
		h->procs = helper_procs_new(w);
		if (!h->procs) {
			free(h);
			return NULL;
		}
	}
	return h;
}

void helpers_begin(struct helpers *h, struct worker *w)
{
	if (w->conf->helper_kind != HELPERS_IO_URING)
		return;
	h->ring = helper_ring_new(w);
	if (!h->ring)
		fprintf(stderr, "flash: io_uring cannot be had: %s; helpers are threads\n",
			strerror(errno));
}

void helpers_free(struct helpers *h)
{
	unsigned int i;

	if (!h)
		return;
	helper_procs_free(h->procs);
	h->procs = NULL;
	helper_ring_free(h->ring);
	h->ring = NULL;
	pthread_mutex_lock(&h->lock);
	h->stop = true;
	pthread_cond_broadcast(&h->work);
	pthread_mutex_unlock(&h->lock);
	for (i = 0; i < h->count; i++)
		pthread_join(h->threads[i], NULL);
	for (i = 0; i < JOB_KINDS; i++) {
		while (!list_empty(&h->queue.waiting[i])) {
			struct job *job = list_entry(h->queue.waiting[i].next, struct job, node);

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

/* Better slow than never. */
static void run_here(struct helpers *h, struct job *job)
{
	job->run(job);
	pthread_mutex_lock(&h->lock);
	list_add_tail(&job->node, &h->done);
	loop_wake(h->loop);
	pthread_mutex_unlock(&h->lock);
}

void helper_submit(struct helpers *h, struct job *job)
{
	if (h->procs && job->pack) {
		helper_procs_submit(h->procs, job);
		return;
	}
	if (h->ring && job->kind == JOB_READ && job->pack) {
		helper_ring_submit(h->ring, job);
		return;
	}
	pthread_mutex_lock(&h->lock);
	if (!h->idle && h->count < h->queue.max && !start_thread(h) && !h->count) {
		/* Not one thread to be had. */
		pthread_mutex_unlock(&h->lock);
		run_here(h, job);
		return;
	}
	job_queue_add(&h->queue, job);
	pthread_cond_signal(&h->work);
	pthread_mutex_unlock(&h->lock);
}

void helpers_reap(struct helpers *h)
{
	struct list done;
	struct job *job = NULL;

	if (!h)
		return;
	if (h->procs)
		helper_procs_reap(h->procs);
	if (h->ring)
		helper_ring_reap(h->ring);
	pthread_mutex_lock(&h->lock);
	list_take(&h->done, &done);
	pthread_mutex_unlock(&h->lock);
	while (!list_empty(&done)) {
		job = list_entry(done.next, struct job, node);
		list_del(&job->node);
		job->done(job);
	}
}
