// SPDX-License-Identifier: MIT
/* System calls past any wrapper, time, and how often to look at what is not tracked. */

#include <sys/syscall.h>
#include <unistd.h>

#include "internal.h"

#define USL_NSEC	1000000000L

_Atomic unsigned int usl_max_pass = 16;
_Atomic unsigned int usl_max_delay_us = 2000;

int uselect_set_option(enum uselect_option option, unsigned int value)
{
	if (option == USELECT_MAX_PASS && value >= 1 && value <= 4096) {
		usl_max_pass = value;
		return 0;
	}
	if (option == USELECT_MAX_DELAY_US && value <= 1000000) {
		usl_max_delay_us = value;
		return 0;
	}
	errno = EINVAL;
	return -1;
}

/* The coarse clock is read without a system call whatever the machine's clock is. */
static uint64_t usl_coarse_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	return now.tv_sec * 1000000ULL + now.tv_nsec / 1000;
}

bool usl_pass_on(struct usl_pass *pass)
{
	if (!pass->passes) {
		pass->since = usl_coarse_us();
	} else if (pass->passes >= usl_max_pass ||
		   usl_coarse_us() - pass->since > usl_max_delay_us) {
		pass->passes = 0;
		return false;
	}
	pass->passes++;
	return true;
}

struct timespec *usl_deadline(const struct timespec *span, struct timespec *deadline)
{
	if (!span)
		return NULL;
	clock_gettime(CLOCK_MONOTONIC, deadline);
	deadline->tv_sec += span->tv_sec;
	deadline->tv_nsec += span->tv_nsec;
	if (deadline->tv_nsec >= USL_NSEC) {
		deadline->tv_nsec -= USL_NSEC;
		deadline->tv_sec++;
	}
	return deadline;
}

struct timespec *usl_left(const struct timespec *deadline, struct timespec *left)
{
	struct timespec now;

	if (!deadline)
		return NULL;
	clock_gettime(CLOCK_MONOTONIC, &now);
	left->tv_sec = deadline->tv_sec - now.tv_sec;
	left->tv_nsec = deadline->tv_nsec - now.tv_nsec;
	if (left->tv_nsec < 0) {
		left->tv_nsec += USL_NSEC;
		left->tv_sec--;
	}
	if (left->tv_sec < 0)
		*left = (struct timespec){ 0 };
	return left;
}

/* The kernel writes the time that is left into its argument. */
int usl_sys_select(int nfds, void *rd, void *wr, void *ex, const struct timespec *timeout,
		   const sigset_t *mask)
{
	struct timespec left = timeout ? *timeout : (struct timespec){ 0 };
	const struct { const sigset_t *mask; size_t size; } sig = { mask, _NSIG / 8 };

	return syscall(SYS_pselect6, nfds, rd, wr, ex, timeout ? &left : NULL, &sig);
}

int usl_sys_ppoll(struct pollfd *fds, nfds_t nfds, const struct timespec *timeout,
		  const sigset_t *mask)
{
	struct timespec left = timeout ? *timeout : (struct timespec){ 0 };

	return syscall(SYS_ppoll, fds, nfds, timeout ? &left : NULL, mask, _NSIG / 8);
}

int usl_sys_epoll_pwait(int epfd, struct epoll_event *events, int max, int timeout,
			const sigset_t *mask)
{
#ifdef SYS_epoll_wait
	if (!mask)
		return syscall(SYS_epoll_wait, epfd, events, max, timeout);
#endif
	return syscall(SYS_epoll_pwait, epfd, events, max, timeout, mask, _NSIG / 8);
}

int usl_sys_epoll_ctl(int epfd, int op, int fd, struct epoll_event *event)
{
	return syscall(SYS_epoll_ctl, epfd, op, fd, event);
}

int usl_sys_close(int fd)
{
	return syscall(SYS_close, fd);
}
