// SPDX-License-Identifier: GPL-2.0
/* What flotilla keeps for each network namespace: made with it, gone with it. */

#include <linux/random.h>
#include <net/netns/generic.h>
#include "counter.h"
#include "dispatch.h"
#include "listen.h"
#include "netns.h"
#include "table.h"
#include "tunable.h"

static unsigned int flt_net_id __read_mostly;

struct flt_net *flt_net(const struct net *net)
{
	return net_generic(net, flt_net_id);
}

bool flt_local_copy(struct flt_net *fn, struct flt_local *copy)
{
	const struct flt_local *local;

	rcu_read_lock();
	local = rcu_dereference(fn->local);
	if (local)
		*copy = *local;
	rcu_read_unlock();
	return local;
}

static int __net_init flt_netns_enter(struct net *net)
{
	struct flt_net *fn = flt_net(net);
	int err;

	fn->net = net;
	fn->instance = get_random_u64();
	spin_lock_init(&fn->turn_lock);
	fn->turn = jiffies;
	spin_lock_init(&fn->verdict_lock);
	flt_tunable_reset(fn);
	fn->stats = __alloc_percpu_gfp(FLT_NR_COUNTERS * sizeof(u64), sizeof(u64),
				       GFP_KERNEL_ACCOUNT);
	if (!fn->stats)
		return -ENOMEM;
	err = flt_table_init(fn);
	if (err)
		goto undo_stats;
	err = flt_dispatch_enter(fn);
	if (err)
		goto undo_table;
	err = flt_tunable_enter(fn);
	if (err)
		goto undo_dispatch;
	return 0;

undo_dispatch:
	flt_dispatch_leave(fn);
undo_table:
	flt_table_exit(fn);
undo_stats:
	free_percpu(fn->stats);
	return err;
}

/*
 * The links end before any room has left the namespace: rooms came after us, so
 * they leave before us, and could no longer be told of NODE_DOWN and NODE_REMOVED.
 * The namespace's devices are still there too, so the peers learn of it at once.
 */
static void __net_exit flt_netns_end(struct net *net)
{
	struct flt_net *fn = flt_net(net);

	flt_listen_stop(fn);	/* no more sockets from outside */
	flt_table_clear(fn);
}

static void __net_exit flt_netns_leave(struct net *net)
{
	struct flt_net *fn = flt_net(net);

	flt_tunable_leave(fn);
	flt_table_exit(fn);
	flt_dispatch_leave(fn);
	free_percpu(fn->stats);
}

static struct pernet_operations flt_netns_ops = {
	.init	  = flt_netns_enter,
	.pre_exit = flt_netns_end,
	.exit	  = flt_netns_leave,
	.id	  = &flt_net_id,
	.size	  = sizeof(struct flt_net),
};

int __init flt_netns_init(void)
{
	return register_pernet_subsys(&flt_netns_ops);
}

void flt_netns_exit(void)
{
	unregister_pernet_subsys(&flt_netns_ops);
}
