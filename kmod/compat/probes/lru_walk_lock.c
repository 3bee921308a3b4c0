// SPDX-License-Identifier: GPL-2.0
/* Is who walks a list_lru told the list's lock? */
#include <linux/list_lru.h>

#ifndef FLT_PROBE_NOT
enum lru_status flt_probe(struct list_head *item, struct list_lru_one *list, spinlock_t *lock,
			  void *arg);
#else
enum lru_status flt_probe(struct list_head *item, struct list_lru_one *list, void *arg);
#endif
extern const list_lru_walk_cb flt_probe_walk;

const list_lru_walk_cb flt_probe_walk = flt_probe;
