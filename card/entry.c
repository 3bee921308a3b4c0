// SPDX-License-Identifier: GPL-2.0
/* The index of a cache. Every function here holds its lock, but the one that reaps. */

#include <linux/hash.h>
#include <linux/slab.h>

#include "counter.h"
#include "entry.h"

#define CARD_REAP_BATCH		64

static struct hlist_head *card_block_bucket(struct card_cache *cache, u64 block)
{
	return &cache->by_block[hash_64(block, CARD_CACHE_BITS)];
}

static struct hlist_head *card_page_bucket(struct card_cache *cache,
					   const struct address_space *mapping, pgoff_t index)
{
	return &cache->by_page[hash_64((unsigned long)mapping + index, CARD_CACHE_BITS)];
}

struct card_entry *card_entry_find(struct card_cache *cache, u64 block)
{
	struct card_entry *e;

	lockdep_assert_held(&cache->lock);
	hlist_for_each_entry(e, card_block_bucket(cache, block), by_block)
		if (e->block == block && e->generation == cache->generation)
			return e;
	return NULL;
}
EXPORT_SYMBOL_GPL(card_entry_find);

struct card_entry *card_entry_at(struct card_cache *cache, const struct address_space *mapping,
				 pgoff_t index)
{
	struct card_entry *e;

	lockdep_assert_held(&cache->lock);
	hlist_for_each_entry(e, card_page_bucket(cache, mapping, index), by_page)
		if (e->mapping == mapping && e->index == index &&
		    e->generation == cache->generation)
			return e;
	return NULL;
}

static void card_entry_free(struct card_cache *cache, struct card_entry *e)
{
	hlist_del(&e->by_block);
	list_del(&e->list);
	if (e->idle)
		cache->nr_idle--;
	kfree(e);
}

/* Brings lists and the load table up to what the entry has become. */
static void card_entry_settle(struct card_cache *cache, struct card_entry *e)
{
	bool held = e->mapping || e->hosted;

	if (held != e->counted) {
		cache->load[card_cache_home(cache, e->block)] += held ? 1 : -1;
		e->counted = held;
	}
	if (e->idle != !held) {
		cache->nr_idle += held ? -1 : 1;
		e->idle = !held;
	}
	if (e->hosted)
		list_move_tail(&e->list, &cache->hosted);
	else if (held)
		list_move_tail(&e->list, &cache->here);
	else
		list_move_tail(&e->list, &cache->idle);
}

struct card_entry *card_entry_make(struct card_cache *cache, u64 block)
{
	struct card_entry *e = card_entry_find(cache, block);

	if (e || cache->off)
		return e;
	while (cache->nr_idle >= CARD_IDLE_MAX)
		card_entry_free(cache, list_first_entry(&cache->idle, struct card_entry, list));
	e = kzalloc(sizeof(*e), GFP_ATOMIC | __GFP_NOWARN);
	if (!e)
		return NULL;
	e->block = block;
	e->generation = cache->generation;
	e->previous = CARD_DISK_PLACE;
	e->next = CARD_NOBODY;
	INIT_LIST_HEAD(&e->list);
	INIT_HLIST_NODE(&e->by_page);
	hlist_add_head(&e->by_block, card_block_bucket(cache, block));
	card_entry_settle(cache, e);
	return e;
}
EXPORT_SYMBOL_GPL(card_entry_make);

void card_entry_forget(struct card_cache *cache, struct card_entry *e)
{
	lockdep_assert_held(&cache->lock);
	if (e->idle)
		card_entry_free(cache, e);
	else
		e->next = CARD_NOBODY;
}
EXPORT_SYMBOL_GPL(card_entry_forget);

/* Interrupts are off and there may be many: now they only stop to count. */
void card_entry_forget_all(struct card_cache *cache)
{
	lockdep_assert_held(&cache->lock);
	list_splice_tail_init(&cache->idle, &cache->dead);
	list_splice_tail_init(&cache->hosted, &cache->dead);
	list_splice_tail_init(&cache->here, &cache->dead);
	cache->nr_idle = 0;
	WRITE_ONCE(cache->nr_hosted, 0);
	memset(cache->load, 0, sizeof(cache->load));
	cache->generation++;
	if (!list_empty(&cache->dead))
		queue_work(system_unbound_wq, &cache->reap);
}

/* Takes some dead entries out of the tables; false: there are none. */
static bool card_entry_bury(struct card_cache *cache, struct list_head *out)
{
	struct card_entry *e;
	unsigned int n;

	spin_lock_irq(&cache->lock);
	for (n = 0; n < CARD_REAP_BATCH && !list_empty(&cache->dead); n++) {
		e = list_first_entry(&cache->dead, struct card_entry, list);
		hlist_del(&e->by_block);
		if (e->mapping)
			hlist_del(&e->by_page);
		list_move_tail(&e->list, out);
	}
	spin_unlock_irq(&cache->lock);
	return n;
}

void card_entry_reap(struct work_struct *work)
{
	struct card_cache *cache = container_of(work, struct card_cache, reap);
	struct card_entry *e, *next;
	LIST_HEAD(gone);

	while (card_entry_bury(cache, &gone)) {
		list_for_each_entry_safe(e, next, &gone, list) {
			if (e->hosted) {
				put_page(e->hosted);
				card_count(cache->cn, CARD_STAT_HOSTED_DROPPED);
			}
			kfree(e);
		}
		INIT_LIST_HEAD(&gone);
		cond_resched();
	}
}

void card_entry_locate(struct card_cache *cache, struct card_entry *e,
		       struct address_space *mapping, pgoff_t index, u32 crc)
{
	struct card_entry *old = card_entry_at(cache, mapping, index);

	/* A page that has another block now; then it was gone without our knowing. */
	if (old)
		card_entry_unlocate(cache, old);
	if (e->mapping)
		card_entry_unlocate(cache, e);
	if (e->hosted)
		card_entry_unhost(cache, e);
	e->mapping = mapping;
	e->index = index;
	e->crc = crc;
	hlist_add_head(&e->by_page, card_page_bucket(cache, mapping, index));
	card_entry_settle(cache, e);
}

void card_entry_unlocate(struct card_cache *cache, struct card_entry *e)
{
	lockdep_assert_held(&cache->lock);
	hlist_del(&e->by_page);
	e->mapping = NULL;
	card_entry_settle(cache, e);
}

void card_entry_host(struct card_cache *cache, struct card_entry *e, struct page *page, u32 crc)
{
	lockdep_assert_held(&cache->lock);
	if (e->hosted || e->mapping) {
		put_page(page);
		return;
	}
	while (cache->nr_hosted >= cache->host_max && !list_empty(&cache->hosted))
		card_entry_unhost(cache, list_first_entry(&cache->hosted, struct card_entry,
							  list));
	e->hosted = page;
	e->crc = crc;
	WRITE_ONCE(cache->nr_hosted, cache->nr_hosted + 1);
	card_count(cache->cn, CARD_STAT_HOSTED);
	card_entry_settle(cache, e);
}

void card_entry_unhost(struct card_cache *cache, struct card_entry *e)
{
	lockdep_assert_held(&cache->lock);
	put_page(e->hosted);
	e->hosted = NULL;
	WRITE_ONCE(cache->nr_hosted, cache->nr_hosted - 1);
	card_count(cache->cn, CARD_STAT_HOSTED_DROPPED);
	card_entry_settle(cache, e);
}

static struct page *card_page_of(struct address_space *mapping, pgoff_t index)
{
	struct folio *folio = filemap_get_folio(mapping, index);

	if (IS_ERR(folio))
		return NULL;
	if (folio_test_uptodate(folio))
		return folio_file_page(folio, index);
	folio_put(folio);
	return NULL;
}

struct page *card_cache_page(struct card_cache *cache, u64 block, u32 *crc, bool *check)
{
	struct card_entry *e = card_entry_find(cache, block);
	struct page *page = NULL;

	*check = e;
	if (e) {
		*crc = e->crc;
		if (e->hosted) {
			get_page(e->hosted);
			list_move_tail(&e->list, &cache->hosted);
			return e->hosted;
		}
		if (e->mapping)
			page = card_page_of(e->mapping, e->index);
	}
	if (!page && cache->bdev) {
		/* What its own page cache has is the disk's. */
		*check = false;
		page = card_page_of(cache->bdev->bd_mapping, block);
	}
	return page;
}

bool card_cache_holds(struct card_cache *cache, u64 block)
{
	struct page *page;
	bool check;
	u32 crc;

	page = card_cache_page(cache, block, &crc, &check);
	if (page)
		put_page(page);
	return page;
}
EXPORT_SYMBOL_GPL(card_cache_holds);

/*
 * Free memory says nothing: the page cache has taken it all. So a budget, and not in
 * the second after the kernel has wanted hosted pages back.
 */
bool card_cache_has_room(struct card_cache *cache)
{
	lockdep_assert_held(&cache->lock);
	return cache->nr_hosted < cache->host_max && time_after(jiffies, cache->squeezed + HZ);
}
EXPORT_SYMBOL_GPL(card_cache_has_room);

u16 card_cache_least_loaded(struct card_cache *cache)
{
	u16 i, place, best = CARD_NOBODY;

	lockdep_assert_held(&cache->lock);
	/* Equal ones have their turns: with blocks spread by number most are. */
	for (i = 0; i < cache->nr; i++) {
		place = (cache->turn + i) % cache->nr;
		if (place != cache->self &&
		    (best == CARD_NOBODY || cache->load[place] < cache->load[best]))
			best = place;
	}
	cache->turn = (cache->turn + 1) % cache->nr;
	return best;
}
EXPORT_SYMBOL_GPL(card_cache_least_loaded);
