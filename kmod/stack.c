// SPDX-License-Identifier: GPL-2.0
/* Layers on a socket: the table of stacks, adding and finding. See doc/layers.md. */

#include <linux/log2.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <net/tcp.h>
#include "counter.h"
#include "socklock.h"
#define CREATE_TRACE_POINTS
#include "stack_trace.h"
#include "stack_priv.h"

/* Heads of the table: at least this many, at most these, which are 2 MB. */
#define FLT_HEADS_MIN	1024UL
#define FLT_HEADS_MAX	262144UL

struct flt_stack_table flt_stacks __read_mostly;

unsigned int flt_layer_needs(const struct flt_layer_ops *ops)
{
	unsigned int needs = 0;

	if (ops->data_ready)
		needs |= FLT_NEED_DATA_READY;
	if (ops->write_space)
		needs |= FLT_NEED_WRITE_SPACE;
	if (ops->state_change)
		needs |= FLT_NEED_STATE_CHANGE;
	if (ops->error_report)
		needs |= FLT_NEED_ERROR_REPORT;
	if (ops->may_recv || ops->may_send || ops->may_splice_read || ops->may_shutdown ||
	    ops->received || ops->sent || ops->poll || ops->release || ops->returned ||
	    ops->accepted)
		needs |= FLT_NEED_OPS;
	return needs;
}

unsigned int flt_stack_needs(struct flt_stack *st)
{
	struct flt_layer *layer;
	unsigned int needs = 0;

	rcu_read_lock();
	list_for_each_entry_rcu(layer, &st->layers, list)
		needs |= flt_layer_needs(layer->ops);
	rcu_read_unlock();
	return needs;
}

struct flt_layer *flt_layer_alloc(const struct flt_layer_ops *ops, gfp_t gfp)
{
	struct flt_layer *layer = kzalloc(sizeof(*layer) + ops->priv_size, gfp | __GFP_ACCOUNT);

	if (layer) {
		layer->ops = ops;
		refcount_set(&layer->users, 1);
		INIT_LIST_HEAD(&layer->list);
		INIT_LIST_HEAD(&layer->leaving);
	}
	return layer;
}

/* The last user of an unlinked layer frees it, be it the remover or an operation. */
void flt_layer_put(struct flt_layer *layer)
{
	if (!refcount_dec_and_test(&layer->users))
		return;
	if (layer->ops->free)
		layer->ops->free(layer);
	flt_layer_free_done(layer);
}

struct flt_stack *flt_stack_alloc(struct sock *sk, gfp_t gfp)
{
	struct flt_stack *st;

	if (!try_module_get(THIS_MODULE))
		return ERR_PTR(-ESHUTDOWN);
	st = kzalloc(sizeof(*st), gfp | __GFP_ACCOUNT);
	if (!st) {
		module_put(THIS_MODULE);
		return ERR_PTR(-ENOMEM);
	}
	st->sk = sk;
	st->base = flt_base(sk);
	INIT_LIST_HEAD(&st->layers);
	INIT_LIST_HEAD(&st->idle);
	spin_lock_init(&st->lock);
	refcount_set(&st->users, 1);
	return st;
}

/* For operations: they sleep, so RCU does not hold the stack for them. */
struct flt_stack *flt_stack_get(const struct sock *sk)
{
	struct flt_stack *st;

	rcu_read_lock();
	st = flt_stack_lookup(sk);
	if (st && !refcount_inc_not_zero(&st->users))
		st = NULL;
	rcu_read_unlock();
	return st;
}

void flt_stack_put(struct flt_stack *st)
{
	if (!refcount_dec_and_test(&st->users))
		return;
	kfree_rcu(st, rcu);
	/* The instructions from here to the caller's end: see flt_stack_exit(). */
	module_put(THIS_MODULE);
}

void flt_stack_link(struct flt_stack *st, struct flt_layer *layer)
{
	lockdep_assert_held(&st->lock);
	refcount_inc(&st->users);
	layer->stack = st;
	layer->seq = ++st->seq;
	layer->linked = true;
	list_add_rcu(&layer->list, &st->layers);
}

static spinlock_t *flt_stack_table_lock(const struct flt_stack *st)
{
	return &flt_stacks.locks[flt_stack_hash(st->sk) % ARRAY_SIZE(flt_stacks.locks)];
}

void flt_stack_hash_in(struct flt_stack *st)
{
	spinlock_t *lock = flt_stack_table_lock(st);

	spin_lock_bh(lock);
	hlist_add_head_rcu(&st->node, &flt_stacks.heads[flt_stack_hash(st->sk)]);
	spin_unlock_bh(lock);
}

void flt_stack_hash_out(struct flt_stack *st)
{
	spinlock_t *lock = flt_stack_table_lock(st);

	spin_lock_bh(lock);
	hlist_del_rcu(&st->node);
	spin_unlock_bh(lock);
}

static struct flt_layer *flt_stack_find(const struct flt_stack *st, const struct flt_layer_ops *ops)
{
	struct flt_layer *layer;

	list_for_each_entry_rcu(layer, &st->layers, list)
		if (layer->ops == ops)
			return layer;
	return NULL;
}

/* Linked first, then the pointers: no event comes to a trampoline that knows no stack. */
static int flt_stack_push(struct sock *sk, struct flt_stack **fresh, struct flt_layer *layer)
{
	unsigned int needs = flt_layer_needs(layer->ops);
	bool below = flt_sock_has_others(sk);
	struct flt_stack *st;
	int err = 0;

	lockdep_assert_held_write(&sk->sk_callback_lock);
	if (below && !flt_base_hears(sk, needs))
		return -EOPNOTSUPP;
	if (below)
		needs = 0;	/* it has what it needs */
	if ((needs & FLT_NEED_OPS) && !sk->sk_socket)
		return -EINVAL;

	rcu_read_lock();
	st = flt_stack_lookup(sk);
	if (!flt_base_fits(sk, st ? st->base : (*fresh)->base, needs)) {
		err = -EOPNOTSUPP;
	} else if (!st) {
		st = *fresh;
		spin_lock(&st->lock);
		flt_stack_link(st, layer);
		spin_unlock(&st->lock);
		flt_stack_hash_in(st);
		*fresh = NULL;
	} else {
		spin_lock(&st->lock);
		if (st->dead || (st->no_ops && !below))
			err = -EOPNOTSUPP;
		else if (flt_stack_find(st, layer->ops))
			err = -EEXIST;
		else
			flt_stack_link(st, layer);
		spin_unlock(&st->lock);
	}
	if (!err)
		flt_base_install(sk, st->base, needs);
	rcu_read_unlock();
	return err;
}

bool flt_stack_is_on(const struct sock *sk)
{
	bool on;

	rcu_read_lock();
	on = flt_stack_lookup(sk);
	rcu_read_unlock();
	return on;
}

/* @soon: the lock is not waited for. */
static struct flt_layer *flt_layer_add_to(struct sock *sk, const struct flt_layer_ops *ops,
					  gfp_t gfp, bool soon)
{
	bool block = gfpflags_allow_blocking(gfp);
	struct flt_stack *fresh;
	struct flt_layer *layer;
	int err;

	if (!sk_is_tcp(sk) || !sk_fullsock(sk) || !flt_base(sk))
		return ERR_PTR(-EOPNOTSUPP);
	if (!block && (sk->sk_state == TCP_LISTEN || (flt_layer_needs(ops) & FLT_NEED_OPS)))
		return ERR_PTR(-EINVAL);

	/* In softirq there is nobody to charge. */
	if (block)
		gfp |= __GFP_ACCOUNT;
	layer = flt_layer_alloc(ops, gfp);
	if (!layer)
		return ERR_PTR(-ENOMEM);
	fresh = flt_stack_alloc(sk, gfp);
	if (IS_ERR(fresh)) {
		kfree(layer);
		return ERR_CAST(fresh);
	}

	if (soon && !flt_sock_lock_soon(sk)) {
		err = -EBUSY;
		goto out;
	}
	if (block && !soon)
		lock_sock(sk);
	/* Others' are refused below, each second if somebody looks for listeners. */
	if (block && sk->sk_state == TCP_LISTEN && !flt_sock_has_others(sk)) {
		/*
		 * A handshake that ends now may be past the hook, and its child
		 * would take our callbacks with it unseen: wait for these.
		 */
		write_lock_bh(&sk->sk_callback_lock);
		flt_base_hook(sk, fresh->base);
		write_unlock_bh(&sk->sk_callback_lock);
		synchronize_rcu();
	}
	write_lock_bh(&sk->sk_callback_lock);
	err = flt_stack_push(sk, &fresh, layer);
	/* Only a stack holds this module for what of it is on the socket. */
	if (err && !flt_stack_is_on(sk))
		flt_base_unhook(sk, fresh->base);
	write_unlock_bh(&sk->sk_callback_lock);
	if (block)
		release_sock(sk);
out:
	trace_flt_layer_add(sk, ops->name, err);
	flt_count(flt_net(sock_net(sk)), err ? FLT_LAYERS_REFUSED : FLT_LAYERS_ADDED);
	if (fresh)
		flt_stack_put(fresh);
	if (err) {
		kfree(layer);
		return ERR_PTR(err);
	}
	return layer;
}

struct flt_layer *flt_layer_add(struct sock *sk, const struct flt_layer_ops *ops, gfp_t gfp)
{
	return flt_layer_add_to(sk, ops, gfp, false);
}
EXPORT_SYMBOL_GPL(flt_layer_add);

struct flt_layer *flt_layer_add_soon(struct sock *sk, const struct flt_layer_ops *ops)
{
	return flt_layer_add_to(sk, ops, GFP_KERNEL, true);
}
EXPORT_SYMBOL_GPL(flt_layer_add_soon);

struct flt_layer *flt_layer_find(const struct sock *sk, const struct flt_layer_ops *ops)
{
	struct flt_layer *layer = NULL;
	struct flt_stack *st;

	rcu_read_lock();
	st = flt_stack_lookup(sk);
	if (st)
		layer = flt_stack_find(st, ops);
	rcu_read_unlock();
	return layer;
}
EXPORT_SYMBOL_GPL(flt_layer_find);

bool flt_layer_is_alone(const struct flt_layer *layer)
{
	const struct flt_stack *st = layer->stack;

	return READ_ONCE(layer->list.next) == &st->layers &&
	       READ_ONCE(st->layers.next) == &layer->list;
}
EXPORT_SYMBOL_GPL(flt_layer_is_alone);

bool flt_layer_is_among_own(const struct flt_layer *layer)
{
	const struct flt_layer *each;
	bool own = true;

	rcu_read_lock();
	list_for_each_entry_rcu(each, &layer->stack->layers, list)
		own &= each->ops->owner == layer->ops->owner;
	rcu_read_unlock();
	return own;
}
EXPORT_SYMBOL_GPL(flt_layer_is_among_own);

void *flt_layer_priv(struct flt_layer *layer)
{
	return layer->priv;
}
EXPORT_SYMBOL_GPL(flt_layer_priv);

struct sock *flt_layer_sock(const struct flt_layer *layer)
{
	return layer->stack->sk;
}
EXPORT_SYMBOL_GPL(flt_layer_sock);

static int flt_stack_table_init(void)
{
	unsigned long tcp = init_net.ipv4.tcp_death_row.hashinfo->ehash_mask + 1UL;
	unsigned long heads = clamp(tcp, FLT_HEADS_MIN, FLT_HEADS_MAX);
	unsigned int i;

	flt_stacks.heads = kvcalloc(heads, sizeof(*flt_stacks.heads), GFP_KERNEL);
	if (!flt_stacks.heads)
		return -ENOMEM;
	flt_stacks.shift = 64 - ilog2(heads);
	for (i = 0; i < ARRAY_SIZE(flt_stacks.locks); i++)
		spin_lock_init(&flt_stacks.locks[i]);
	return 0;
}

int flt_stack_init(void)
{
	int err;

	err = flt_base_init();
	if (err)
		return err;
	err = flt_stack_table_init();
	if (err)
		flt_base_exit();
	return err;
}

/*
 * No stack is left, each held a reference on this module. What may still run is the
 * end of one of our functions: in softirq or under RCU, or in a task that was preempted
 * after it had dropped that reference.
 */
void flt_stack_exit(void)
{
	flt_remove_exit();
	synchronize_rcu();
	synchronize_rcu_tasks();
	rcu_barrier();
	kvfree(flt_stacks.heads);
	flt_base_exit();
}
