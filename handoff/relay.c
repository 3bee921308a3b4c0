// SPDX-License-Identifier: GPL-2.0
/*
 * Connections that were given to us and that we have handed on. As long as the origin forwards to
 * us we forward, and tell it of the end: of our entry's, not of our socket's. When the new owner
 * has claimed the connection from the origin, it tells us of an end, and what we then tell the
 * origin is of an id that it does not know any more.
 */

#include "adopt.h"
#include "claim.h"
#include "counter.h"
#include "life.h"
#include "net.h"
#include "peer.h"
#include "relay.h"

struct hof_adoption *hof_relay_up(struct hof_adoption *a)
{
	lockdep_assert_held(&a->hn->adopt_lock);
	return a->returned ? a->behind : a;
}

/* What is claimed may be forwarded to us before we know, and then is by who it is claimed from. */
bool hof_relay_is_back(struct hof_adoption *a, const struct flt_node *node)
{
	struct hof_adoption *up = hof_relay_up(a);

	return up && up->node == node && !hof_claim_is_open(up) && !up->behind;
}

bool hof_relay_is_direct(struct hof_adoption *a)
{
	bool direct;

	if (!a)
		return true;
	spin_lock_bh(&a->hn->adopt_lock);
	direct = !hof_relay_up(a);
	spin_unlock_bh(&a->hn->adopt_lock);
	return direct;
}

static struct hof_adoption *hof_relay_pass(struct hof_adoption *a)
{
	struct hof_net *hn = a->hn;

	a->passed = true;
	a->told = a->idle;
	list_del_init(&a->busy);
	WRITE_ONCE(hn->nr_relays, hn->nr_relays + 1);
	refcount_inc(&a->ref);
	return a;
}

struct hof_adoption *hof_relay_begin(struct hof_adoption *a, const struct flt_node *node)
{
	struct hof_net *hn = a->hn;
	struct hof_adoption *relay = NULL;

	spin_lock_bh(&hn->adopt_lock);
	if (hof_relay_is_back(a, node)) {
		/* It is over for us; what @a is itself is told when its socket ends. */
		if (a->returned)
			hof_relay_end_locked(a->behind, false);
		a->behind = NULL;
	} else if (a->returned) {
		swap(relay, a->behind);
	} else {
		relay = hof_relay_pass(a);
	}
	spin_unlock_bh(&hn->adopt_lock);
	return relay;
}

/* It is over, whoever is told; the caller has its reference. */
static void hof_relay_unlink(struct hof_adoption *a)
{
	struct hof_net *hn = a->hn;

	lockdep_assert_held(&hn->adopt_lock);
	WRITE_ONCE(hn->nr_relays, hn->nr_relays - 1);
	list_del_init(&a->held);
	WRITE_ONCE(a->peer->nr_held, a->peer->nr_held - 1);
	/* What of it is to be told is of before; who tells has no reference to what lives. */
	if (!list_empty(&a->telling)) {
		list_del_init(&a->telling);
		WRITE_ONCE(hn->nr_telling, hn->nr_telling - 1);
	}
	a->dead = true;
}

void hof_relay_end_locked(struct hof_adoption *a, bool lost)
{
	struct hof_adoption *before;

	for (; a; a = before) {
		before = a->behind;
		a->behind = NULL;
		hof_relay_unlink(a);
		a->lost = lost;
		hof_life_changed(a);
	}
}

void hof_relay_end(struct hof_adoption *a, bool lost)
{
	struct hof_net *hn = a->hn;

	spin_lock_bh(&hn->adopt_lock);
	if (!hn->untold) {
		hof_relay_end_locked(a, lost);
		a = NULL;
	}
	spin_unlock_bh(&hn->adopt_lock);
	if (a)
		hof_relay_drop(a);
}

void hof_relay_put(struct hof_adoption *a)
{
	struct hof_adoption *before;

	for (; a; a = before) {
		before = a->behind;
		a->behind = NULL;
		hof_adoption_put(a);
	}
}

void hof_relay_drop(struct hof_adoption *a)
{
	struct hof_net *hn = a->hn;
	struct hof_adoption *each;

	spin_lock_bh(&hn->adopt_lock);
	for (each = a; each; each = each->behind)
		hof_relay_unlink(each);
	spin_unlock_bh(&hn->adopt_lock);
	hof_relay_put(a);
}

struct hof_adoption *hof_relay_prune(struct hof_adoption *a)
{
	struct hof_adoption **at = &a->behind, *old, *pruned = NULL;

	lockdep_assert_held(&a->hn->adopt_lock);
	while ((old = *at)) {
		if (old->node != a->node) {
			at = &old->behind;
			continue;
		}
		*at = old->behind;
		hof_relay_unlink(old);
		old->behind = pruned;
		pruned = old;
	}
	return pruned;
}

void hof_relay_keep(struct hof_adoption *a, struct hof_adoption *old)
{
	struct hof_net *hn = a->hn;

	lockdep_assert_held(&hn->adopt_lock);
	old->passed = true;
	old->committed = true;
	WRITE_ONCE(hn->nr_relays, hn->nr_relays + 1);
	list_add_tail(&old->held, &old->peer->held);
	WRITE_ONCE(old->peer->nr_held, old->peer->nr_held + 1);
	old->behind = a->behind;
	a->behind = old;
}

void hof_relay_return(struct hof_adoption *a, struct hof_adoption *old)
{
	struct hof_net *hn = a->hn;
	struct hof_adoption *pruned = NULL;

	spin_lock_bh(&hn->adopt_lock);
	if (a->dead) {
		/* Somebody has killed it already. */
		hof_relay_end_locked(old, false);
	} else {
		a->behind = old;
		if (!a->returned)
			pruned = hof_relay_prune(a);
	}
	spin_unlock_bh(&hn->adopt_lock);
	hof_relay_put(pruned);
}
