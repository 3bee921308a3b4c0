// SPDX-License-Identifier: MIT
/* uselect_poll(): poll() that answers from the region while it can. */

#include <stdlib.h>
#include <string.h>

#include "internal.h"

#define USL_ALWAYS	(POLLERR | POLLHUP | POLLNVAL)

static __thread struct usl_pass usl_pass;

static short usl_poll_events(const struct pollfd *p)
{
	return usl_fd_events(p->fd) & (p->events | USL_ALWAYS);
}

/* What is ready and tracked; how many there are that the kernel has to be asked for. */
static int usl_poll_count(struct pollfd *fds, nfds_t nfds, nfds_t *others)
{
	int count = 0;
	nfds_t i;

	*others = 0;
	for (i = 0; i < nfds; i++) {
		fds[i].revents = 0;
		if (usl_tracked(fds[i].fd)) {
			fds[i].revents = usl_poll_events(&fds[i]);
			count += fds[i].revents != 0;
		} else if (fds[i].fd >= 0) {
			++*others;
		}
	}
	return count;
}

static void usl_poll_forget(struct usl_set *mine)
{
	unsigned int i;

	for (i = 0; i < mine->words; i++) {
		atomic_store_explicit(&mine->want_read[i], 0, memory_order_relaxed);
		atomic_store_explicit(&mine->want_write[i], 0, memory_order_relaxed);
		atomic_store_explicit(&mine->want_except[i], 0, memory_order_relaxed);
	}
	mine->words = 0;
}

static void usl_poll_want(struct usl_set *mine, const struct pollfd *p)
{
	unsigned int word = p->fd / USL_BITS;

	if (p->events & (POLLOUT | POLLWRNORM | POLLWRBAND))
		usl_set_bit(mine->want_write, p->fd);
	if (p->events & POLLPRI)
		usl_set_bit(mine->want_except, p->fd);
	/* An error makes a socket readable, and is always wanted. */
	usl_set_bit(mine->want_read, p->fd);
	if (word >= mine->words)
		mine->words = word + 1;
}

/* @ask[0] is the set's own; the rest follows in the caller's order. */
static nfds_t usl_poll_split(const struct pollfd *fds, nfds_t nfds, struct usl_set *mine,
			     struct pollfd *ask)
{
	nfds_t n = 1, i;

	usl_poll_forget(mine);
	ask[0] = (struct pollfd){ .fd = mine->fd, .events = POLLIN };
	for (i = 0; i < nfds; i++) {
		if (usl_tracked(fds[i].fd))
			usl_poll_want(mine, &fds[i]);
		else if (fds[i].fd >= 0)
			ask[n++] = (struct pollfd){ .fd = fds[i].fd, .events = fds[i].events };
	}
	return n;
}

/*
 * Both walks meet the same descriptors in the same order unless one has changed its kind
 * meanwhile, which the numbers show: then it is simply not reported this time.
 */
static int usl_poll_merge(struct pollfd *fds, nfds_t nfds, const struct pollfd *ask, nfds_t asked)
{
	int count = 0;
	nfds_t n = 1, i;

	for (i = 0; i < nfds; i++) {
		fds[i].revents = 0;
		if (fds[i].fd < 0)
			continue;
		if (n < asked && ask[n].fd == fds[i].fd && ask[n].events == fds[i].events)
			fds[i].revents = ask[n++].revents;
		else if (usl_tracked(fds[i].fd))
			fds[i].revents = usl_poll_events(&fds[i]);
		count += fds[i].revents != 0;
	}
	return count;
}

static int usl_poll_slow(struct pollfd *fds, nfds_t nfds, struct usl_set *mine, struct pollfd *ask,
			 const struct timespec *deadline, bool now, const sigset_t *mask)
{
	struct timespec zero = { 0 }, left, *timeout;
	nfds_t asked, others;
	uint64_t seq;
	int n;

	for (;;) {
		asked = usl_poll_split(fds, nfds, mine, ask);
		usl_fence();
		seq = usl_set_seq(mine);
		n = usl_poll_count(fds, nfds, &others);
		usl_set_seen(mine, seq);
		timeout = n || now ? &zero : usl_left(deadline, &left);
		n = usl_sys_ppoll(ask, asked, timeout, mask);
		if (n < 0)
			return n;
		n = usl_poll_merge(fds, nfds, ask, asked);
		if (n || now || (timeout && !timeout->tv_sec && !timeout->tv_nsec))
			return n;
	}
}

static struct pollfd *usl_poll_array(struct usl_set *mine, nfds_t nfds)
{
	size_t words = ((nfds + 1) * sizeof(struct pollfd) + sizeof(long) - 1) / sizeof(long);
	/* As uselect() divides it. */
	size_t each = (words + USL_ARRAYS - 1) / USL_ARRAYS;
	unsigned long *mem;

	if (each > mine->scratch_words) {
		mem = realloc(mine->scratch, each * USL_ARRAYS * sizeof(long));
		if (!mem)
			return NULL;
		mine->scratch = mem;
		mine->scratch_words = each;
	}
	return (struct pollfd *)mine->scratch;
}

int uselect_ppoll(struct pollfd *fds, nfds_t nfds, const struct timespec *span,
		  const sigset_t *mask)
{
	bool zero = span && !span->tv_sec && !span->tv_nsec;
	struct timespec deadline;
	struct usl_set *mine;
	struct pollfd *ask;
	nfds_t others;
	int count;

	mine = usl_set_mine();
	if (!mine || nfds > INT_MAX)
		return usl_sys_ppoll(fds, nfds, span, mask);
	if (span && (span->tv_sec < 0 || span->tv_nsec < 0 || span->tv_nsec >= 1000000000L)) {
		errno = EINVAL;
		return -1;
	}
	count = usl_poll_count(fds, nfds, &others);
	/* Signals are let in by the kernel only. */
	if (!mask && ((count && (!others || usl_pass_on(&usl_pass))) ||
		      (!count && zero && !others)))
		return count;

	usl_pass.passes = 0;
	ask = usl_poll_array(mine, nfds);
	if (!ask) {
		errno = ENOMEM;
		return -1;
	}
	return usl_poll_slow(fds, nfds, mine, ask, usl_deadline(span, &deadline), count || zero,
			     mask);
}

int uselect_poll(struct pollfd *fds, nfds_t nfds, int timeout_ms)
{
	struct timespec span = { timeout_ms / 1000, timeout_ms % 1000 * 1000000L };

	return uselect_ppoll(fds, nfds, timeout_ms < 0 ? NULL : &span, NULL);
}
