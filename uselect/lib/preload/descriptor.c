// SPDX-License-Identifier: GPL-2.0
/* Closing and copying of numbers: the library's own are not the program's to close. */

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "uselect/lib/internal.h"
#include "preload.h"

int close(int fd)
{
	if (usl_is_own(fd)) {
		errno = EBADF;
		return -1;
	}
	usl_preload_closing(fd);
	return uselect_close(fd);
}

/* In pieces between the library's own numbers. */
int close_range(unsigned int first, unsigned int last, int flags)
{
	unsigned int fd, end = last < USEL_NFDS_MAX ? last : USEL_NFDS_MAX - 1;
	int ret = 0;

	if (first > last || (flags & ~CLOSE_RANGE_CLOEXEC))
		return syscall(SYS_close_range, first, last, flags);
	if (!(flags & CLOSE_RANGE_CLOEXEC))
		usl_preload_closing_range(first, last);
	for (fd = first; !ret && fd <= end; fd++) {
		if (!usl_is_own(fd))
			continue;
		if (fd > first)
			ret = syscall(SYS_close_range, first, fd - 1, flags);
		first = fd + 1;
	}
	return !ret && first <= last ? syscall(SYS_close_range, first, last, flags) : ret;
}

void closefrom(int low)
{
	close_range(low < 0 ? 0 : low, ~0U, 0);
}

/* EBUSY is what Linux says for a number that is not to be had just now. */
int dup3(int old, int fresh, int flags)
{
	if (usl_is_own(fresh)) {
		errno = EBUSY;
		return -1;
	}
	fresh = syscall(SYS_dup3, old, fresh, flags);
	if (fresh >= 0)
		usl_preload_closing(fresh);
	return fresh;
}

int dup2(int old, int fresh)
{
	if (old == fresh)
		return fcntl(old, F_GETFD) < 0 ? -1 : fresh;
	return dup3(old, fresh, 0);
}

/* A child that shares our memory must not change it: the standard lets it be a fork(). */
pid_t vfork(void)
{
	return fork();
}
