/* SPDX-License-Identifier: GPL-2.0 */
/* A request's data in pages that nobody else changes. */
#ifndef CARD_BOUNCE_H
#define CARD_BOUNCE_H

#include <linux/blk-mq.h>
#include <linux/bvec.h>

/**
 * struct card_bounce - pages of our own
 * @nr:   of them
 * @bvec: all whole but the last
 */
struct card_bounce {
	unsigned int nr;
	struct bio_vec bvec[] __counted_by(nr);
};

/* NULL: no memory. Process context. */
struct card_bounce *card_bounce_new(u32 bytes);
/* NULL is fine. */
void card_bounce_free(struct card_bounce *bounce);
/* Between it and the request, which must not end meanwhile. */
void card_bounce_fill(struct card_bounce *bounce, struct request *rq);
void card_bounce_empty(struct card_bounce *bounce, struct request *rq);

#endif
