// SPDX-License-Identifier: GPL-2.0
/* Life of a network namespace's part, and its settings. */

#include <linux/mm.h>
#include <linux/rtnetlink.h>
#include <net/netns/generic.h>
#include <flotilla/afpa.h>

#include "counter.h"
#include "hold.h"
#include "net.h"
#include "site.h"
#include "watch.h"

#define AFPA_STALL_MS		30000
#define AFPA_MAX_OBJECT		(16 << 20)

static unsigned int afpa_net_id __read_mostly;

struct afpa_net *afpa_net(const struct net *net)
{
	return net_generic(net, afpa_net_id);
}

static int __net_init afpa_net_init(struct net *net)
{
	struct afpa_net *an = afpa_net(net);
	int err;

	an->net = net;
	mutex_init(&an->lock);
	INIT_LIST_HEAD(&an->sites);
	INIT_LIST_HEAD(&an->dying);
	spin_lock_init(&an->held_lock);
	INIT_LIST_HEAD(&an->held);
	INIT_DELAYED_WORK(&an->watch, afpa_watch);
	afpa_remote_net_init(an);
	an->mode = AFPA_MODE_SOFTIRQ;
	an->stall_ms = AFPA_STALL_MS;
	an->max_object = AFPA_MAX_OBJECT;
	an->stats = __alloc_percpu(AFPA_STAT_MAX * sizeof(u64), sizeof(u64));
	if (!an->stats)
		return -ENOMEM;
	err = afpa_cache_init(&an->cache, (u64)totalram_pages() << PAGE_SHIFT >> 2);
	if (err)
		free_percpu(an->stats);
	return err;
}

/* Who has a socket or the device open has the namespace: nothing is left but sites. */
static void __net_exit afpa_net_exit(struct net *net)
{
	struct afpa_net *an = afpa_net(net);

	afpa_remote_net_exit(an);
	afpa_site_leave_all(an);
	cancel_delayed_work_sync(&an->watch);
	afpa_hold_end(an);
	afpa_cache_exit(&an->cache);
	free_percpu(an->stats);
}

void afpa_net_leave_all(void)
{
	struct net *net;

	down_read(&net_rwsem);
	for_each_net(net)
		afpa_site_leave_all(afpa_net(net));
	up_read(&net_rwsem);
	/* Who has not seen yet that the sites are gone may be about to take his layer away. */
	synchronize_rcu();
}

static struct pernet_operations afpa_net_ops = {
	.init = afpa_net_init,
	.exit = afpa_net_exit,
	.id = &afpa_net_id,
	.size = sizeof(struct afpa_net),
};

int afpa_net_register(void)
{
	return register_pernet_subsys(&afpa_net_ops);
}

void afpa_net_unregister(void)
{
	unregister_pernet_subsys(&afpa_net_ops);
}
