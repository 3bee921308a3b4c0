// SPDX-License-Identifier: GPL-2.0
/* poll(), select() and their kin. */

#include <stdlib.h>
#include <string.h>

#include "uselect/lib/internal.h"
#include "preload.h"

void __chk_fail(void) __attribute__((noreturn));

static int usl_preload_ppoll(struct pollfd *fds, nfds_t nfds, const struct timespec *timeout,
			     const sigset_t *mask)
{
	nfds_t i;

	if (!usl_preload_register(false))
		return usl_sys_ppoll(fds, nfds, timeout, mask);
	for (i = 0; i < nfds; i++)
		usl_preload_nested(fds[i].fd);
	return uselect_ppoll(fds, nfds, timeout, mask);
}

int poll(struct pollfd *fds, nfds_t nfds, int timeout)
{
	struct timespec span = { timeout / 1000, timeout % 1000 * 1000000L };

	return usl_preload_ppoll(fds, nfds, timeout < 0 ? NULL : &span, NULL);
}

int ppoll(struct pollfd *fds, nfds_t nfds, const struct timespec *timeout,
		     const sigset_t *mask)
{
	return usl_preload_ppoll(fds, nfds, timeout, mask);
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
	return usl_preload_ppoll(fds, nfds, timeout, mask);
}

static void usl_preload_nested_set(int nfds, const fd_set *set)
{
	const unsigned long *words = (const unsigned long *)set;
	unsigned long bits;
	int i;

	for (i = 0; set && i < (int)USELECT_WORDS(nfds); i++)
		for (bits = words[i]; bits; bits &= bits - 1)
			usl_preload_nested(i * USL_BITS + __builtin_ctzl(bits));
}

/* As Linux has it, the time that is left is handed back. */
int select(int nfds, fd_set *rd, fd_set *wr, fd_set *ex, struct timeval *timeout)
{
	struct timespec span, deadline, left;
	int n, err;

	if (timeout) {
		if (timeout->tv_sec < 0 || timeout->tv_usec < 0) {
			errno = EINVAL;
			return -1;
		}
		span.tv_sec = timeout->tv_sec + timeout->tv_usec / 1000000;
		span.tv_nsec = timeout->tv_usec % 1000000 * 1000L;
		usl_deadline(&span, &deadline);
	}
	if (nfds >= 0 && usl_preload_register(false)) {
		usl_preload_nested_set(nfds, rd);
		n = uselect(nfds, rd, wr, ex, timeout);
	} else {
		n = usl_sys_select(nfds, rd, wr, ex, timeout ? &span : NULL, NULL);
	}
	if (timeout) {
		err = errno;
		usl_left(&deadline, &left);
		timeout->tv_sec = left.tv_sec;
		timeout->tv_usec = left.tv_nsec / 1000;
		errno = err;
	}
	return n;
}

/* Signals are let in by the kernel only; the sets are its too. */
int pselect(int nfds, fd_set *rd, fd_set *wr, fd_set *ex,
		       const struct timespec *timeout, const sigset_t *mask)
{
	return usl_sys_select(nfds, rd, wr, ex, timeout, mask);
}
