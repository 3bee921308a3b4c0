// SPDX-License-Identifier: GPL-2.0
/*
 * A connection that was handed on to us comes with the name of its origin, the node that forwards
 * its packets to who handed it on. After COMMIT we claim it there, with the proof that who had it
 * agrees. Once the origin forwards to us it is our giver: it hears of the end, under the id that
 * we have chosen, and who handed it on hears that it is over for him (origin.c, relay.c).
 *
 * Until the origin has answered nothing changes, and when it refuses nothing ever does: the packets
 * come by who handed it on. A claim may be made again: the second finds what the first did.
 */

#include <linux/slab.h>
#include <linux/tcp.h>

#include "kmod/service.h"

#include "adopt.h"
#include "claim.h"
#include "counter.h"
#include "idle.h"
#include "life.h"
#include "message.h"
#include "net.h"
#include "peer.h"
#include "relay.h"
#include "standby.h"

/* Records of one message. */
#define HOF_CLAIM_BATCH	32

static void hof_claim_free(struct hof_claim *claim)
{
	if (!claim)
		return;
	if (claim->farewell)
		hof_adoption_put(claim->farewell);
	hof_peer_put(claim->origin);
	kfree(claim);
}

static void hof_claim_free_list(struct list_head *offers)
{
	struct hof_claim *claim, *next;

	list_for_each_entry_safe(claim, next, offers, offers) {
		list_del(&claim->offers);
		hof_claim_free(claim);
	}
}

/* Those that wait for an answer have a reference to it: there are none. */
void hof_claim_forget(struct hof_adoption *a)
{
	hof_claim_free(a->claim);
	hof_claim_free_list(&a->offers);
}

void hof_claim_never(struct hof_adoption *a)
{
	struct hof_claim *claim;

	spin_lock_bh(&a->hn->adopt_lock);
	claim = a->claim;
	a->claim = NULL;
	spin_unlock_bh(&a->hn->adopt_lock);
	hof_claim_free(claim);
}

/* NULL: it cannot be asked, or must not be. A counted reference. */
static struct flt_node *hof_claim_origin(struct hof_adoption *a, const struct hof_msg_origin *named)
{
	struct flt_node *node;

	/* Any node may say that it is that instance, and would get our proof. */
	node = flt_node_by_name(a->hn->net, named->name);
	if (!node)
		return NULL;
	if (node != a->node && READ_ONCE(node->features) & FLT_FEATURE_CLAIM &&
	    (flt_node_is_proven(node) || flt_service_insecure(a->hn->net)))
		return node;
	flt_node_put(node);
	return NULL;
}

/* What will be told to somebody once, and has no child. */
static struct hof_adoption *hof_claim_farewell(struct hof_adoption *a)
{
	struct hof_adoption *farewell = hof_adoption_alloc(a->hn, a->node, a->peer, a->id);

	if (farewell)
		farewell->farewell = true;
	return farewell;
}

void hof_claim_prepare(struct hof_adoption *a, const struct hof_msg_origin *named)
{
	u64 instance = be64_to_cpu(named->instance);
	struct hof_claim *claim;
	struct flt_node *node;

	a->voucher = be64_to_cpu(named->voucher);
	node = instance ? hof_claim_origin(a, named) : NULL;
	if (!node)
		return;
	claim = kzalloc(sizeof(*claim), GFP_KERNEL_ACCOUNT);
	if (!claim)
		goto put_node;
	claim->origin = hof_peer_expect(a->hn, node);
	if (IS_ERR(claim->origin)) {
		kfree(claim);
		goto put_node;
	}
	claim->farewell = hof_claim_farewell(a);
	if (!claim->farewell) {
		hof_claim_free(claim);
		goto put_node;
	}
	INIT_LIST_HEAD(&claim->claims);
	claim->a = a;
	claim->instance = instance;
	claim->from = be64_to_cpu(named->id);
	claim->to = hof_net_new_id(a->hn);
	claim->until = jiffies + msecs_to_jiffies(READ_ONCE(a->hn->tunables.timeout_ms));
	a->claim = claim;
put_node:
	flt_node_put(node);
}

bool hof_claim_awaited(const struct hof_adoption *a)
{
	bool awaited;

	if (!a)
		return false;
	spin_lock_bh(&a->hn->adopt_lock);
	awaited = a->claim && time_before(jiffies, a->claim->until);
	spin_unlock_bh(&a->hn->adopt_lock);
	return awaited;
}

static void hof_claim_record(const struct hof_claim *claim, struct hof_msg_claim *record)
{
	struct hof_adoption *a = claim->a;

	memset(record, 0, sizeof(*record));
	hof_life_record(a, 0, &record->conn);
	record->conn.id = cpu_to_be64(claim->from);
	record->to = cpu_to_be64(claim->to);
	record->proof = cpu_to_be64(claim->proof);
	record->epoch = cpu_to_be32(a->hn->epoch);
	record->acked = cpu_to_be32(claim->acked);
}

/* To be said, and found when it is answered. */
static void hof_claim_link(struct hof_claim *claim, struct hof_msg_claim *record)
{
	struct hof_adoption *a = claim->a;
	struct hof_net *hn = a->hn;

	lockdep_assert_held(&hn->adopt_lock);
	claim->farewell->tuple = a->tuple;
	refcount_inc(&a->ref);
	list_add_tail(&claim->claims, &claim->origin->claims);
	hash_add(hn->claims, &claim->by_id, lower_32_bits(claim->to));
	WRITE_ONCE(claim->origin->nr_claims, claim->origin->nr_claims + 1);
	WRITE_ONCE(hn->nr_claims, hn->nr_claims + 1);
	hof_claim_record(claim, record);
}

/* It is under way no more; the caller frees it and puts its adoption. */
static void hof_claim_unlink(struct hof_claim *claim)
{
	lockdep_assert_held(&claim->a->hn->adopt_lock);
	list_del_init(&claim->claims);
	hash_del(&claim->by_id);
	WRITE_ONCE(claim->origin->nr_claims, claim->origin->nr_claims - 1);
	WRITE_ONCE(claim->a->hn->nr_claims, claim->a->hn->nr_claims - 1);
	if (claim->takeover)
		list_del_init(&claim->offers);
	else
		claim->a->claim = NULL;
}

static void hof_claim_over(struct hof_claim *claim)
{
	hof_adoption_put(claim->a);
	hof_claim_free(claim);
}

void hof_claim_begin(struct hof_adoption *a, u64 proof)
{
	struct hof_net *hn = a->hn;
	struct hof_msg_claim record;
	struct kvec vec = { .iov_base = &record, .iov_len = sizeof(record) };
	struct hof_claim *claim;
	struct hof_peer *origin;
	bool begins;

	spin_lock_bh(&hn->adopt_lock);
	claim = a->claim;
	if (!claim) {
		spin_unlock_bh(&hn->adopt_lock);
		return;
	}
	origin = claim->origin;
	/*
	 * One that was restarted knows nothing of it; and what has come back from @node does not
	 * come in where that says.
	 */
	begins = proof && !a->returned && !origin->removed && origin->nr_claims < HOF_CLAIMS_MAX &&
		 READ_ONCE(origin->node->instance) == claim->instance;
	if (begins) {
		claim->proof = proof;
		refcount_inc(&origin->ref);
		hof_claim_link(claim, &record);
	} else {
		a->claim = NULL;
	}
	spin_unlock_bh(&hn->adopt_lock);
	if (!begins) {
		hof_claim_free(claim);
		return;
	}
	hof_count(hn, HOF_STAT_CLAIM_SENT);
	/* When this is lost it is sent again. */
	flt_link_send(origin->node, HOF_MSG_CLAIM, &vec, 1, GFP_KERNEL);
	queue_delayed_work(system_unbound_wq, &hn->claim,
			   msecs_to_jiffies(READ_ONCE(hn->tunables.query_ms)) + 1);
	hof_peer_put(origin);
}

/* It waits for an answer. */
static bool hof_claim_is_linked(const struct hof_claim *claim)
{
	return !list_empty(&claim->claims);
}

bool hof_claim_is_open(const struct hof_adoption *a)
{
	const struct hof_claim *claim;

	lockdep_assert_held(&a->hn->adopt_lock);
	if (a->claim)
		return true;
	list_for_each_entry(claim, &a->offers, offers)
		if (hof_claim_is_linked(claim))
			return true;
	return false;
}

/* @origin has answered the question that has @proof, or has any yet to answer. */
static bool hof_claim_is_known(const struct hof_adoption *a, const struct hof_peer *origin,
			       u64 proof)
{
	const struct hof_adoption *giver;
	const struct hof_claim *claim;

	for (giver = a; giver; giver = giver->behind)
		if (giver->peer == origin && giver->asked == proof)
			return true;
	list_for_each_entry(claim, &a->offers, offers)
		if (claim->origin == origin)
			return claim->proof == proof || hof_claim_is_linked(claim);
	return false;
}

bool hof_claim_may_offer(const struct hof_adoption *a, const struct hof_peer *origin, u64 proof)
{
	lockdep_assert_held(&a->hn->adopt_lock);
	/* What has come back comes in where @behind says, which is asked for by itself. */
	if (!a->committed || a->dead || a->returned || a->farewell)
		return false;
	/*
	 * A giver asks, too, when it was restarted. Who asked before keeps it from nobody else,
	 * answered or not.
	 */
	return !a->claim && !hof_claim_is_known(a, origin, proof);
}

/* What the client expects next: of a child that is there. */
static u32 hof_claim_acked(const struct hof_adoption *a)
{
	lockdep_assert_held(&a->hn->adopt_lock);
	return list_empty(&a->all) ? 0 : READ_ONCE(tcp_sk(a->sk)->snd_nxt);
}

static struct hof_claim *hof_claim_alloc(struct hof_adoption *a, struct hof_peer *origin, u64 proof)
{
	struct hof_claim *claim = kzalloc(sizeof(*claim), GFP_KERNEL_ACCOUNT);

	if (!claim)
		return NULL;
	refcount_inc(&origin->ref);
	claim->origin = origin;
	/* Of whom it is when it is granted: @a's giver may change until then. */
	claim->farewell = hof_adoption_alloc(a->hn, origin->node, origin, 0);
	if (!claim->farewell) {
		hof_claim_free(claim);
		return NULL;
	}
	claim->farewell->farewell = true;
	INIT_LIST_HEAD(&claim->claims);
	INIT_LIST_HEAD(&claim->offers);
	claim->a = a;
	claim->takeover = true;
	claim->proof = proof;
	claim->to = hof_net_new_id(a->hn);
	claim->until = jiffies;
	return claim;
}

/* What @origin has refused before is asked anew; who has left the node table asks no more. */
static void hof_claim_outdated(struct hof_adoption *a, const struct hof_peer *origin,
			       struct list_head *outdated)
{
	struct hof_claim *claim, *next;

	lockdep_assert_held(&a->hn->adopt_lock);
	list_for_each_entry_safe(claim, next, &a->offers, offers)
		if (claim->origin == origin || claim->origin->removed)
			list_move(&claim->offers, outdated);
}

bool hof_claim_offer(struct hof_adoption *a, struct hof_peer *origin, u64 proof,
		     struct hof_msg_claim *record)
{
	struct hof_claim *claim = hof_claim_alloc(a, origin, proof);
	struct hof_net *hn = a->hn;
	LIST_HEAD(outdated);
	bool begins;

	if (!claim)
		return false;
	spin_lock_bh(&hn->adopt_lock);
	begins = hof_claim_may_offer(a, origin, proof) && !origin->removed &&
		 origin->nr_claims < HOF_CLAIMS_MAX;
	if (begins) {
		hof_claim_outdated(a, origin, &outdated);
		list_add_tail(&claim->offers, &a->offers);
		claim->acked = hof_claim_acked(a);
		hof_claim_link(claim, record);
	}
	spin_unlock_bh(&hn->adopt_lock);
	hof_claim_free_list(&outdated);
	if (!begins)
		hof_claim_free(claim);
	return begins;
}

bool hof_claim_offering(struct hof_net *hn, struct hof_peer *origin,
			const struct hof_service *service)
{
	struct hof_claim *claim;
	bool offering = false;

	spin_lock_bh(&hn->adopt_lock);
	list_for_each_entry(claim, &origin->claims, claims)
		offering |= claim->takeover && hof_service_has(service, &claim->a->tuple);
	spin_unlock_bh(&hn->adopt_lock);
	return offering;
}

unsigned int hof_claim_collect(struct hof_net *hn, struct hof_peer *peer,
			       struct hof_msg_claim *record, unsigned int max,
			       unsigned int *left)
{
	struct hof_claim *claim;
	unsigned int nr = 0;

	lockdep_assert_held(&peer->claims_turn);
	spin_lock_bh(&hn->adopt_lock);
	for (; *left && nr < max; --*left) {
		claim = list_first_entry_or_null(&peer->claims, struct hof_claim, claims);
		if (!claim) {
			*left = 0;
			break;
		}
		list_move_tail(&claim->claims, &peer->claims);
		hof_claim_record(claim, &record[nr++]);
	}
	spin_unlock_bh(&hn->adopt_lock);
	return nr;
}

static void hof_claim_send(struct hof_net *hn, struct hof_peer *peer,
			   struct hof_msg_claim *record)
{
	unsigned int left = READ_ONCE(peer->nr_claims), nr;
	struct kvec vec = { .iov_base = record };

	while (left && flt_node_is_up(peer->node)) {
		nr = hof_claim_collect(hn, peer, record, HOF_CLAIM_BATCH, &left);
		vec.iov_len = nr * sizeof(*record);
		if (nr && flt_link_send(peer->node, HOF_MSG_CLAIM, &vec, 1, GFP_KERNEL))
			return;
	}
}

/* Those that were lost, or were not to be decided. */
static void hof_claim_again(struct work_struct *work)
{
	struct hof_net *hn = container_of(work, struct hof_net, claim.work);
	struct hof_msg_claim *record;
	struct hof_peer *peer;
	unsigned long id = 0;

	if (!READ_ONCE(hn->nr_claims))
		return;
	record = kcalloc(HOF_CLAIM_BATCH, sizeof(*record), GFP_KERNEL);
	while (record && (peer = hof_peer_next(hn, &id))) {
		/* Else all of them are being said just now, and a link may be slow. */
		if (mutex_trylock(&peer->claims_turn)) {
			hof_claim_send(hn, peer, record);
			mutex_unlock(&peer->claims_turn);
		}
		hof_peer_put(peer);
		cond_resched();
	}
	kfree(record);
	queue_delayed_work(system_unbound_wq, &hn->claim,
			   msecs_to_jiffies(READ_ONCE(hn->tunables.query_ms)) + 1);
}

/* @a is given by @node, which is @peer and calls it @id, and @of is by who gave @a. */
static void hof_claim_swap(struct hof_adoption *a, struct hof_adoption *of, struct hof_peer *peer,
			   u64 id)
{
	lockdep_assert_held(&a->hn->adopt_lock);
	if (!list_empty(&a->held)) {
		WRITE_ONCE(a->peer->nr_held, a->peer->nr_held - 1);
		WRITE_ONCE(peer->nr_held, peer->nr_held + 1);
		list_move_tail(&a->held, &peer->held);
	}
	flt_node_get(peer->node);
	refcount_inc(&peer->ref);
	/* What @of had is the same as what @a has: both references go on as they are. */
	flt_node_put(of->node);
	hof_peer_put(of->peer);
	of->node = a->node;
	of->peer = a->peer;
	of->id = a->id;
	of->asked = a->asked;
	a->node = peer->node;
	a->peer = peer;
	a->id = id;
	a->asked = 0;
}

/*
 * The origin forwards to us: it is the giver now. For who was, and has @farewell, it is over. If
 * all of that has ended meanwhile, and was told to that one, the origin has to hear it.
 */
static struct hof_adoption *hof_claim_granted(struct hof_claim *claim, u64 voucher, u32 flags)
{
	struct hof_adoption *a = claim->a, *farewell = claim->farewell, *pruned = NULL;
	struct hof_peer *origin = claim->origin;

	lockdep_assert_held(&a->hn->adopt_lock);
	if (!a->dead) {
		if (claim->takeover && a->peer == origin) {
			a->id = claim->to;
		} else {
			claim->farewell = NULL;
			hof_claim_swap(a, farewell, origin, claim->to);
		}
		a->voucher = voucher;
		if (claim->takeover)
			a->asked = claim->proof;
		pruned = hof_relay_prune(a);
		if (!(flags & HOF_ADOPT_WANT_IDLE)) {
			a->flags &= ~HOF_ADOPT_WANT_IDLE;
			/* Or each request would begin to watch it. */
			WRITE_ONCE(a->idle, false);
			list_del_init(&a->busy);
		} else if (a->flags & HOF_ADOPT_WANT_IDLE && !a->passed) {
			hof_life_again(a);
		}
		/* Who had it may live, and forward what comes there: it hears of the end only. */
		if (claim->takeover && !claim->farewell)
			hof_relay_keep(a, farewell);
		if (claim->takeover)
			return pruned;
	} else {
		claim->farewell = NULL;
		hof_claim_swap(farewell, farewell, origin, claim->to);
	}
	farewell->dead = true;
	hof_life_changed(farewell);
	return pruned;
}

static struct hof_claim *hof_claim_find(struct hof_net *hn, const struct flt_node *node, u64 to)
{
	struct hof_claim *claim;

	lockdep_assert_held(&hn->adopt_lock);
	hash_for_each_possible(hn->claims, claim, by_id, lower_32_bits(to))
		if (claim->to == to && claim->origin->node == node)
			return claim;
	return NULL;
}

/* So that the same question is not told of it again. Return: what is to be freed of it. */
static struct hof_claim *hof_claim_refused(struct hof_claim *claim, struct hof_adoption **farewell)
{
	lockdep_assert_held(&claim->a->hn->adopt_lock);
	if (!claim->takeover || claim->a->dead)
		return claim;
	swap(*farewell, claim->farewell);
	list_add_tail(&claim->offers, &claim->a->offers);
	return NULL;
}

int hof_claim_answer(struct hof_net *hn, struct flt_node *node, const struct flt_msg *msg)
{
	const struct hof_msg_grant *grant = msg->body;
	struct hof_adoption *a = NULL, *pruned = NULL, *farewell = NULL;
	bool takeover = false;
	struct hof_claim *claim;
	enum flt_refusal why;

	if (msg->len != sizeof(*grant))
		return -EBADMSG;
	why = be32_to_cpu(grant->refusal);
	if (why == FLT_REFUSE_BUSY)
		return 0;	/* not decided there: we ask again */
	spin_lock_bh(&hn->adopt_lock);
	claim = hof_claim_find(hn, node, be64_to_cpu(grant->to));
	if (claim) {
		hof_claim_unlink(claim);
		a = claim->a;
		takeover = claim->takeover;
		if (why == FLT_REFUSE_NONE)
			pruned = hof_claim_granted(claim, be64_to_cpu(grant->voucher),
						   be32_to_cpu(grant->flags));
		else
			claim = hof_claim_refused(claim, &farewell);
	}
	spin_unlock_bh(&hn->adopt_lock);
	if (!a)
		return 0;	/* answered before */
	if (takeover && why == FLT_REFUSE_NONE)
		hof_count(hn, HOF_STAT_SUCCESSOR_GIVEN);
	hof_count(hn, why == FLT_REFUSE_NONE ? HOF_STAT_CLAIM_GRANTED : HOF_STAT_CLAIM_REFUSED);
	hof_relay_put(pruned);
	hof_claim_free(claim);
	if (farewell)
		hof_adoption_put(farewell);
	hof_adoption_put(a);
	return 0;
}

void hof_claim_node_gone(struct hof_net *hn, struct hof_peer *peer, bool removed)
{
	struct hof_claim *claim, *next;
	LIST_HEAD(over);

	spin_lock_bh(&hn->adopt_lock);
	peer->removed |= removed;
	list_for_each_entry_safe(claim, next, &peer->claims, claims) {
		hof_claim_unlink(claim);
		list_add_tail(&claim->claims, &over);
	}
	spin_unlock_bh(&hn->adopt_lock);
	list_for_each_entry_safe(claim, next, &over, claims) {
		list_del(&claim->claims);
		hof_claim_over(claim);
	}
}

void hof_claim_net_init(struct hof_net *hn)
{
	hash_init(hn->claims);
	mutex_init(&hn->successor_turn);
	INIT_DELAYED_WORK(&hn->claim, hof_claim_again);
}

void hof_claim_net_exit(struct hof_net *hn)
{
	struct hof_peer *peer;
	unsigned long id = 0;

	cancel_delayed_work_sync(&hn->claim);
	while ((peer = hof_peer_next(hn, &id))) {
		hof_claim_node_gone(hn, peer, true);
		hof_peer_put(peer);
	}
}
