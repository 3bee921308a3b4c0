// SPDX-License-Identifier: GPL-2.0
/* Life of a pair. */

#include <linux/module.h>
#include <linux/slab.h>

#include "kmod/compat/work.h"
#include "kmod/socklock.h"
#include "kmod/stack.h"

#include "copy.h"
#include "counter.h"
#include "forward.h"
#include "gather.h"
#include "judge.h"
#include "pair.h"
#include "trace.h"
#include "tunable.h"
#include "user.h"

#define SSP_PATIENCE	(HZ / 20)

static struct kmem_cache *ssp_pair_cache;
static struct workqueue_struct *ssp_wq;
static atomic_t ssp_pairs;

unsigned int ssp_pair_count(void)
{
	return atomic_read(&ssp_pairs);
}

static void ssp_pair_work(struct work_struct *work)
{
	struct ssp_pair *p = container_of(to_delayed_work(work), struct ssp_pair, work);

	bool free = ssp_run(p, SSP_WORKER);

	if (free && unlikely(ssp_pair_is_lost(p))) {
		free = ssp_trylock_socks(p->sk[0], p->sk[1]);
		if (free) {
			ssp_judge_lost(p);
			ssp_unlock_socks(p->sk[0], p->sk[1]);
		}
	}
	/* A program has one of them, for as long as it likes: other pairs' work is not to wait. */
	p->patience = free ? 0 : clamp(2 * p->patience, 1, SSP_PATIENCE);
	if (!free)
		ssp_pair_queue(p, p->patience);
	ssp_pair_put(p);
}

struct ssp_pair *ssp_pair_alloc(struct sock *sk0, struct sock *sk1, const struct ssp_splice *args)
{
	struct ssp_pair *p = kmem_cache_zalloc(ssp_pair_cache, GFP_KERNEL);

	if (!p)
		return ERR_PTR(-ENOMEM);
	p->user = ssp_user_get();
	if (!p->user) {
		kmem_cache_free(ssp_pair_cache, p);
		return ERR_PTR(-ENOMEM);
	}
	INIT_LIST_HEAD(&p->of_user);
	/* The caller has the device open, which holds the module. */
	__module_get(THIS_MODULE);
	sock_hold(sk0);
	sock_hold(sk1);
	p->sk[0] = sk0;
	p->sk[1] = sk1;
	p->net = ssp_net(sock_net(sk0));
	p->flags = args->flags;
	p->limit = args->flags & SSP_LIMIT ? args->limit : U64_MAX;
	p->min2read = max(args->min2read, 1U);
	p->max2cache = args->max2cache ?: max(READ_ONCE(ssp_max2cache), p->min2read);
	INIT_DELAYED_WORK(&p->work, ssp_pair_work);
	ssp_gather_init(p);
	refcount_set(&p->users, 1);
	return p;
}

/* The sockets wait for RCU too: a callback of one uses the other under RCU. */
static void ssp_pair_free(struct rcu_head *rcu)
{
	struct ssp_pair *p = container_of(rcu, struct ssp_pair, rcu);

	sock_put(p->sk[0]);
	sock_put(p->sk[1]);
	ssp_user_put(p->user);
	kmem_cache_free(ssp_pair_cache, p);
}

/*
 * The module is let go now and not a grace period later, or it could never be unloaded
 * under traffic. Its exit waits for everyone who calls this (layers, work items; a caller
 * of the device holds the module), and then for the grace period.
 */
void ssp_pair_put(struct ssp_pair *p)
{
	if (!refcount_dec_and_test(&p->users))
		return;
	call_rcu(&p->rcu, ssp_pair_free);
	module_put(THIS_MODULE);
}

struct ssp_pair *ssp_pair_get(struct ssp_end *end)
{
	struct ssp_pair *p;

	rcu_read_lock();
	p = rcu_dereference(end->pair);
	if (p && !refcount_inc_not_zero(&p->users))
		p = NULL;
	rcu_read_unlock();
	return p;
}

int ssp_pair_attach(struct ssp_pair *p)
{
	int i;

	ssp_assert_locked(p);
	if (ssp_user_add(p->user, p))
		return -EUSERS;
	refcount_inc(&p->users);
	atomic_inc(&ssp_pairs);
	atomic_inc(&p->net->active);
	for (i = 0; i < 2; i++) {
		p->lowat[i] = p->sk[i]->sk_rcvlowat;
		/* A tail shorter than the mark would never be announced. */
		WRITE_ONCE(p->sk[i]->sk_rcvlowat, 1);
		rcu_assign_pointer(p->end[i]->pair, p);
		flt_layer_want_poll(p->sk[i]);
	}
	return 0;
}

/* A destination that has left may be in another pair. */
static bool ssp_pair_has(const struct ssp_pair *p, int side)
{
	return rcu_access_pointer(p->end[side]->pair) == p;
}

void ssp_pair_lowat(struct ssp_pair *p, int side)
{
	if (ssp_pair_has(p, side) && p->sk[side]->sk_rcvlowat == 1)
		WRITE_ONCE(p->sk[side]->sk_rcvlowat, p->lowat[side]);
}

/* The counts and the sockets' marks go back. */
static void ssp_pair_stop(struct ssp_pair *p)
{
	int i;

	/* Pairs with ssp_is_over(). */
	smp_store_release(&p->state, SSP_ENDED);
	for (i = 0; i < 2; i++)
		ssp_pair_lowat(p, i);
	atomic_dec(&ssp_pairs);
	atomic_dec(&p->net->active);
}

void ssp_pair_abort(struct ssp_pair *p)
{
	ssp_assert_locked(p);
	ssp_pair_stop(p);
	ssp_pair_detach(p);
}

void ssp_pair_ended(struct ssp_pair *p)
{
	int i;

	ssp_assert_locked(p);
	ssp_pair_stop(p);
	for (i = 0; i < 2; i++)
		if (ssp_pair_has(p, i))
			ssp_pair_outcome(p, &p->end[i]->last);
	ssp_count(p->net, SSP_STAT_ENDED + p->cause - SSP_CAUSE_LIMIT);
	trace_ssp_end(p);
}

void ssp_pair_outcome(const struct ssp_pair *p, struct ssp_outcome *out)
{
	ssp_assert_locked(p);
	*out = (struct ssp_outcome) {
		.status = p->state == SSP_ENDED ? SSP_DONE : SSP_ACTIVE,
		.cause = p->state == SSP_RUNNING ? SSP_CAUSE_NONE : p->cause,
		.error = p->error,
		.moved = { p->moved[0], p->moved[1] },
		.copied = ssp_keeps_copy(p) ? p->taken : 0,
	};
}

void ssp_end_clear(struct ssp_end *end)
{
	/* Who sees no pair any more sees the copy that it has left: ssp_poll_is_plain(). */
	smp_wmb();
	RCU_INIT_POINTER(end->pair, NULL);
}

void ssp_pair_detach(struct ssp_pair *p)
{
	int i;

	ssp_assert_locked(p);
	for (i = 0; i < 2; i++)
		if (ssp_pair_has(p, i))
			ssp_end_clear(p->end[i]);
	ssp_copy_pin(p->end[0]);
	ssp_user_del(p->user, p);
	ssp_pair_put(p);
}

bool ssp_pair_is_lost(const struct ssp_pair *p)
{
	int i;

	for (i = 0; i < 2; i++)
		if (ssp_pair_has(p, i) && (ssp_is_taken(p->sk[i]) || READ_ONCE(p->left[i]) ||
					   sock_flag(p->sk[i], SOCK_DEAD)))
			return true;
	return false;
}

void ssp_lock_socks(struct sock *a, struct sock *b)
{
	for (lock_sock(a); !flt_sock_trylock(b); lock_sock(a)) {
		release_sock(a);
		swap(a, b);
	}
}

bool ssp_trylock_socks(struct sock *a, struct sock *b)
{
	if (!flt_sock_trylock(a))
		return false;
	if (flt_sock_trylock(b))
		return true;
	release_sock(a);
	return false;
}

void ssp_unlock_socks(struct sock *a, struct sock *b)
{
	release_sock(a);
	release_sock(b);
}

void ssp_pair_queue(struct ssp_pair *p, unsigned long delay)
{
	if (!refcount_inc_not_zero(&p->users))
		return;
	if (!queue_delayed_work(ssp_wq, &p->work, delay))
		ssp_pair_put(p);
}

int ssp_pair_init(void)
{
	ssp_pair_cache = KMEM_CACHE(ssp_pair, SLAB_ACCOUNT);
	if (!ssp_pair_cache)
		return -ENOMEM;
	ssp_wq = alloc_workqueue("sksplice", WQ_HIGHPRI | FLT_WQ_PERCPU, 0);
	if (!ssp_wq) {
		kmem_cache_destroy(ssp_pair_cache);
		return -ENOMEM;
	}
	return 0;
}

void ssp_pair_exit(void)
{
	destroy_workqueue(ssp_wq);
	rcu_barrier();
	kmem_cache_destroy(ssp_pair_cache);
}
