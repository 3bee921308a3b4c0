// SPDX-License-Identifier: MIT
/* Closing and copying of numbers: the library's own are not the program's to close. */

#include <dlfcn.h>
#include <linux/close_range.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "preload.h"

int close(int fd)
{
	bool tracked;
	int ret;

	if (usl_is_own_still(fd)) {
		errno = EBADF;
		return -1;
	}
	usl_shadow_closing(fd);
	tracked = usl_tracked(fd);
	ret = usl_real_close(fd);
	if (tracked)
		usl_closed(fd);
	return ret;
}

/* In pieces between the library's own numbers. */
int close_range(unsigned int first, unsigned int last, int flags)
{
	unsigned int fd, end = last < USEL_NFDS_MAX ? last : USEL_NFDS_MAX - 1;
	int ret = 0;

	if (flags & CLOSE_RANGE_UNSHARE)
		usl_preload_off();
	if (first > last || (flags & ~CLOSE_RANGE_CLOEXEC))
		return usl_real_close_range(first, last, flags);
	if (!(flags & CLOSE_RANGE_CLOEXEC))
		usl_shadow_closing_range(first, last);
	for (fd = first; !ret && fd <= end; fd++) {
		if (!usl_is_own_still(fd))
			continue;
		if (fd > first)
			ret = usl_real_close_range(first, fd - 1, flags);
		first = fd + 1;
	}
	return !ret && first <= last ? usl_real_close_range(first, last, flags) : ret;
}

void closefrom(int low)
{
	close_range(low < 0 ? 0 : low, ~0U, 0);
}

/* The program has the number if it wants it, and we do without. */
static void usl_dup_over(int old, int fresh)
{
	if (old != fresh && usl_is_own_still(fresh))
		usl_preload_off();
}

int dup3(int old, int fresh, int flags)
{
	int ret;

	usl_dup_over(old, fresh);
	ret = usl_real_dup3(old, fresh, flags);
	if (ret >= 0)
		usl_shadow_closing(ret);
	return ret;
}

int dup2(int old, int fresh)
{
	int ret;

	usl_dup_over(old, fresh);
	ret = usl_real_dup2(old, fresh);
	if (ret >= 0 && old != fresh)
		usl_shadow_closing(ret);
	return ret;
}

/* What sets a filter up for its own system calls knows those of the C library, not ours. */
int prctl(int option, ...)
{
	unsigned long a, b, c, d;
	va_list more;

	va_start(more, option);
	a = va_arg(more, unsigned long);
	b = va_arg(more, unsigned long);
	c = va_arg(more, unsigned long);
	d = va_arg(more, unsigned long);
	va_end(more);
	if (option == PR_SET_SECCOMP)
		usl_preload_never();
	return usl_real_prctl(option, a, b, c, d);
}

/* Of libseccomp, which makes its system call past prctl(). */
int seccomp_load(void *filter);

int seccomp_load(void *filter)
{
	int (*real)(void *filter) = dlsym(RTLD_NEXT, "seccomp_load");

	usl_preload_never();
	return real ? real(filter) : -ENOSYS;
}

/* --- two descriptor tables in one memory, of which the region can follow one --- */

int unshare(int flags)
{
	if (flags & CLONE_FILES)
		usl_preload_off();
	return usl_real_unshare(flags);
}

/* After vfork() the caller sleeps until the child has a memory of its own. */
int clone(int (*fn)(void *arg), void *stack, int flags, void *arg, ...)
{
	pid_t *parent, *child;
	va_list more;
	void *tls;

	if ((flags & CLONE_VM) && !(flags & (CLONE_FILES | CLONE_VFORK)))
		usl_preload_off();
	/* All three, as the C library's own takes them. */
	va_start(more, arg);
	parent = va_arg(more, pid_t *);
	tls = va_arg(more, void *);
	child = va_arg(more, pid_t *);
	va_end(more);
	return usl_real_clone(fn, stack, flags, arg, parent, tls, child);
}
