/* SPDX-License-Identifier: GPL-2.0 */
/* Pipes: what differs between kernels. */
#ifndef FLT_COMPAT_PIPE_H
#define FLT_COMPAT_PIPE_H

#include <linux/fs.h>
#include <linux/pipe_fs_i.h>
#include <flt_compat_config.h>

/* Somebody waits by epoll and edges: he is woken for each write, not for the first only. */
static inline bool flt_compat_pipe_by_edges(const struct pipe_inode_info *pipe)
{
#ifdef FLT_HAVE_PIPE_POLL_USAGE
	return pipe->poll_usage;
#else
	return READ_ONCE(pipe->pseudo_edgetrigger);
#endif
}

#endif
