// SPDX-License-Identifier: GPL-2.0
/*
 * An evicted block arrives: kept, passed on, or dropped, as the policy says. Losing one
 * costs a read of the disk and nothing else.
 */

#include <linux/slab.h>

#include "counter.h"
#include "disk.h"
#include "entry.h"
#include "export.h"
#include "parcel.h"
#include "part.h"
#include "peer.h"
#include "save.h"
#include "serve.h"
#include "trace.h"

/**
 * struct card_arrival - a block on its way in
 * @part: whose
 * @head: of the message
 * @bvec: a new page for it
 */
struct card_arrival {
	struct card_part part;
	struct card_wire_block head;
	struct bio_vec bvec;
};

static void card_arrival_free(struct card_arrival *a)
{
	if (a->bvec.bv_page)
		put_page(a->bvec.bv_page);
	card_part_put(&a->part);
	kfree(a);
}

static bool card_save_in_range(const struct card_part *part, const struct card_wire_block *head)
{
	u64 sectors = part->disk ? READ_ONCE(part->disk->geo.sectors) : part->export->sectors;

	return card_peer_block(head) < sectors / CARD_BLOCK_SECTORS;
}

int card_save_sink(struct card_net *cn, struct flt_node *node, const struct flt_msg *msg,
		   struct flt_sink *sink)
{
	const struct card_wire_block *head = msg->body;
	struct card_arrival *a;
	struct page *page;

	sink->priv = NULL;
	if (!card_peer_whole(head) || msg->len - sizeof(*head) != CARD_BLOCK ||
	    head->kind > CARD_SAVE_RECENT)
		return -EBADMSG;
	/* No reclaim for this: it would evict other blocks, which would be sent, ... */
	a = kzalloc(sizeof(*a), GFP_NOWAIT | __GFP_NOWARN);
	if (!a)
		return 0;	/* the data is thrown away */
	if (card_part_find(&a->part, cn, node, be32_to_cpu(head->export),
			   be64_to_cpu(head->epoch))) {
		kfree(a);
		return 0;
	}
	page = alloc_page(GFP_NOWAIT | __GFP_NOWARN);
	if (!page || !card_save_in_range(&a->part, head)) {
		card_count(cn, CARD_STAT_SAVES_REFUSED);
		if (page)
			put_page(page);
		card_arrival_free(a);
		return 0;
	}
	a->head = *head;
	a->head.depth = min(head->depth, CARD_DEPTH_MAX);
	bvec_set_page(&a->bvec, page, CARD_BLOCK, 0);
	iov_iter_bvec(&sink->iter, ITER_DEST, &a->bvec, 1, CARD_BLOCK);
	sink->priv = a;
	return 0;
}

static void card_save_pass_on(struct card_arrival *a, u16 place)
{
	struct card_cache *cache = a->part.cache;
	struct card_wire_block head = a->head;
	struct page *page = a->bvec.bv_page;

	head.flags |= cpu_to_be16(CARD_REQ_FORWARDED);
	head.depth--;
	head.deliverer = cpu_to_be16(cache->self);
	a->bvec.bv_page = NULL;
	if (!card_parcel_send_to(cache, place, CARD_MSG_SAVE, &head, page))
		card_count(cache->cn, CARD_STAT_SAVES_PASSED);
}

static void card_save_decide(struct card_arrival *a)
{
	struct card_cache *cache = a->part.cache;
	struct card_ask ask = {
		.block = card_peer_block(&a->head),
		.origin = be16_to_cpu(a->head.origin),
		.forwarded = be16_to_cpu(a->head.flags) & CARD_REQ_FORWARDED,
		.save = true,
		.kind = a->head.kind,
		.depth = a->head.depth,
	};
	struct card_notes notes = {};
	struct card_entry *e = NULL;
	bool current_one, held;
	u16 place;

	spin_lock_irq(&cache->lock);
	/* The address is looked at again under the lock that changes it. */
	current_one = cache->epoch == be64_to_cpu(a->head.epoch) && !cache->off;
	held = current_one && card_cache_holds(cache, ask.block);
	place = current_one ? cache->policy->handle_request(cache, &ask, &notes) : CARD_NOBODY;
	if (place == cache->self && !held && cache->host_max &&
	    (ask.force || card_cache_has_room(cache)))
		e = card_entry_make(cache, ask.block);
	if (e) {
		card_entry_host(cache, e, a->bvec.bv_page, be32_to_cpu(a->head.crc));
		a->bvec.bv_page = NULL;
	}
	spin_unlock_irq(&cache->lock);
	trace_card_saved(cache, &ask, place, e);
	if (!e && a->head.depth && card_cache_other(cache, place) && place != ask.origin)
		card_save_pass_on(a, place);
	else if (!e && !held)
		card_count(cache->cn, CARD_STAT_SAVES_REFUSED);
	card_notes_send(cache, &notes);
}

int card_save_sunk(struct flt_sink *sink, int err)
{
	struct card_arrival *a = sink->priv;

	if (!a)
		return 0;
	if (!err && card_crc(&a->bvec, 1) == be32_to_cpu(a->head.crc))
		card_save_decide(a);
	else if (!err)
		card_count(a->part.cache->cn, CARD_STAT_BAD_CRC);
	card_arrival_free(a);
	return 0;
}
