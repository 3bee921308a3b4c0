// SPDX-License-Identifier: GPL-2.0
/*
 * A node is emptied: the connections of a move (moving.c) go to other nodes, by the ordinary way of
 * a submission (transfer.c). What a dispatcher would read as events is told to us.
 */

#include <linux/completion.h>
#include <linux/slab.h>

#include "kmod/node.h"

#include "counter.h"
#include "drain.h"
#include "net.h"
#include "ticket.h"
#include "transfer.h"

/* A node that has not answered is left alone for so long. */
#define HOF_DRAIN_PAUSE	HZ
/* Whether the move ends is looked at so often while an answer is waited for. */
#define HOF_DRAIN_LOOK	(HZ / 50 + 1)

/**
 * struct hof_giving - a submission that somebody waits for; its address is the cookie
 * @done: by the event
 * @why:  by then
 */
struct hof_giving {
	struct completion done;
	enum flt_refusal why;
};

static void hof_drain_decided(const struct hof_ticket *t, enum flt_refusal why)
{
	struct hof_giving *giving = (void *)(unsigned long)t->cookie;

	giving->why = why;
	complete(&giving->done);
}

/* Who gets its packets when it is given, and how many of them are over. */
static void hof_drain_count(struct hof_drain *drain, const struct hof_ticket *t, int more)
{
	if (t->direct)
		drain->here += more;
	else if (!t->back)
		drain->through += more;
}

static void hof_drain_tell(const struct hof_ticket *t, enum hof_event_type type)
{
	struct hof_drain *drain = t->file->owner;

	lockdep_assert_held(&t->file->lock);
	switch (type) {
	case HOF_EVENT_DONE:
		hof_drain_count(drain, t, 1);
		hof_drain_decided(t, FLT_REFUSE_NONE);
		break;
	case HOF_EVENT_FAILED:
		hof_drain_decided(t, t->refusal);
		break;
	case HOF_EVENT_CLOSED:
		hof_drain_count(drain, t, -1);
		break;
	default:
		break;
	}
}

struct hof_drain *hof_drain_create(struct net *net)
{
	struct hof_drain *drain = kzalloc(sizeof(*drain), GFP_KERNEL_ACCOUNT);

	if (!drain)
		return NULL;
	drain->file = hof_file_create(hof_net(net));
	if (!drain->file) {
		kfree(drain);
		return NULL;
	}
	drain->file->owner = drain;
	drain->file->tell = hof_drain_tell;
	return drain;
}

void hof_drain_free(struct hof_drain *drain)
{
	if (!drain)
		return;
	hof_transfer_file_closed(drain->file);
	hof_file_close(drain->file);
	hof_file_put(drain->file);
	kfree(drain);
}

int hof_drain_add(struct hof_drain *drain, u32 id)
{
	struct flt_node *node = flt_node_by_id(drain->file->hn->net, id);
	unsigned int i;
	int err = 0;

	if (!node)
		return -ENOENT;
	flt_node_put(node);
	spin_lock_bh(&drain->file->lock);
	for (i = 0; i < drain->nr; i++)
		if (drain->nodes[i].id == id)
			err = -EEXIST;
	if (!err && drain->nr == HOF_MOVE_NODES)
		err = -ENOSPC;
	if (!err)
		drain->nodes[drain->nr++].id = id;
	spin_unlock_bh(&drain->file->lock);
	return err;
}

/* The node after that of the last time; -1: it has not answered lately. */
static int hof_drain_turn(struct hof_drain *drain, u32 *id)
{
	unsigned long not_before;
	int at;

	spin_lock_bh(&drain->file->lock);
	at = drain->next++ % drain->nr;
	*id = drain->nodes[at].id;
	not_before = drain->nodes[at].not_before;
	spin_unlock_bh(&drain->file->lock);
	return not_before && time_before(jiffies, not_before) ? -1 : at;
}

static void hof_drain_answered(struct hof_drain *drain, int at, bool has)
{
	spin_lock_bh(&drain->file->lock);
	drain->nodes[at].not_before = has ? 0 : (jiffies + HOF_DRAIN_PAUSE) ?: 1;
	spin_unlock_bh(&drain->file->lock);
}

static enum flt_refusal hof_drain_ask(struct hof_drain *drain, struct sock *sk, u32 id,
				      enum flt_refusal (*may)(struct sock *sk, void *arg),
				      void *arg)
{
	struct hof_giving giving = { .why = FLT_REFUSE_NONE };
	enum flt_refusal why;
	struct flt_node *node;

	node = flt_node_by_id(drain->file->hn->net, id);
	if (!node)
		return FLT_REFUSE_NONODE;
	init_completion(&giving.done);
	why = hof_transfer_give(drain->file, sk, node, (unsigned long)&giving, may, arg);
	flt_node_put(node);
	if (why != FLT_REFUSE_NONE)
		return why;
	while (!wait_for_completion_timeout(&giving.done, HOF_DRAIN_LOOK))
		if (READ_ONCE(drain->ending))
			hof_transfer_file_closed(drain->file);	/* it fails, or is decided */
	return giving.why;
}

/* Another node might take it, or it is the connection itself that cannot go now. */
static bool hof_drain_is_of_node(enum flt_refusal why)
{
	return why >= FLT_REFUSE_NOLISTENER && why != FLT_REFUSE_TIMEOUT &&
	       why != FLT_REFUSE_ABORTED && why != FLT_REFUSE_TABLEFULL;
}

enum flt_refusal hof_drain_give(struct hof_drain *drain, struct sock *sk,
				enum flt_refusal (*may)(struct sock *sk, void *arg), void *arg)
{
	enum flt_refusal why = FLT_REFUSE_TIMEOUT, said;
	unsigned int tries;
	u32 id;
	int at;

	for (tries = 0; tries < drain->nr && !READ_ONCE(drain->ending); tries++) {
		at = hof_drain_turn(drain, &id);
		said = at < 0 ? FLT_REFUSE_TIMEOUT : hof_drain_ask(drain, sk, id, may, arg);
		if (at >= 0)
			hof_drain_answered(drain, at, said != FLT_REFUSE_TIMEOUT);
		/* Of several reasons the one that may pass. */
		if (!tries || !hof_drain_is_final(said))
			why = said;
		if (at >= 0 && !hof_drain_is_of_node(said))
			break;
	}
	if (why == FLT_REFUSE_NONE)
		hof_count(drain->file->hn, HOF_STAT_HANDOFF_DRAINED);
	return why;
}

bool hof_drain_is_final(enum flt_refusal why)
{
	switch (why) {
	case FLT_REFUSE_VERSION:
	case FLT_REFUSE_MALFORMED:
	case FLT_REFUSE_NOTLOCAL:
	case FLT_REFUSE_POLICY:
	case FLT_REFUSE_INSECURE:
	case FLT_REFUSE_SERVICE:
	case FLT_REFUSE_CLIENT:
	case FLT_REFUSE_ROLE:
	case FLT_REFUSE_NONODE:
		return true;
	default:
		return false;
	}
}

void hof_drain_passed(struct hof_drain *drain, struct hof_move_passed *passed)
{
	spin_lock_bh(&drain->file->lock);
	passed->through = drain->through;
	passed->here = drain->here;
	spin_unlock_bh(&drain->file->lock);
}

unsigned int hof_drain_up(struct hof_drain *drain)
{
	struct flt_node *node;
	unsigned int i, up = 0;

	for (i = 0; i < drain->nr; i++) {
		node = flt_node_by_id(drain->file->hn->net, drain->nodes[i].id);
		if (!node)
			continue;
		up += flt_node_is_up(node);
		flt_node_put(node);
	}
	return up;
}
