// SPDX-License-Identifier: MIT
/*
 * A shadow of an epoll: those TCP sockets that were added to it through us, by levels.
 *
 * The epoll itself has them all, with the program's own data: whoever waits for it by another
 * copy of its descriptor, in another process or by io_uring misses nothing, and the shadow is only
 * believed while the kernel has counted no change of the epoll that was not made here (USEL_WATCH).
 * After the first such change the shadow is not used again. Edges and one shots change the epoll
 * when they are told, so these are the kernel's alone.
 */

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "uselect/lib/loop.h"
#include "preload.h"

#define USL_EPOLLS	65536
#define USL_LEVELS	(EPOLLIN | EPOLLOUT | EPOLLPRI | EPOLLRDHUP | EPOLLERR | EPOLLHUP | \
			 EPOLLRDNORM | EPOLLRDBAND | EPOLLWRNORM | EPOLLWRBAND)
/* Tries to get a shadow for a change; after that it is made without, and the shadow has had it. */
#define USL_TRIES	1000

/**
 * struct usl_shadow - of the epoll that a number names
 * @loop:    its @lock is for all of this, its @set NULL while there is no shadow
 * @changes: of the epoll, counted by the kernel, that were made here
 * @off:     never again, until the number is closed
 *
 * Its memory stays for the number's next epoll.
 */
struct usl_shadow {
	struct usl_loop loop;
	uint32_t changes;
	bool off;
};

static struct usl_shadow *_Atomic usl_shadows[USL_EPOLLS];
/* Numbers from here on never had one. */
static _Atomic unsigned int usl_shadows_end;

static struct usl_shadow *usl_shadow_get(int epfd)
{
	if ((unsigned int)epfd >= usl_shadows_end || !usl_preload_on())
		return NULL;
	return usl_shadows[epfd];
}

static uint32_t usl_shadow_changes(const struct usl_shadow *sh)
{
	return __atomic_load_n(&sh->loop.set->out->changes, __ATOMIC_ACQUIRE);
}

/* The lock stays. A child that is made meanwhile does not find what is gone by then. */
static void usl_shadow_end(struct usl_shadow *sh)
{
	struct usl_loop *loop = &sh->loop, old = { .set = loop->set, .fds = loop->fds, .queue = loop->queue };

	loop->set = NULL;
	loop->fds = NULL;
	loop->queue = NULL;
	atomic_signal_fence(memory_order_seq_cst);
	usl_set_close(old.set);
	if (old.fds)
		munmap(old.fds, loop->limit * sizeof(*old.fds));
	if (old.queue)
		munmap(old.queue, loop->limit * sizeof(*old.queue));
}

/* Somebody changes the epoll past us. */
static void usl_shadow_off(struct usl_shadow *sh)
{
	struct usl_blocked mask;

	sh->off = true;
	usl_preload_block(&mask);
	usl_shadow_end(sh);
	usl_preload_unblock(&mask);
}

/* --- making one --- */

static bool usl_shadow_fill(struct usl_shadow *sh, int epfd)
{
	struct usl_loop *loop = &sh->loop;

	loop->shadow = true;
	loop->epfd = -1;
	loop->epoch = usl_epoch;
	for (loop->limit = 1; loop->limit < usl_region.nfds; loop->limit *= 2)
		;
	loop->head = 0;
	loop->tail = 0;
	loop->taken = 0;
	loop->overflows = 0;
	loop->pass.passes = 0;
	loop->fds = usl_table(loop->limit * sizeof(*loop->fds));
	loop->queue = usl_table(loop->limit * sizeof(*loop->queue));
	loop->set = loop->fds && loop->queue ? usl_set_open(usl_region.flags, 0) : NULL;
	if (!loop->set || ioctl(loop->set->fd, USEL_WATCH, &epfd))
		return false;
	loop->ring_mask = loop->set->out->ring_size - 1;
	loop->set->in->flags = USEL_WANT_RING;
	sh->changes = usl_shadow_changes(sh);
	return true;
}

static struct usl_shadow *usl_shadow_place(int epfd)
{
	struct usl_shadow *sh = usl_shadows[epfd], *none = NULL;
	unsigned int end = usl_shadows_end;

	if (sh)
		return sh;
	sh = usl_table(sizeof(*sh));
	if (!sh)
		return NULL;
	pthread_mutex_init(&sh->loop.lock, NULL);
	if (!atomic_compare_exchange_strong(&usl_shadows[epfd], &none, sh)) {
		munmap(sh, sizeof(*sh));
		return none;
	}
	while (end <= (unsigned int)epfd &&
	       !atomic_compare_exchange_weak(&usl_shadows_end, &end, epfd + 1))
		;
	return sh;
}

/* An epoll is worth one when a TCP socket is added by levels; before that we leave it alone. */
static void usl_shadow_make(int epfd, int fd)
{
	struct usl_shadow *sh;
	int err = errno;
	struct usl_blocked mask;

	if ((unsigned int)epfd >= USL_EPOLLS || !usl_preload_adds(fd) || !usl_tracked(fd))
		return;
	sh = usl_shadows[epfd];
	if (sh && (sh->off || sh->loop.set))
		return;
	usl_preload_block(&mask);
	sh = usl_shadow_place(epfd);
	if (sh && !pthread_mutex_trylock(&sh->loop.lock)) {
		if (!sh->off && !sh->loop.set && !usl_shadow_fill(sh, epfd)) {
			sh->off = true;
			usl_shadow_end(sh);
		}
		pthread_mutex_unlock(&sh->loop.lock);
	}
	usl_preload_unblock(&mask);
	errno = err;
}

/* --- changes --- */

/* Not for ever: the lock may be that of somebody whom our signal handler has interrupted. */
static bool usl_shadow_lock(struct usl_shadow *sh)
{
	int i;

	for (i = 0; i < USL_TRIES; i++) {
		if (!pthread_mutex_trylock(&sh->loop.lock))
			return true;
		sched_yield();
	}
	return false;
}

static void usl_shadow_drop(struct usl_shadow *sh, unsigned int fd)
{
	if (fd >= sh->loop.limit || !(sh->loop.fds[fd].flags & USL_TRACKED))
		return;
	sh->loop.fds[fd].flags &= ~USL_TRACKED;
	usl_unwant(&sh->loop, fd);
}

/* The kernel has it so. @gen: of the descriptor before it was asked, 0 if it was not tracked. */
static void usl_shadow_note(struct usl_shadow *sh, int fd, const struct epoll_event *ev, uint32_t gen)
{
	struct usl_fd *it;

	usl_shadow_drop(sh, fd);
	if (!ev || !ev->events || (ev->events & ~USL_LEVELS) || !(gen & 1) || usl_fd_gen(fd) != gen)
		return;
	it = &sh->loop.fds[fd];
	it->flags = (it->flags & USL_QUEUED) | USL_TRACKED;
	it->gen = gen;
	it->events = ev->events;
	it->data = ev->data.u64;
	usl_want(&sh->loop, fd, ev->events);
	usl_fence();
	usl_enqueue(&sh->loop, fd);
}

static int usl_shadow_change(struct usl_shadow *sh, int epfd, int op, int fd, struct epoll_event *ev)
{
	uint32_t gen = usl_tracked(fd) ? usl_fd_gen(fd) : 0, expected;
	bool fails;
	int ret;

	ret = usl_real_epoll_ctl(epfd, op, fd, ev);
	/* The kernel counts where it has the arguments, whatever comes of them. */
	fails = ret < 0;
	expected = sh->changes + !(fails && errno == EFAULT);
	if (usl_shadow_changes(sh) != expected) {
		usl_shadow_off(sh);
		return ret;
	}
	sh->changes = expected;
	if (op == EPOLL_CTL_DEL || fails)
		usl_shadow_drop(sh, fd);
	else
		usl_shadow_note(sh, fd, ev, gen);
	return ret;
}

int usl_shadow_ctl(int epfd, int op, int fd, struct epoll_event *ev)
{
	struct usl_shadow *sh;
	int ret, err;

	if (op == EPOLL_CTL_ADD && ev && !(ev->events & ~USL_LEVELS))
		usl_shadow_make(epfd, fd);
	sh = usl_shadow_get(epfd);
	if (!sh || sh->off)
		return usl_real_epoll_ctl(epfd, op, fd, ev);
	if (!usl_shadow_lock(sh)) {
		sh->off = true;
		return usl_real_epoll_ctl(epfd, op, fd, ev);
	}
	if (sh->loop.set)
		ret = usl_shadow_change(sh, epfd, op, fd, ev);
	else
		ret = usl_real_epoll_ctl(epfd, op, fd, ev);
	err = errno;
	pthread_mutex_unlock(&sh->loop.lock);
	errno = err;
	return ret;
}

/* --- answers --- */

static int usl_shadow_ready(struct usl_shadow *sh, struct epoll_event *out, int max)
{
	struct usl_loop *loop = &sh->loop;
	uint64_t seq = usl_set_seq(loop->set);
	int n;

	if (usl_shadow_changes(sh) != sh->changes) {
		usl_shadow_off(sh);
		return 0;
	}
	/* Nothing was left, and nothing has been told since; or the others have waited long enough. */
	if ((seq == loop->seq && loop->head == loop->tail) || !usl_pass_on(&loop->pass)) {
		loop->pass.passes = 0;
		return 0;
	}
	n = usl_harvest(loop, out, max);
	loop->seq = seq;
	if (!n)
		loop->pass.passes = 0;
	return n;
}

int usl_shadow_answer(int epfd, struct epoll_event *out, int max)
{
	struct usl_shadow *sh = usl_shadow_get(epfd);
	int n = 0;

	if (!sh || sh->off || max <= 0 || pthread_mutex_trylock(&sh->loop.lock))
		return 0;
	if (sh->loop.set)
		n = usl_shadow_ready(sh, out, max);
	pthread_mutex_unlock(&sh->loop.lock);
	if (n)
		usl_preload_answered();
	return n;
}

/* --- ends --- */

/* A child of vfork() closes its own copy, in our memory. */
void usl_shadow_closing(int fd)
{
	struct usl_shadow *sh = usl_shadow_get(fd);
	int err = errno;
	struct usl_blocked mask;

	if (!sh || !usl_preload_is_owner())
		return;
	usl_preload_block(&mask);
	if (usl_shadow_lock(sh)) {
		usl_shadow_end(sh);
		sh->off = false;
		pthread_mutex_unlock(&sh->loop.lock);
	}
	usl_preload_unblock(&mask);
	errno = err;
}

void usl_shadow_closing_range(unsigned int first, unsigned int last)
{
	unsigned int end = usl_shadows_end;

	for (; first <= last && first < end; first++)
		usl_shadow_closing(first);
}

void usl_shadow_forget(void)
{
	struct usl_shadow *sh;
	unsigned int i;

	for (i = 0; i < usl_shadows_end; i++) {
		sh = usl_shadows[i];
		if (!sh)
			continue;
		usl_shadow_end(sh);
		sh->off = false;
		pthread_mutex_init(&sh->loop.lock, NULL);
	}
}
