// SPDX-License-Identifier: GPL-2.0
/* Life of a cache: who takes part, how much it may host, and giving that back. */

#include <linux/hashtable.h>
#include <linux/jiffies.h>
#include <linux/slab.h>

#include "cache.h"
#include "counter.h"
#include "entry.h"

static DEFINE_HASHTABLE(card_caches, 6);
static DEFINE_MUTEX(card_caches_lock);	/* changes of card_caches */

static unsigned long card_cache_count_hosted(struct shrinker *shrinker, struct shrink_control *sc)
{
	struct card_cache *cache = shrinker->private_data;

	return READ_ONCE(cache->nr_hosted) ?: SHRINK_EMPTY;
}

static unsigned long card_cache_shrink(struct shrinker *shrinker, struct shrink_control *sc)
{
	struct card_cache *cache = shrinker->private_data;
	unsigned long flags, n;

	spin_lock_irqsave(&cache->lock, flags);
	cache->squeezed = jiffies;
	for (n = 0; n < sc->nr_to_scan && !list_empty(&cache->hosted); n++)
		card_entry_unhost(cache, list_first_entry(&cache->hosted, struct card_entry,
							  list));
	spin_unlock_irqrestore(&cache->lock, flags);
	return n;
}

static int card_cache_alloc(struct card_cache *cache)
{
	size_t size = sizeof(struct hlist_head) << CARD_CACHE_BITS;
	int err;

	cache->by_block = kvzalloc(size, GFP_KERNEL);
	cache->by_page = kvzalloc(size, GFP_KERNEL);
	cache->shrinker = shrinker_alloc(0, "card");
	if (!cache->by_block || !cache->by_page || !cache->shrinker)
		return -ENOMEM;
	err = card_evict_init(&cache->evict);
	if (err)
		return err;
	cache->shrinker->count_objects = card_cache_count_hosted;
	cache->shrinker->scan_objects = card_cache_shrink;
	cache->shrinker->private_data = cache;
	return 0;
}

struct card_cache *card_cache_new(struct card_net *cn, const struct card_policy *policy,
				  struct card_members *members, s64 host)
{
	struct card_cache *cache;
	int err = -ENOMEM;

	cache = kzalloc(sizeof(*cache), GFP_KERNEL);
	if (!cache) {
		card_policy_put(policy);
		kfree(members);
		return ERR_PTR(-ENOMEM);
	}
	cache->cn = cn;
	cache->policy = policy;
	cache->members = members;
	cache->nr = members->nr;
	cache->self = members->place;
	spin_lock_init(&cache->lock);
	INIT_LIST_HEAD(&cache->idle);
	INIT_LIST_HEAD(&cache->hosted);
	INIT_LIST_HEAD(&cache->here);
	INIT_LIST_HEAD(&cache->dead);
	INIT_WORK(&cache->reap, card_entry_reap);
	INIT_HLIST_NODE(&cache->hash);
	cache->host_max = host < 0 ? totalram_pages() / 4 : host;
	cache->squeezed = jiffies - 2 * HZ;
	card_rules_init(&cache->rules);
	err = card_cache_alloc(cache);
	if (!err)
		return cache;
	shrinker_free(cache->shrinker);
	cache->shrinker = NULL;
	card_cache_free(cache);
	return ERR_PTR(err);
}

void card_cache_start(struct card_cache *cache, struct gendisk *gendisk,
		      struct block_device *bdev)
{
	cache->gendisk = gendisk;
	cache->bdev = bdev;
	shrinker_register(cache->shrinker);
	mutex_lock(&card_caches_lock);
	hash_add_rcu(card_caches, &cache->hash, (unsigned long)gendisk);
	mutex_unlock(&card_caches_lock);
}

void card_cache_stop(struct card_cache *cache)
{
	if (!cache)
		return;
	card_rules_hide(cache);
	spin_lock_irq(&cache->lock);
	cache->off = true;
	card_entry_forget_all(cache);
	spin_unlock_irq(&cache->lock);
	/* Whoever changes the address at this moment may have it queued again. */
	disable_work_sync(&cache->reap);
	card_entry_reap(&cache->reap);
	mutex_lock(&card_caches_lock);
	if (!hlist_unhashed(&cache->hash))
		hash_del_rcu(&cache->hash);
	mutex_unlock(&card_caches_lock);
	/* The hook looks at caches under RCU. */
	synchronize_rcu();
	card_evict_stop(&cache->evict);
	shrinker_free(cache->shrinker);
	cache->shrinker = NULL;
}

void card_cache_free(struct card_cache *cache)
{
	if (!cache)
		return;
	card_evict_exit(&cache->evict);
	kvfree(cache->by_block);
	kvfree(cache->by_page);
	card_policy_put(cache->policy);
	kfree(cache->members);
	kfree(cache);
}

void card_cache_address(struct card_cache *cache, u32 export, u64 epoch)
{
	spin_lock_irq(&cache->lock);
	if (cache->export != export || cache->epoch != epoch) {
		card_entry_forget_all(cache);
		WRITE_ONCE(cache->export, export);
		WRITE_ONCE(cache->epoch, epoch);
	}
	spin_unlock_irq(&cache->lock);
}

u16 card_cache_place(const struct card_cache *cache, const struct flt_node *node)
{
	u16 place;

	for (place = 0; place < cache->nr; place++)
		if (place != cache->self && !strcmp(cache->members->name[place], node->name))
			return place;
	return CARD_NOBODY;
}

struct flt_node *card_cache_node(const struct card_cache *cache, u16 place)
{
	struct flt_node *node;

	if (!card_cache_other(cache, place))
		return NULL;
	node = flt_node_by_name(cache->cn->net, cache->members->name[place]);
	if (node && !flt_node_is_up(node)) {
		flt_node_put(node);
		node = NULL;
	}
	return node;
}

struct card_cache *card_cache_of(struct block_device *bdev, bool own)
{
	struct card_cache *cache;

	hash_for_each_possible_rcu(card_caches, cache, hash, (unsigned long)bdev->bd_disk)
		if (cache->gendisk == bdev->bd_disk &&
		    (!cache->bdev || (own && cache->bdev->bd_mapping == bdev->bd_mapping)))
			return cache;
	return NULL;
}

void card_cache_each(void (*fn)(struct card_cache *cache, void *arg), void *arg)
{
	struct card_cache *cache;
	unsigned int i;

	mutex_lock(&card_caches_lock);
	hash_for_each(card_caches, i, cache, hash)
		fn(cache, arg);
	mutex_unlock(&card_caches_lock);
}
