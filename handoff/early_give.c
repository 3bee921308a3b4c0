// SPDX-License-Identifier: GPL-2.0
/*
 * Handing off what has no socket. As transfer.c does it, with less that can change meanwhile: no
 * program has seen the connection, and its first segment waits with the others until the node has
 * answered. If it refuses, that segment goes to the listener, to which its ACK is one of a cookie.
 */

#include <linux/memcontrol.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <net/tcp.h>

#include "kmod/endpoint.h"
#include "kmod/node.h"

#include "counter.h"
#include "early.h"
#include "early_table.h"
#include "flight.h"
#include "given.h"
#include "message.h"
#include "origin.h"
#include "path.h"
#include "peer.h"
#include "request.h"
#include "ticket.h"
#include "trace.h"
#include "transfer.h"

static u32 hof_early_load(struct hof_early_node *n)
{
	return atomic_read(&n->peer->node->load) + atomic_read(&n->flying);
}

/* It is up and would be given a connection by its dispatcher, too. */
static bool hof_early_is_ready(struct hof_net *hn, const struct hof_early_node *n)
{
	struct flt_node *node = n->peer->node;

	return READ_ONCE(node->admin) == FLT_ADMIN_ACTIVE &&
	       hof_transfer_target(hn, node, NULL) == FLT_REFUSE_NONE && hof_path_ready(n->peer);
}

/* Fewest connections; ties in turn. NULL: none is ready. */
static struct hof_early_node *hof_early_pick(struct hof_early_rule *r)
{
	u32 turn = READ_ONCE(r->turn), load, least = 0;
	struct hof_early_node *best = NULL;
	unsigned int i;

	for (i = 0; i < r->nr_nodes; i++) {
		struct hof_early_node *n = &r->nodes[(turn + i) % r->nr_nodes];

		load = hof_early_load(n);
		if ((best && load >= least) || !hof_early_is_ready(r->hn, n))
			continue;
		best = n;
		least = load;
	}
	if (best)
		WRITE_ONCE(r->turn, best - r->nodes + 1);
	return best;
}

/* As the dispatcher would; NULL: it is to do so itself. */
static struct hof_early_node *hof_early_pick_as_told(struct hof_early_rule *r, const char *text,
						     unsigned int len,
						     struct hof_early_choice *choice)
{
	struct hof_early_node *n;

	if (!hof_early_table_choose(r->hn, r->table, text, len, choice))
		return NULL;
	n = choice->slot < r->nr_nodes ? &r->nodes[choice->slot] : NULL;
	/* The slot may be another's by now: the dispatcher says soon who it is. */
	if (n && n->peer && n->peer->node->id == choice->node && hof_early_is_ready(r->hn, n)) {
		hof_count(r->hn, HOF_STAT_EARLY_TABLE_HITS);
		return n;
	}
	hof_count(r->hn, HOF_STAT_EARLY_TABLE_AWAY);
	return NULL;
}

static struct hof_transfer *hof_early_create(struct hof_early_rule *r, struct hof_early_node *n,
					     const struct hof_early_choice *choice,
					     const struct flt_opening *o,
					     const struct hof_given_mark *mark,
					     struct flt_checkpoint *ckpt, int dif)
{
	struct hof_transfer *t;

	/* It may have ended since it was found; as long as it has not, its nodes stay. */
	if (!refcount_inc_not_zero(&r->ref))
		return NULL;
	t = kzalloc(sizeof(*t), HOF_EARLY_GFP);
	if (t)
		t->entry = hof_entry_alloc(&o->tuple, n->peer, &t->hold, HOF_EARLY_GFP);
	if (t && t->entry && r->table) {
		t->ticket = hof_early_table_charge(r->table, choice);
		if (!t->ticket) {
			hof_entry_free(t->entry);
			t->entry = NULL;
		}
	}
	if (!t || !t->entry) {
		kfree(t);
		hof_early_rule_put(r);
		return NULL;
	}
	refcount_set(&t->ref, 1);
	atomic_set(&t->phase, HOF_WAITING);
	t->hn = r->hn;
	t->id = hof_net_new_id(t->hn);
	t->entry->id = t->id;
	t->entry->acked = o->ack;
	kref_get(&r->file->ref);
	t->file = r->file;
	hof_hold_init(&t->hold);
	t->tuple = o->tuple;
	t->start = ktime_get();
	t->early = n;
	t->rule = r;
	t->mark = *mark;
	t->dif = dif;
	refcount_inc(&n->peer->ref);
	t->peer = n->peer;
	t->ckpt = ckpt;
	if (READ_ONCE(t->peer->node->features) & FLT_FEATURE_CLAIM)
		t->proof = hof_origin_name(t->hn, t->id, t->peer->node, NULL, &t->origin,
					   &t->back);
	if (t->ticket) {
		t->ticket->back = t->back;
		t->ticket->proof = t->proof;
	}
	return t;
}

/* It is no load of its node any more. */
static void hof_early_discharge(struct hof_transfer *t)
{
	if (!t->ticket)
		return;
	hof_ticket_failed(t->ticket, FLT_REFUSE_NONE);
	hof_ticket_put(t->ticket);
	t->ticket = NULL;
}

static u32 hof_early_flags(const struct hof_transfer *t)
{
	if (!t->ticket)
		return 0;
	return HOF_WANT_IDLE | (t->ticket->later ? HOF_TELL_LATER : 0);
}

/* It is not in the table: somebody was faster with a copy of the segment, or there is no room. */
static unsigned int hof_early_undo(struct hof_transfer *t, int err,
				   const struct nf_hook_state *state)
{
	struct sk_buff *skb = hof_hold_take(t->hn, &t->hold);
	struct hof_given_mark mark = t->mark;

	hof_early_discharge(t);
	hof_entry_free(t->entry);
	hof_transfer_put(t);
	if (!skb)
		return NF_ACCEPT;	/* it did not wait */
	skb->dev = state->in;
	if (err != -EEXIST)
		return NF_ACCEPT;
	hof_given_forget(&mark);
	kfree_skb(skb);
	return NF_STOLEN;
}

/* All that is made for one connection; NULL: the listener gets it. */
static struct hof_transfer *hof_early_make(struct hof_early_rule *r, const struct flt_opening *o,
					   const struct hof_given_mark *mark,
					   const struct sk_buff *skb, unsigned int offset,
					   unsigned int len, int dif)
{
	struct hof_early_node *n = NULL;
	struct hof_transfer *t = NULL;
	struct hof_early_choice choice;
	struct flt_checkpoint *ckpt;
	const char *text;

	ckpt = flt_opening_checkpoint(o, skb, offset, len, &text);
	if (!ckpt)
		return NULL;
	if (hof_request_is_whole(text, len))
		n = r->table ? hof_early_pick_as_told(r, text, len, &choice) : hof_early_pick(r);
	if (n)
		t = hof_early_create(r, n, &choice, o, mark, ckpt, dif);
	if (!t)
		kvfree(ckpt);
	return t;
}

unsigned int hof_early_give(struct hof_early_rule *r, const struct flt_opening *o,
			    const struct hof_given_mark *mark, struct sk_buff *skb,
			    unsigned int offset, unsigned int len,
			    const struct nf_hook_state *state)
{
	struct hof_net *hn = r->hn;
	struct mem_cgroup *old;
	struct hof_transfer *t;
	int err;

	/* Before anything is copied. */
	if (!hof_request_may_be_whole(len))
		return NF_ACCEPT;
	old = set_active_memcg(r->memcg);
	t = hof_early_make(r, o, mark, skb, offset, len, state->in->ifindex);
	set_active_memcg(old);
	if (!t)
		return NF_ACCEPT;
	/*
	 * Before others can find the entry: it is the first. What bounds the packets that wait is
	 * what bounds these transfers.
	 */
	err = hof_hold_first(hn, &t->hold, skb, state) ? hof_entry_insert(hn, t->entry) : -ENOBUFS;
	if (err)
		return hof_early_undo(t, err, state);
	atomic_inc(&t->early->flying);
	hof_count(hn, HOF_STAT_HANDOFF_SUBMITTED);
	hof_count(hn, HOF_STAT_EARLY_GIVEN);
	trace_hof_submit(&t->tuple, t->id, t->peer->node->id, FLT_REFUSE_NONE);
	hof_flight_add(t, READ_ONCE(hn->tunables.timeout_ms));
	err = hof_message_send_handoff(t->peer->node, t->id, hof_early_flags(t),
				       t->origin.voucher ? &t->origin : NULL, t->ckpt, GFP_ATOMIC);
	if (err)
		hof_transfer_retract(t);
	hof_transfer_put(t);
	return NF_STOLEN;
}

void hof_early_done(struct hof_transfer *t)
{
	atomic_dec(&t->early->flying);
	/* What was in the checkpoint. */
	hof_hold_drop_first(t->hn, t->entry);
}

void hof_early_failed(struct hof_transfer *t)
{
	atomic_dec(&t->early->flying);
	/* Before the listener gets it, whose dispatcher would count it. */
	hof_early_discharge(t);
	hof_given_forget(&t->mark);
	hof_count(t->hn, HOF_STAT_EARLY_LEFT);
	rcu_read_lock();
	hof_early_leave(t->hn, &t->tuple, t->dif);
	rcu_read_unlock();
}
