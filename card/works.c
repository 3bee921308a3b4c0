// SPDX-License-Identifier: GPL-2.0
/* What an export works on: found when it is asked for again. */

#include "serve.h"
#include "works.h"

void card_works_init(struct card_works *works)
{
	unsigned int i;

	spin_lock_init(&works->lock);
	for (i = 0; i < CARD_WORKS_BUCKETS; i++)
		INIT_HLIST_HEAD(&works->by_tag[i]);
}

/*
 * A request that is asked for again is the same in all that the asker says. One whose sum
 * was wrong is not: it has CARD_REQ_STABLE then, and is an own request.
 */
static bool card_works_same(const struct card_serve *a, const struct card_serve *b)
{
	return a->node == b->node && a->ask.tag == b->ask.tag && a->ask.gen == b->ask.gen &&
	       a->ask.disk == b->ask.disk && a->op == b->op && a->sector == b->sector &&
	       a->bytes == b->bytes && !((a->flags ^ b->flags) & CARD_REQ_STABLE);
}

bool card_works_add(struct card_works *works, struct card_serve *s)
{
	struct hlist_head *head = &works->by_tag[be32_to_cpu(s->ask.tag) % CARD_WORKS_BUCKETS];
	struct card_serve *other;
	bool fresh = true;

	spin_lock_bh(&works->lock);
	hlist_for_each_entry(other, head, work) {
		if (!card_works_same(s, other))
			continue;
		fresh = false;
		break;
	}
	if (fresh)
		hlist_add_head(&s->work, head);
	spin_unlock_bh(&works->lock);
	return fresh;
}

void card_works_hang_up(struct card_works *works)
{
	struct card_serve *s;
	unsigned int i;

	spin_lock_bh(&works->lock);
	for (i = 0; i < CARD_WORKS_BUCKETS; i++)
		hlist_for_each_entry(s, &works->by_tag[i], work)
			if (READ_ONCE(s->linked))
				flt_node_hang_up(s->node);
	spin_unlock_bh(&works->lock);
}

void card_works_del(struct card_works *works, struct card_serve *s)
{
	spin_lock_bh(&works->lock);
	hlist_del_init(&s->work);
	spin_unlock_bh(&works->lock);
}
