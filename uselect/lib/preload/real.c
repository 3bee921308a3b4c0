// SPDX-License-Identifier: MIT
/* The functions whose names we have: the C library's, or another preloaded library's. */

#include <dlfcn.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "preload.h"

static struct {
	int (*poll)(struct pollfd *fds, nfds_t nfds, int timeout);
	int (*ppoll)(struct pollfd *fds, nfds_t nfds, const struct timespec *timeout,
		     const sigset_t *mask);
	int (*select)(int nfds, fd_set *rd, fd_set *wr, fd_set *ex, struct timeval *timeout);
	int (*epoll_ctl)(int epfd, int op, int fd, struct epoll_event *ev);
	int (*epoll_wait)(int epfd, struct epoll_event *events, int max, int timeout);
	int (*epoll_pwait)(int epfd, struct epoll_event *events, int max, int timeout,
			   const sigset_t *mask);
	int (*epoll_pwait2)(int epfd, struct epoll_event *events, int max,
			    const struct timespec *timeout, const sigset_t *mask);
	int (*close)(int fd);
	int (*close_range)(unsigned int first, unsigned int last, int flags);
	int (*dup2)(int old, int fresh);
	int (*dup3)(int old, int fresh, int flags);
	int (*unshare)(int flags);
	int (*prctl)(int option, ...);
	int (*clone)(int (*fn)(void *arg), void *stack, int flags, void *arg, ...);
} usl_real;

/* Calls before this one, by other constructors, go to the kernel directly. */
__attribute__((constructor)) static void usl_real_find(void)
{
	usl_real.poll = dlsym(RTLD_NEXT, "poll");
	usl_real.ppoll = dlsym(RTLD_NEXT, "ppoll");
	usl_real.select = dlsym(RTLD_NEXT, "select");
	usl_real.epoll_ctl = dlsym(RTLD_NEXT, "epoll_ctl");
	usl_real.epoll_wait = dlsym(RTLD_NEXT, "epoll_wait");
	usl_real.epoll_pwait = dlsym(RTLD_NEXT, "epoll_pwait");
	usl_real.epoll_pwait2 = dlsym(RTLD_NEXT, "epoll_pwait2");
	usl_real.close = dlsym(RTLD_NEXT, "close");
	usl_real.close_range = dlsym(RTLD_NEXT, "close_range");
	usl_real.dup2 = dlsym(RTLD_NEXT, "dup2");
	usl_real.dup3 = dlsym(RTLD_NEXT, "dup3");
	usl_real.unshare = dlsym(RTLD_NEXT, "unshare");
	usl_real.prctl = dlsym(RTLD_NEXT, "prctl");
	usl_real.clone = dlsym(RTLD_NEXT, "clone");
}

int usl_real_poll(struct pollfd *fds, nfds_t nfds, int timeout)
{
	struct timespec span = { timeout / 1000, timeout % 1000 * 1000000L };

	if (usl_real.poll)
		return usl_real.poll(fds, nfds, timeout);
	return usl_sys_ppoll(fds, nfds, timeout < 0 ? NULL : &span, NULL);
}

int usl_real_ppoll(struct pollfd *fds, nfds_t nfds, const struct timespec *timeout,
		   const sigset_t *mask)
{
	if (usl_real.ppoll)
		return usl_real.ppoll(fds, nfds, timeout, mask);
	return usl_sys_ppoll(fds, nfds, timeout, mask);
}

int usl_real_select(int nfds, fd_set *rd, fd_set *wr, fd_set *ex, struct timeval *timeout)
{
	struct timespec span;

	if (usl_real.select)
		return usl_real.select(nfds, rd, wr, ex, timeout);
	if (timeout)
		span = (struct timespec){ timeout->tv_sec, timeout->tv_usec * 1000 };
	return usl_sys_select(nfds, rd, wr, ex, timeout ? &span : NULL, NULL);
}

int usl_real_epoll_ctl(int epfd, int op, int fd, struct epoll_event *ev)
{
	if (usl_real.epoll_ctl)
		return usl_real.epoll_ctl(epfd, op, fd, ev);
	return usl_sys_epoll_ctl(epfd, op, fd, ev);
}

int usl_real_epoll_wait(int epfd, struct epoll_event *events, int max, int timeout)
{
	if (usl_real.epoll_wait)
		return usl_real.epoll_wait(epfd, events, max, timeout);
	return usl_sys_epoll_pwait(epfd, events, max, timeout, NULL);
}

int usl_real_epoll_pwait(int epfd, struct epoll_event *events, int max, int timeout,
			 const sigset_t *mask)
{
	if (usl_real.epoll_pwait)
		return usl_real.epoll_pwait(epfd, events, max, timeout, mask);
	return usl_sys_epoll_pwait(epfd, events, max, timeout, mask);
}

int usl_real_epoll_pwait2(int epfd, struct epoll_event *events, int max,
			  const struct timespec *timeout, const sigset_t *mask)
{
	if (usl_real.epoll_pwait2)
		return usl_real.epoll_pwait2(epfd, events, max, timeout, mask);
	return syscall(SYS_epoll_pwait2, epfd, events, max, timeout, mask, _NSIG / 8);
}

int usl_real_close(int fd)
{
	return usl_real.close ? usl_real.close(fd) : usl_sys_close(fd);
}

int usl_real_close_range(unsigned int first, unsigned int last, int flags)
{
	if (usl_real.close_range)
		return usl_real.close_range(first, last, flags);
	return syscall(SYS_close_range, first, last, flags);
}

int usl_real_dup2(int old, int fresh)
{
	return usl_real.dup2 ? usl_real.dup2(old, fresh) : (int)syscall(SYS_dup2, old, fresh);
}

int usl_real_dup3(int old, int fresh, int flags)
{
	if (usl_real.dup3)
		return usl_real.dup3(old, fresh, flags);
	return syscall(SYS_dup3, old, fresh, flags);
}

int usl_real_unshare(int flags)
{
	return usl_real.unshare ? usl_real.unshare(flags) : (int)syscall(SYS_unshare, flags);
}

int usl_real_prctl(int option, unsigned long a, unsigned long b, unsigned long c, unsigned long d)
{
	if (usl_real.prctl)
		return usl_real.prctl(option, a, b, c, d);
	return syscall(SYS_prctl, option, a, b, c, d);
}

int usl_real_clone(int (*fn)(void *), void *stack, int flags, void *arg, pid_t *parent, void *tls,
		   pid_t *child)
{
	if (usl_real.clone)
		return usl_real.clone(fn, stack, flags, arg, parent, tls, child);
	errno = ENOSYS;
	return -1;
}
