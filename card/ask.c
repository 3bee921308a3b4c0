// SPDX-License-Identifier: GPL-2.0
/* The asking side of a cooperative cache. */

#include <linux/highmem.h>
#include <linux/pagemap.h>

#include "ask.h"
#include "counter.h"
#include "entry.h"
#include "parcel.h"
#include "peer.h"

static bool card_ask_is_block(struct request *rq)
{
	return req_op(rq) == REQ_OP_READ && blk_rq_bytes(rq) == CARD_BLOCK &&
	       !(blk_rq_pos(rq) % CARD_BLOCK_SECTORS);
}

/* The page that the request reads all of, if it is a page of the page cache; else NULL. */
static struct page *card_ask_page(struct card_disk *disk, struct request *rq)
{
	struct bio_vec bv = bio_iovec(rq->bio);
	struct address_space *mapping;
	struct folio *folio;

	/* A direct read's page is its reader's: it may change at any time. */
	if (bv.bv_len != CARD_BLOCK || bv.bv_offset)
		return NULL;
	folio = page_folio(bv.bv_page);
	mapping = folio_mapping(folio);
	if (!mapping || !mapping->host || !folio_test_locked(folio) || folio_test_uptodate(folio))
		return NULL;
	if (mapping == disk->gendisk->part0->bd_mapping)
		return bv.bv_page;
	if (S_ISBLK(mapping->host->i_mode) || !mapping->host->i_sb->s_bdev ||
	    mapping->host->i_sb->s_bdev->bd_disk != disk->gendisk)
		return NULL;
	return bv.bv_page;
}

/* Locked, so it cannot go before the index knows where it is. */
static void card_ask_locate(struct card_cache *cache, struct card_entry *e, struct page *page,
			    u32 crc)
{
	struct folio *folio = page_folio(page);

	card_entry_locate(cache, e, folio_mapping(folio),
			  folio->index + folio_page_idx(folio, page), crc);
}

static struct page *card_ask_take(struct card_cache *cache, u64 block, u32 *crc)
{
	struct page *page = NULL;
	struct card_entry *e;

	spin_lock_irq(&cache->lock);
	e = card_entry_find(cache, block);
	if (e && e->hosted) {
		page = e->hosted;
		get_page(page);
		*crc = e->crc;
	}
	spin_unlock_irq(&cache->lock);
	return page;
}

bool card_ask_hosted(struct card_disk *disk, struct request *rq)
{
	struct card_cache *cache = disk->cache;
	struct page *hosted, *page;
	struct card_entry *e;
	struct bio_vec bv;
	u64 block;
	u32 crc;
	bool good;

	if (!cache || !card_ask_is_block(rq))
		return false;
	bv = bio_iovec(rq->bio);
	if (bv.bv_len != CARD_BLOCK)
		return false;
	block = blk_rq_pos(rq) / CARD_BLOCK_SECTORS;
	hosted = card_ask_take(cache, block, &crc);
	if (!hosted)
		return false;
	good = card_page_crc(hosted) == crc;
	if (good) {
		void *data = kmap_local_page(hosted);

		memcpy_to_bvec(&bv, data);
		kunmap_local(data);
		card_count(cache->cn, CARD_STAT_HOSTED_HITS);
	} else {
		card_count(cache->cn, CARD_STAT_CACHE_MISMATCH);
	}
	page = good ? card_ask_page(disk, rq) : NULL;
	spin_lock_irq(&cache->lock);
	e = card_entry_find(cache, block);
	if (e && page)
		card_ask_locate(cache, e, page, crc);	/* once is enough */
	else if (e && e->hosted && !good)
		card_entry_unhost(cache, e);
	spin_unlock_irq(&cache->lock);
	put_page(hosted);
	return good;
}

/* What is to be done about it, for its class. */
static enum card_action card_ask_action(struct card_cache *cache, struct page *page,
					u8 *class)
{
	lockdep_assert_held(&cache->lock);
	*class = CARD_CLASS_NONE;
	if (page)
		*class = card_rules_class(&cache->rules, folio_mapping(page_folio(page))->host);
	return cache->rules.action[*class];
}

struct flt_node *card_ask_whom(struct card_disk *disk, struct request *rq,
			       struct card_wire_block *ask, bool again)
{
	struct card_cache *cache = disk->cache;
	u16 place = CARD_DISK_PLACE;
	enum card_action action;
	struct flt_node *node;
	struct page *page;

	if (!cache)
		return NULL;
	ask->origin = cpu_to_be16(cache->self);
	ask->depth = CARD_HOPS;
	if (cache->policy->keep)
		ask->flags |= cpu_to_be16(CARD_REQ_KEEP);
	page = card_ask_is_block(rq) ? card_ask_page(disk, rq) : NULL;
	spin_lock_irq(&cache->lock);
	action = card_ask_action(cache, page, &ask->class);
	/* Who asks in vain asks the disk: it always has the block. */
	if (again || action != CARD_ACTION_COOP || !card_peer_whole(ask))
		ask->flags |= cpu_to_be16(CARD_REQ_NOCOOP);
	else
		place = cache->policy->lookup(cache, card_peer_block(ask));
	spin_unlock_irq(&cache->lock);
	if (action == CARD_ACTION_DISCARD)
		ask->flags |= cpu_to_be16(CARD_REQ_KEEP);
	if (place == CARD_DISK_PLACE)
		return NULL;
	node = card_cache_node(cache, place);
	if (!node)
		ask->flags |= cpu_to_be16(CARD_REQ_NOCOOP);
	return node;
}

void card_ask_arrived(struct card_disk *disk, struct request *rq, const struct flt_node *node,
		      const struct card_wire_block *head)
{
	struct card_cache *cache = disk->cache;
	struct card_entry *e;
	struct page *page;
	u16 place;
	u8 class;

	if (!cache || !card_ask_is_block(rq))
		return;
	page = card_ask_page(disk, rq);
	place = card_cache_place(cache, node);
	if (!page || place == CARD_NOBODY)
		return;
	spin_lock_irq(&cache->lock);
	e = NULL;
	if (card_ask_action(cache, page, &class) == CARD_ACTION_COOP &&
	    cache->epoch == be64_to_cpu(head->epoch) &&
	    cache->export == be32_to_cpu(head->export))
		e = card_entry_make(cache, card_peer_block(head));
	if (e) {
		e->previous = place;
		e->next = CARD_NOBODY;
		card_ask_locate(cache, e, page, be32_to_cpu(head->crc));
	}
	spin_unlock_irq(&cache->lock);
}

bool card_ask_answers(const struct card_disk *disk, const struct flt_node *node)
{
	return card_disk_answers(disk, node) ||
	       (disk->cache && card_cache_place(disk->cache, node) != CARD_NOBODY);
}
