// SPDX-License-Identifier: GPL-2.0
/* Strict LRU: what was used since it was listed is listed anew when its turn comes. */

#include "lru.h"
#include "object.h"

static struct afpa_object *afpa_lru_object(struct rb_node *node)
{
	return rb_entry(node, struct afpa_object, lru);
}

static bool afpa_lru_less(struct rb_node *a, const struct rb_node *b)
{
	return afpa_lru_object(a)->listed < rb_entry(b, struct afpa_object, lru)->listed;
}

void afpa_lru_init(struct afpa_lru *lru)
{
	atomic64_set(&lru->uses, 0);
	lru->tree = RB_ROOT_CACHED;
}

void afpa_lru_add(struct afpa_lru *lru, struct afpa_object *obj)
{
	if (!RB_EMPTY_NODE(&obj->lru))
		return;
	obj->listed = READ_ONCE(obj->last_use);
	rb_add_cached(&obj->lru, &lru->tree, afpa_lru_less);
}

void afpa_lru_del(struct afpa_lru *lru, struct afpa_object *obj)
{
	if (RB_EMPTY_NODE(&obj->lru))
		return;
	rb_erase_cached(&obj->lru, &lru->tree);
	RB_CLEAR_NODE(&obj->lru);
}

struct afpa_object *afpa_lru_first(struct afpa_lru *lru, const struct afpa_object *keep,
				   unsigned int *steps)
{
	struct rb_node *node = rb_first_cached(&lru->tree);

	while (node && *steps) {
		struct afpa_object *obj = afpa_lru_object(node);

		--*steps;
		if (obj == keep) {
			node = rb_next(node);
			continue;
		}
		if (obj->listed == READ_ONCE(obj->last_use))
			return obj;
		afpa_lru_del(lru, obj);
		afpa_lru_add(lru, obj);
		node = rb_first_cached(&lru->tree);
	}
	return NULL;
}
