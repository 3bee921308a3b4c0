// SPDX-License-Identifier: MIT
/* poll(), select() and the waiting calls of epoll: ready things from the region, else the call itself. */

#include <pthread.h>
#include <string.h>

#include "preload.h"

/* Of a select() that we answer; with more descriptors the kernel is asked. */
#define USL_SELECT_WORDS	(FD_SETSIZE / USL_BITS)
#define USL_ALWAYS		(POLLERR | POLLHUP | POLLNVAL)

void __chk_fail(void) __attribute__((noreturn));

static __thread struct usl_pass usl_pass;

/*
 * Even where all is tracked the kernel is asked now and then: should the region ever say what is
 * not so, the program does not go on with it for ever.
 */
static bool usl_answers(bool found)
{
	if (found && usl_pass_on(&usl_pass)) {
		usl_preload_answered();
		return true;
	}
	usl_pass.passes = 0;
	return false;
}

/* --- poll() --- */

/* What is ready, or nothing where nothing can be and @now asks for no more; -1: ask the kernel. */
static int usl_poll_answer(struct pollfd *fds, nfds_t nfds, bool now)
{
	bool others = false;
	int count = 0;
	nfds_t i;

	if (!usl_preload_waits() || nfds > usl_region.nfds)
		return -1;
	for (i = 0; i < nfds; i++) {
		fds[i].revents = 0;
		if (usl_tracked(fds[i].fd)) {
			fds[i].revents = usl_fd_events(fds[i].fd) & (fds[i].events | USL_ALWAYS);
			count += fds[i].revents != 0;
		} else if (fds[i].fd >= 0) {
			others = true;
		}
	}
	return usl_answers(count || (nfds && now && !others)) ? count : -1;
}

int poll(struct pollfd *fds, nfds_t nfds, int timeout)
{
	int n = usl_poll_answer(fds, nfds, !timeout);

	if (n < 0)
		return usl_real_poll(fds, nfds, timeout);
	pthread_testcancel();
	return n;
}

/* The caller's signals are let in by the kernel only, and what is no time is refused by it. */
int ppoll(struct pollfd *fds, nfds_t nfds, const struct timespec *timeout, const sigset_t *mask)
{
	int n = -1;

	if (!mask && (!timeout || (timeout->tv_sec >= 0 && timeout->tv_nsec >= 0 &&
				   timeout->tv_nsec < 1000000000L)))
		n = usl_poll_answer(fds, nfds, timeout && !timeout->tv_sec && !timeout->tv_nsec);
	if (n < 0)
		return usl_real_ppoll(fds, nfds, timeout, mask);
	pthread_testcancel();
	return n;
}

/* What -D_FORTIFY_SOURCE makes of them. */
int __poll_chk(struct pollfd *fds, nfds_t nfds, int timeout, size_t size);
int __ppoll_chk(struct pollfd *fds, nfds_t nfds, const struct timespec *timeout,
		const sigset_t *mask, size_t size);

int __poll_chk(struct pollfd *fds, nfds_t nfds, int timeout, size_t size)
{
	if (size / sizeof(*fds) < nfds)
		__chk_fail();
	return poll(fds, nfds, timeout);
}

int __ppoll_chk(struct pollfd *fds, nfds_t nfds, const struct timespec *timeout,
		const sigset_t *mask, size_t size)
{
	if (size / sizeof(*fds) < nfds)
		__chk_fail();
	return ppoll(fds, nfds, timeout, mask);
}

/* --- select() --- */

/* What is ready of one set; the rest of the last word does not count. */
static int usl_select_look(unsigned int nfds, const unsigned long *wanted, const usl_word *ready,
			   unsigned long *hits, unsigned long *others)
{
	unsigned long word, tracked;
	unsigned int i;
	int count = 0;

	for (i = 0; i < USELECT_WORDS(nfds); i++) {
		word = wanted[i];
		if (i == nfds / USL_BITS)
			word &= (1UL << (nfds % USL_BITS)) - 1;
		tracked = i < usl_region.nfds / USL_BITS ? word & usl_load(&usl_region.active[i]) : 0;
		hits[i] = tracked ? tracked & usl_load(&ready[i]) : 0;
		*others |= word ^ tracked;
		count += __builtin_popcountl(hits[i]);
	}
	return count;
}

static int usl_select_answer(unsigned int nfds, fd_set *const sets[3], bool now)
{
	const usl_word *ready[] = { usl_region.read, usl_region.write, usl_region.except };
	unsigned long hits[3][USL_SELECT_WORDS], others = 0;
	int count = 0, i;

	for (i = 0; i < 3; i++)
		if (sets[i])
			count += usl_select_look(nfds, (const unsigned long *)sets[i], ready[i], hits[i],
						 &others);
	if (!usl_answers(count || (nfds && now && !others)))
		return -1;
	for (i = 0; i < 3; i++)
		if (sets[i])
			memcpy(sets[i], hits[i], USELECT_WORDS(nfds) * sizeof(long));
	return count;
}

int select(int nfds, fd_set *rd, fd_set *wr, fd_set *ex, struct timeval *timeout)
{
	fd_set *const sets[] = { rd, wr, ex };
	int n = -1;

	if (nfds >= 0 && nfds <= FD_SETSIZE &&
	    (!timeout || (timeout->tv_sec >= 0 && timeout->tv_usec >= 0)) && usl_preload_waits())
		n = usl_select_answer(nfds, sets, timeout && !timeout->tv_sec && !timeout->tv_usec);
	if (n < 0)
		return usl_real_select(nfds, rd, wr, ex, timeout);
	pthread_testcancel();
	return n;
}

/* --- epoll --- */

int epoll_ctl(int epfd, int op, int fd, struct epoll_event *ev)
{
	return usl_shadow_ctl(epfd, op, fd, ev);
}

int epoll_wait(int epfd, struct epoll_event *events, int max, int timeout)
{
	int n = usl_shadow_answer(epfd, events, max);

	if (!n)
		return usl_real_epoll_wait(epfd, events, max, timeout);
	pthread_testcancel();
	return n;
}

int epoll_pwait(int epfd, struct epoll_event *events, int max, int timeout, const sigset_t *mask)
{
	int n = mask ? 0 : usl_shadow_answer(epfd, events, max);

	if (!n)
		return usl_real_epoll_pwait(epfd, events, max, timeout, mask);
	pthread_testcancel();
	return n;
}

int epoll_pwait2(int epfd, struct epoll_event *events, int max, const struct timespec *timeout,
		 const sigset_t *mask)
{
	int n = mask || timeout ? 0 : usl_shadow_answer(epfd, events, max);

	if (!n)
		return usl_real_epoll_pwait2(epfd, events, max, timeout, mask);
	pthread_testcancel();
	return n;
}
