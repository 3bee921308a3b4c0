// SPDX-License-Identifier: GPL-2.0
/* Is there a function that changes an epoll by its file, which io_uring calls, too? */
#include <linux/fs.h>
#include <linux/eventpoll.h>

#ifndef FLT_PROBE_NOT
int flt_probe(struct file *file, struct epoll_key *key, struct epoll_event *event);
int flt_probe(struct file *file, struct epoll_key *key, struct epoll_event *event)
{
	return do_epoll_ctl_file(file, EPOLL_CTL_MOD, key, event, false);
}
#else
enum { do_epoll_ctl_file };
#endif
