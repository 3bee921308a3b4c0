// SPDX-License-Identifier: GPL-2.0
/*
 * A sum over pages says nothing if somebody writes to them meanwhile: programs may change
 * the buffer of a direct write that is under way, or read into one page twice with one
 * call; a disk takes that without an error. So when a sum is wrong, the request is repeated
 * by way of pages of our own: whatever is wrong then was damaged on the way.
 *
 * The usual request, whose buffer nobody touches, pays nothing for this: no copy, no page.
 */

#include <linux/slab.h>
#include <linux/uio.h>

#include "bounce.h"

struct card_bounce *card_bounce_new(u32 bytes)
{
	const gfp_t gfp = GFP_NOIO | __GFP_NOWARN;
	unsigned int i, nr = DIV_ROUND_UP(bytes, PAGE_SIZE);
	struct card_bounce *bounce;
	struct page *page;

	bounce = kzalloc(struct_size(bounce, bvec, nr), gfp);
	if (!bounce)
		return NULL;
	bounce->nr = nr;
	for (i = 0; i < nr; i++, bytes -= PAGE_SIZE) {
		page = alloc_page(gfp);
		if (!page) {
			card_bounce_free(bounce);
			return NULL;
		}
		bvec_set_page(&bounce->bvec[i], page, min_t(u32, bytes, PAGE_SIZE), 0);
	}
	return bounce;
}

void card_bounce_free(struct card_bounce *bounce)
{
	unsigned int i;

	for (i = 0; bounce && i < bounce->nr && bounce->bvec[i].bv_page; i++)
		__free_page(bounce->bvec[i].bv_page);
	kfree(bounce);
}

void card_bounce_fill(struct card_bounce *bounce, struct request *rq)
{
	struct req_iterator each;
	struct iov_iter iter;
	struct bio_vec bv;

	iov_iter_bvec(&iter, ITER_DEST, bounce->bvec, bounce->nr, blk_rq_bytes(rq));
	rq_for_each_segment(bv, rq, each)
		copy_page_to_iter(bv.bv_page, bv.bv_offset, bv.bv_len, &iter);
}

void card_bounce_empty(struct card_bounce *bounce, struct request *rq)
{
	struct req_iterator each;
	struct iov_iter iter;
	struct bio_vec bv;

	iov_iter_bvec(&iter, ITER_SOURCE, bounce->bvec, bounce->nr, blk_rq_bytes(rq));
	rq_for_each_segment(bv, rq, each)
		copy_page_from_iter(bv.bv_page, bv.bv_offset, bv.bv_len, &iter);
}
