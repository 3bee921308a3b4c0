/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What an administrator may set of a cache while it is used, mostly by the class of
 * the document that a block is of [Olaru 5.2]: /sys/class/card.
 */
#ifndef CARD_RULES_H
#define CARD_RULES_H

#include <linux/device.h>
#include <linux/fs.h>
#include "wire.h"

struct card_cache;

/**
 * enum card_action - what becomes of a miss
 * @CARD_ACTION_COOP:    the policy says whom to ask
 * @CARD_ACTION_DISK:    the exporter is asked, and what it sends is told to nobody
 * @CARD_ACTION_DISCARD: the same, and the exporter caches it
 */
enum card_action {
	CARD_ACTION_COOP,
	CARD_ACTION_DISK,
	CARD_ACTION_DISCARD,
	__CARD_ACTIONS
};

/**
 * struct card_rules - of one cache, under its lock
 * @limit:  sizes in bytes at which the next class begins
 * @action: by enum card_class; that of CARD_CLASS_NONE is always COOP
 * @evict:  a bit for each class whose evicted blocks are offered to the policy
 * @depth:  how often a most recent copy that nobody has room for is passed on
 */
struct card_rules {
	u64 limit[CARD_CLASSES - 2];
	u8 action[CARD_CLASSES];
	u8 evict;
	u8 depth;
};

void card_rules_init(struct card_rules *rules);

/* Of what class is the file's data; any context. */
u8 card_rules_class(const struct card_rules *rules, const struct inode *inode);

/* The cache's directory appears under this name, and goes. Process context. */
int card_rules_show(struct card_cache *cache, const char *name);
void card_rules_hide(struct card_cache *cache);

int card_rules_register(void);
void card_rules_unregister(void);

#endif
