// SPDX-License-Identifier: GPL-2.0
/* Taking a connection: built at HANDOFF, given to its listener at COMMIT. */

#include <linux/slab.h>

#include "kmod/endpoint.h"
#include "kmod/stack.h"

#include "adopt.h"
#include "counter.h"
#include "entry.h"
#include "idle.h"
#include "life.h"
#include "net.h"
#include "peer.h"
#include "pending.h"
#include "permit.h"
#include "resync.h"
#include "trace.h"

static void hof_adopt_destruct(struct flt_layer *layer, struct sock *sk)
{
	struct hof_adoption **priv = flt_layer_priv(layer);

	hof_life_end(*priv);
}

static bool hof_adopt_data_ready(struct flt_layer *layer, struct sock *sk)
{
	struct hof_adoption **priv = flt_layer_priv(layer);

	hof_idle_data(*priv);
	return true;
}

static const struct flt_layer_ops hof_adopt_layer = {
	.owner = THIS_MODULE,
	.name = "handoff",
	.destruct = hof_adopt_destruct,
	.priv_size = sizeof(struct hof_adoption *),
};

/* For a giver that wants to know of idle connections. */
static const struct flt_layer_ops hof_adopt_idle_layer = {
	.owner = THIS_MODULE,
	.name = "handoff-idle",
	.data_ready = hof_adopt_data_ready,
	.destruct = hof_adopt_destruct,
	.priv_size = sizeof(struct hof_adoption *),
};

void hof_adopt_detach(void)
{
	flt_layer_remove_all(&hof_adopt_layer);
	flt_layer_remove_all(&hof_adopt_idle_layer);
}

void hof_adoption_put(struct hof_adoption *a)
{
	if (!refcount_dec_and_test(&a->ref))
		return;
	flt_node_put(a->node);
	hof_peer_put(a->peer);
	kfree(a);
}

static struct hof_adoption *hof_adoption_create(struct hof_net *hn, struct flt_node *node,
						u64 id, u32 flags)
{
	struct hof_peer *peer = hof_peer_expect(hn, node);
	struct hof_adoption *a;

	if (IS_ERR(peer))
		return NULL;
	/* One that never commits must not keep the others out, either. */
	if (READ_ONCE(hn->nr_pending) >= HOF_PENDING_MAX ||
	    READ_ONCE(peer->nr_pending) >= READ_ONCE(hn->tunables.pending_max))
		goto put;
	a = kzalloc(sizeof(*a), GFP_KERNEL_ACCOUNT);
	if (!a)
		goto put;
	a->peer = peer;
	refcount_set(&a->ref, 1);
	a->hn = hn;
	a->node = flt_node_get(node);
	a->id = id;
	a->flags = flags;
	INIT_LIST_HEAD(&a->all);
	INIT_LIST_HEAD(&a->held);
	INIT_LIST_HEAD(&a->waiting);
	INIT_LIST_HEAD(&a->asking);
	INIT_LIST_HEAD(&a->busy);
	INIT_LIST_HEAD(&a->telling);
	hof_hold_init(&a->hold);
	return a;

put:
	hof_peer_put(peer);
	return NULL;
}

/* From here on the child's death is heard of, and drops the reference of the layer. */
static int hof_adopt_observe(struct hof_adoption *a)
{
	const struct flt_layer_ops *ops = a->flags & HOF_ADOPT_WANT_IDLE ?
					  &hof_adopt_idle_layer : &hof_adopt_layer;
	struct hof_net *hn = a->hn;
	struct hof_adoption **priv;
	struct flt_layer *layer;

	/* Nothing reaches the child yet, so no callback comes before @priv is set. */
	layer = flt_layer_add(a->sk, ops, GFP_KERNEL);
	if (IS_ERR(layer))
		return PTR_ERR(layer);
	priv = flt_layer_priv(layer);
	*priv = a;
	spin_lock_bh(&hn->adopt_lock);
	list_add_tail(&a->all, &hn->adopted);
	list_add_tail(&a->held, &a->peer->held);
	WRITE_ONCE(hn->nr_adopted, hn->nr_adopted + 1);
	WRITE_ONCE(a->peer->nr_held, a->peer->nr_held + 1);
	spin_unlock_bh(&hn->adopt_lock);
	return 0;
}

/*
 * A connection that we once gave away comes back: our own entry would send its
 * packets away from the child. Until it is decided they wait, so that they do
 * not go round between us and the giver either.
 */
static enum flt_refusal hof_adopt_claim(struct hof_adoption *a)
{
	enum flt_refusal why = FLT_REFUSE_NONE;
	struct hof_entry *e;

	rcu_read_lock();
	e = hof_entry_find_tuple(a->hn, &a->tuple);
	if (!e)
		goto out;
	if (hof_hold_begin(e, &a->hold)) {
		a->back = e;
		hof_count(a->hn, HOF_STAT_ADOPT_RETURNED);
	} else if (hof_entry_state(e) == HOF_HOLD) {
		why = FLT_REFUSE_DUPLICATE;
	} else {
		hof_entry_remove(a->hn, e);
	}
out:
	rcu_read_unlock();
	return why;
}

static enum flt_refusal hof_adopt_build(struct hof_adoption *a, const void *wire, u32 len)
{
	enum flt_refusal why;

	why = flt_endpoint_adopt(a->hn->net, a->node->id, wire, len, &a->child);
	if (why != FLT_REFUSE_NONE) {
		hof_adoption_put(a);
		return why;
	}
	a->tuple = *flt_adoption_tuple(a->child);
	a->sk = flt_adoption_sock(a->child);
	if (hof_adopt_observe(a)) {
		flt_adoption_abort(a->child);
		hof_adoption_put(a);
		return FLT_REFUSE_NOMEM;
	}
	why = hof_adopt_claim(a);
	if (why != FLT_REFUSE_NONE)
		flt_adoption_abort(a->child);	/* its end drops the last reference */
	return why;
}

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

/* It stays where it was, unless that has been given up meanwhile. */
static void hof_adopt_resume(struct hof_net *hn, struct hof_entry *e)
{
	rcu_read_lock();	/* once it forwards, it may go at any time */
	hof_hold_forward(hn, e);
	hof_entry_resume(hn, e);
	rcu_read_unlock();
}

/* It is ours again: for its last owner, and for who watches, that is its end. */
static void hof_adopt_return(struct hof_net *hn, struct hof_entry *e)
{
	spin_lock_bh(&e->lock);
	hof_entry_settle(hn, e, FLT_REFUSE_NONE);
	spin_unlock_bh(&e->lock);
	hof_hold_reinject(hn, e);
}

static void hof_adopt_undo(struct hof_adoption *a, enum flt_refusal why)
{
	struct hof_net *hn = a->hn;

	hof_count(hn, HOF_STAT_ADOPT_ABORTED);
	trace_hof_abort(&a->tuple, a->id, a->node->id, why);
	flt_adoption_abort(a->child);
	if (a->back)
		hof_adopt_resume(hn, a->back);
	hof_adoption_put(a);
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

int hof_adopt_request(struct hof_net *hn, struct flt_node *node, u64 id, u32 flags,
		      const void *wire, u32 len)
{
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
		a = hof_adoption_create(hn, node, id, flags);
		why = a ? hof_adopt_build(a, wire, len) : FLT_REFUSE_NOMEM;
	}
	if (why != FLT_REFUSE_NONE) {
		hof_count(hn, HOF_STAT_ADOPT_REFUSED);
		trace_hof_adopt(&unknown, id, node->id, why);
		hof_message_send(node, HOF_MSG_NAK, id, why, GFP_KERNEL);
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

void hof_adopt_commit(struct hof_net *hn, struct flt_node *node, u64 id, u32 tsval)
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
		hof_adopt_return(hn, a->back);
	flt_adoption_advance(a->child, tsval);
	why = flt_adoption_commit(a->child);
	if (why == FLT_REFUSE_NONE)
		hof_count(hn, HOF_STAT_ADOPT_COMMITTED);
	else
		hof_count(hn, HOF_STAT_ADOPT_COMMIT_FAILED);
	trace_hof_commit(&a->tuple, id, node->id, why);
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
		hof_adopt_undo(a, FLT_REFUSE_ABORTED);
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
		hof_adopt_undo(a, FLT_REFUSE_NODEDOWN);
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
	hof_adopt_undo(due, FLT_REFUSE_TIMEOUT);
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
}

void hof_adopt_net_exit(struct hof_net *hn)
{
	struct hof_adoption *a, *next;

	hof_adopt_withdraw(hn);
	cancel_delayed_work_sync(&hn->ask);
	hof_life_net_exit(hn);
	/* Module exit: the layers are off, their references are left. */
	list_for_each_entry_safe(a, next, &hn->adopted, all) {
		list_del(&a->all);
		list_del(&a->held);
		hof_adoption_put(a);
	}
}
