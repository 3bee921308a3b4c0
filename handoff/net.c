// SPDX-License-Identifier: GPL-2.0
/* Life of a network namespace's part. */

#include <linux/random.h>
#include <linux/rtnetlink.h>
#include <net/netns/generic.h>

#include "admit.h"
#include "adopt.h"
#include "assign.h"
#include "counter.h"
#include "early.h"
#include "entry.h"
#include "forward.h"
#include "gate.h"
#include "guard.h"
#include "net.h"
#include "peer.h"
#include "redirect.h"
#include "relocate.h"
#include "removal.h"
#include "standby.h"
#include "tunable.h"

unsigned int hof_net_id __read_mostly;

struct hof_net *hof_net(const struct net *net)
{
	return net_generic(net, hof_net_id);
}

bool hof_net_enter(struct hof_net *hn)
{
	down_read(&hn->live);
	if (!hn->going)
		return true;
	up_read(&hn->live);
	return false;
}

void hof_net_leave(struct hof_net *hn)
{
	up_read(&hn->live);
}

static int __net_init hof_net_init(struct net *net)
{
	struct hof_net *hn = hof_net(net);
	int err;

	hn->net = net;
	init_rwsem(&hn->live);
	mutex_init(&hn->hook_lock);
	hn->epoch = get_random_u32() ?: 1;
	get_random_bytes(&hn->voucher_key, sizeof(hn->voucher_key));
	hof_flight_net_init(hn);
	hof_peer_net_init(hn);
	hof_adopt_net_init(hn);
	hof_standby_net_init(hn);
	hof_gate_net_init(hn);
	hof_room_net_init(hn);
	hof_redirect_net_init(hn);
	hof_early_net_init(hn);
	hof_relocate_net_init(hn);
	hof_removal_net_init(hn);

	err = hof_stats_net_init(hn);
	if (err)
		return err;
	err = hof_entry_net_init(hn);
	if (err)
		goto undo_stats;
	err = hof_tunable_net_init(hn);
	if (err)
		goto undo_entry;
	return 0;

undo_entry:
	hof_entry_net_exit(hn);
undo_stats:
	hof_stats_net_exit(hn);
	return err;
}

/*
 * No socket of the namespace is left, so no handoff is under way; on module
 * unload none is since no file is open. Adoptions without COMMIT may be.
 */
static void __net_exit hof_net_exit(struct net *net)
{
	struct hof_net *hn = hof_net(net);

	down_write(&hn->live);
	WRITE_ONCE(hn->going, true);
	up_write(&hn->live);

	hof_tunable_net_exit(hn);
	hof_assigned_net_exit(hn);
	hof_removal_withdraw(hn);
	hof_room_net_exit(hn);
	hof_adopt_net_exit(hn);
	hof_forward_unhook(hn);
	hof_standby_net_exit(hn);
	hof_redirect_net_exit(hn);
	hof_early_net_exit(hn);
	hof_guard_unhook(hn);
	hof_entry_net_exit(hn);
	hof_redirect_batch_free(hn);
	hof_peer_net_exit(hn);
	hof_flight_net_exit(hn);
	hof_stats_net_exit(hn);
}

static struct pernet_operations hof_net_ops = {
	.init = hof_net_init,
	.exit = hof_net_exit,
	.id = &hof_net_id,
	.size = sizeof(struct hof_net),
};

int hof_net_register(void)
{
	return register_pernet_subsys(&hof_net_ops);
}

static void hof_net_each(void (*act)(struct hof_net *hn))
{
	struct net *net;

	down_read(&net_rwsem);
	for_each_net(net)
		act(hof_net(net));
	up_read(&net_rwsem);
}

void hof_net_stay(void)
{
	hof_net_each(hof_removal_withdraw);
}

void hof_net_withdraw(void)
{
	hof_net_each(hof_adopt_withdraw);
}

void hof_net_unregister(void)
{
	unregister_pernet_subsys(&hof_net_ops);
	rcu_barrier();		/* entries, paths and peers on their way out */
}
