// SPDX-License-Identifier: MIT
/* What is ready of a loop's tracked descriptors: what they want, the kernel's ring, the queue. */

#include <stdlib.h>
#include <sys/epoll.h>

#include "loop.h"

void usl_enqueue(struct usl_loop *loop, unsigned int fd)
{
	if (loop->fds[fd].flags & USL_QUEUED)
		return;
	loop->fds[fd].flags |= USL_QUEUED;
	loop->queue[loop->tail++ & (loop->limit - 1)] = fd;
}

void usl_want(struct usl_loop *loop, unsigned int fd, uint32_t events)
{
	struct usl_set *set = loop->set;

	if (events & (EPOLLOUT | EPOLLWRNORM | EPOLLWRBAND))
		usl_set_bit(set->want_write, fd);
	else
		usl_clear_bit(set->want_write, fd);
	if (events & EPOLLPRI)
		usl_set_bit(set->want_except, fd);
	else
		usl_clear_bit(set->want_except, fd);
	/* Errors and hang-ups make a socket readable; they are always wanted, but by nobody. */
	if (events)
		usl_set_bit(set->want_read, fd);
	else
		usl_clear_bit(set->want_read, fd);
}

void usl_unwant(struct usl_loop *loop, unsigned int fd)
{
	usl_want(loop, fd, 0);
	if (loop->set->want_rx)
		loop->set->want_rx[fd] = 0;
}

void usl_lost(struct usl_loop *loop, unsigned int fd)
{
	struct usl_fd *it = &loop->fds[fd];
	struct epoll_event ev = { .events = it->events, .data.u64 = fd };

	it->flags &= ~USL_TRACKED;
	usl_unwant(loop, fd);
	if (loop->shadow)
		return;
	if (usl_fd_gen(fd) == it->gen + 1 && usl_fd_events(fd) == USEL_FD_LOST &&
	    !usl_sys_epoll_ctl(loop->epfd, EPOLL_CTL_ADD, fd, &ev)) {
		it->flags |= USL_OTHER;
		loop->others++;
	}
}

uint32_t usl_look(struct usl_loop *loop, unsigned int fd, bool now)
{
	struct usl_fd *it = &loop->fds[fd];
	uint32_t all, events;

	if (!(it->flags & USL_TRACKED))
		return 0;
	if (usl_fd_gen(fd) != it->gen) {
		usl_lost(loop, fd);
		return 0;
	}
	if (!(it->events & ~USL_MODES))
		return 0;
	all = now ? usl_fd_now(fd) : usl_fd_events(fd);
	events = all & (it->events | EPOLLERR | EPOLLHUP);
	/* After the end no more bytes come, whether the end is of interest or not. */
	if (loop->set->want_rx && loop->set->want_rx[fd] &&
	    !(all & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) &&
	    __atomic_load_n(&usl_region.fds[fd].rx_bytes, __ATOMIC_RELAXED) <
		    loop->set->want_rx[fd])
		events &= ~(EPOLLIN | EPOLLRDNORM);
	return events;
}

/* It is told of when it has something to say; one told by levels is asked again next time. */
static inline int usl_tell(struct usl_loop *loop, unsigned int fd, struct epoll_event *out)
{
	struct usl_fd *it = &loop->fds[fd];
	/* An edge is a hint; a level that is told again must be so. */
	uint32_t events = usl_look(loop, fd, (it->events & (EPOLLET | EPOLLONESHOT)) != EPOLLET);

	if (!events)
		return 0;
	*out = (struct epoll_event){ .events = events, .data.u64 = it->data };
	if (it->events & EPOLLONESHOT) {
		it->events &= USL_MODES;
		usl_want(loop, fd, 0);
	} else if (!(it->events & EPOLLET)) {
		usl_enqueue(loop, fd);
	}
	return 1;
}

static int usl_report(struct usl_loop *loop, struct epoll_event *out, int max)
{
	unsigned int todo = loop->tail - loop->head, fd;
	int n = 0;

	while (todo-- && n < max) {
		fd = loop->queue[loop->head++ & (loop->limit - 1)];
		loop->fds[fd].flags &= ~USL_QUEUED;
		n += usl_tell(loop, fd, out + n);
	}
	return n;
}

/* The ring was too short: what is missing in it is in the bitmap. */
static void usl_harvest_bitmap(struct usl_loop *loop)
{
	unsigned long bits;
	uint32_t i;

	for (i = 0; i < usl_region.nfds / USL_BITS; i++) {
		bits = atomic_exchange_explicit(&loop->set->pending[i], 0, memory_order_relaxed);
		for (; bits; bits &= bits - 1)
			usl_enqueue(loop, i * USL_BITS + __builtin_ctzl(bits));
	}
}

static unsigned int usl_take(struct usl_loop *loop)
{
	struct usl_set *set = loop->set;
	unsigned int fd;

	fd = __atomic_load_n(&set->ring[loop->taken++ & loop->ring_mask], __ATOMIC_RELAXED);
	/* Cleared, then the state is read: a full barrier follows. */
	usl_clear_bit(set->pending, fd);
	return fd;
}

/* Nothing is queued: who is in the ring is told of at once. Each is there once. */
static int usl_harvest_told(struct usl_loop *loop, uint32_t head, struct epoll_event *out, int max)
{
	unsigned int fd;
	int n = 0;

	while (loop->taken != head && n < max) {
		fd = usl_take(loop);
		usl_fence();
		n += usl_tell(loop, fd, out + n);
	}
	return n;
}

int usl_harvest(struct usl_loop *loop, struct epoll_event *out, int max)
{
	struct usl_set *set = loop->set;
	uint64_t overflows = __atomic_load_n(&set->out->overflows, __ATOMIC_RELAXED);
	uint32_t head = __atomic_load_n(&set->out->head, __ATOMIC_ACQUIRE);
	int n = 0;

	if (loop->head == loop->tail && overflows == loop->overflows) {
		n = usl_harvest_told(loop, head, out, max);
		max = 0;
	}
	while (loop->taken != head)
		usl_enqueue(loop, usl_take(loop));
	__atomic_store_n(&set->in->tail, head, __ATOMIC_RELEASE);
	if (!max)
		return n;
	if (overflows != loop->overflows) {
		loop->overflows = overflows;
		usl_harvest_bitmap(loop);
	}
	usl_fence();
	return usl_report(loop, out, max);
}
