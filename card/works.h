/* SPDX-License-Identifier: GPL-2.0 */
/* What an export works on. */
#ifndef CARD_WORKS_H
#define CARD_WORKS_H

#include <linux/list.h>
#include <linux/spinlock.h>

struct card_serve;

#define CARD_WORKS_BUCKETS	64

/**
 * struct card_works - requests that are being worked on, until their answers have left
 * @lock: leaf, bottom halves off; guards @by_tag
 * @by_tag: struct card_serve
 *
 * Who has waited for long asks again, because the answer may be lost. It need not be: the
 * disk may be slow, or the asker's own processor busy. What is still being worked on is not
 * begun once more, whatever its session: so a slow disk gets no more to do by being slow.
 */
struct card_works {
	spinlock_t lock;	/* leaf: by_tag */
	struct hlist_head by_tag[CARD_WORKS_BUCKETS];
};

void card_works_init(struct card_works *works);
/* False: the same request of the same node is there. Any context but hard interrupt. */
bool card_works_add(struct card_works *works, struct card_serve *s);
/* Ends the links of nodes that neither give nor take the rest of what is worked on. */
void card_works_hang_up(struct card_works *works);
/* Also for one that was not added. */
void card_works_del(struct card_works *works, struct card_serve *s);

#endif
