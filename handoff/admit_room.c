// SPDX-License-Identifier: GPL-2.0
/*
 * The node that had no room for another one's surplus tells it when it has. The thesis says when it
 * has finished what it got (Olaru, 7.1.2); here that is seen by its accept queue, which is at most
 * half full by then: connections last longer than their requests.
 */

#include <linux/module.h>
#include <linux/slab.h>

#include "kmod/endpoint.h"
#include "kmod/node.h"
#include "kmod/service.h"

#include "admit.h"
#include "adopt.h"
#include "counter.h"
#include "gate.h"
#include "life.h"
#include "message.h"
#include "move.h"
#include "net.h"

#define HOF_ROOM_LOOK	(HZ / 50)
/* By then who waits has tried again. */
#define HOF_ROOM_FOR	(60 * HZ)
/* Services of one node: it may make up as many as it likes. */
#define HOF_ROOM_MAX	8

/**
 * struct hof_owed - a node that had to keep a connection
 * @list:  hn->owed
 * @node:  a counted reference
 * @id:    of the last one, as it is called there
 * @at:    its addresses: of all with the same service there is one
 * @until: jiffies
 */
struct hof_owed {
	struct list_head list;
	struct flt_node *node;
	u64 id;
	struct flt_tuple at;
	unsigned long until;
};

static void hof_owed_free(struct hof_owed *o)
{
	list_del(&o->list);
	flt_node_put(o->node);
	kfree(o);
}

static bool hof_owed_is(const struct hof_owed *o, const struct flt_tuple *at)
{
	return o->at.family == at->family && o->at.server_port == at->server_port &&
	       !memcmp(o->at.server, at->server, sizeof(at->server));
}

/* Of the same node and service, or a new one; NULL: it has too many, or there is no memory. */
static struct hof_owed *hof_owed_get(struct hof_net *hn, struct flt_node *node,
				     const struct flt_tuple *at)
{
	unsigned int nr = 0;
	struct hof_owed *o;

	lockdep_assert_held(&hn->room_lock);
	list_for_each_entry(o, &hn->owed, list) {
		if (o->node != node)
			continue;
		if (hof_owed_is(o, at))
			return o;
		nr++;
	}
	if (nr >= HOF_ROOM_MAX)
		return NULL;
	o = kzalloc(sizeof(*o), GFP_KERNEL_ACCOUNT);
	if (!o)
		return NULL;
	o->node = flt_node_get(node);
	list_add_tail(&o->list, &hn->owed);
	return o;
}

/* What has no end that we would see is not waited for. */
static bool hof_room_may_come(enum flt_refusal why)
{
	return why == FLT_REFUSE_FULL || why == FLT_REFUSE_NOLISTENER ||
	       why == FLT_REFUSE_NOMEM || why == FLT_REFUSE_POLICY;
}

void hof_room_owe(struct hof_net *hn, struct flt_node *node, u64 id, const void *wire, u32 len,
		  enum flt_refusal why)
{
	struct flt_peek peek;
	struct hof_owed *o;

	if (!hof_room_may_come(why) || !(READ_ONCE(node->features) & FLT_FEATURE_NOTIFY) ||
	    flt_endpoint_peek(wire, len, &peek) != FLT_REFUSE_NONE)
		return;
	/* While nothing is adopted anything may be asked for: what listens is told to nobody. */
	if (!flt_service_has(hn->net, peek.tuple.family, peek.tuple.server,
			     peek.tuple.server_port))
		return;
	mutex_lock(&hn->room_lock);
	o = hof_owed_get(hn, node, &peek.tuple);
	if (o) {
		o->id = id;
		o->at = peek.tuple;
		o->until = jiffies + HOF_ROOM_FOR;
		queue_delayed_work(system_unbound_wq, &hn->room, HOF_ROOM_LOOK);
	}
	mutex_unlock(&hn->room_lock);
}

static bool hof_room_is(struct hof_net *hn, const struct flt_tuple *at)
{
	return READ_ONCE(hn->tunables.adopt) && hof_gate_has_room(hn->net, at) &&
	       !hof_move_drains(hn->net, at);
}

/* False: again later. */
static bool hof_room_tell(struct hof_net *hn, const struct hof_owed *o)
{
	struct hof_msg_life record;
	struct kvec vec = { .iov_base = &record, .iov_len = sizeof(record) };
	int err;

	hof_life_fill(&o->at, o->id, HOF_LIFE_ROOM, &record);
	err = flt_link_send(o->node, HOF_MSG_LIFE, &vec, 1, GFP_KERNEL);
	if (err == -ENOBUFS || err == -ENOMEM)
		return false;
	hof_count(hn, HOF_STAT_ROOM_TOLD);
	return true;
}

static void hof_room_work(struct work_struct *work)
{
	struct hof_net *hn = container_of(work, struct hof_net, room.work);
	struct hof_owed *o, *next;

	mutex_lock(&hn->room_lock);
	list_for_each_entry_safe(o, next, &hn->owed, list) {
		if (time_after(jiffies, o->until) || !flt_node_is_up(o->node) ||
		    (hof_room_is(hn, &o->at) && hof_room_tell(hn, o)))
			hof_owed_free(o);
		cond_resched();
	}
	if (!list_empty(&hn->owed))
		queue_delayed_work(system_unbound_wq, &hn->room, HOF_ROOM_LOOK);
	mutex_unlock(&hn->room_lock);
}

void hof_room_net_init(struct hof_net *hn)
{
	mutex_init(&hn->room_lock);
	INIT_LIST_HEAD(&hn->owed);
	INIT_DELAYED_WORK(&hn->room, hof_room_work);
}

/* No message comes any more. */
void hof_room_net_exit(struct hof_net *hn)
{
	struct hof_owed *o, *next;

	cancel_delayed_work_sync(&hn->room);
	list_for_each_entry_safe(o, next, &hn->owed, list)
		hof_owed_free(o);
}
