/* SPDX-License-Identifier: GPL-2.0 */
/* This node's part of the cooperative cache of one disk. */
#ifndef CARD_CACHE_H
#define CARD_CACHE_H

#include <linux/blkdev.h>
#include <linux/shrinker.h>
#include <linux/spinlock.h>
#include "kmod/node.h"

#include "evict.h"
#include "net.h"
#include "policy.h"
#include "rules.h"

#define CARD_CACHE_BITS		13
/* Blocks that are only known of: older ones are forgotten. */
#define CARD_IDLE_MAX		65536
#define CARD_PLACES_MAX		(CARD_NODES_MAX + 1)

/**
 * struct card_members - the participants; never changes
 * @nr:    how many, with the exporter
 * @place: this node's
 * @home_shift: so many powers of two of blocks have one home
 * @name:  of each place; of place 0 only at the others
 */
struct card_members {
	u16 nr;
	u16 place;
	u16 home_shift;
	char name[CARD_PLACES_MAX][FLT_NAME_MAX];
};

/**
 * struct card_cache - of one attached disk, or of one export
 * @cn:       the namespace
 * @policy:   never NULL, never changes
 * @members:  the participants
 * @nr, @self: @members->nr and ->place, for the policy
 * @gendisk:  the device whose evicted pages concern us
 * @bdev:     at the exporter: the device whose own page cache this is; else NULL
 * @hash:     in the table of caches by @gendisk; RCU
 * @lock:     leaf, interrupts off; guards all that follows, and every entry.
 *	      Taken by the eviction hook under the page cache's lock
 * @off:      nothing is added any more
 * @rules:    what may be set
 * @dir:      its directory in sysfs, or NULL; changed where the cache is made and ended
 * @epoch, @export: the disk's address; READ_ONCE
 * @by_block, @by_page: struct card_entry
 * @idle:     entries of blocks that are not here, the oldest first; @nr_idle of them
 * @hosted:   entries of blocks kept for others, the oldest first
 * @here:     entries of blocks that are in a page cache, in no order
 * @dead:     entries of earlier generations, until @reap has freed them
 * @generation: of the entries that count
 * @nr_hosted, @host_max: how many; the shrinker reads @nr_hosted without the lock
 * @squeezed: jiffies when the kernel last wanted hosted pages back
 * @load:     for each home, blocks here whose home it is: the load table
 * @turn:     breaks ties in the load table
 * @evict:    blocks on their way out
 * @shrinker: gives hosted pages back
 */
struct card_cache {
	struct card_net *cn;
	const struct card_policy *policy;
	struct card_members *members;
	u16 nr, self;
	struct gendisk *gendisk;
	struct block_device *bdev;
	struct hlist_node hash;
	spinlock_t lock;	/* leaf, irqs off: what follows */
	bool off;
	struct card_rules rules;
	struct device *dir;
	u64 epoch;
	u32 export;
	struct hlist_head *by_block, *by_page;
	struct list_head idle, hosted, here, dead;
	u32 generation;
	struct work_struct reap;
	unsigned int nr_idle, nr_hosted, host_max;
	unsigned long squeezed;
	u32 load[CARD_PLACES_MAX];
	u16 turn;
	struct card_evict evict;
	struct shrinker *shrinker;
};

/**
 * card_cache_new - the part of a disk or an export, not yet in use
 * @cn:       namespace
 * @policy:   taken over, also on error
 * @members:  taken over, also on error
 * @host:     pages kept for others; negative: a quarter of memory
 *
 * Context: process.
 * Return: it, or ERR_PTR.
 */
struct card_cache *card_cache_new(struct card_net *cn, const struct card_policy *policy,
				  struct card_members *members, s64 host);
/* From here on evicted pages of @gendisk, or of @bdev's own cache only, are seen. */
void card_cache_start(struct card_cache *cache, struct gendisk *gendisk,
		      struct block_device *bdev);
/* Lets go of every block; nothing is added later. Process context; NULL is nothing. */
void card_cache_stop(struct card_cache *cache);
/* After card_cache_stop(). */
void card_cache_free(struct card_cache *cache);
/* The disk has this address now, or none (zeros); what was known of another is forgotten. */
void card_cache_address(struct card_cache *cache, u32 export, u64 epoch);

/* Place of a node, or CARD_NOBODY. */
u16 card_cache_place(const struct card_cache *cache, const struct flt_node *node);
/* The node at a place, referenced, if it is another one, in our table and up; else NULL. */
struct flt_node *card_cache_node(const struct card_cache *cache, u16 place);

/* The cache that has pages of @bdev, under RCU; for the eviction hook. */
struct card_cache *card_cache_of(struct block_device *bdev, bool own);

/* Calls @fn for every cache there is; process context. */
void card_cache_each(void (*fn)(struct card_cache *cache, void *arg), void *arg);

#endif
