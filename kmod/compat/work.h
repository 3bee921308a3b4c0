/* SPDX-License-Identifier: GPL-2.0 */
/* Timers and work queues: what differs between kernels. */
#ifndef FLT_COMPAT_WORK_H
#define FLT_COMPAT_WORK_H

#include <linux/timer.h>
#include <linux/workqueue.h>
#include <flt_compat_config.h>

/* Of a queue that is bound to processors: once nothing had to be said. */
#ifdef FLT_HAVE_WQ_PERCPU
#define FLT_WQ_PERCPU	WQ_PERCPU
#else
#define FLT_WQ_PERCPU	0
#endif

#ifdef timer_container_of
#define flt_timer_container_of	timer_container_of
#else
#define flt_timer_container_of	from_timer
#endif

#endif
