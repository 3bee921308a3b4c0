// SPDX-License-Identifier: GPL-2.0
/* Taking a connection: built at HANDOFF, given to its listener at COMMIT. */

#include "kmod/endpoint.h"

#include "admit.h"
#include "adopt.h"
#include "adoption.h"
#include "claim.h"
#include "counter.h"
#include "idle.h"
#include "life.h"
#include "net.h"
#include "peer.h"
#include "pending.h"
#include "permit.h"
#include "resync.h"
#include "trace.h"

/* Wait for the giver's decision; a reference goes with it. */
static void hof_adopt_wait(struct hof_adoption *a)
{
	struct hof_net *hn = a->hn;
	unsigned long ask = msecs_to_jiffies(READ_ONCE(hn->tunables.query_ms));
	unsigned long wait = msecs_to_jiffies(READ_ONCE(hn->tunables.deadline_ms));

	refcount_inc(&a->ref);
	spin_lock_bh(&hn->adopt_lock);
	a->ask_at = jiffies + ask;
	a->until = jiffies + wait;
	hof_pending_add(a);
	spin_unlock_bh(&hn->adopt_lock);
	queue_delayed_work(system_unbound_wq, &hn->ask, min(ask, wait) + 1);
}

/* Ids are unique, or what is said of one would mean another. */
static bool hof_adopt_knows(struct hof_net *hn, const struct flt_node *node, u64 id)
{
	bool knows;

	spin_lock_bh(&hn->adopt_lock);
	knows = hof_pending_find(hn, node, id, false) || hof_pending_find(hn, node, id, true);
	spin_unlock_bh(&hn->adopt_lock);
	return knows;
}

/*
 * Its origin gives us, straight, what somebody hands on in its name and has not let go of: only the
 * origin can know whose it is, and who makes up what he hands on must not keep it from us.
 */
static bool hof_adopt_evict(struct hof_net *hn, struct flt_node *node, const void *wire, u32 len)
{
	struct hof_adoption *a, *oldest = NULL;
	struct flt_peek peek;

	if (flt_endpoint_peek(wire, len, &peek) != FLT_REFUSE_NONE)
		return false;
	spin_lock_bh(&hn->adopt_lock);
	a = hof_pending_handed(hn, node, &peek.tuple);
	if (a) {
		hof_pending_take(a);
		oldest = hof_pending_remember(a);
	}
	spin_unlock_bh(&hn->adopt_lock);
	if (!a)
		return false;
	hof_count(hn, HOF_STAT_ADOPT_EVICTED);
	if (oldest)
		hof_adoption_put(oldest);
	hof_adoption_undo(a, FLT_REFUSE_DUPLICATE);
	return true;
}

static enum flt_refusal hof_adopt_take(struct hof_net *hn, struct flt_node *node, u64 id,
				       u32 flags, const struct hof_msg_origin *named,
				       const void *wire, u32 len, struct hof_adoption **out)
{
	struct hof_adoption *a = hof_adoption_create(hn, node, id, flags);

	if (!a)
		return FLT_REFUSE_NOMEM;
	if (named)
		hof_claim_prepare(a, named);
	*out = a;
	return hof_adoption_build(a, wire, len);
}

int hof_adopt_request(struct hof_net *hn, struct flt_node *node,
		      const struct hof_msg_handoff *head, const struct hof_msg_origin *named,
		      const void *wire, u32 len)
{
	u32 flags = be32_to_cpu(head->flags);
	u64 id = be64_to_cpu(head->id);
	static const struct flt_tuple unknown;
	struct hof_adoption *a = NULL;
	enum flt_refusal why;

	hof_count(hn, HOF_STAT_ADOPT_REQUESTS);
	if (!READ_ONCE(hn->tunables.adopt))
		why = FLT_REFUSE_POLICY;
	else if (hof_adopt_knows(hn, node, id))
		why = FLT_REFUSE_DUPLICATE;
	else
		why = hof_permit(hn, node, wire, len);
	if (why == FLT_REFUSE_NONE) {
		why = hof_adopt_take(hn, node, id, flags, named, wire, len, &a);
		if (why == FLT_REFUSE_DUPLICATE && hof_adopt_evict(hn, node, wire, len))
			why = hof_adopt_take(hn, node, id, flags, named, wire, len, &a);
	}
	if (why != FLT_REFUSE_NONE) {
		hof_count(hn, HOF_STAT_ADOPT_REFUSED);
		trace_hof_adopt(&unknown, id, node->id, why);
		hof_message_send(node, HOF_MSG_NAK, id, why, GFP_KERNEL);
		if (flags & HOF_ADOPT_SURPLUS)
			hof_room_owe(hn, node, id, wire, len, why);
		return 0;
	}
	hof_count(hn, HOF_STAT_ADOPT_PREPARED);
	trace_hof_adopt(&a->tuple, id, node->id, FLT_REFUSE_NONE);
	hof_adopt_wait(a);
	/* When this is lost the giver times out and says ABORT, or the link is down. */
	hof_message_send_ack(hn, node, id, READ_ONCE(hn->tunables.deadline_ms));
	hof_life_ride(hn, node);
	return 0;
}

/*
 * We gave it up and the giver let go after all: it must tell the client. What we say may be
 * lost with the link, so it is remembered, to be said again (resync.c).
 */
static bool hof_adopt_too_late(struct hof_net *hn, struct flt_node *node, u64 id, bool commit)
{
	struct hof_adoption *a;

	spin_lock_bh(&hn->adopt_lock);
	a = hof_pending_find(hn, node, id, true);
	if (a && !commit) {
		hof_pending_forget(a);
	} else if (a && !a->lost) {
		refcount_inc(&a->ref);
		hof_life_lost(a);	/* takes the reference */
	}
	spin_unlock_bh(&hn->adopt_lock);
	if (a && !commit)
		hof_adoption_put(a);
	return a;
}

void hof_adopt_commit(struct hof_net *hn, struct flt_node *node, u64 id, u32 tsval, u64 proof)
{
	enum flt_refusal why;
	struct hof_adoption *a;

	spin_lock_bh(&hn->adopt_lock);
	a = hof_pending_find(hn, node, id, false);
	if (a) {
		hof_pending_take(a);
		a->committed = true;
	}
	spin_unlock_bh(&hn->adopt_lock);
	if (!a) {
		if (hof_adopt_too_late(hn, node, id, true))
			hof_count(hn, HOF_STAT_ADOPT_COMMIT_FAILED);
		return;
	}
	if (a->flags & HOF_ADOPT_WANT_IDLE)
		hof_idle_watch(a);
	/*
	 * Before anybody can accept it: who gives it on at once must not find our old entry in
	 * HOLD still. What was held waits with the child.
	 */
	if (a->back)
		hof_adoption_return(a, a->back);
	flt_adoption_advance(a->child, tsval);
	why = flt_adoption_commit(a->child);
	if (why == FLT_REFUSE_NONE)
		hof_count(hn, HOF_STAT_ADOPT_COMMITTED);
	else
		hof_count(hn, HOF_STAT_ADOPT_COMMIT_FAILED);
	trace_hof_commit(&a->tuple, id, node->id, why);
	hof_claim_begin(a, why == FLT_REFUSE_NONE ? proof : 0);
	hof_adoption_put(a);
}

void hof_adopt_abort(struct hof_net *hn, struct flt_node *node, u64 id)
{
	struct hof_adoption *a;

	spin_lock_bh(&hn->adopt_lock);
	a = hof_pending_find(hn, node, id, false);
	if (a)
		hof_pending_take(a);
	spin_unlock_bh(&hn->adopt_lock);
	if (a)
		hof_adoption_undo(a, FLT_REFUSE_ABORTED);
	else
		hof_adopt_too_late(hn, node, id, false);
}

/* NULL: of any node. */
static void hof_adopt_forget(struct hof_net *hn, const struct flt_node *node)
{
	struct hof_adoption *a, *next;
	LIST_HEAD(forget);

	spin_lock_bh(&hn->adopt_lock);
	list_for_each_entry_safe(a, next, &hn->late, waiting) {
		if (node && a->node != node)
			continue;
		hof_pending_forget(a);
		list_add_tail(&a->waiting, &forget);
	}
	spin_unlock_bh(&hn->adopt_lock);
	list_for_each_entry_safe(a, next, &forget, waiting) {
		list_del_init(&a->waiting);
		hof_adoption_put(a);
	}
}

/* NULL: of any node, and for good. */
static void hof_adopt_undo_all(struct hof_net *hn, const struct flt_node *node)
{
	struct hof_adoption *a, *next, *oldest;
	LIST_HEAD(undo);

	spin_lock_bh(&hn->adopt_lock);
	list_for_each_entry_safe(a, next, &hn->pending, waiting) {
		if (node && a->node != node)
			continue;
		hof_pending_take(a);
		list_add_tail(&a->waiting, &undo);
	}
	spin_unlock_bh(&hn->adopt_lock);
	list_for_each_entry_safe(a, next, &undo, waiting) {
		oldest = NULL;
		spin_lock_bh(&hn->adopt_lock);
		list_del_init(&a->waiting);
		if (node)
			oldest = hof_pending_remember(a);
		spin_unlock_bh(&hn->adopt_lock);
		if (oldest)
			hof_adoption_put(oldest);
		hof_adoption_undo(a, FLT_REFUSE_NODEDOWN);
	}
}

void hof_adopt_node_down(struct hof_net *hn, struct flt_node *node)
{
	hof_adopt_undo_all(hn, node);
}

void hof_adopt_node_gone(struct hof_net *hn, struct flt_node *node)
{
	hof_adopt_undo_all(hn, node);
	hof_adopt_forget(hn, node);
}

/*
 * Give up one that the giver has not decided in time: it lives and never will.
 * Should a COMMIT come after all it is answered, so it is in one of the lists at any time.
 */
static bool hof_adopt_expire_one(struct hof_net *hn)
{
	struct hof_adoption *due, *oldest = NULL;

	spin_lock_bh(&hn->adopt_lock);
	due = hof_pending_over(hn);
	if (due) {
		hof_pending_take(due);
		oldest = hof_pending_remember(due);
	}
	spin_unlock_bh(&hn->adopt_lock);
	if (!due)
		return false;
	hof_count(hn, HOF_STAT_ADOPT_EXPIRED);
	if (oldest)
		hof_adoption_put(oldest);
	hof_adoption_undo(due, FLT_REFUSE_TIMEOUT);
	return true;
}

/*
 * Ask about one that is due. Not knowing is no reason to drop it at once: the
 * giver may be about to commit. It says ABORT when it knows nothing of it, and
 * a giver that is gone takes its link along.
 */
static bool hof_adopt_ask_one(struct hof_net *hn)
{
	struct hof_adoption *due;

	spin_lock_bh(&hn->adopt_lock);
	due = hof_pending_to_ask(hn);
	if (due)
		refcount_inc(&due->ref);
	spin_unlock_bh(&hn->adopt_lock);
	if (!due)
		return false;
	hof_count(hn, HOF_STAT_ADOPT_QUERIED);
	hof_resync_ask(due);
	hof_adoption_put(due);
	return true;
}

/* When the next one is to be asked about or given up. */
static void hof_adopt_ask_again(struct hof_net *hn)
{
	unsigned long wait = 0;

	spin_lock_bh(&hn->adopt_lock);
	if (hn->nr_pending)
		wait = min(hof_pending_next(hn), 1UL * HZ);
	spin_unlock_bh(&hn->adopt_lock);
	if (wait)
		queue_delayed_work(system_unbound_wq, &hn->ask, wait);
}

static void hof_adopt_ask(struct work_struct *work)
{
	struct hof_net *hn = container_of(work, struct hof_net, ask.work);

	while (hof_adopt_expire_one(hn))
		cond_resched();
	while (hof_adopt_ask_one(hn))
		cond_resched();
	hof_adopt_ask_again(hn);
}

void hof_adopt_withdraw(struct hof_net *hn)
{
	hof_adopt_undo_all(hn, NULL);
	hof_adopt_forget(hn, NULL);
	/* Once the layers are off nobody hears of a child's end. */
	hof_idle_stop(hn);
}

void hof_adopt_net_init(struct hof_net *hn)
{
	spin_lock_init(&hn->adopt_lock);
	INIT_LIST_HEAD(&hn->adopted);
	hof_pending_net_init(hn);
	INIT_DELAYED_WORK(&hn->ask, hof_adopt_ask);
	hof_life_net_init(hn);
	hof_claim_net_init(hn);
}

void hof_adopt_net_exit(struct hof_net *hn)
{
	struct hof_adoption *a;

	hof_adopt_withdraw(hn);
	cancel_delayed_work_sync(&hn->ask);
	hof_life_net_exit(hn);
	hof_claim_net_exit(hn);
	/* Module exit: the layers are off, their references are left. */
	spin_lock_bh(&hn->adopt_lock);	/* entries go on ending (relay.c) */
	while ((a = list_first_entry_or_null(&hn->adopted, struct hof_adoption, all))) {
		list_del_init(&a->all);
		list_del_init(&a->held);
		spin_unlock_bh(&hn->adopt_lock);
		hof_adoption_put(a);
		spin_lock_bh(&hn->adopt_lock);
	}
	spin_unlock_bh(&hn->adopt_lock);
}
