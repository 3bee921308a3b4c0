// SPDX-License-Identifier: GPL-2.0
/*
 * Eviction that programs choose, as in Cao's LRU-SP: the cache proposes a victim in the order that
 * is common to all, and the program that brought it may give up something else of its own. The two
 * change places in the common order, and a placeholder remembers: when what was given up is missed
 * after all, what was kept for it is proposed next. So a bad choice costs the one who made it.
 */
#include <linux/slab.h>

#include <flotilla/iolite.h>

#include "cache.h"
#include "policy.h"

/* Candidates that are looked at for one that nobody uses. */
#define IOL_CHOICE_LOOK		64
#define IOL_CHOICE_SHIFT	32

struct iol_manager *iol_manager_create(void)
{
	struct iol_manager *manager = kzalloc(sizeof(*manager), GFP_KERNEL_ACCOUNT);

	if (!manager)
		return NULL;
	refcount_set(&manager->refs, 1);
	manager->order = RB_ROOT_CACHED;
	return manager;
}

void iol_manager_get(struct iol_manager *manager)
{
	if (manager)
		refcount_inc(&manager->refs);
}

void iol_manager_put(struct iol_manager *manager)
{
	if (manager && refcount_dec_and_test(&manager->refs))
		kfree(manager);
}

static u64 iol_choice_now(struct iol_manager *manager, const struct iol_extent *extent)
{
	u64 size = max_t(u64, extent->extents->size, extent->len);

	switch (manager->policy) {
	case IOL_POLICY_MRU:
		return U64_MAX - ++manager->clock;
	case IOL_POLICY_GDS:
		return manager->inflation + div64_u64(1ULL << IOL_CHOICE_SHIFT, size);
	default:
		return ++manager->clock;
	}
}

static bool iol_choice_less(struct rb_node *node, const struct rb_node *parent)
{
	return rb_entry(node, struct iol_extent, by_choice)->choice <
	       rb_entry(parent, struct iol_extent, by_choice)->choice;
}

/* A new extent of extent->manager, if it has one. */
void iol_manager_insert(struct iol_extent *extent)
{
	struct iol_manager *manager = extent->manager;

	if (!manager)
		return;
	extent->choice = iol_choice_now(manager, extent);
	rb_add_cached(&extent->by_choice, &manager->order, iol_choice_less);
}

void iol_manager_remove(struct iol_extent *extent)
{
	struct iol_manager *manager = extent->manager;
	unsigned int i;

	if (!manager)
		return;
	rb_erase_cached(&extent->by_choice, &manager->order);
	for (i = 0; i < IOL_PLACEHOLDERS; i++)
		if (manager->placeholder[i].kept == extent)
			manager->placeholder[i].kept = NULL;
}

/* The program that brought it used it. */
void iol_manager_touch(struct iol_extent *extent)
{
	rb_erase_cached(&extent->by_choice, &extent->manager->order);
	iol_manager_insert(extent);
}

/**
 * iol_manager_choice - what a program gives up when something of it shall go
 * @manager:  the program's
 * @proposed: what would go in the common order
 *
 * Context: the cache's lock is held; the caller lets the two change places.
 * Return: an extent of the same program that nobody uses, perhaps @proposed itself.
 */
struct iol_extent *iol_manager_choice(struct iol_manager *manager, struct iol_extent *proposed)
{
	struct rb_node *node = rb_first_cached(&manager->order);
	struct iol_placeholder *placeholder;
	struct iol_extent *extent = NULL;
	int look = IOL_CHOICE_LOOK;

	if (manager->policy == IOL_POLICY_SYSTEM)
		return proposed;
	for (; node && look; node = rb_next(node), look--) {
		extent = rb_entry(node, struct iol_extent, by_choice);
		if (!iol_extent_used(extent))
			break;
	}
	if (!node || !look)
		return proposed;
	if (manager->policy == IOL_POLICY_GDS)
		manager->inflation = max(manager->inflation, extent->choice);
	if (extent == proposed)
		return proposed;
	manager->last = (manager->last + 1) % IOL_PLACEHOLDERS;
	placeholder = &manager->placeholder[manager->last];
	placeholder->extents = extent->extents;
	placeholder->offset = extent->offset;
	placeholder->kept = proposed;
	return extent;
}

/**
 * iol_manager_missed - something is read that is not in the cache
 * @manager: of the program that reads; may be NULL
 * @extents: the file
 * @offset:  where
 *
 * Context: the cache's lock is held.
 * Return: what was kept in its place, which shall be proposed next, or NULL.
 */
struct iol_extent *iol_manager_missed(struct iol_manager *manager, struct iol_extents *extents,
				      u64 offset)
{
	unsigned int i;

	for (i = 0; manager && i < IOL_PLACEHOLDERS; i++) {
		struct iol_placeholder *placeholder = &manager->placeholder[i];
		struct iol_extent *kept = placeholder->kept;

		if (!kept || placeholder->extents != extents || placeholder->offset != offset)
			continue;
		placeholder->kept = NULL;
		return kept;
	}
	return NULL;
}
