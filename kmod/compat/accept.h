/* SPDX-License-Identifier: GPL-2.0 */
/* When accept() gives a child the memory cgroup of its program. */
#ifndef FLT_COMPAT_ACCEPT_H
#define FLT_COMPAT_ACCEPT_H

#include <linux/memcontrol.h>
#include <net/sock.h>
#include <flt_compat_config.h>

#if defined(CONFIG_MEMCG) && defined(FLT_HAVE_ACCEPT_CHARGES_LATE)
#define FLT_COMPAT_ACCEPT_LATE	1

/*
 * In the last steps of accept(), before the child has a group: the one that it is about to get.
 * It takes that itself, too, so this must be taken back before the child's lock is released.
 */
static inline void flt_compat_group_lend(struct sock *child)
{
	struct mem_cgroup *memcg;

	rcu_read_lock();
	memcg = mem_cgroup_from_task(current);
	if (mem_cgroup_sockets_enabled && cgroup_subsys_on_dfl(memory_cgrp_subsys) &&
	    parent_mem_cgroup(memcg) && css_tryget(&memcg->css))
		child->sk_memcg = memcg;
	rcu_read_unlock();
}

static inline void flt_compat_group_take_back(struct sock *child)
{
	struct mem_cgroup *memcg = child->sk_memcg;

	child->sk_memcg = NULL;
	if (memcg)
		css_put(&memcg->css);
}

#else
#define FLT_COMPAT_ACCEPT_LATE	0

static inline void flt_compat_group_lend(struct sock *child) {}
static inline void flt_compat_group_take_back(struct sock *child) {}
#endif

#endif
