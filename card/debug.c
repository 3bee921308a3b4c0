// SPDX-License-Identifier: GPL-2.0
/*
 * /sys/kernel/debug/card/scramble: a number written there is the seed of what every
 * cache then believes about where blocks are and how loaded others are. Nothing may
 * come of it but misses; the tests see to that.
 */

#include <linux/capability.h>
#include <linux/debugfs.h>
#include <linux/module.h>
#include <linux/prandom.h>

#include "debug.h"
#include "entry.h"

/* Blocks from the first for which there is something to believe. */
#define CARD_SCRAMBLED	16384

static struct dentry *card_debug_dir;

/* Participants mostly, also those that there are not. */
static u16 card_debug_place(struct rnd_state *rnd, const struct card_cache *cache)
{
	u32 r = prandom_u32_state(rnd);

	return r & 0x70000 ? r % (cache->nr + 1) : r;
}

static void card_debug_scramble(struct card_cache *cache, void *arg)
{
	struct rnd_state *rnd = arg;
	struct card_entry *e;
	unsigned int i;
	u64 block;

	for (block = 0; block < CARD_SCRAMBLED; block++) {
		spin_lock_irq(&cache->lock);
		e = card_entry_make(cache, block);
		if (e) {
			e->previous = card_debug_place(rnd, cache);
			e->next = card_debug_place(rnd, cache);
		}
		spin_unlock_irq(&cache->lock);
	}
	spin_lock_irq(&cache->lock);
	for (i = 0; i < cache->nr; i++)
		cache->load[i] = prandom_u32_state(rnd);
	spin_unlock_irq(&cache->lock);
}

static int card_debug_set(void *data, u64 seed)
{
	struct rnd_state rnd;

	if (!capable(CAP_SYS_ADMIN))
		return -EPERM;
	prandom_seed_state(&rnd, seed);
	card_cache_each(card_debug_scramble, &rnd);
	return 0;
}

DEFINE_DEBUGFS_ATTRIBUTE(card_debug_fops, NULL, card_debug_set, "%llu\n");

void card_debug_register(void)
{
	card_debug_dir = debugfs_create_dir("card", NULL);
	debugfs_create_file_unsafe("scramble", 0200, card_debug_dir, NULL, &card_debug_fops);
}

void card_debug_unregister(void)
{
	debugfs_remove(card_debug_dir);
}
