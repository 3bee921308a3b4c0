// SPDX-License-Identifier: GPL-2.0
/*
 * A node is emptied: the connections of a move (moving.c) go to other nodes, by the ordinary way of
 * a submission (transfer.c). What a dispatcher would read as events is told to us.
 */

#include <linux/completion.h>
#include <linux/slab.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#include "kmod/freeze.h"
#include "kmod/node.h"
#include "kmod/socklock.h"

#include "counter.h"
#include "drain.h"
#include "net.h"
#include "ticket.h"
#include "transfer.h"

/* A node that has not answered is left alone for so long. */
#define HOF_DRAIN_PAUSE	HZ
/*
 * Whether the move ends is looked at so often while an answer is waited for; for another one's
 * answer nobody waits longer.
 */
#define HOF_DRAIN_LOOK	(HZ / 50 + 1)
/* Asked of one node at once; of one that has not answered the last time, one. */
#define HOF_DRAIN_ASKS	2
/* Each node silent, and those that see that it is. */
#define HOF_DRAIN_WORKERS	(HOF_DRAIN_ASKS * HOF_MOVE_NODES + 4)

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
	init_waitqueue_head(&drain->free);
	drain->file->owner = drain;
	drain->file->tell = hof_drain_tell;
	return drain;
}

void hof_drain_free(struct hof_drain *drain)
{
	if (!drain)
		return;
	if (drain->wq)
		destroy_workqueue(drain->wq);
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

/* Not before: another node may begin and end moves without end, of which nothing comes. */
int hof_drain_begin(struct hof_drain *drain)
{
	if (!drain->wq)
		drain->wq = alloc_workqueue("hof_drain", WQ_UNBOUND, HOF_DRAIN_WORKERS);
	return drain->wq ? 0 : -ENOMEM;
}

static bool hof_drain_is_late(unsigned long asked)
{
	return time_after(jiffies, asked + HOF_DRAIN_LOOK);
}

/*
 * The next node that can be asked, which it is from here on; -EAGAIN: in a moment one may be;
 * -ETIMEDOUT: none. @tried are left out, by their places.
 */
static int hof_drain_turn(struct hof_drain *drain, unsigned long tried)
{
	struct hof_drain_node *node;
	int at, found = -ETIMEDOUT;
	unsigned int i;

	spin_lock_bh(&drain->file->lock);
	for (i = 0; i < drain->nr && found < 0; i++) {
		at = (drain->next + i) % drain->nr;
		node = &drain->nodes[at];
		if (test_bit(at, &tried) ||
		    (node->not_before && time_before(jiffies, node->not_before)))
			continue;
		if (node->asking < (node->answers ? HOF_DRAIN_ASKS : 1))
			found = at;
		else if (!hof_drain_is_late(node->asked))
			found = -EAGAIN;
	}
	if (found >= 0) {
		drain->nodes[found].asking++;
		drain->nodes[found].asked = jiffies;
		drain->next = found + 1;
	}
	spin_unlock_bh(&drain->file->lock);
	return found;
}

static void hof_drain_answered(struct hof_drain *drain, int at, bool has)
{
	struct hof_drain_node *node = &drain->nodes[at];

	spin_lock_bh(&drain->file->lock);
	node->asking--;
	node->answers = has;
	node->not_before = has ? 0 : (jiffies + HOF_DRAIN_PAUSE) ?: 1;
	spin_unlock_bh(&drain->file->lock);
	wake_up(&drain->free);
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
	why = hof_transfer_give(drain->file, sk, node, (unsigned long)&giving, 0, may, arg);
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

/* Most connections are not between two requests: seen before a node is asked. */
static enum flt_refusal hof_drain_may(struct sock *sk,
				      enum flt_refusal (*may)(struct sock *sk, void *arg),
				      void *arg)
{
	enum flt_refusal why;

	if (!flt_sock_lock_soon(sk))
		return FLT_REFUSE_BUSY;
	/* Its queues are not there to be looked at. */
	why = flt_endpoint_is_frozen(sk) ? FLT_REFUSE_BUSY : may(sk, arg);
	release_sock(sk);
	return why;
}

/* Waits a moment for one, no longer: a request may be held back. */
static int hof_drain_wait(struct hof_drain *drain, unsigned long tried)
{
	int at = -ETIMEDOUT;

	wait_event_timeout(drain->free, READ_ONCE(drain->ending) ||
			   (at = hof_drain_turn(drain, tried)) != -EAGAIN, HOF_DRAIN_LOOK);
	return at;
}

enum flt_refusal hof_drain_give(struct hof_drain *drain, struct sock *sk,
				enum flt_refusal (*may)(struct sock *sk, void *arg), void *arg)
{
	enum flt_refusal why = FLT_REFUSE_TIMEOUT, said = hof_drain_may(sk, may, arg);
	unsigned long tried = 0;
	int at;

	if (said != FLT_REFUSE_NONE)
		return said;
	while (hweight_long(tried) < drain->nr) {
		at = hof_drain_wait(drain, tried);
		if (at < 0)
			return hof_drain_is_final(why) ? FLT_REFUSE_TIMEOUT : why;
		said = hof_drain_ask(drain, sk, drain->nodes[at].id, may, arg);
		hof_drain_answered(drain, at, said != FLT_REFUSE_TIMEOUT);
		/* Of several reasons the one that may pass. */
		if (!tried || !hof_drain_is_final(said))
			why = said;
		__set_bit(at, &tried);
		if (!hof_drain_is_of_node(said))
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
	case FLT_REFUSE_KEYS:
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
