/* SPDX-License-Identifier: GPL-2.0 */
/* For tests: a page that never comes. Whoever touches it sleeps, in the kernel with all that he has locked. */
#ifndef FLT_TEST_TRAP_H
#define FLT_TEST_TRAP_H

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * A descriptor from which a struct uffd_msg can be read for each touch of the page at @page, which must be mapped and
 * empty; -1: there is no such thing. munmap() of the page and then close() of it wake who waits.
 */
static inline int trap(char *page)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register reg = { .range = { (uintptr_t)page, 4096 }, .mode = UFFDIO_REGISTER_MODE_MISSING };
	int fd = syscall(SYS_userfaultfd, O_CLOEXEC);

	return fd < 0 || ioctl(fd, UFFDIO_API, &api) || ioctl(fd, UFFDIO_REGISTER, &reg) ? -1 : fd;
}

/* The page comes, with the content of the page at @from, and who waits goes on; 0 or -1. */
static inline int trap_fill(int fd, char *page, const char *from)
{
	struct uffdio_copy copy = { .dst = (uintptr_t)page, .src = (uintptr_t)from, .len = 4096 };

	return ioctl(fd, UFFDIO_COPY, &copy);
}

#endif
