/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The function that all changes of epolls go through, for who traces it: since io_uring looks its
 * files up itself, one that takes a file, and no number.
 */
#ifndef FLT_COMPAT_EPOLL_H
#define FLT_COMPAT_EPOLL_H

#include <linux/fdtable.h>
#include <linux/ftrace.h>
#include <flt_compat_config.h>

#ifdef FLT_HAVE_EPOLL_CTL_FILE
#define FLT_EPOLL_CTL	"do_epoll_ctl_file"
#else
#define FLT_EPOLL_CTL	"do_epoll_ctl"
#endif

/* The epoll, or NULL. Under RCU, called from the function that is traced. */
static inline const struct file *flt_epoll_ctl_file(struct ftrace_regs *regs)
{
#ifdef FLT_HAVE_EPOLL_CTL_FILE
	return (const struct file *)ftrace_regs_get_argument(regs, 0);
#else
	return files_lookup_fd_raw(current->files, ftrace_regs_get_argument(regs, 0));
#endif
}

#endif
