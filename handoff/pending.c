// SPDX-License-Identifier: GPL-2.0
/*
 * Adoptions that their givers have not decided, and those given up for that: found by the giver's
 * id, by the clock and by the giver. There may be 16,384 of them, and a giver chooses what is said
 * of which in what order: nothing here looks at one after the other.
 */

#include <linux/jhash.h>
#include <linux/random.h>

#include "adopt.h"
#include "claim.h"
#include "net.h"
#include "peer.h"
#include "pending.h"

/* Those of one giver, given up, that a late COMMIT is still answered for. */
#define HOF_LATE_MAX	1024

/* Givers choose their ids; they do not know the seed. */
static u32 hof_pending_key(const struct hof_net *hn, const struct flt_node *node, u64 id)
{
	return jhash_3words(lower_32_bits(id), upper_32_bits(id), node->id, hn->pending_seed);
}

static u32 hof_pending_key_tuple(const struct hof_net *hn, const struct flt_tuple *tuple)
{
	return jhash(tuple, sizeof(*tuple), hn->pending_seed);
}

/* Behind those that end before it: mostly all, unless adopt_deadline_ms was made smaller. */
void hof_pending_add(struct hof_adoption *a)
{
	struct list_head *after;
	struct hof_net *hn = a->hn;

	lockdep_assert_held(&hn->adopt_lock);
	list_for_each_prev(after, &hn->pending)
		if (!time_after(list_entry(after, struct hof_adoption, waiting)->until, a->until))
			break;
	list_add(&a->waiting, after);
	list_add_tail(&a->asking, &hn->asking);
	hash_add(hn->undecided, &a->by_id, hof_pending_key(hn, a->node, a->id));
	if (a->claim)
		hash_add(hn->handed, &a->handed, hof_pending_key_tuple(hn, &a->tuple));
	WRITE_ONCE(hn->nr_pending, hn->nr_pending + 1);
	WRITE_ONCE(a->peer->nr_pending, a->peer->nr_pending + 1);
}

static void hof_pending_unlink(struct hof_adoption *a)
{
	lockdep_assert_held(&a->hn->adopt_lock);
	list_del_init(&a->waiting);
	list_del_init(&a->asking);
	hash_del(&a->by_id);
	hash_del(&a->handed);
}

void hof_pending_take(struct hof_adoption *a)
{
	hof_pending_unlink(a);
	WRITE_ONCE(a->hn->nr_pending, a->hn->nr_pending - 1);
	WRITE_ONCE(a->peer->nr_pending, a->peer->nr_pending - 1);
}

struct hof_adoption *hof_pending_remember(struct hof_adoption *a)
{
	struct hof_adoption *oldest = NULL;
	struct hof_net *hn = a->hn;

	lockdep_assert_held(&hn->adopt_lock);
	refcount_inc(&a->ref);
	a->late = true;
	list_add_tail(&a->waiting, &hn->late);
	list_add_tail(&a->asking, &a->peer->late);
	hash_add(hn->undecided, &a->by_id, hof_pending_key(hn, a->node, a->id));
	WRITE_ONCE(a->peer->nr_late, a->peer->nr_late + 1);
	/* Of its own: what others gave is none of its business. */
	if (a->peer->nr_late > HOF_LATE_MAX) {
		oldest = list_first_entry(&a->peer->late, struct hof_adoption, asking);
		hof_pending_forget(oldest);
	}
	return oldest;
}

void hof_pending_forget(struct hof_adoption *a)
{
	hof_pending_unlink(a);
	WRITE_ONCE(a->peer->nr_late, a->peer->nr_late - 1);
}

struct hof_adoption *hof_pending_find(struct hof_net *hn, const struct flt_node *node, u64 id,
				      bool late)
{
	struct hof_adoption *a;

	lockdep_assert_held(&hn->adopt_lock);
	hash_for_each_possible(hn->undecided, a, by_id, hof_pending_key(hn, node, id))
		if (a->id == id && a->node == node && a->late == late)
			return a;
	return NULL;
}

struct hof_adoption *hof_pending_handed(struct hof_net *hn, const struct flt_node *node,
					const struct flt_tuple *tuple)
{
	struct hof_adoption *a;

	lockdep_assert_held(&hn->adopt_lock);
	hash_for_each_possible(hn->handed, a, handed, hof_pending_key_tuple(hn, tuple))
		if (a->claim->origin->node == node && a->node != node &&
		    !memcmp(&a->tuple, tuple, sizeof(*tuple)))
			return a;
	return NULL;
}

struct hof_adoption *hof_pending_over(struct hof_net *hn)
{
	struct hof_adoption *a;

	lockdep_assert_held(&hn->adopt_lock);
	a = list_first_entry_or_null(&hn->pending, struct hof_adoption, waiting);
	return a && time_before_eq(a->until, jiffies) ? a : NULL;
}

struct hof_adoption *hof_pending_to_ask(struct hof_net *hn)
{
	struct hof_adoption *a;

	lockdep_assert_held(&hn->adopt_lock);
	a = list_first_entry_or_null(&hn->asking, struct hof_adoption, asking);
	if (!a || time_after(a->ask_at, jiffies))
		return NULL;
	a->ask_at = jiffies + msecs_to_jiffies(READ_ONCE(hn->tunables.query_ms));
	list_move_tail(&a->asking, &hn->asking);
	return a;
}

unsigned long hof_pending_next(struct hof_net *hn)
{
	unsigned long now = jiffies, next;

	lockdep_assert_held(&hn->adopt_lock);
	next = list_first_entry(&hn->pending, struct hof_adoption, waiting)->until;
	if (time_before(list_first_entry(&hn->asking, struct hof_adoption, asking)->ask_at, next))
		next = list_first_entry(&hn->asking, struct hof_adoption, asking)->ask_at;
	return time_after(next, now) ? next - now + 1 : 1;
}

void hof_pending_net_init(struct hof_net *hn)
{
	hn->pending_seed = get_random_u32();
	hash_init(hn->undecided);
	hash_init(hn->handed);
	INIT_LIST_HEAD(&hn->pending);
	INIT_LIST_HEAD(&hn->asking);
	INIT_LIST_HEAD(&hn->late);
}
