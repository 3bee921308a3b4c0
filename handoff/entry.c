// SPDX-License-Identifier: GPL-2.0
/* Forwarding entries: their table, their changes of state, their end. */

#include <linux/slab.h>
#include <net/sock.h>

#include "counter.h"
#include "entry.h"
#include "peer.h"
#include "redirect.h"
#include "relay.h"
#include "reset.h"
#include "table.h"
#include "ticket.h"
#include "trace.h"

/*
 * Most looks at an entry find that its time has not come: one at a sixteenth of
 * a table each second is enough, and more only while most of what is seen goes.
 */
#define HOF_SWEEP_EVERY		HZ
#define HOF_SWEEP_BUSY		(HZ / 4)
#define HOF_SWEEP_MIN		256

/* Most that go for one that comes: more than one only after forward_max was made smaller. */
#define HOF_EVICT_MAX		8

static struct kmem_cache *hof_cache4 __ro_after_init;
static struct kmem_cache *hof_cache6 __ro_after_init;

#define HOF_ENTRY4_SIZE (offsetof(struct hof_entry, key) + sizeof(struct hof_key4))

int __init hof_entry_cache_create(void)
{
	hof_cache4 = kmem_cache_create("hof_entry4", HOF_ENTRY4_SIZE,
				       __alignof__(struct hof_entry), SLAB_ACCOUNT, NULL);
	if (!hof_cache4)
		return -ENOMEM;
	hof_cache6 = KMEM_CACHE(hof_entry, SLAB_ACCOUNT);
	if (!hof_cache6) {
		kmem_cache_destroy(hof_cache4);
		return -ENOMEM;
	}
	return 0;
}

void hof_entry_cache_destroy(void)
{
	kmem_cache_destroy(hof_cache4);
	kmem_cache_destroy(hof_cache6);
}

static void hof_key_from_tuple(const struct flt_tuple *tuple, union hof_key *key)
{
	if (tuple->family == AF_INET) {
		memcpy(&key->v4.client, tuple->client, 4);
		memcpy(&key->v4.server, tuple->server, 4);
		key->v4.client_port = tuple->client_port;
		key->v4.server_port = tuple->server_port;
	} else {
		memcpy(&key->v6.client, tuple->client, 16);
		memcpy(&key->v6.server, tuple->server, 16);
		key->v6.client_port = tuple->client_port;
		key->v6.server_port = tuple->server_port;
	}
}

void hof_entry_tuple(const struct hof_entry *e, struct flt_tuple *tuple)
{
	memset(tuple, 0, sizeof(*tuple));
	tuple->family = e->family;
	if (e->family == AF_INET) {
		memcpy(tuple->client, &e->key.v4.client, 4);
		memcpy(tuple->server, &e->key.v4.server, 4);
		tuple->client_port = e->key.v4.client_port;
		tuple->server_port = e->key.v4.server_port;
	} else {
		memcpy(tuple->client, &e->key.v6.client, 16);
		memcpy(tuple->server, &e->key.v6.server, 16);
		tuple->client_port = e->key.v6.client_port;
		tuple->server_port = e->key.v6.server_port;
	}
}

static void hof_address_map(u16 family, const u8 *from, u8 *to)
{
	if (family == AF_INET6) {
		memcpy(to, from, 16);
		return;
	}
	memset(to, 0, 10);
	memset(to + 10, 0xff, 2);
	memcpy(to + 12, from, 4);
}

void hof_tuple_map(const struct flt_tuple *tuple, u8 *client, u8 *server)
{
	hof_address_map(tuple->family, tuple->client, client);
	hof_address_map(tuple->family, tuple->server, server);
}

const char *hof_state_name(const struct hof_entry *e)
{
	switch (READ_ONCE(e->state)) {
	case HOF_HOLD:
		return "HOLD";
	case HOF_FORWARD:
		return READ_ONCE(e->redirect) ? "REDIRECT" : "FORWARD";
	default:
		return "LINGER";
	}
}

static struct hof_entry *hof_entry_new(const struct flt_tuple *tuple, struct hof_peer *peer,
				       struct hof_hold *hold, gfp_t gfp)
{
	struct hof_entry *e;

	e = kmem_cache_zalloc(tuple->family == AF_INET ? hof_cache4 : hof_cache6, gfp);
	if (!e)
		return NULL;
	e->family = tuple->family;
	hof_key_from_tuple(tuple, &e->key);
	e->state = HOF_HOLD;
	spin_lock_init(&e->lock);
	refcount_inc(&peer->ref);
	e->peer = peer;
	e->hold = hold;
	e->born = jiffies;
	e->used = jiffies;
	return e;
}

struct hof_entry *hof_entry_alloc(const struct flt_tuple *tuple, struct hof_peer *peer,
				  struct hof_hold *hold, gfp_t gfp)
{
	return hof_entry_new(tuple, peer, hold, gfp);
}

struct hof_entry *hof_entry_alloc_redirect(const struct flt_tuple *tuple, struct hof_net *hn,
					   struct hof_peer *peer)
{
	/* Not GFP_ATOMIC, which a memory cgroup lets pass when it is full. */
	struct hof_entry *e = hof_entry_new(tuple, peer, NULL, GFP_NOWAIT | __GFP_NOWARN);

	if (!e)
		return NULL;
	e->state = HOF_FORWARD;
	e->redirect = HOF_REDIRECT_PENDING;
	e->syns = 1;
	e->id = hof_net_new_id(hn);
	e->asked = jiffies;
	return e;
}

void hof_entry_trace(const struct hof_entry *e, u8 state)
{
	struct flt_tuple tuple;

	if (!trace_hof_entry_enabled())
		return;
	hof_entry_tuple(e, &tuple);
	trace_hof_entry(&tuple, hof_entry_id(e), READ_ONCE(e->peer)->node->id, state);
}

static void hof_entry_free_rcu(struct rcu_head *rcu)
{
	struct hof_entry *e = container_of(rcu, struct hof_entry, rcu);

	kmem_cache_free(e->family == AF_INET ? hof_cache4 : hof_cache6, e);
}

void hof_entry_free(struct hof_entry *e)
{
	hof_peer_put(e->peer);
	hof_entry_free_rcu(&e->rcu);
}

static struct hof_linger *hof_entry_lingering(struct hof_net *hn, u8 family)
{
	return family == AF_INET ? &hn->linger4 : &hn->linger6;
}

static void hof_entry_linger(struct hof_net *hn, struct hof_entry *e)
{
	struct hof_linger *linger = hof_entry_lingering(hn, e->family);

	lockdep_assert_held(&e->lock);
	spin_lock(&hn->linger_lock);
	list_add_tail(&e->linger, &linger->list);
	WRITE_ONCE(linger->nr, linger->nr + 1);
	spin_unlock(&hn->linger_lock);
}

static void hof_entry_linger_no_more(struct hof_net *hn, struct hof_entry *e)
{
	struct hof_linger *linger = hof_entry_lingering(hn, e->family);

	lockdep_assert_held(&e->lock);
	spin_lock(&hn->linger_lock);
	list_del(&e->linger);
	WRITE_ONCE(linger->nr, linger->nr - 1);
	spin_unlock(&hn->linger_lock);
}

/* The one that has been over for longest goes. False: there is none. */
static bool hof_entry_evict(struct hof_net *hn, struct hof_linger *linger)
{
	struct hof_entry *e;

	rcu_read_lock();	/* somebody else may be removing it */
	spin_lock_bh(&hn->linger_lock);
	e = list_first_entry_or_null(&linger->list, struct hof_entry, linger);
	spin_unlock_bh(&hn->linger_lock);
	if (e && hof_entry_remove(hn, e))
		hof_count(hn, HOF_STAT_FORWARD_LINGER_EVICTED);
	rcu_read_unlock();
	return e;
}

/* What is dead makes room for what lives. */
static int hof_entry_make_room(struct hof_net *hn, const struct rhashtable *table, u8 family)
{
	struct hof_linger *linger = hof_entry_lingering(hn, family);
	unsigned int max = READ_ONCE(hn->tunables.forward_max);
	unsigned int over = READ_ONCE(linger->nr);
	unsigned int tries = HOF_EVICT_MAX;
	unsigned int all = atomic_read(&table->nelems);

	if (all < max)
		return 0;
	if (all >= max + over)
		return -ENOSPC;
	while (atomic_read(&table->nelems) >= max && tries--)
		if (!hof_entry_evict(hn, linger))
			break;
	return 0;
}

int hof_entry_insert(struct hof_net *hn, struct hof_entry *e)
{
	struct rhashtable *table = e->family == AF_INET ? &hn->entries4 : &hn->entries6;
	int err;

	err = hof_entry_make_room(hn, table, e->family);
	if (err)
		return err;
	if (e->family == AF_INET)
		err = rhashtable_lookup_insert_fast(table, &e->hash, hof_table4);
	else
		err = rhashtable_lookup_insert_fast(table, &e->hash, hof_table6);
	if (err)
		return err == -EEXIST ? err : -ENOMEM;
	hof_entry_trace(e, hof_entry_state(e));
	queue_delayed_work(system_unbound_wq, &hn->sweep, HOF_SWEEP_EVERY);
	return 0;
}

struct hof_entry *hof_entry_find(struct hof_net *hn, u8 family, const union hof_key *key)
{
	if (family == AF_INET)
		return hof_entry_find4(hn, &key->v4);
	return hof_entry_find6(hn, &key->v6);
}

struct hof_entry *hof_entry_find_tuple(struct hof_net *hn, const struct flt_tuple *tuple)
{
	union hof_key key;

	hof_key_from_tuple(tuple, &key);
	return hof_entry_find(hn, tuple->family, &key);
}

void hof_entry_settle(struct hof_net *hn, struct hof_entry *e, enum flt_refusal why)
{
	lockdep_assert_held(&e->lock);
	if (e->redirect) {
		hof_redirect_settle(hn, e);
		return;
	}
	atomic_dec(&e->peer->node->load);
	hof_count(hn, HOF_STAT_HANDOFF_CLOSED);
	if (!e->ticket)
		return;
	if (e->ticket->relay)
		hof_relay_end(e->ticket->relay, why != FLT_REFUSE_NONE);
	e->ticket->relay = NULL;
	hof_ticket_closed(e->ticket, why);
	hof_ticket_put(e->ticket);
	e->ticket = NULL;
}

/* @direct: whether the client's packets came to us, and not by another node. */
static bool hof_entry_close_if(struct hof_net *hn, struct hof_entry *e, u64 id,
			       enum flt_refusal why, unsigned long linger, bool *direct)
{
	u8 state = why == FLT_REFUSE_NONE ? HOF_LINGER : HOF_DEAD;
	bool was;

	*direct = true;
	spin_lock_bh(&e->lock);
	was = e->state == HOF_FORWARD && e->id == id;
	if (was) {
		WRITE_ONCE(e->expires, jiffies + linger);
		hof_entry_set_state(e, state);
		hof_entry_linger(hn, e);
		*direct = !e->ticket || e->ticket->direct;
		hof_entry_settle(hn, e, why);
	} else if (e->state == HOF_HOLD && e->id == id && e->owned && !e->over) {
		WRITE_ONCE(e->over, state);
	}
	spin_unlock_bh(&e->lock);
	if (was)
		hof_entry_trace(e, state);
	return was;
}

bool hof_entry_close(struct hof_net *hn, struct hof_entry *e, u64 id, enum flt_refusal why)
{
	u32 ms = READ_ONCE(e->seen) & HOF_SAW_RST ? READ_ONCE(hn->tunables.linger_rst_ms) :
						    READ_ONCE(hn->tunables.linger_ms);
	bool direct;

	return hof_entry_close_if(hn, e, id, why, msecs_to_jiffies(ms), &direct);
}

void hof_entry_unlink(struct hof_net *hn, struct hof_entry *e)
{
	if (e->family == AF_INET)
		rhashtable_remove_fast(&hn->entries4, &e->hash, hof_table4);
	else
		rhashtable_remove_fast(&hn->entries6, &e->hash, hof_table6);
	hof_entry_trace(e, HOF_GONE);
	if (e->ticket)
		hof_ticket_put(e->ticket);
	hof_peer_put(e->peer);
	call_rcu(&e->rcu, hof_entry_free_rcu);
}

bool hof_entry_remove(struct hof_net *hn, struct hof_entry *e)
{
	bool ours;

	spin_lock_bh(&e->lock);
	ours = e->state != HOF_GONE && e->state != HOF_HOLD;
	if (ours) {
		if (e->state == HOF_FORWARD)
			hof_entry_settle(hn, e, FLT_REFUSE_NONE);
		else
			hof_entry_linger_no_more(hn, e);
		hof_entry_set_state(e, HOF_GONE);
	}
	spin_unlock_bh(&e->lock);
	if (ours)
		hof_entry_unlink(hn, e);
	return ours;
}

/* Whether its time has come. */
static bool hof_entry_expire(struct hof_net *hn, struct hof_entry *e)
{
	unsigned long idle = READ_ONCE(hn->tunables.idle_s) * HZ;

	switch (hof_entry_state(e)) {
	case HOF_FORWARD:
		if (READ_ONCE(e->redirect) && !hof_redirect_expired(hn, e))
			return false;
		if (READ_ONCE(e->redirect))
			break;
		if (time_before(jiffies, READ_ONCE(e->used) + idle))
			return false;
		hof_count(hn, HOF_STAT_FORWARD_IDLE_EXPIRED);
		break;
	case HOF_LINGER:
	case HOF_DEAD:
		if (time_before(jiffies, READ_ONCE(e->expires)))
			return false;
		hof_count(hn, HOF_STAT_FORWARD_LINGER_EXPIRED);
		break;
	default:
		return false;
	}
	hof_entry_remove(hn, e);
	return true;
}

/*
 * Walk a part of a table and go on there next time, so that a large table
 * costs the same at each call. Returns whether most of those seen went.
 */
static bool hof_entry_sweep_table(struct hof_net *hn, struct rhashtable *table,
				  struct rhashtable_iter *iter)
{
	unsigned int left = max(HOF_SWEEP_MIN, atomic_read(&table->nelems) / 16);
	unsigned int seen = 0, gone = 0;
	struct hof_entry *e = NULL;

	rhashtable_walk_start(iter);
	while (left--) {
		e = rhashtable_walk_next(iter);
		if (!e)
			break;
		if (IS_ERR(e))
			continue;	/* resized: some may be seen twice */
		seen++;
		gone += hof_entry_expire(hn, e);
		if (left % 1024 == 0) {
			rhashtable_walk_stop(iter);
			cond_resched();
			rhashtable_walk_start(iter);
		}
	}
	rhashtable_walk_stop(iter);
	if (!e) {
		rhashtable_walk_exit(iter);
		rhashtable_walk_enter(table, iter);
	}
	return gone > seen / 2;
}

static void hof_entry_sweep(struct work_struct *work)
{
	struct hof_net *hn = container_of(work, struct hof_net, sweep.work);
	bool busy;

	busy = hof_entry_sweep_table(hn, &hn->entries4, &hn->walk4);
	busy |= hof_entry_sweep_table(hn, &hn->entries6, &hn->walk6);
	hof_redirect_ask(hn);
	if (hof_entry_count(hn))
		queue_delayed_work(system_unbound_wq, &hn->sweep,
				   busy ? HOF_SWEEP_BUSY : HOF_SWEEP_EVERY);
}

void hof_entry_kill(struct hof_net *hn, struct hof_entry *e, u64 id)
{
	u32 acked = READ_ONCE(e->acked);
	struct flt_tuple tuple;
	bool direct;

	/* No node has answered: the client's next SYN is accepted here. */
	if (READ_ONCE(e->redirect) == HOF_REDIRECT_PENDING) {
		hof_entry_remove(hn, e);
		return;
	}
	if (!hof_entry_close_if(hn, e, id, FLT_REFUSE_NODEDOWN,
				msecs_to_jiffies(READ_ONCE(hn->tunables.linger_ms)), &direct))
		return;
	hof_count(hn, HOF_STAT_HANDOFF_NODE_LOST);
	/* Else it may go on without us: who forwards it to us knows, and has been told. */
	if (!direct)
		return;
	hof_entry_tuple(e, &tuple);
	hof_reset_client(hn, &tuple, acked);
}

void hof_entry_resume(struct hof_net *hn, struct hof_entry *e)
{
	u8 over = READ_ONCE(e->over);

	if (over == HOF_DEAD)
		hof_entry_kill(hn, e, hof_entry_id(e));
	else if (over == HOF_LINGER)
		hof_entry_close(hn, e, hof_entry_id(e), FLT_REFUSE_NONE);
}

bool hof_entry_redirect(struct hof_net *hn, struct hof_entry *e, u64 from, u64 to,
			struct hof_peer *peer, u32 epoch)
{
	struct hof_peer *old;
	bool ok;

	spin_lock_bh(&e->lock);
	ok = e->state == HOF_FORWARD && e->id == from && !e->redirect;
	if (ok) {
		old = e->peer;
		atomic_dec(&old->node->load);
		atomic_inc(&peer->node->load);
		WRITE_ONCE(e->peer, peer);
		WRITE_ONCE(e->ups, READ_ONCE(peer->ups));
		WRITE_ONCE(e->epoch, epoch);
		/* Pairs with hof_entry_id(): who knows the new id sees the new peer. */
		smp_store_release(&e->id, to);
	}
	spin_unlock_bh(&e->lock);
	if (!ok)
		return false;
	hof_entry_trace(e, HOF_FORWARD);
	hof_peer_put(old);	/* after those who forward to it now */
	return true;
}

static void hof_entry_walk_peer(struct hof_net *hn, struct rhashtable *table,
				struct hof_peer *peer, u32 epoch,
				void (*act)(struct hof_net *hn, struct hof_entry *e, u64 id,
					    u32 epoch))
{
	struct rhashtable_iter iter;
	struct hof_entry *e;
	unsigned int n = 0;
	u64 id;

	rhashtable_walk_enter(table, &iter);
	rhashtable_walk_start(&iter);
	while ((e = rhashtable_walk_next(&iter))) {
		if (IS_ERR(e))
			continue;
		id = hof_entry_id(e);
		if (READ_ONCE(e->peer) == peer)
			act(hn, e, id, epoch);
		if (++n % 256 == 0) {
			rhashtable_walk_stop(&iter);
			cond_resched();
			rhashtable_walk_start(&iter);
		}
	}
	rhashtable_walk_stop(&iter);
	rhashtable_walk_exit(&iter);
}

static void hof_entry_kill_one(struct hof_net *hn, struct hof_entry *e, u64 id, u32 epoch)
{
	hof_entry_kill(hn, e, id);
	/* A SYN gives a redirected one a new id at any time, and never a new peer. */
	while (READ_ONCE(e->redirect) && hof_entry_state(e) == HOF_FORWARD &&
	       hof_entry_id(e) != id) {
		id = hof_entry_id(e);
		hof_entry_kill(hn, e, id);
	}
}

void hof_entry_kill_peer(struct hof_net *hn, struct hof_peer *peer)
{
	hof_entry_walk_peer(hn, &hn->entries4, peer, 0, hof_entry_kill_one);
	hof_entry_walk_peer(hn, &hn->entries6, peer, 0, hof_entry_kill_one);
}

static void hof_entry_close_one(struct hof_net *hn, struct hof_entry *e, u64 id, u32 epoch)
{
	/*
	 * One that is over has no epoch any more, and is closed already. One that was redirected
	 * has none, and is named by nobody.
	 */
	if (!READ_ONCE(e->redirect) &&
	    READ_ONCE(e->ups) != READ_ONCE(READ_ONCE(e->peer)->ups) &&
	    READ_ONCE(e->epoch) == epoch)
		hof_entry_close(hn, e, id, FLT_REFUSE_NONE);
}

void hof_entry_close_stale(struct hof_net *hn, struct hof_peer *peer, u32 epoch)
{
	hof_entry_walk_peer(hn, &hn->entries4, peer, epoch, hof_entry_close_one);
	hof_entry_walk_peer(hn, &hn->entries6, peer, epoch, hof_entry_close_one);
}

unsigned int hof_entry_count(const struct hof_net *hn)
{
	return atomic_read(&hn->entries4.nelems) + atomic_read(&hn->entries6.nelems);
}

unsigned int hof_entry_size(u8 family)
{
	/* The hash table is between 30 and 75 percent full. */
	return kmem_cache_size(family == AF_INET ? hof_cache4 : hof_cache6) + 2 * sizeof(void *);
}

int hof_entry_net_init(struct hof_net *hn)
{
	int err;

	err = rhashtable_init(&hn->entries4, &hof_table4);
	if (err)
		return err;
	err = rhashtable_init(&hn->entries6, &hof_table6);
	if (err) {
		rhashtable_destroy(&hn->entries4);
		return err;
	}
	rhashtable_walk_enter(&hn->entries4, &hn->walk4);
	rhashtable_walk_enter(&hn->entries6, &hn->walk6);
	INIT_DELAYED_WORK(&hn->sweep, hof_entry_sweep);
	spin_lock_init(&hn->linger_lock);
	INIT_LIST_HEAD(&hn->linger4.list);
	INIT_LIST_HEAD(&hn->linger6.list);
	return 0;
}

static void hof_entry_drop(void *entry, void *arg)
{
	struct hof_entry *e = entry;
	struct hof_net *hn = arg;

	WARN_ON(e->state == HOF_HOLD);
	spin_lock_bh(&e->lock);
	if (e->state == HOF_FORWARD)
		hof_entry_settle(hn, e, FLT_REFUSE_NONE);
	spin_unlock_bh(&e->lock);
	if (e->ticket)
		hof_ticket_put(e->ticket);
	hof_peer_put(e->peer);
	call_rcu(&e->rcu, hof_entry_free_rcu);
}

/* The hooks are gone: nobody looks entries up. */
void hof_entry_net_exit(struct hof_net *hn)
{
	cancel_delayed_work_sync(&hn->sweep);
	rhashtable_walk_exit(&hn->walk4);
	rhashtable_walk_exit(&hn->walk6);
	rhashtable_free_and_destroy(&hn->entries4, hof_entry_drop, hn);
	rhashtable_free_and_destroy(&hn->entries6, hof_entry_drop, hn);
}
