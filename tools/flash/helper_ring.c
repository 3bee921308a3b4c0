// SPDX-License-Identifier: GPL-2.0
#include "helper_ring.h"

#include <errno.h>
#include <liburing.h>
#include <stdlib.h>

#include "helper_process.h"
#include "worker.h"

#define READ_BUFFER (128 << 10)

/**
 * struct slot - a read on its way
 * @job:      NULL: none
 * @off, @len: what is still to be read
 */
struct slot {
	struct job *job;
	int fd;
	uint64_t off;
	uint32_t len;
};

/**
 * struct helper_ring - the reads of one worker
 * @queue:  those that wait for a slot
 * @busy:   slots with a job
 * @buffer: of all reads, for nobody looks at it
 */
struct helper_ring {
	struct io_uring ring;
	struct loop *loop;
	struct job_queue queue;
	unsigned int nr_slots, busy;
	char *buffer;
	struct slot slots[];
};

struct helper_ring *helper_ring_new(struct worker *w)
{
	unsigned int n = w->conf->helpers, most[2] = { n, 0 };
	struct helper_ring *h = calloc(1, sizeof(*h) + n * sizeof(h->slots[0]));
	int err = -ENOMEM;

	if (!h)
		goto fail;
	h->buffer = malloc(READ_BUFFER);
	if (!h->buffer)
		goto fail;
	err = io_uring_queue_init(n, &h->ring, 0);
	if (err)
		goto fail;
	err = io_uring_register_eventfd(&h->ring, w->loop.wake_fd);
	if (err) {
		io_uring_queue_exit(&h->ring);
		goto fail;
	}
	/* A kernel before 5.15 knows no such limit; there are never more reads than slots. */
	io_uring_register_iowq_max_workers(&h->ring, most);
	h->loop = &w->loop;
	h->nr_slots = n;
	/* All slots are for reads: the one that a queue keeps free for names is on top. */
	job_queue_init(&h->queue, n + 1, w->conf->schedule == SCHEDULE_SMALL_FIRST);
	return h;
fail:
	if (h)
		free(h->buffer);
	free(h);
	errno = -err;
	return NULL;
}

/* The ring has an entry for each slot, so there is one. */
static void read_rest(struct helper_ring *h, struct slot *s)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&h->ring);

	io_uring_prep_read(sqe, s->fd, h->buffer, s->len < READ_BUFFER ? s->len : READ_BUFFER,
			   s->off);
	/*
	 * A first attempt within the loop's call could wait for the file's metadata or for room in
	 * the disk's queue: all of it is for a thread of the kernel.
	 */
	io_uring_sqe_set_flags(sqe, IOSQE_ASYNC);
	io_uring_sqe_set_data(sqe, s);
}

static void submit(struct helper_ring *h)
{
	/* What could not go now goes with the next turn of the loop. */
	if (io_uring_sq_ready(&h->ring) && io_uring_submit(&h->ring) < 0)
		loop_wake(h->loop);
}

static void run_waiting(struct helper_ring *h)
{
	struct helper_call call;
	struct slot *s = h->slots;
	struct job *job;

	while (h->busy < h->nr_slots && (job = job_queue_take(&h->queue))) {
		while (s->job)
			s++;
		job->pack(job, &call);
		*s = (struct slot){ .job = job, .fd = call.fd, .off = call.off, .len = call.len };
		h->busy++;
		read_rest(h, s);
	}
	submit(h);
}

void helper_ring_submit(struct helper_ring *h, struct job *job)
{
	job_queue_add(&h->queue, job);
	run_waiting(h);
}

static void ended(struct helper_ring *h, struct slot *s, int res)
{
	struct job *job = s->job;

	if (res == -EINTR || res == -EAGAIN) {
		read_rest(h, s);
		return;
	}
	if (res > 0 && (uint32_t)res < s->len) {
		s->off += res;
		s->len -= res;
		read_rest(h, s);
		return;
	}
	s->job = NULL;
	h->busy--;
	job_queue_ended(&h->queue, job);
	job->answer(job, res < 0 ? res : 0, true);
	job->done(job);
}

void helper_ring_reap(struct helper_ring *h)
{
	struct io_uring_cqe *cqe;

	while (!io_uring_peek_cqe(&h->ring, &cqe)) {
		struct slot *s = io_uring_cqe_get_data(cqe);
		int res = cqe->res;

		io_uring_cqe_seen(&h->ring, cqe);
		ended(h, s, res);
	}
	run_waiting(h);
}

void helper_ring_free(struct helper_ring *h)
{
	if (!h)
		return;
	while (h->busy) {
		io_uring_submit_and_wait(&h->ring, 1);
		helper_ring_reap(h);
	}
	io_uring_queue_exit(&h->ring);
	free(h->buffer);
	free(h);
}
