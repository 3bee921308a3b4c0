/* SPDX-License-Identifier: GPL-2.0 */
/* Reply pages, allocated in advance and used again when TCP has let go of them. */
#ifndef CARD_POOL_H
#define CARD_POOL_H

#include <linux/mm.h>
#include <linux/spinlock.h>

#define CARD_POOL_PAGES	256

/**
 * struct card_pool - a ring of pages
 * @lock: leaf; any context
 * @next: where to look first
 * @page: each with a reference of ours; free when it is the only one
 */
struct card_pool {
	spinlock_t lock;	/* @next, and who takes which page */
	unsigned int next;
	struct page *page[CARD_POOL_PAGES];
};

int card_pool_init(struct card_pool *pool);
void card_pool_exit(struct card_pool *pool);

/* A page with a reference for the caller, to be given back by put_page(); NULL: none. */
struct page *card_pool_get(struct card_pool *pool, gfp_t gfp, bool *fresh);

#endif
