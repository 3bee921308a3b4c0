/* SPDX-License-Identifier: GPL-2.0 */
/* Programs that choose which of their own cached data goes first. */
#ifndef IOL_POLICY_H
#define IOL_POLICY_H

#include <linux/rbtree.h>
#include <linux/refcount.h>

struct iol_extent;
struct iol_extents;

/* Choices against the common order that are remembered. */
#define IOL_PLACEHOLDERS	64

/**
 * struct iol_placeholder - what a program gave up in place of something else of its own
 * @extents: file of what it gave up; only compared
 * @offset:  where in the file
 * @kept:    what would have gone; NULL: nothing here
 */
struct iol_placeholder {
	struct iol_extents *extents;
	u64 offset;
	struct iol_extent *kept;
};

/**
 * struct iol_manager - a program's own order of eviction for what it brought into the cache
 * @refs:      the domain, and extents that it brought
 * @policy:    IOL_POLICY_* of uapi/flotilla/iolite.h
 * @order:     those extents, by their choice; lowest goes first
 * @clock:     counts uses
 * @inflation: what the last victim was worth, for Greedy-Dual-Size
 * @last:      the newest of @placeholder
 *
 * All but @refs under the cache's lock.
 */
struct iol_manager {
	refcount_t refs;
	u32 policy;
	struct rb_root_cached order;
	u64 clock;
	u64 inflation;
	unsigned int last;
	struct iol_placeholder placeholder[IOL_PLACEHOLDERS];
};

struct iol_manager *iol_manager_create(void);
void iol_manager_get(struct iol_manager *manager);
void iol_manager_put(struct iol_manager *manager);

void iol_manager_insert(struct iol_extent *extent);
void iol_manager_remove(struct iol_extent *extent);
void iol_manager_touch(struct iol_extent *extent);
struct iol_extent *iol_manager_choice(struct iol_manager *manager, struct iol_extent *proposed);
struct iol_extent *iol_manager_missed(struct iol_manager *manager, struct iol_extents *extents,
				      u64 offset);

#endif
