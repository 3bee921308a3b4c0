// SPDX-License-Identifier: GPL-2.0
/* Blocks that leave this node for the memory of another, or for its reader. */

#include <linux/crc32c.h>
#include <linux/slab.h>
#include <linux/wait.h>

#include "counter.h"
#include "parcel.h"

/*
 * Blocks that wait for one node to take them: as much as a link may have of messages, and what a
 * node asks for at once. Of several who send at this moment each may add one.
 */
#define CARD_PARCELS_MAX	SZ_4M

/**
 * struct card_parcel - until the link is through with it
 * @bulk: as the link wants it
 * @bvec: the page
 */
struct card_parcel {
	struct flt_bulk bulk;
	struct bio_vec bvec;
};

static atomic_t card_parcels;
static DECLARE_WAIT_QUEUE_HEAD(card_no_parcels);

static void card_parcel_free(struct card_parcel *parcel)
{
	put_page(parcel->bvec.bv_page);
	kfree(parcel);
	/* The module stays at least until we have returned. */
	rcu_read_lock();
	if (atomic_dec_and_test(&card_parcels))
		wake_up(&card_no_parcels);
	rcu_read_unlock();
}

static void card_parcel_sent(struct flt_bulk *bulk)
{
	card_parcel_free(container_of(bulk, struct card_parcel, bulk));
}

u32 card_crc(struct bio_vec *bvec, unsigned int nr)
{
	u32 crc = ~0;
	unsigned int i;

	for (i = 0; i < nr; i++) {
		void *data = bvec_kmap_local(&bvec[i]);

		crc = crc32c(crc, data, bvec[i].bv_len);
		kunmap_local(data);
	}
	return ~crc;
}

u32 card_page_crc(struct page *page)
{
	struct bio_vec bvec;

	bvec_set_page(&bvec, page, CARD_BLOCK, 0);
	return card_crc(&bvec, 1);
}

int card_parcel_send(struct flt_node *node, u8 type, const struct card_wire_block *head,
		     struct page *page)
{
	struct card_wire_block copy = *head;
	struct kvec vec = { .iov_base = &copy, .iov_len = sizeof(copy) };
	struct card_parcel *parcel;
	int err;

	if (flt_link_bulked(node) >= CARD_PARCELS_MAX) {
		put_page(page);
		return -ENOBUFS;
	}
	parcel = kzalloc(sizeof(*parcel), GFP_ATOMIC | __GFP_NOWARN);
	if (!parcel) {
		put_page(page);
		return -ENOMEM;
	}
	atomic_inc(&card_parcels);
	bvec_set_page(&parcel->bvec, page, CARD_BLOCK, 0);
	parcel->bulk.bvec = &parcel->bvec;
	parcel->bulk.nr = 1;
	parcel->bulk.len = CARD_BLOCK;
	parcel->bulk.done = card_parcel_sent;
	err = flt_link_send_bulk(node, type, &vec, 1, &parcel->bulk, GFP_ATOMIC);
	if (err)
		card_parcel_free(parcel);
	return err;
}

int card_parcel_send_to(struct card_cache *cache, u16 place, u8 type,
			const struct card_wire_block *head, struct page *page)
{
	struct flt_node *node = card_cache_node(cache, place);
	int err;

	if (!node) {
		put_page(page);
		return -ENOTCONN;
	}
	err = card_parcel_send(node, type, head, page);
	flt_node_put(node);
	return err;
}

void card_send_done(struct card_net *cn, struct flt_node *node, const struct card_wire_block *ask,
		    int err)
{
	struct card_wire_block done = *ask;
	struct kvec vec = { .iov_base = &done, .iov_len = sizeof(done) };

	done.status = cpu_to_be32(-err);
	done.deliverer = cpu_to_be16(CARD_NOBODY);
	if (flt_link_send(node, CARD_MSG_DONE, &vec, 1, GFP_ATOMIC))
		card_count(cn, CARD_STAT_NOT_SENT);
}

void card_parcel_exit(void)
{
	wait_event(card_no_parcels, !atomic_read(&card_parcels));
}
