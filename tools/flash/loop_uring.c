// SPDX-License-Identifier: GPL-2.0
/*
 * Events by io_uring: a poll request that reports again and again (multishot) stands for each
 * edge-triggered watch, one that reports once and is renewed for each level-triggered one. Changes
 * and the wait are one system call.
 */
#include <errno.h>
#include <liburing.h>
#include <stdlib.h>
#include <string.h>

#include "loop.h"

#define ENTRIES 4096

/* What a completion may refer to; @token tells the present watch from former ones. */
struct slot {
	struct watch *watch;
	uint32_t token, next_free;
};

struct uring {
	struct io_uring ring;
	struct slot *slots;
	uint32_t nr_slots, free;	/* free: index + 1, 0 when there is none */
};

static uint64_t tag(const struct uring *u, uint32_t slot)
{
	return (uint64_t)u->slots[slot].token << 32 | (slot + 1);
}

static int uring_init(struct loop *loop)
{
	struct uring *u = calloc(1, sizeof(*u));
	int err;

	if (!u)
		return -ENOMEM;
	err = io_uring_queue_init(ENTRIES, &u->ring, IORING_SETUP_COOP_TASKRUN |
				  IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN);
	if (err == -EINVAL)
		err = io_uring_queue_init(ENTRIES, &u->ring, 0);
	if (err) {
		free(u);
		return err;
	}
	loop->priv = u;
	return 0;
}

static void uring_exit(struct loop *loop)
{
	struct uring *u = loop->priv;

	io_uring_queue_exit(&u->ring);
	free(u->slots);
	free(u);
}

static struct io_uring_sqe *get_sqe(struct uring *u)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&u->ring);

	if (sqe)
		return sqe;
	io_uring_submit(&u->ring);
	return io_uring_get_sqe(&u->ring);
}

static int arm(struct uring *u, uint32_t slot)
{
	struct watch *w = u->slots[slot].watch;
	uint32_t events = w->events & ~(EPOLLET | EPOLLEXCLUSIVE);
	struct io_uring_sqe *sqe = get_sqe(u);

	if (!sqe)
		return -EBUSY;
	if (w->events & EPOLLET)
		io_uring_prep_poll_multishot(sqe, w->fd, events);
	else
		io_uring_prep_poll_add(sqe, w->fd, events);
	io_uring_sqe_set_data64(sqe, tag(u, slot));
	return 0;
}

static int grow(struct uring *u)
{
	uint32_t i, n = u->nr_slots ? 2 * u->nr_slots : 256;
	struct slot *grown = realloc(u->slots, n * sizeof(*grown));

	if (!grown)
		return -ENOMEM;
	memset(grown + u->nr_slots, 0, (n - u->nr_slots) * sizeof(*grown));
	for (i = n; i > u->nr_slots; i--) {
		grown[i - 1].next_free = u->free;
		u->free = i;
	}
	u->slots = grown;
	u->nr_slots = n;
	return 0;
}

static int uring_add(struct loop *loop, struct watch *w)
{
	struct uring *u = loop->priv;
	uint32_t slot;
	int err;

	if (!u->free) {
		err = grow(u);
		if (err)
			return err;
	}
	slot = u->free - 1;
	u->free = u->slots[slot].next_free;
	u->slots[slot].watch = w;
	w->token = slot;
	return arm(u, slot);
}

/*
 * The request holds the socket open, so it has to go before a close means anything. Removing a poll
 * fails while news of it is on its way (EALREADY); cancelling it does not.
 */
static void uring_del(struct loop *loop, struct watch *w)
{
	struct uring *u = loop->priv;
	struct slot *s = &u->slots[w->token];
	struct io_uring_sqe *sqe = get_sqe(u);

	if (sqe) {
		io_uring_prep_cancel64(sqe, tag(u, w->token), 0);
		io_uring_sqe_set_data64(sqe, 0);
	}
	s->watch = NULL;
	s->token++;
	s->next_free = u->free;
	u->free = w->token + 1;
}

static void complete(struct loop *loop, const struct io_uring_cqe *cqe)
{
	struct uring *u = loop->priv;
	uint32_t slot = (uint32_t)cqe->user_data - 1, token = cqe->user_data >> 32;
	struct watch *w;

	if (!cqe->user_data || slot >= u->nr_slots || u->slots[slot].token != token)
		return;
	w = u->slots[slot].watch;
	if (!w)
		return;
	w->ready(w, cqe->res < 0 ? EPOLLERR : (uint32_t)cqe->res);
	/* Renewed after the callback, so that what it left unread is reported. */
	if (!(cqe->flags & IORING_CQE_F_MORE) && u->slots[slot].token == token &&
	    u->slots[slot].watch == w)
		arm(u, slot);
}

static int uring_wait(struct loop *loop, int timeout)
{
	struct uring *u = loop->priv;
	struct __kernel_timespec ts = {
		.tv_sec = timeout / 1000, .tv_nsec = timeout % 1000 * 1000000ll,
	};
	struct io_uring_cqe *cqe;
	unsigned int head, n = 0;
	int err;

	loop_stall_end(loop);
	err = io_uring_submit_and_wait_timeout(&u->ring, &cqe, 1, timeout < 0 ? NULL : &ts, NULL);
	loop_stall_begin(loop);
	loop_clock(loop);
	if (err < 0 && err != -ETIME && err != -EINTR && err != -EBUSY)
		return err;
	io_uring_for_each_cqe(&u->ring, head, cqe) {
		struct io_uring_cqe copy = *cqe;

		n++;
		complete(loop, &copy);
	}
	io_uring_cq_advance(&u->ring, n);
	return 0;
}

const struct loop_backend loop_uring = {
	.name = "io_uring",
	.init = uring_init,
	.exit = uring_exit,
	.add = uring_add,
	.del = uring_del,
	.closing = uring_del,
	.wait = uring_wait,
};
