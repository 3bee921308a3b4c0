// SPDX-License-Identifier: GPL-2.0
/* Is what a pipe remembers of who polls it called poll_usage, or pseudo_edgetrigger? */
#include <linux/fs.h>
#include <linux/pipe_fs_i.h>

bool flt_probe(const struct pipe_inode_info *pipe);
bool flt_probe(const struct pipe_inode_info *pipe)
{
#ifndef FLT_PROBE_NOT
	return pipe->poll_usage;
#else
	return pipe->pseudo_edgetrigger;
#endif
}
