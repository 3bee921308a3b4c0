// SPDX-License-Identifier: MIT
/* The list of what is ready: interest, waiting, and an epoll for what is not tracked. */

#include <pthread.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/single_threaded.h>
#include <unistd.h>

#include "loop.h"

#define USL_BATCH	64
/* In the epoll: the set's own descriptor. */
#define USL_SELF	UINT64_MAX

/* A process of one thread stays one between the two. */
static void usl_loop_lock(struct usl_loop *loop)
{
	if (!__libc_single_threaded)
		pthread_mutex_lock(&loop->lock);
}

static void usl_loop_unlock(struct usl_loop *loop)
{
	if (!__libc_single_threaded)
		pthread_mutex_unlock(&loop->lock);
}

unsigned int usl_loop_limit(void)
{
	unsigned int limit = 1, most = 1048576;
	struct rlimit nofile;

	if (!getrlimit(RLIMIT_NOFILE, &nofile) && nofile.rlim_max < most)
		most = nofile.rlim_max;
	if (most < usl_region.nfds)
		most = usl_region.nfds;
	while (limit < most)
		limit *= 2;
	return limit;
}

/* Without a set everything goes by the epoll. */
static void usl_loop_open_set(struct usl_loop *loop)
{
	struct epoll_event self = { .events = EPOLLIN | (loop->edges ? EPOLLET : 0),
				    .data.u64 = USL_SELF };
	uint32_t flags = usl_region.flags;
	const char *ring;

	loop->epoch = usl_epoch;
	if (!usl_region.nfds)
		return;
	if (flags & USEL_SETUP_BYTES)
		flags |= USEL_SETUP_THRESHOLD;
	/* For tests: what does not fit into the ring is found in the bitmap. */
	ring = getenv("USELECT_RING");
	loop->set = usl_set_open(flags, ring ? strtoul(ring, NULL, 0) : 0);
	if (loop->set && usl_sys_epoll_ctl(loop->epfd, EPOLL_CTL_ADD, loop->set->fd, &self)) {
		usl_set_close(loop->set);
		loop->set = NULL;
	}
	if (loop->set) {
		loop->ring_mask = loop->set->out->ring_size - 1;
		loop->set->in->flags = USEL_WANT_RING;
	}
}

bool usl_loop_init(struct usl_loop *loop, int epfd, bool edges)
{
	*loop = (struct usl_loop){ .epfd = epfd, .limit = usl_loop_limit(), .edges = edges };
	pthread_mutex_init(&loop->lock, NULL);
	loop->fds = usl_table(loop->limit * sizeof(*loop->fds));
	loop->queue = usl_table(loop->limit * sizeof(*loop->queue));
	if (!loop->fds || !loop->queue) {
		usl_loop_done(loop);
		errno = ENOMEM;
		return false;
	}
	usl_loop_open_set(loop);
	return true;
}

void usl_loop_done(struct usl_loop *loop)
{
	usl_set_close(loop->set);
	if (loop->fds)
		munmap(loop->fds, loop->limit * sizeof(*loop->fds));
	if (loop->queue)
		munmap(loop->queue, loop->limit * sizeof(*loop->queue));
	loop->set = NULL;
	loop->fds = NULL;
	loop->queue = NULL;
	pthread_mutex_destroy(&loop->lock);
}

/* An edge is told to one who sleeps; from now on there may be more. */
static void usl_loop_share(struct usl_loop *loop)
{
	struct epoll_event self = { .events = EPOLLIN, .data.u64 = USL_SELF };

	if (loop->edges && loop->set)
		usl_sys_epoll_ctl(loop->epfd, EPOLL_CTL_MOD, loop->set->fd, &self);
	loop->edges = false;
}

void usl_loop_nest(struct usl_loop *loop)
{
	usl_loop_lock(loop);
	loop->nested = true;
	usl_loop_share(loop);
	usl_loop_unlock(loop);
}

/* --- interest --- */

/* What was tracked under the number, and is not any more, is forgotten or the epoll's. */
static void usl_settle(struct usl_loop *loop, unsigned int fd)
{
	const struct usl_fd *it = &loop->fds[fd];

	if ((it->flags & USL_TRACKED) && it->gen != usl_fd_gen(fd))
		usl_lost(loop, fd);
}

/* Something may be ready already; whoever sleeps on the loop's descriptor is told. */
static void usl_begin(struct usl_loop *loop, unsigned int fd)
{
	struct usl_fd *it = &loop->fds[fd];

	usl_want(loop, fd, it->events & ~USL_MODES ? it->events : 0);
	usl_fence();
	/* What comes from now on is told. */
	if (usl_look(loop, fd, true)) {
		usl_enqueue(loop, fd);
		usl_set_seen(loop->set, usl_set_seq(loop->set) - 1);
		if (loop->nested || loop->asleep)
			ioctl(loop->set->fd, USEL_KICK);
	}
}

static int usl_add_other(struct usl_loop *loop, int fd, uint32_t events, uint64_t data)
{
	struct epoll_event ev = { .events = events, .data.u64 = fd };
	struct usl_fd was = loop->fds[fd];

	/* Before: who sleeps in the epoll may be told of it at once. */
	loop->fds[fd].events = events;
	loop->fds[fd].data = data;
	if (usl_sys_epoll_ctl(loop->epfd, EPOLL_CTL_ADD, fd, &ev)) {
		loop->fds[fd] = was;
		return -1;
	}
	if (!(loop->fds[fd].flags & USL_OTHER))
		loop->others++;
	loop->fds[fd].flags |= USL_OTHER;
	return 0;
}

/* A socket that was made before the process registered is tracked from now on. */
static bool usl_trackable(int fd)
{
	return usl_tracked(fd) || ((unsigned int)fd < usl_region.nfds && !uselect_track(fd));
}

int usl_loop_add(struct usl_loop *loop, int fd, uint32_t events, uint64_t data)
{
	struct usl_fd *it;
	int ret = 0;

	if (fd < 0 || (unsigned int)fd >= loop->limit) {
		errno = EBADF;
		return -1;
	}
	it = &loop->fds[fd];
	usl_loop_lock(loop);
	if (loop->set)
		usl_settle(loop, fd);
	if (it->flags & USL_TRACKED) {
		errno = EEXIST;
		ret = -1;
	} else if (!loop->set || (events & EPOLLEXCLUSIVE) || !usl_trackable(fd)) {
		ret = usl_add_other(loop, fd, events, data);
	} else {
		/* What the epoll had under this number is closed and gone. */
		if (it->flags & USL_OTHER)
			loop->others--;
		it->flags = (it->flags & USL_QUEUED) | USL_TRACKED;
		it->gen = usl_fd_gen(fd);
		it->events = events;
		it->data = data;
		usl_begin(loop, fd);
	}
	usl_loop_unlock(loop);
	return ret;
}

int usl_loop_mod(struct usl_loop *loop, int fd, uint32_t events, uint64_t data)
{
	struct epoll_event ev = { .events = events, .data.u64 = fd };
	struct usl_fd *it;
	int ret = 0;

	if (fd < 0 || (unsigned int)fd >= loop->limit) {
		errno = EBADF;
		return -1;
	}
	it = &loop->fds[fd];
	usl_loop_lock(loop);
	if (loop->set)
		usl_settle(loop, fd);
	if (!(it->flags & USL_TRACKED)) {
		ret = usl_sys_epoll_ctl(loop->epfd, EPOLL_CTL_MOD, fd, &ev);
	} else if (events & EPOLLEXCLUSIVE) {
		errno = EINVAL;
		ret = -1;
	}
	if (!ret) {
		it->events = events;
		it->data = data;
		if (it->flags & USL_TRACKED)
			usl_begin(loop, fd);
	}
	usl_loop_unlock(loop);
	return ret;
}

int usl_loop_del(struct usl_loop *loop, int fd)
{
	struct usl_fd *it;
	int ret = 0;

	if (fd < 0 || (unsigned int)fd >= loop->limit) {
		errno = EBADF;
		return -1;
	}
	it = &loop->fds[fd];
	usl_loop_lock(loop);
	if (loop->set)
		usl_settle(loop, fd);
	if (it->flags & USL_TRACKED) {
		usl_unwant(loop, fd);
		it->flags &= ~USL_TRACKED;
	} else {
		ret = usl_sys_epoll_ctl(loop->epfd, EPOLL_CTL_DEL, fd, NULL);
		if (it->flags & USL_OTHER)
			loop->others--;
		it->flags &= ~USL_OTHER;
	}
	usl_loop_unlock(loop);
	return ret;
}

int usl_loop_threshold(struct usl_loop *loop, int fd, uint32_t rx_bytes)
{
	int ret = 0;

	usl_loop_lock(loop);
	if (!loop->set || !loop->set->want_rx) {
		errno = EOPNOTSUPP;
		ret = -1;
	} else if (fd < 0 || (unsigned int)fd >= usl_region.nfds ||
		   !(loop->fds[fd].flags & USL_TRACKED)) {
		errno = ENOENT;
		ret = -1;
	} else {
		__atomic_store_n(&loop->set->want_rx[fd], rx_bytes, __ATOMIC_RELAXED);
		usl_begin(loop, fd);
	}
	usl_loop_unlock(loop);
	return ret;
}

/* --- waiting --- */

/* What the epoll says about the rest; the set's own descriptor is not passed on. */
static inline int usl_wait_others(struct usl_loop *loop, struct epoll_event *out, int max,
				  int timeout, const sigset_t *mask, bool *self)
{
	int n, i, kept = 0;

	*self = false;
	n = usl_sys_epoll_pwait(loop->epfd, out, max, timeout, mask);
	for (i = 0; i < n; i++) {
		if (out[i].data.u64 == USL_SELF) {
			*self = true;
			continue;
		}
		/* Whoever has uselect_loop_fd() may have added something of his own. */
		if (out[i].data.u64 >= loop->limit)
			continue;
		out[kept] = out[i];
		out[kept++].data.u64 = loop->fds[out[i].data.u64].data;
	}
	return n < 0 ? n : kept;
}

/* Nothing was left, and nothing has been told since. */
static bool usl_loop_is_quiet(const struct usl_loop *loop)
{
	return usl_set_seq(loop->set) == loop->seq && loop->head == loop->tail;
}

/* Says what is ready, and whether more is, which the set's descriptor then shows. */
static int usl_loop_collect_locked(struct usl_loop *loop, struct epoll_event *out, int max)
{
	uint64_t seq = usl_set_seq(loop->set);
	int n;

	n = usl_harvest(loop, out, max);
	usl_set_seen(loop->set, loop->head == loop->tail ? seq : seq - 1);
	loop->seq = seq;
	return n;
}

/* Who then @sleeps is woken by whoever adds something that is ready. */
static inline int usl_loop_collect(struct usl_loop *loop, struct epoll_event *out, int max,
				   bool sleeps)
{
	int n = 0;

	usl_loop_lock(loop);
	if (loop->asleep)
		usl_loop_share(loop);
	if (!usl_loop_is_quiet(loop))
		n = usl_loop_collect_locked(loop, out, max);
	if (!n && sleeps)
		loop->asleep++;
	usl_loop_unlock(loop);
	return n;
}

static inline int usl_loop_wake_up(struct usl_loop *loop, struct epoll_event *out, int max)
{
	int n;

	usl_loop_lock(loop);
	loop->asleep--;
	n = max > 0 ? usl_loop_collect_locked(loop, out, max) : 0;
	usl_loop_unlock(loop);
	return n;
}

static int usl_ms_left(const struct timespec *deadline)
{
	struct timespec left;

	if (!usl_left(deadline, &left))
		return -1;
	/* Rounded up: not before the time. */
	return left.tv_sec > INT_MAX / 1000 - 1 ? INT_MAX :
						  left.tv_sec * 1000 + (left.tv_nsec + 999999) / 1000000;
}

/* Nothing was there when it was made known that we sleep. */
static int usl_loop_sleep(struct usl_loop *loop, struct epoll_event *out, int max, int timeout,
			  const sigset_t *mask)
{
	struct timespec span, deadline, *until = NULL;
	bool self;
	int n;

	if (timeout > 0) {
		span = (struct timespec){ timeout / 1000, timeout % 1000 * 1000000L };
		until = usl_deadline(&span, &deadline);
	}
	do {
		n = usl_wait_others(loop, out, max, timeout, mask, &self);
		if (n < 0) {
			int err = errno;

			usl_loop_wake_up(loop, out, 0);
			errno = err;
			return n;
		}
		n += usl_loop_wake_up(loop, out + n, max - n);
		if (n || !self || !timeout)
			return n;
		/* Woken for nothing, or for what is over. */
		timeout = usl_ms_left(until);
		n = usl_loop_collect(loop, out, max, true);
	} while (!n);
	return n;
}

int usl_loop_wait(struct usl_loop *loop, struct epoll_event *out, int max, int timeout,
		  const sigset_t *mask)
{
	bool self, sleeps;
	int n = 0, more;

	if (!loop->set)
		return usl_wait_others(loop, out, max, timeout, mask, &self);
	if (max <= 0) {
		errno = EINVAL;
		return -1;
	}
	/* One call of a few looks at the others first, and leaves room for the rest. */
	if (loop->others && !usl_pass_on(&loop->pass)) {
		n = usl_wait_others(loop, out, (max + 1) / 2, 0, NULL, &self);
		if (n < 0)
			return n;
	}
	sleeps = !n && (timeout || loop->others || mask);
	if (n < max)
		n += usl_loop_collect(loop, out + n, max - n, sleeps);
	if (!mask && (n || !sleeps))
		return n;
	if (n) {
		/* The caller's signals are let in by the kernel only. */
		more = n < max ? usl_wait_others(loop, out + n, max - n, 0, mask, &self) : 0;
		return more > 0 ? n + more : n;
	}
	loop->pass.passes = 0;
	return usl_loop_sleep(loop, out, max, timeout, mask);
}
