// SPDX-License-Identifier: GPL-2.0
/* Life of a network namespace's part. */

#include <net/netns/generic.h>

#include "counter.h"
#include "net.h"

static unsigned int ssp_net_id __read_mostly;

struct ssp_net *ssp_net(const struct net *net)
{
	return net_generic(net, ssp_net_id);
}

static int __net_init ssp_net_init(struct net *net)
{
	struct ssp_net *sn = ssp_net(net);

	sn->stats = __alloc_percpu(SSP_STAT_MAX * sizeof(u64), sizeof(u64));
	return sn->stats ? 0 : -ENOMEM;
}

static void __net_exit ssp_net_exit(struct net *net)
{
	free_percpu(ssp_net(net)->stats);
}

static struct pernet_operations ssp_net_ops = {
	.init = ssp_net_init,
	.exit = ssp_net_exit,
	.id = &ssp_net_id,
	.size = sizeof(struct ssp_net),
};

int ssp_net_register(void)
{
	return register_pernet_subsys(&ssp_net_ops);
}

void ssp_net_unregister(void)
{
	unregister_pernet_subsys(&ssp_net_ops);
}
