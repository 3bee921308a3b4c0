/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Who walks a list_lru is told its lock on older kernels. Whoever does defines flt_lru_walk(),
 * without, and hands flt_on_lru_walk() to the walk, which is of the kernel's own type.
 */
#ifndef FLT_COMPAT_LRU_WALK_H
#define FLT_COMPAT_LRU_WALK_H

#include <linux/list_lru.h>
#include <flt_compat_config.h>

static enum lru_status flt_lru_walk(struct list_head *item, struct list_lru_one *list, void *arg);

#ifdef FLT_HAVE_LRU_WALK_LOCK
static enum lru_status flt_on_lru_walk(struct list_head *item, struct list_lru_one *list,
				       spinlock_t *lock, void *arg)
{
	return flt_lru_walk(item, list, arg);
}
#else
static enum lru_status flt_on_lru_walk(struct list_head *item, struct list_lru_one *list,
				       void *arg)
{
	return flt_lru_walk(item, list, arg);
}
#endif

#endif
