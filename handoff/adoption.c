// SPDX-License-Identifier: GPL-2.0
/* A connection that is being taken: what it consists of, and how it is undone. */

#include <linux/slab.h>

#include "kmod/endpoint.h"
#include "kmod/ktls_face.h"
#include "kmod/stack.h"

#include "admit.h"
#include "adopt.h"
#include "adoption.h"
#include "claim.h"
#include "counter.h"
#include "entry.h"
#include "idle.h"
#include "life.h"
#include "net.h"
#include "peer.h"
#include "relay.h"
#include "ticket.h"
#include "trace.h"

static void hof_adoption_destruct(struct flt_layer *layer, struct sock *sk)
{
	struct hof_adoption **priv = flt_layer_priv(layer);
	struct hof_adoption *a = READ_ONCE(*priv);

	if (a)		/* another socket has it */
		hof_life_end(a);
}

static bool hof_adoption_data_ready(struct flt_layer *layer, struct sock *sk)
{
	struct hof_adoption **priv = flt_layer_priv(layer);
	struct hof_adoption *a = READ_ONCE(*priv);

	if (a)
		hof_idle_data(a);
	return true;
}

static const struct flt_layer_ops hof_adoption_layer = {
	.owner = THIS_MODULE,
	.name = "handoff",
	.destruct = hof_adoption_destruct,
	.priv_size = sizeof(struct hof_adoption *),
};

/* For a giver that wants to know of idle connections. */
static const struct flt_layer_ops hof_adoption_idle_layer = {
	.owner = THIS_MODULE,
	.name = "handoff-idle",
	.data_ready = hof_adoption_data_ready,
	.destruct = hof_adoption_destruct,
	.priv_size = sizeof(struct hof_adoption *),
};

void hof_adopt_detach(void)
{
	flt_layer_remove_all(&hof_adoption_layer);
	flt_layer_remove_all(&hof_adoption_idle_layer);
}

void hof_adoption_put(struct hof_adoption *a)
{
	if (!refcount_dec_and_test(&a->ref))
		return;
	hof_claim_forget(a);
	if (a->behind)
		hof_relay_drop(a->behind);	/* nobody heard of its end */
	flt_node_put(a->node);
	hof_peer_put(a->peer);
	kfree_rcu(a, rcu);
}

/* Under RCU, or with the socket's lock as long as nobody takes our layers off. */
static struct flt_layer *hof_adoption_layer_of(const struct sock *sk)
{
	return flt_layer_find(sk, &hof_adoption_layer) ?:
	       flt_layer_find(sk, &hof_adoption_idle_layer);
}

struct hof_adoption *hof_adoption_of(const struct sock *sk)
{
	struct hof_adoption *a = NULL, **priv;
	struct flt_layer *layer;

	rcu_read_lock();
	layer = hof_adoption_layer_of(sk);
	if (layer) {
		priv = flt_layer_priv(layer);
		a = smp_load_acquire(priv);	/* see hof_adoption_observe() */
		/* It may be another socket's by now, and that over. */
		if (a && !refcount_inc_not_zero(&a->ref))
			a = NULL;
	}
	rcu_read_unlock();
	return a;
}

__be16 hof_sock_door(const struct sock *sk)
{
	struct hof_adoption *a = hof_adoption_of(sk);
	__be16 port;

	if (!a)
		return flt_ktls_is_ours(sk) ? 0 : inet_sk(sk)->inet_sport;
	port = a->port;
	hof_adoption_put(a);
	return port;
}

static void hof_adoption_swap(struct flt_layer *from, struct flt_layer *to, struct sock *sk)
{
	struct hof_adoption **out = flt_layer_priv(from), **in = flt_layer_priv(to), *a = *out;

	if (!a)
		return;
	spin_lock_bh(&a->hn->adopt_lock);
	a->sk = sk;
	WRITE_ONCE(*out, NULL);
	smp_store_release(in, a);	/* pairs with hof_adoption_of() */
	spin_unlock_bh(&a->hn->adopt_lock);
}

enum flt_refusal hof_adoption_move(struct sock *sk, struct sock *child)
{
	const struct flt_layer_ops *ops = &hof_adoption_layer;
	struct flt_layer *from = flt_layer_find(sk, ops), *to;

	if (!from) {
		ops = &hof_adoption_idle_layer;
		from = flt_layer_find(sk, ops);
	}
	if (!from)
		return FLT_REFUSE_NONE;
	to = flt_layer_add(child, ops, GFP_ATOMIC | __GFP_ACCOUNT);
	if (IS_ERR(to))
		return FLT_REFUSE_NOMEM;
	hof_adoption_swap(from, to, child);
	return FLT_REFUSE_NONE;
}

void hof_adoption_move_back(struct sock *sk, struct sock *child)
{
	struct flt_layer *from = hof_adoption_layer_of(child);

	if (from)
		hof_adoption_swap(from, hof_adoption_layer_of(sk), sk);
}

struct hof_adoption *hof_adoption_alloc(struct hof_net *hn, struct flt_node *node,
					struct hof_peer *peer, u64 id)
{
	struct hof_adoption *a = kzalloc(sizeof(*a), GFP_KERNEL_ACCOUNT);

	if (!a)
		return NULL;
	refcount_set(&a->ref, 1);
	a->hn = hn;
	a->node = flt_node_get(node);
	refcount_inc(&peer->ref);
	a->peer = peer;
	a->id = id;
	INIT_LIST_HEAD(&a->all);
	INIT_LIST_HEAD(&a->held);
	INIT_LIST_HEAD(&a->waiting);
	INIT_LIST_HEAD(&a->asking);
	INIT_LIST_HEAD(&a->busy);
	INIT_LIST_HEAD(&a->telling);
	INIT_LIST_HEAD(&a->offers);
	hof_hold_init(&a->hold);
	return a;
}

struct hof_adoption *hof_adoption_create(struct hof_net *hn, struct flt_node *node, u64 id,
					 u32 flags)
{
	struct hof_peer *peer = hof_peer_expect(hn, node);
	struct hof_adoption *a = NULL;

	if (IS_ERR(peer))
		return NULL;
	/* One that never commits must not keep the others out, either. */
	if (READ_ONCE(hn->nr_pending) >= HOF_PENDING_MAX ||
	    READ_ONCE(peer->nr_pending) >= READ_ONCE(hn->tunables.pending_max))
		goto put;
	a = hof_adoption_alloc(hn, node, peer, id);
	if (!a)
		goto put;
	a->flags = flags;
	a->returned = flags & HOF_ADOPT_BACK;
put:
	hof_peer_put(peer);
	return a;
}

/* From here on the child's death is heard of, and drops the reference of the layer. */
static int hof_adoption_observe(struct hof_adoption *a)
{
	const struct flt_layer_ops *ops = a->flags & HOF_ADOPT_WANT_IDLE ?
					  &hof_adoption_idle_layer : &hof_adoption_layer;
	struct hof_net *hn = a->hn;
	struct hof_adoption **priv;
	struct flt_layer *layer;

	/*
	 * Nothing reaches the child yet, so no callback comes before @priv is set. Who looks the
	 * child up by its addresses may: it finds none then.
	 */
	layer = flt_layer_add(a->sk, ops, GFP_KERNEL);
	if (IS_ERR(layer))
		return PTR_ERR(layer);
	priv = flt_layer_priv(layer);
	smp_store_release(priv, a);	/* pairs with hof_adoption_of() */
	spin_lock_bh(&hn->adopt_lock);
	list_add_tail(&a->all, &hn->adopted);
	list_add_tail(&a->held, &a->peer->held);
	WRITE_ONCE(hn->nr_adopted, hn->nr_adopted + 1);
	WRITE_ONCE(a->peer->nr_held, a->peer->nr_held + 1);
	spin_unlock_bh(&hn->adopt_lock);
	return 0;
}

/* It stays where it was, unless that has been given up meanwhile. */
static void hof_adoption_resume(struct hof_net *hn, struct hof_entry *e)
{
	rcu_read_lock();	/* once it forwards, it may go at any time */
	hof_hold_forward(hn, e);
	hof_entry_resume(hn, e);
	rcu_read_unlock();
}

/*
 * A connection that we once gave away comes back: our own entry would send its
 * packets away from the child. Until it is decided they wait, so that they do
 * not go round between us and the giver either.
 */
static enum flt_refusal hof_adoption_hold(struct hof_adoption *a)
{
	enum flt_refusal why = FLT_REFUSE_NONE;
	struct hof_entry *e;

	rcu_read_lock();
	e = hof_entry_find_tuple(a->hn, &a->tuple);
	if (!e)
		goto out;
	/* Not what it is a moment later: HOLD may have become FORWARD, and that is in use. */
	switch (hof_hold_begin(e, &a->hold)) {
	case HOF_FORWARD:
		/* Since hof_permit() looked somebody may have claimed it (origin.c). */
		if (READ_ONCE(e->peer)->node != a->node) {
			hof_adoption_resume(a->hn, e);
			why = FLT_REFUSE_ROLE;
			break;
		}
		a->back = e;
		hof_count(a->hn, HOF_STAT_ADOPT_RETURNED);
		break;
	case HOF_HOLD:
		why = FLT_REFUSE_DUPLICATE;
		break;
	default:
		hof_entry_remove(a->hn, e);
	}
out:
	rcu_read_unlock();
	return why;
}

enum flt_refusal hof_adoption_build(struct hof_adoption *a, const void *wire, u32 len)
{
	struct hof_admit_taking taking;
	enum flt_refusal why;

	if (a->flags & HOF_ADOPT_MOVED)
		hof_admit_taking_begin(&taking);
	why = flt_endpoint_adopt(a->hn->net, a->node->id,
				 READ_ONCE(a->hn->tunables.adopt_cwnd) ? FLT_ADOPT_CWND : 0, wire,
				 len, &a->child);
	if (a->flags & HOF_ADOPT_MOVED)
		hof_admit_taking_end(&taking);
	if (why != FLT_REFUSE_NONE) {
		hof_adoption_put(a);
		return why;
	}
	a->tuple = *flt_adoption_tuple(a->child);
	a->port = flt_adoption_port(a->child);
	a->keys = flt_adoption_has_keys(a->child);
	a->sk = flt_adoption_sock(a->child);
	if (hof_adoption_observe(a)) {
		flt_adoption_abort(a->child);
		hof_adoption_put(a);
		return FLT_REFUSE_NOMEM;
	}
	why = hof_adoption_hold(a);
	if (why != FLT_REFUSE_NONE)
		flt_adoption_abort(a->child);	/* its end drops the last reference */
	return why;
}

void hof_adoption_return(struct hof_adoption *a, struct hof_entry *e)
{
	struct hof_adoption *old = NULL;
	struct hof_net *hn = a->hn;
	/* Redirected: the client's packets come to us, and nobody else forwards them. */
	bool direct = READ_ONCE(e->redirect);

	spin_lock_bh(&e->lock);
	if (e->ticket) {
		direct = e->ticket->direct;
		swap(old, e->ticket->relay);
	}
	hof_entry_settle(hn, e, FLT_REFUSE_NONE);
	spin_unlock_bh(&e->lock);
	/* Whoever gives it back; or an older node does, who claims nothing and gives no voucher. */
	if (direct || (old && !a->voucher && !(READ_ONCE(a->node->features) & FLT_FEATURE_CLAIM)))
		a->returned = true;
	if (old)
		hof_relay_return(a, old);
	hof_hold_reinject(hn, e);
}

void hof_adoption_undo(struct hof_adoption *a, enum flt_refusal why)
{
	struct hof_net *hn = a->hn;

	hof_count(hn, HOF_STAT_ADOPT_ABORTED);
	trace_hof_abort(&a->tuple, a->id, a->node->id, why);
	flt_adoption_abort(a->child);
	hof_claim_never(a);
	if (a->back)
		hof_adoption_resume(hn, a->back);
	hof_adoption_put(a);
}
