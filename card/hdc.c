// SPDX-License-Identifier: GPL-2.0
/*
 * HDC, hash distributed caching [Olaru 4.6], the baseline: a block is at its home or on
 * the disk, and the exporter sends what its cache evicts to the homes. So the exporter
 * must cache what it reads.
 */

#include <linux/module.h>

#include "entry.h"
#include "part.h"

static u16 hdc_lookup(struct card_cache *cache, u64 block)
{
	return card_cache_home(cache, block);
}

static u16 hdc_handle_eviction(struct card_cache *cache, u64 block, struct card_save *save)
{
	if (cache->self != CARD_DISK_PLACE)
		return CARD_NOBODY;
	save->kind = CARD_SAVE_SINGLET;
	save->depth = 0;
	return card_cache_home(cache, block);
}

/* Nobody has anything to say: there is no index, and no writing. */
static void hdc_keep_consistency(struct card_cache *cache, u16 from,
				 const struct card_wire_index *said, struct card_notes *notes)
{
}

static u16 hdc_handle_request(struct card_cache *cache, struct card_ask *ask,
			      struct card_notes *notes)
{
	bool here = card_cache_holds(cache, ask->block);

	if (!ask->save)
		return here ? cache->self : CARD_DISK_PLACE;
	/* Whatever the home has to do: the oldest block that it keeps makes room. */
	ask->force = true;
	return here ? CARD_NOBODY : cache->self;
}

static struct card_policy hdc = {
	.name = "hdc",
	.owner = THIS_MODULE,
	.keep = true,
	.lookup = hdc_lookup,
	.handle_eviction = hdc_handle_eviction,
	.keep_consistency = hdc_keep_consistency,
	.handle_request = hdc_handle_request,
};

static int __init hdc_init(void)
{
	return card_policy_register(&hdc);
}

static void __exit hdc_exit(void)
{
	card_policy_unregister(&hdc);
}

module_init(hdc_init);
module_exit(hdc_exit);

MODULE_DESCRIPTION("Flotilla: hash distributed caching of remote disks");
MODULE_VERSION(FLT_VERSION);
MODULE_LICENSE("GPL");
MODULE_ALIAS("card-policy-hdc");
