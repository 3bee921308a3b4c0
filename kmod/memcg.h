/* SPDX-License-Identifier: GPL-2.0 */
/* Who pays for what the kernel keeps of a socket. */
#ifndef FLT_MEMCG_H
#define FLT_MEMCG_H

#include <linux/memcontrol.h>
#include <linux/sched/mm.h>
#include <net/sock.h>

/**
 * flt_sock_pays - what is allocated with __GFP_ACCOUNT from here on is its memory cgroup's
 * @sk: a listener, for its children, which belong to nobody until they are accepted; or a socket
 *	that was accepted, or never needs to be
 *
 * Any context but hard interrupt.
 * Return: for set_active_memcg(), to end it.
 */
static inline struct mem_cgroup *flt_sock_pays(const struct sock *sk)
{
#ifdef CONFIG_MEMCG
	return set_active_memcg(sk->sk_memcg);
#else
	return NULL;
#endif
}

#endif
