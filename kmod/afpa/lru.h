/* SPDX-License-Identifier: GPL-2.0 */
/* Strict LRU, beside CLOCK: whose last use is the oldest. */
#ifndef AFPA_LRU_H
#define AFPA_LRU_H

#include <linux/atomic.h>
#include <linux/rbtree.h>

struct afpa_cache;
struct afpa_object;

/**
 * struct afpa_lru - objects by their last use
 * @uses: uses so far, which are counted only where the policy is AFPA_POLICY_LRU
 * @tree: by afpa_object.listed, under the cache's lock
 *
 * A use takes no lock: it writes its number into the object, and @tree stays as it was. So the
 * number that an object is listed by is never greater than that of its last use; the first of
 * @tree for which both are the same was not used for longest.
 */
struct afpa_lru {
	atomic64_t uses;
	struct rb_root_cached tree;
};

void afpa_lru_init(struct afpa_lru *lru);

/* It is in the cache now, if it is not in the tree yet. Under the cache's lock. */
void afpa_lru_add(struct afpa_lru *lru, struct afpa_object *obj);
/* It leaves the cache; the same. */
void afpa_lru_del(struct afpa_lru *lru, struct afpa_object *obj);

/**
 * afpa_lru_first() - who was not used for longest
 * @lru:   of the cache
 * @keep:  not this one
 * @steps: how many may be looked at; what is left of them
 *
 * Context: under the cache's lock.
 * Return: NULL: there is none, or @steps is 0 now.
 */
struct afpa_object *afpa_lru_first(struct afpa_lru *lru, const struct afpa_object *keep,
				   unsigned int *steps);

#endif
