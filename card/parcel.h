/* SPDX-License-Identifier: GPL-2.0 */
/* A block on its way to another node, in a page of its own or of a page cache, or none. */
#ifndef CARD_PARCEL_H
#define CARD_PARCEL_H

#include "cache.h"

/*
 * Sends @head and the block in @page, whose reference is taken over, also on error.
 * -ENOBUFS: the node takes too little of what it was sent. Any context but hard interrupt.
 */
int card_parcel_send(struct flt_node *node, u8 type, const struct card_wire_block *head,
		     struct page *page);
/* The same to a place; -ENOTCONN if nobody is there. */
int card_parcel_send_to(struct card_cache *cache, u16 place, u8 type,
			const struct card_wire_block *head, struct page *page);

/* CRC32C of what is in @bvec. */
u32 card_crc(struct bio_vec *bvec, unsigned int nr);
u32 card_page_crc(struct page *page);

/* DONE to the asker of @ask; @err is 0 or a negative errno. Not in hard interrupts. */
void card_send_done(struct card_net *cn, struct flt_node *node, const struct card_wire_block *ask,
		    int err);

/* Waits for those that links still have. */
void card_parcel_exit(void);

#endif
