/* SPDX-License-Identifier: GPL-2.0 */
/* RCU-tasks: whoever is in our code, or on its way there, and does not sleep. */
#ifndef FLT_TASKS_H
#define FLT_TASKS_H

#include <linux/rcupdate.h>

/* The end of all that call_rcu_tasks() has been given before. */
static inline void flt_tasks_barrier(void)
{
#ifdef CONFIG_TASKS_RCU
	rcu_barrier_tasks();
#else
	rcu_barrier();
#endif
}

#endif
