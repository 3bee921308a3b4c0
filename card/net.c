// SPDX-License-Identifier: GPL-2.0
/* Life of a network namespace's part. */

#include <net/netns/generic.h>

#include "counter.h"
#include "disk.h"
#include "export.h"
#include "net.h"
#include "seat.h"

static unsigned int card_net_id __read_mostly;

struct card_net *card_net(const struct net *net)
{
	return net_generic(net, card_net_id);
}

static int __net_init card_net_init(struct net *net)
{
	struct card_net *cn = card_net(net);

	cn->net = net;
	mutex_init(&cn->lock);
	mutex_init(&cn->seats_lock);
	INIT_LIST_HEAD(&cn->seats);
	xa_init_flags(&cn->exports, XA_FLAGS_ALLOC1);
	xa_init_flags(&cn->disks, XA_FLAGS_ALLOC1);
	return card_stats_net_init(cn);
}

/* The links have ended before: no message comes, and requests in flight find no answer. */
static void __net_exit card_net_exit(struct net *net)
{
	struct card_net *cn = card_net(net);

	mutex_lock(&cn->lock);
	cn->going = true;
	mutex_unlock(&cn->lock);
	card_disk_del_all(cn);
	card_export_del_all(cn);
	card_seat_exit(cn);
	xa_destroy(&cn->disks);
	xa_destroy(&cn->exports);
	card_stats_net_exit(cn);
}

static struct pernet_operations card_net_ops = {
	.init = card_net_init,
	.exit = card_net_exit,
	.id = &card_net_id,
	.size = sizeof(struct card_net),
};

int card_net_register(void)
{
	return register_pernet_subsys(&card_net_ops);
}

void card_net_unregister(void)
{
	unregister_pernet_subsys(&card_net_ops);
	rcu_barrier();
}
