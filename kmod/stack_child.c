// SPDX-License-Identifier: GPL-2.0
/* Layers on a socket: the children that a listener's handshakes make. See doc/layers.md. */

#include <net/tcp.h>
#include "counter.h"
#include "memcg.h"
#include "stack_trace.h"
#include "stack_priv.h"

/*
 * The listener's layers that want to be on this child, in the listener's order. What a child
 * costs is charged to who listens, but not refused: no more is TCP's part of it.
 */
static void flt_child_inherit(struct flt_stack *from, struct sock *child, struct list_head *layers)
{
	struct flt_layer *parent, *layer;

	list_for_each_entry_rcu(parent, &from->layers, list) {
		if (!parent->ops->inherit || !parent->ops->inherit(parent, child))
			continue;
		layer = flt_layer_alloc(parent->ops, GFP_ATOMIC);
		trace_flt_layer_inherit(child, parent->ops->name, layer ? 0 : -ENOMEM);
		flt_count(flt_net(sock_net(child)),
			  layer ? FLT_LAYERS_INHERITED : FLT_LAYERS_LOST);
		if (!layer)
			continue;
		list_add(&layer->list, layers);		/* oldest first */
		if (parent->ops->init_child)
			parent->ops->init_child(parent, layer, child);
	}
}

static void flt_child_drop(struct sock *child, struct list_head *layers)
{
	struct flt_layer *layer, *next;

	list_for_each_entry_safe(layer, next, layers, list) {
		list_del(&layer->list);
		flt_count(flt_net(sock_net(child)), FLT_LAYERS_LOST);
		flt_layer_put(layer);
	}
}

/*
 * The child is a copy of the listener, our pointers included. It is in the hash
 * already, but its lock is ours until its first packet has been taken: no callback
 * has run and none runs now. Here it becomes either a socket with a stack of its
 * own or one without a trace of us.
 *
 * Softirq, or process context with bottom halves off.
 */
void flt_child_cloned(const struct sock *listener, struct sock *child, bool own)
{
	const struct flt_base *base = flt_base(child);
	struct flt_layer *layer, *next;
	struct flt_stack *from, *st;
	struct mem_cgroup *old;
	LIST_HEAD(layers);
	bool fits;

	/* Lost the race for the request: it is destroyed at once. */
	fits = flt_base_fits(child, base, FLT_NEED_CALLBACKS);
	if (fits)
		flt_base_restore(child, base);
	if (!own)
		return;

	old = flt_sock_pays(listener);
	rcu_read_lock();
	from = flt_stack_lookup(listener);
	if (from)
		flt_child_inherit(from, child, &layers);
	rcu_read_unlock();
	/* Without layers, but under someone's callbacks that may call ours: passed through. */
	st = !list_empty(&layers) || !fits ? flt_stack_alloc(child, GFP_ATOMIC) : NULL;
	set_active_memcg(old);
	if (!st)
		return;
	if (IS_ERR(st)) {
		flt_child_drop(child, &layers);
		return;
	}
	flt_stack_hash_in(st);
	spin_lock_bh(&st->lock);
	list_for_each_entry_safe(layer, next, &layers, list) {
		list_del(&layer->list);
		flt_stack_link(st, layer);
	}
	spin_unlock_bh(&st->lock);
	flt_base_install(child, base, flt_stack_needs(st));
}
