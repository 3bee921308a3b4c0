/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The eviction hook [Olaru 4.3.2]: sees every page that leaves the page cache, and
 * copies those that memory takes away and the policy wants elsewhere.
 */
#ifndef CARD_EVICT_H
#define CARD_EVICT_H

#include <linux/list.h>
#include <linux/workqueue.h>

/* Blocks that wait to be sent, for each cache: what comes when all are taken is lost. */
#define CARD_VICTIMS	128

/**
 * struct card_victim - a block on its way out
 * @list:  in one of the lists of struct card_evict
 * @page:  copy, unless it is only spoken of; NULL while there is no memory for one
 * @block, @epoch: which
 * @crc, @check: what it must be, if that is known
 * @to:    place
 * @kind, @depth, @said, @next: as in struct card_save
 * @class: enum card_class
 */
struct card_victim {
	struct list_head list;
	struct page *page;
	u64 block, epoch;
	u32 crc;
	bool check;
	u16 to, next;
	u8 kind, depth, said, class;
};

/**
 * struct card_evict - of one cache; under its lock
 * @victim: all
 * @free:   those with a page and nothing in it
 * @full:   to be sent by @work
 * @work:   sends them, and finds pages for those without
 */
struct card_evict {
	struct card_victim *victim;
	struct list_head free;
	struct list_head full;
	struct work_struct work;
};

int card_evict_init(struct card_evict *evict);
/* After the last call of the hook. */
void card_evict_stop(struct card_evict *evict);
void card_evict_exit(struct card_evict *evict);

int card_evict_register(void);
void card_evict_unregister(void);

#endif
