// SPDX-License-Identifier: GPL-2.0
/*
 * Reply pages. The network stack does not say when it has let go of a page, but
 * the page's reference count does: a page of the ring that only the ring holds
 * may be used again.
 */

#include "pool.h"

/* Pages looked at before a fresh one is allocated. */
#define CARD_POOL_TRIES	4

int card_pool_init(struct card_pool *pool)
{
	unsigned int i;

	spin_lock_init(&pool->lock);
	pool->next = 0;
	for (i = 0; i < CARD_POOL_PAGES; i++) {
		pool->page[i] = alloc_page(GFP_KERNEL);
		if (!pool->page[i]) {
			card_pool_exit(pool);
			return -ENOMEM;
		}
	}
	return 0;
}

void card_pool_exit(struct card_pool *pool)
{
	unsigned int i;

	for (i = 0; i < CARD_POOL_PAGES && pool->page[i]; i++) {
		put_page(pool->page[i]);
		pool->page[i] = NULL;
	}
}

struct page *card_pool_get(struct card_pool *pool, gfp_t gfp, bool *fresh)
{
	struct page *page;
	unsigned int i;

	*fresh = false;
	spin_lock_bh(&pool->lock);
	for (i = 0; i < CARD_POOL_TRIES; i++) {
		page = pool->page[pool->next];
		pool->next = (pool->next + 1) % CARD_POOL_PAGES;
		if (page_count(page) == 1) {
			get_page(page);
			spin_unlock_bh(&pool->lock);
			return page;
		}
	}
	spin_unlock_bh(&pool->lock);
	*fresh = true;
	return alloc_page(gfp);
}
