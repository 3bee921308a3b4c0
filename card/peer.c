// SPDX-License-Identifier: GPL-2.0
/*
 * A participant that is asked for a block serves it from its memory or passes the
 * request on; the answer goes straight to who wanted it [Olaru 4.2]. What is served
 * has the CRC that the block had when it came. Where anything is in doubt the disk is
 * asked: it always has the block.
 */

#include "counter.h"
#include "disk.h"
#include "entry.h"
#include "export.h"
#include "parcel.h"
#include "part.h"
#include "peer.h"
#include "serve.h"
#include "trace.h"

/* To @place on behalf of who asked. -ENOTCONN: nobody is there. */
static int card_peer_forward(struct card_cache *cache, u16 place,
			     const struct card_wire_block *ask)
{
	struct flt_node *node = card_cache_node(cache, place);
	struct card_wire_block on = *ask;
	struct kvec vec = { .iov_base = &on, .iov_len = sizeof(on) };
	int err;

	if (!node)
		return -ENOTCONN;
	on.flags |= cpu_to_be16(CARD_REQ_FORWARDED);
	on.depth--;
	err = flt_link_send(node, place == CARD_DISK_PLACE ? CARD_MSG_READ : CARD_MSG_PEER, &vec, 1,
			    GFP_ATOMIC);
	if (!err)
		card_count(cache->cn, CARD_STAT_FORWARDS);
	trace_card_forward(node, ask, err);
	flt_node_put(node);
	return err;
}

/* Where the policy wants it, and with our own place the page. */
static u16 card_peer_choose(struct card_cache *cache, const struct card_wire_block *head,
			    struct page **page, u32 *crc, bool *check)
{
	struct card_ask ask = {
		.block = card_peer_block(head),
		.origin = be16_to_cpu(head->origin),
		.forwarded = be16_to_cpu(head->flags) & CARD_REQ_FORWARDED,
		.depth = head->depth,
	};
	struct card_notes notes = {};
	u16 place;

	spin_lock_irq(&cache->lock);
	place = cache->policy->handle_request(cache, &ask, &notes);
	*page = place == cache->self ? card_cache_page(cache, ask.block, crc, check) : NULL;
	spin_unlock_irq(&cache->lock);
	card_notes_send(cache, &notes);
	return place;
}

/* Takes the page over. */
static int card_peer_serve(struct card_cache *cache, struct flt_node *asker,
			   const struct card_wire_block *ask, struct page *page, u32 crc,
			   u64 arrived)
{
	struct card_wire_block head = *ask;
	u32 is = card_page_crc(page);

	if (is != crc) {
		card_count(cache->cn, CARD_STAT_CACHE_MISMATCH);
		put_page(page);
		return -EIO;
	}
	head.crc = cpu_to_be32(is);
	head.status = 0;
	head.source = CARD_SOURCE_PEER;
	head.deliverer = cpu_to_be16(cache->self);
	head.service_ns = cpu_to_be32(min_t(u64, ktime_get_ns() - arrived, U32_MAX));
	head.disk_us = 0;
	card_count(cache->cn, CARD_STAT_PEER_SERVED);
	if (card_parcel_send(asker, CARD_MSG_DATA, &head, page))
		card_count(cache->cn, CARD_STAT_NOT_SENT);
	return 0;
}

/* Serves it, or passes it on, or says that it cannot. */
static void card_peer_answer(struct card_cache *cache, struct flt_node *asker,
			     const struct card_wire_block *ask)
{
	u64 arrived = ktime_get_ns();
	struct page *page;
	bool check;
	u32 crc;
	u16 place;

	place = card_peer_choose(cache, ask, &page, &crc, &check);
	if (page && !card_peer_serve(cache, asker, ask, page, crc, arrived))
		return;
	if (card_cache_other(cache, place) && place != be16_to_cpu(ask->origin) &&
	    place != CARD_DISK_PLACE && ask->depth > 1 && !card_peer_forward(cache, place, ask))
		return;
	if (!ask->depth || card_peer_forward(cache, CARD_DISK_PLACE, ask))
		card_send_done(cache->cn, asker, ask, -EHOSTUNREACH);
}

int card_peer_read(struct card_net *cn, struct flt_node *node, const struct flt_msg *msg)
{
	const struct card_wire_block *head = msg->body;
	struct card_wire_block ask;
	struct flt_node *asker;
	struct card_part part;
	bool forwarded;
	u16 origin;

	if (msg->len != sizeof(*head) || !card_peer_whole(head) ||
	    be16_to_cpu(head->flags) & ~CARD_REQ_ALL)
		return -EBADMSG;
	ask = *head;
	ask.depth = min(ask.depth, CARD_HOPS);
	origin = be16_to_cpu(ask.origin);
	forwarded = be16_to_cpu(ask.flags) & CARD_REQ_FORWARDED;
	if (card_part_find(&part, cn, node, be32_to_cpu(ask.export), be64_to_cpu(ask.epoch))) {
		/* Whoever passed it on is not who asks: he waits for nothing. */
		if (!forwarded)
			card_send_done(cn, node, &ask, -ENOENT);
		return 0;
	}
	asker = card_cache_node(part.cache, origin);
	if (!part.disk || (!forwarded && origin != part.from) ||
	    card_peer_block(&ask) >= READ_ONCE(part.disk->geo.sectors) / CARD_BLOCK_SECTORS) {
		card_count(cn, CARD_STAT_DENIED);
	} else if (asker) {
		card_peer_answer(part.cache, asker, &ask);
	} else {
		/* No block leaves for a node that is not in our table; the exporter may know it. */
		card_count(cn, CARD_STAT_DENIED);
		if (forwarded && ask.depth)
			card_peer_forward(part.cache, CARD_DISK_PLACE, &ask);
	}
	if (asker)
		flt_node_put(asker);
	card_part_put(&part);
	return 0;
}

bool card_peer_divert(struct card_cache *cache, const struct card_wire_block *ask)
{
	struct card_wire_block on = *ask;
	struct page *page;
	bool check;
	u32 crc;
	u16 place;

	if (be16_to_cpu(ask->flags) & CARD_REQ_NOCOOP || !card_peer_whole(ask) ||
	    !card_cache_other(cache, be16_to_cpu(ask->origin)))
		return false;
	on.depth = min(ask->depth, CARD_HOPS);
	place = card_peer_choose(cache, &on, &page, &crc, &check);
	if (page)
		put_page(page);		/* found again by the ordinary lookup */
	return card_cache_other(cache, place) && place != be16_to_cpu(ask->origin) &&
	       on.depth && !card_peer_forward(cache, place, &on);
}
