// SPDX-License-Identifier: GPL-2.0
/* Layers on a socket: taking them off, and the end of a stack. See doc/layers.md. */

#include <linux/slab.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include <net/tcp.h>
#include "counter.h"
#include "socklock.h"
#include "stack_trace.h"
#include "stack_priv.h"
#include "tasks.h"

/* How long a stack that flt_layer_detach() left empty may wait for the next layer. */
#define FLT_IDLE_DELAY	(HZ / 4)

static void flt_idle_work(struct work_struct *work);

/* @flt_remove_lock: the two lists; leaf, inside the stack's lock, bottom halves off. */
static DEFINE_SPINLOCK(flt_remove_lock);
static LIST_HEAD(flt_leaving);	/* layers that are unlinked and not yet freed */
static LIST_HEAD(flt_idle);	/* empty stacks, with a reference on stack and socket */
static DECLARE_WAIT_QUEUE_HEAD(flt_leaving_wait);
static DECLARE_DELAYED_WORK(flt_idle_dwork, flt_idle_work);

void flt_layer_free_done(struct flt_layer *layer)
{
	struct completion *done = layer->done;

	/* Never linked: it had none. Before the wake-up: who has waited may unload this module. */
	if (layer->stack)
		flt_stack_put(layer->stack);
	spin_lock_bh(&flt_remove_lock);
	list_del_init(&layer->leaving);
	spin_unlock_bh(&flt_remove_lock);
	kfree(layer);
	if (done)
		complete(done);
	wake_up_all(&flt_leaving_wait);
}

static void flt_layer_rcu_put(struct rcu_head *rcu)
{
	flt_layer_put(container_of(rcu, struct flt_layer, rcu));
}

static void flt_layer_unlink(struct flt_stack *st, struct flt_layer *layer,
			     struct completion *done)
{
	lockdep_assert_held(&st->lock);
	layer->linked = false;
	layer->done = done;
	list_del_rcu(&layer->list);
	spin_lock(&flt_remove_lock);
	list_add_tail(&layer->leaving, &flt_leaving);
	spin_unlock(&flt_remove_lock);
}

/* Under the stack's lock, not dead: the socket's memory is there, its destructor needs the lock. */
static void flt_stack_queue_idle(struct flt_stack *st)
{
	lockdep_assert_held(&st->lock);
	spin_lock(&flt_remove_lock);
	if (list_empty(&st->idle) && refcount_inc_not_zero(&st->sk->sk_refcnt)) {
		refcount_inc(&st->users);
		list_add_tail(&st->idle, &flt_idle);
	}
	spin_unlock(&flt_remove_lock);
}

/*
 * Who has read sock->ops before they were TCP's own again is about to call ours, and holds nothing
 * yet. So the stack holds this module until all those have come as far as flt_call_begin(), or to
 * their next sleep: then they hold it themselves (flt_call_astray()).
 */
static void flt_stack_tasks_put(struct rcu_head *rcu)
{
	flt_stack_put(container_of(rcu, struct flt_stack, tasks));
}

/* kTLS has put everything back at close and is left in name only; a closed socket may live long. */
static bool flt_sock_was_ktls(const struct sock *sk)
{
	return sock_flag(sk, SOCK_DEAD) && inet_csk_has_ulp(sk) &&
	       !rcu_access_pointer(inet_csk(sk)->icsk_ulp_data);
}

/*
 * TCP's own pointers return to a socket without layers, unless someone has saved ours. Who has its
 * lock may wait for a page of his own for as long as he likes, and is not waited for: false.
 */
static bool flt_stack_restore(struct sock *sk)
{
	struct flt_stack *st;
	bool empty = false;

	/* kTLS swaps pointers under the socket's lock, sockmap under sk_callback_lock. */
	if (!flt_sock_trylock(sk))
		return false;
	write_lock_bh(&sk->sk_callback_lock);
	rcu_read_lock();
	st = flt_stack_lookup(sk);
	if (st && ((flt_sock_has_others(sk) && !flt_sock_was_ktls(sk)) ||
		   !flt_base_fits(sk, st->base, FLT_NEED_CALLBACKS))) {
		flt_count(flt_net(sock_net(sk)), FLT_STACKS_KEPT);
	} else if (st) {
		spin_lock(&st->lock);
		empty = list_empty(&st->layers) && !st->dead;
		if (empty)
			WRITE_ONCE(st->dead, true);
		spin_unlock(&st->lock);
	}
	if (empty) {
		flt_base_restore(sk, st->base);
		flt_stack_hash_out(st);
		call_rcu_tasks(&st->tasks, flt_stack_tasks_put);
	}
	rcu_read_unlock();
	write_unlock_bh(&sk->sk_callback_lock);
	release_sock(sk);
	return true;
}

static void flt_idle_work(struct work_struct *work)
{
	struct flt_stack *st;
	struct sock *sk;
	LIST_HEAD(busy);

	spin_lock_bh(&flt_remove_lock);
	while (!list_empty(&flt_idle)) {
		st = list_first_entry(&flt_idle, struct flt_stack, idle);
		list_del_init(&st->idle);
		spin_unlock_bh(&flt_remove_lock);
		sk = st->sk;
		if (!flt_stack_restore(sk)) {
			spin_lock_bh(&flt_remove_lock);
			/* Else it is there again, with references of its own. */
			if (list_empty(&st->idle)) {
				list_add_tail(&st->idle, &busy);
				continue;
			}
			spin_unlock_bh(&flt_remove_lock);
		}
		flt_stack_put(st);
		sock_put(sk);
		cond_resched();
		spin_lock_bh(&flt_remove_lock);
	}
	if (!list_empty(&busy))
		queue_delayed_work(system_wq, &flt_idle_dwork, FLT_IDLE_DELAY);
	list_splice(&busy, &flt_idle);
	spin_unlock_bh(&flt_remove_lock);
}

/* The caller has a layer of it still, which holds the stack. */
static void flt_stack_idle_later(struct flt_stack *st)
{
	spin_lock_bh(&st->lock);
	if (list_empty(&st->layers) && !st->dead)
		flt_stack_queue_idle(st);
	spin_unlock_bh(&st->lock);
	queue_delayed_work(system_wq, &flt_idle_dwork, FLT_IDLE_DELAY);
}

void flt_layer_remove(struct flt_layer *layer)
{
	DECLARE_COMPLETION_ONSTACK(done);
	struct flt_stack *st = layer->stack;
	struct sock *sk = st->sk;
	bool linked, empty;

	might_sleep();
	spin_lock_bh(&st->lock);
	linked = layer->linked;
	if (linked)
		flt_layer_unlink(st, layer, &done);
	empty = list_empty(&st->layers);
	spin_unlock_bh(&st->lock);
	if (WARN_ON_ONCE(!linked))
		return;

	trace_flt_layer_remove(sk, layer->ops->name, 0);
	if (empty && !flt_stack_restore(sk))
		flt_stack_idle_later(st);
	synchronize_rcu();
	flt_layer_put(layer);
	wait_for_completion(&done);
}
EXPORT_SYMBOL_GPL(flt_layer_remove);

void flt_layer_detach(struct flt_layer *layer)
{
	struct flt_stack *st = layer->stack;
	bool linked;

	spin_lock_bh(&st->lock);
	linked = layer->linked;
	if (linked) {
		trace_flt_layer_remove(st->sk, layer->ops->name, 0);
		flt_layer_unlink(st, layer, NULL);
		if (list_empty(&st->layers))
			flt_stack_queue_idle(st);
	}
	spin_unlock_bh(&st->lock);
	if (WARN_ON_ONCE(!linked))
		return;
	queue_delayed_work(system_wq, &flt_idle_dwork, FLT_IDLE_DELAY);
	call_rcu(&layer->rcu, flt_layer_rcu_put);
}
EXPORT_SYMBOL_GPL(flt_layer_detach);

static bool flt_stack_drop(struct flt_stack *st, const struct flt_layer_ops *ops)
{
	struct flt_layer *layer, *found = NULL;

	spin_lock_bh(&st->lock);
	list_for_each_entry(layer, &st->layers, list) {
		if (layer->ops == ops) {
			found = layer;
			break;
		}
	}
	if (found) {
		flt_layer_unlink(st, found, NULL);
		if (list_empty(&st->layers))
			flt_stack_queue_idle(st);
	}
	spin_unlock_bh(&st->lock);
	if (found)
		call_rcu(&found->rcu, flt_layer_rcu_put);
	return found;
}

static unsigned long flt_stacks_drop(const struct flt_layer_ops *ops)
{
	unsigned long i, dropped = 0;
	struct flt_stack *st;

	for (i = 0; i < 1UL << (64 - flt_stacks.shift); i++) {
		rcu_read_lock();
		hlist_for_each_entry_rcu(st, &flt_stacks.heads[i], node)
			dropped += flt_stack_drop(st, ops);
		rcu_read_unlock();
		cond_resched();
	}
	return dropped;
}

static bool flt_layers_leaving(const struct flt_layer_ops *ops)
{
	struct flt_layer *layer;
	bool found = false;

	spin_lock_bh(&flt_remove_lock);
	list_for_each_entry(layer, &flt_leaving, leaving)
		found |= layer->ops == ops;
	spin_unlock_bh(&flt_remove_lock);
	return found;
}

void flt_layer_remove_all(const struct flt_layer_ops *ops)
{
	unsigned long dropped;

	might_sleep();
	/* A handshake that has seen a listener's layer ends within the grace period. */
	do {
		dropped = flt_stacks_drop(ops);
		synchronize_rcu();
	} while (dropped);
	mod_delayed_work(system_wq, &flt_idle_dwork, 0);
	flush_delayed_work(&flt_idle_dwork);
	rcu_barrier();
	flt_tasks_barrier();	/* so that flotilla.ko can go next */
	wait_event(flt_leaving_wait, !flt_layers_leaving(ops));
}
EXPORT_SYMBOL_GPL(flt_layer_remove_all);

/* From the destructor: nobody else knows the socket any more. */
void flt_stack_die(struct flt_stack *st)
{
	struct flt_layer *layer, *next;
	LIST_HEAD(layers);

	spin_lock_bh(&st->lock);
	WRITE_ONCE(st->dead, true);
	list_splice_init(&st->layers, &layers);
	list_for_each_entry(layer, &layers, list)
		layer->linked = false;
	spin_unlock_bh(&st->lock);
	flt_stack_hash_out(st);

	list_for_each_entry_safe(layer, next, &layers, list) {
		list_del(&layer->list);
		if (layer->ops->destruct)
			layer->ops->destruct(layer, st->sk);
		flt_layer_put(layer);
	}
	flt_stack_put(st);
}

void flt_remove_exit(void)
{
	flush_delayed_work(&flt_idle_dwork);
}
