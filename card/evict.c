// SPDX-License-Identifier: GPL-2.0
/*
 * The eviction hook. Kernels have none for file systems' pages since cleancache went;
 * a tracepoint in the function that all removals go through serves instead. It is
 * called with the page cache's lock held and interrupts off, possibly in reclaim: the
 * block is copied to a page that is there already, and sent by a work item.
 */

#include <linux/blkdev.h>
#include <linux/highmem.h>
#include <linux/pagemap.h>
#include <linux/slab.h>
#include <linux/tracepoint.h>

#include "counter.h"
#include "entry.h"
#include "evict.h"
#include "parcel.h"
#include "part.h"

static struct workqueue_struct *card_evict_wq;
static struct tracepoint *card_evict_point;

/* One page of the page cache goes. */
static bool card_evict_page(struct card_cache *cache, struct page *page, pgoff_t index,
			    struct address_space *mapping, bool reclaim)
{
	struct card_evict *evict = &cache->evict;
	struct card_save save = {};
	struct card_victim *victim;
	struct card_entry *e;
	u64 block = index;
	u32 crc = 0;
	bool known;
	u8 class;
	u16 to;

	lockdep_assert_held(&cache->lock);
	e = card_entry_at(cache, mapping, index);
	if (e) {
		block = e->block;
		crc = e->crc;
		card_entry_unlocate(cache, e);
	}
	if (!reclaim || cache->off || (!e && !cache->bdev) || (e && e->hosted))
		return false;
	card_count(cache->cn, CARD_STAT_EVICTIONS);
	class = card_rules_class(&cache->rules, mapping->host);
	if (!(cache->rules.evict & BIT(class)))
		return false;
	known = e;
	to = cache->policy->handle_eviction(cache, block, &save);
	if (!card_cache_other(cache, to))
		return false;
	victim = list_first_entry_or_null(&evict->free, struct card_victim, list);
	if (!victim) {
		card_count(cache->cn, CARD_STAT_SAVES_LOST);
		return true;	/* the work may find pages */
	}
	if (save.kind != CARD_SAVE_NOT)
		copy_highpage(victim->page, page);
	victim->block = block;
	victim->epoch = cache->epoch;
	victim->check = known;
	victim->crc = crc;
	victim->to = to;
	victim->kind = save.kind;
	victim->depth = save.depth;
	victim->said = save.said;
	victim->next = save.next;
	victim->class = class;
	list_move_tail(&victim->list, &evict->full);
	return true;
}

static void card_evict_hook(void *unused, struct folio *folio)
{
	struct address_space *mapping = folio->mapping;
	struct inode *inode = mapping ? mapping->host : NULL;
	bool reclaim = current->flags & PF_MEMALLOC && folio_test_uptodate(folio);
	struct block_device *bdev;
	struct card_cache *cache;
	unsigned long flags;
	bool send = false;
	long i;

	if (!inode || !inode->i_sb)
		return;
	bdev = S_ISBLK(inode->i_mode) ? I_BDEV(inode) : inode->i_sb->s_bdev;
	if (!bdev)
		return;
	rcu_read_lock();
	cache = card_cache_of(bdev, S_ISBLK(inode->i_mode));
	if (cache) {
		spin_lock_irqsave(&cache->lock, flags);
		for (i = 0; i < folio_nr_pages(folio); i++)
			send |= card_evict_page(cache, folio_page(folio, i), folio->index + i,
						mapping, reclaim);
		spin_unlock_irqrestore(&cache->lock, flags);
		if (send)
			queue_work(card_evict_wq, &cache->evict.work);
	}
	rcu_read_unlock();
}

static bool card_evict_take(struct card_cache *cache, struct card_victim *out)
{
	struct card_victim *victim;

	spin_lock_irq(&cache->lock);
	victim = list_first_entry_or_null(&cache->evict.full, struct card_victim, list);
	if (victim) {
		*out = *victim;
		if (victim->kind == CARD_SAVE_NOT) {
			list_move_tail(&victim->list, &cache->evict.free);
		} else {
			list_del_init(&victim->list);
			victim->page = NULL;
		}
	}
	spin_unlock_irq(&cache->lock);
	return victim;
}

static void card_evict_refill(struct card_cache *cache)
{
	struct card_evict *evict = &cache->evict;
	unsigned int i;

	/* Only here are pages given to victims that have none. */
	for (i = 0; i < CARD_VICTIMS; i++) {
		struct card_victim *victim = &evict->victim[i];

		if (READ_ONCE(victim->page))
			continue;
		victim->page = alloc_page(GFP_NOWAIT | __GFP_NOWARN);
		if (!victim->page)
			return;
		spin_lock_irq(&cache->lock);
		list_add_tail(&victim->list, &evict->free);
		spin_unlock_irq(&cache->lock);
	}
}

static void card_evict_send(struct card_cache *cache, struct card_victim *victim)
{
	struct card_wire_block head = {
		.epoch = cpu_to_be64(victim->epoch),
		.export = cpu_to_be32(READ_ONCE(cache->export)),
		.sector = cpu_to_be64(victim->block * CARD_BLOCK_SECTORS),
		.bytes = cpu_to_be32(CARD_BLOCK),
		.origin = cpu_to_be16(cache->self),
		.deliverer = cpu_to_be16(cache->self),
		.kind = victim->kind,
		.depth = victim->depth,
		.class = victim->class,
	};
	u32 crc = card_page_crc(victim->page);

	if (victim->check && crc != victim->crc) {
		card_count(cache->cn, CARD_STAT_CACHE_MISMATCH);
		put_page(victim->page);
		return;
	}
	head.crc = cpu_to_be32(crc);
	if (card_parcel_send_to(cache, victim->to, CARD_MSG_SAVE, &head, victim->page))
		card_count(cache->cn, CARD_STAT_SAVES_LOST);
	else
		card_count(cache->cn, CARD_STAT_SAVES);
}

static void card_evict_say(struct card_cache *cache, const struct card_victim *victim)
{
	struct card_notes notes = {};

	if (victim->epoch != READ_ONCE(cache->epoch))
		return;
	card_note(&notes, victim->to, victim->said, victim->block, victim->next, cache->self);
	card_notes_send(cache, &notes);
}

static void card_evict_work(struct work_struct *work)
{
	struct card_cache *cache = container_of(work, struct card_cache, evict.work);
	struct card_victim victim;

	while (card_evict_take(cache, &victim)) {
		if (victim.kind == CARD_SAVE_NOT)
			card_evict_say(cache, &victim);
		else
			card_evict_send(cache, &victim);
	}
	card_evict_refill(cache);
}

int card_evict_init(struct card_evict *evict)
{
	unsigned int i;

	INIT_LIST_HEAD(&evict->free);
	INIT_LIST_HEAD(&evict->full);
	INIT_WORK(&evict->work, card_evict_work);
	if (!card_evict_point)
		return -EOPNOTSUPP;
	evict->victim = kcalloc(CARD_VICTIMS, sizeof(*evict->victim), GFP_KERNEL);
	if (!evict->victim)
		return -ENOMEM;
	for (i = 0; i < CARD_VICTIMS; i++) {
		evict->victim[i].page = alloc_page(GFP_KERNEL);
		if (!evict->victim[i].page)
			return -ENOMEM;
		list_add_tail(&evict->victim[i].list, &evict->free);
	}
	return 0;
}

void card_evict_stop(struct card_evict *evict)
{
	cancel_work_sync(&evict->work);
}

void card_evict_exit(struct card_evict *evict)
{
	unsigned int i;

	for (i = 0; evict->victim && i < CARD_VICTIMS; i++)
		if (evict->victim[i].page)
			put_page(evict->victim[i].page);
	kfree(evict->victim);
}

static void card_evict_find(struct tracepoint *point, void *arg)
{
	if (!strcmp(point->name, "mm_filemap_delete_from_page_cache"))
		card_evict_point = point;
}

/* Without the tracepoint there are no caches, and all else works. */
int card_evict_register(void)
{
	int err;

	card_evict_wq = alloc_workqueue("card_evict", WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
	if (!card_evict_wq)
		return -ENOMEM;
	for_each_kernel_tracepoint(card_evict_find, NULL);
	if (!card_evict_point)
		return 0;
	err = tracepoint_probe_register(card_evict_point, card_evict_hook, NULL);
	if (err)
		destroy_workqueue(card_evict_wq);
	return err;
}

void card_evict_unregister(void)
{
	if (card_evict_point)
		tracepoint_probe_unregister(card_evict_point, card_evict_hook, NULL);
	tracepoint_synchronize_unregister();
	destroy_workqueue(card_evict_wq);
}
