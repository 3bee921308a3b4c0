// SPDX-License-Identifier: GPL-2.0
/*
 * Life messages: an adopted connection has ended, waits for a request, has one.
 * The end is learned from the socket's destructor, the rest in idle.c.
 */

#include <linux/slab.h>

#include "admit.h"
#include "adopt.h"
#include "counter.h"
#include "entry.h"
#include "idle.h"
#include "life.h"
#include "net.h"
#include "peer.h"
#include "relay.h"
#include "ticket.h"
#include "trace.h"

#define HOF_TELL_RETRY	msecs_to_jiffies(10)

/* Ends that nobody waits for are told when there are so many, or so much later. */
#define HOF_TELL_MAX	8
#define HOF_TELL_LATER_AFTER	msecs_to_jiffies(20)

/**
 * struct hof_life_batch - records on their way to one node
 * @node: a counted reference, NULL: empty
 * @nr:   of @record
 * @record: as they go out
 */
struct hof_life_batch {
	struct flt_node *node;
	unsigned int nr;
	struct hof_msg_life record[HOF_LIFE_MAX];
};

void hof_life_fill(const struct flt_tuple *tuple, u64 id, u16 what, struct hof_msg_life *record)
{
	record->id = cpu_to_be64(id);
	record->family = cpu_to_be16(tuple->family == AF_INET ? 4 : 6);
	record->what = cpu_to_be16(what);
	record->client_port = tuple->client_port;
	record->server_port = tuple->server_port;
	memcpy(record->client, tuple->client, sizeof(record->client));
	memcpy(record->server, tuple->server, sizeof(record->server));
}

void hof_life_record(const struct hof_adoption *a, u16 what, struct hof_msg_life *record)
{
	hof_life_fill(&a->tuple, a->id, what, record);
	trace_hof_life(&a->tuple, a->id, a->node->id, what);
}

void hof_life_changed(struct hof_adoption *a)
{
	struct hof_net *hn = a->hn;

	lockdep_assert_held(&hn->adopt_lock);
	if (list_empty(&a->telling)) {
		list_add_tail(&a->telling, &hn->telling);
		WRITE_ONCE(hn->nr_telling, hn->nr_telling + 1);
	}
	if (a->dead && a->flags & HOF_ADOPT_TELL_LATER && hn->nr_telling < HOF_TELL_MAX)
		queue_delayed_work(system_unbound_wq, &hn->tell, HOF_TELL_LATER_AFTER);
	else
		mod_delayed_work(system_unbound_wq, &hn->tell, 0);
}

void hof_life_lost(struct hof_adoption *a)
{
	a->lost = true;
	a->dead = true;
	hof_life_changed(a);
}

void hof_life_end(struct hof_adoption *a)
{
	struct hof_net *hn = a->hn;
	bool tell = false;

	spin_lock_bh(&hn->adopt_lock);
	list_del_init(&a->all);
	list_del_init(&a->busy);
	WRITE_ONCE(hn->nr_adopted, hn->nr_adopted - 1);
	if (!a->passed) {
		list_del_init(&a->held);
		WRITE_ONCE(a->peer->nr_held, a->peer->nr_held - 1);
		a->dead = true;
		hof_relay_end_locked(a->behind, false);
		a->behind = NULL;
		tell = a->committed;
		if (tell)
			hof_life_changed(a);
	}
	spin_unlock_bh(&hn->adopt_lock);
	if (!tell)
		hof_adoption_put(a);
}

/* Fill @batch with records for its node, or for the first's; those that died are freed. */
static void hof_life_collect(struct hof_net *hn, struct hof_life_batch *batch)
{
	struct hof_adoption *a, *next;
	LIST_HEAD(dead);

	spin_lock_bh(&hn->adopt_lock);
	list_for_each_entry_safe(a, next, &hn->telling, telling) {
		if (!batch->node)
			batch->node = flt_node_get(a->node);
		if (a->node != batch->node)
			continue;
		if (batch->nr == HOF_LIFE_MAX)
			break;
		WRITE_ONCE(hn->nr_telling, hn->nr_telling - 1);
		if (a->dead) {
			list_move_tail(&a->telling, &dead);
			hof_life_record(a, a->lost ? HOF_LIFE_LOST : HOF_LIFE_CLOSED,
					&batch->record[batch->nr++]);
			continue;
		}
		list_del_init(&a->telling);
		if (a->idle == a->told || !(a->flags & HOF_ADOPT_WANT_IDLE))
			continue;
		a->told = a->idle;
		hof_life_record(a, a->idle ? HOF_LIFE_IDLE : HOF_LIFE_BUSY,
				&batch->record[batch->nr++]);
	}
	spin_unlock_bh(&hn->adopt_lock);

	list_for_each_entry_safe(a, next, &dead, telling) {
		list_del(&a->telling);
		if (!a->farewell)
			hof_count(hn, HOF_STAT_ADOPT_ENDED);
		hof_adoption_put(a);
	}
}

static void hof_life_batch_reset(struct hof_life_batch *batch)
{
	if (batch->node)
		flt_node_put(batch->node);
	batch->node = NULL;
	batch->nr = 0;
}

/* Tell everybody, or only @node. False: it did not work now. */
static bool hof_life_send(struct hof_net *hn, struct flt_node *node)
{
	struct hof_life_batch *batch = hn->batch;
	struct kvec vec;
	int err;

	lockdep_assert_held(&hn->tell_lock);
	if (!batch) {
		batch = kzalloc(sizeof(*batch), GFP_KERNEL);
		if (!batch)
			return false;
		hn->batch = batch;
	}
	for (;;) {
		if (!batch->nr) {
			hof_life_batch_reset(batch);
			if (node)
				batch->node = flt_node_get(node);
			hof_life_collect(hn, batch);
			if (!batch->nr)
				break;
		}
		vec.iov_base = batch->record;
		vec.iov_len = batch->nr * sizeof(batch->record[0]);
		err = flt_link_send(batch->node, HOF_MSG_LIFE, &vec, 1, GFP_KERNEL);
		if (err == -ENOBUFS || err == -ENOMEM)
			return false;
		/* Link down: when it is up again the giver hears what there is (resync.c). */
		if (err)
			hof_count_add(hn, HOF_STAT_LIFE_LOST, batch->nr);
		batch->nr = 0;
	}
	hof_life_batch_reset(batch);
	return true;
}

static void hof_life_tell(struct work_struct *work)
{
	struct hof_net *hn = container_of(work, struct hof_net, tell.work);

	mutex_lock(&hn->tell_lock);
	if (!hof_life_send(hn, NULL))
		queue_delayed_work(system_unbound_wq, &hn->tell, HOF_TELL_RETRY);
	mutex_unlock(&hn->tell_lock);
}

void hof_life_ride(struct hof_net *hn, struct flt_node *node)
{
	/* Whoever has it, or the work that is queued, tells what is left. */
	if (list_empty_careful(&hn->telling) || !mutex_trylock(&hn->tell_lock))
		return;
	hof_life_send(hn, node);
	mutex_unlock(&hn->tell_lock);
}

void hof_life_again(struct hof_adoption *a)
{
	lockdep_assert_held(&a->hn->adopt_lock);
	a->told = !a->idle;
	hof_life_changed(a);
}

void hof_life_tuple(const struct hof_msg_life *record, struct flt_tuple *tuple)
{
	size_t size;

	memset(tuple, 0, sizeof(*tuple));
	tuple->family = record->family == cpu_to_be16(4) ? AF_INET : AF_INET6;
	tuple->client_port = record->client_port;
	tuple->server_port = record->server_port;
	size = tuple->family == AF_INET ? 4 : 16;
	memcpy(tuple->client, record->client, size);
	memcpy(tuple->server, record->server, size);
}

void hof_life_receive(struct hof_net *hn, struct flt_node *node,
		      const struct hof_msg_life *record)
{
	u16 what = be16_to_cpu(record->what);
	u64 id = be64_to_cpu(record->id);
	struct flt_tuple tuple;
	struct hof_entry *e;

	hof_life_tuple(record, &tuple);
	if (what == HOF_LIFE_ROOM) {
		hof_admit_notified(hn, node, &tuple);
		return;
	}
	rcu_read_lock();
	e = hof_entry_find_tuple(hn, &tuple);
	if (!e || hof_entry_id(e) != id || READ_ONCE(e->peer)->node != node)
		goto out;
	if (what == HOF_LIFE_CLOSED) {
		hof_entry_close(hn, e, id, FLT_REFUSE_NONE);
	} else if (what == HOF_LIFE_LOST) {
		hof_entry_kill(hn, e, id);
	} else if (what <= HOF_LIFE_BUSY) {
		spin_lock_bh(&e->lock);
		if (e->ticket)
			hof_ticket_activity(e->ticket, what == HOF_LIFE_IDLE);
		spin_unlock_bh(&e->lock);
	}
out:
	rcu_read_unlock();
}

void hof_life_net_init(struct hof_net *hn)
{
	INIT_LIST_HEAD(&hn->telling);
	mutex_init(&hn->tell_lock);
	INIT_DELAYED_WORK(&hn->tell, hof_life_tell);
	hof_idle_net_init(hn);
}

void hof_life_net_exit(struct hof_net *hn)
{
	struct hof_adoption *a, *next;
	LIST_HEAD(dead);

	hof_idle_stop(hn);
	/* Entries go on ending, and nobody is told. */
	spin_lock_bh(&hn->adopt_lock);
	hn->untold = true;
	spin_unlock_bh(&hn->adopt_lock);
	cancel_delayed_work_sync(&hn->tell);
	spin_lock_bh(&hn->adopt_lock);
	list_for_each_entry_safe(a, next, &hn->telling, telling) {
		list_del_init(&a->telling);
		WRITE_ONCE(hn->nr_telling, hn->nr_telling - 1);
		if (a->dead)
			list_add_tail(&a->telling, &dead);
	}
	spin_unlock_bh(&hn->adopt_lock);
	list_for_each_entry_safe(a, next, &dead, telling) {
		list_del_init(&a->telling);
		hof_adoption_put(a);
	}
	if (hn->batch) {
		hof_life_batch_reset(hn->batch);
		kfree(hn->batch);
		hn->batch = NULL;
	}
}
