// SPDX-License-Identifier: GPL-2.0
/* The counter table of this room, one for each network namespace. */

#include <linux/module.h>
#include <net/net_namespace.h>
#include <net/netns/generic.h>

#include "counter.h"

/**
 * struct usel_net - a network namespace
 * @stats: per CPU, enum usel_stat
 */
struct usel_net {
	u64 __percpu *stats;
};

unsigned int usel_net_id __read_mostly;

static const char *const usel_stat_names[USEL_NR_STATS] = {
	[USEL_STAT_REGIONS_OPENED]	= "RegionsOpened",
	[USEL_STAT_REGIONS_CLOSED]	= "RegionsClosed",
	[USEL_STAT_SETS_OPENED]		= "SetsOpened",
	[USEL_STAT_SETUPS_REFUSED]	= "SetupsRefused",
	[USEL_STAT_HOOKED]		= "SocketsHooked",
	[USEL_STAT_REFUSED]		= "SocketsRefused",
	[USEL_STAT_TRACKED]		= "DescriptorsTracked",
	[USEL_STAT_UNTRACKED]		= "DescriptorsUntracked",
	[USEL_STAT_REUSED]		= "DescriptorsReused",
	[USEL_STAT_FORGOTTEN]		= "DescriptorsForgotten",
	[USEL_STAT_ENDED]		= "DescriptorsEnded",
	[USEL_STAT_FOREIGN]		= "DescriptorsForeign",
	[USEL_STAT_GUESS_WRONG]		= "GuessesWrong",
	[USEL_STAT_GUESSED]		= "Guesses",
	[USEL_STAT_SEARCHED]		= "Searches",
	[USEL_STAT_POLLS]		= "Polls",
	[USEL_STAT_EVENTS]		= "Events",
	[USEL_STAT_WAKEUPS]		= "Wakeups",
	[USEL_STAT_RING_OVERFLOWS]	= "RingOverflows",
};

u64 __percpu *usel_stats(const struct net *net)
{
	struct usel_net *un = net_generic(net, usel_net_id);

	return un->stats;
}

static u64 __percpu *usel_counter_values(struct net *net)
{
	return usel_stats(net);
}

static struct flt_stats usel_counters = {
	.room	= "uselect",
	.names	= usel_stat_names,
	.nr	= USEL_NR_STATS,
	.values	= usel_counter_values,
	.owner	= THIS_MODULE,
};

static int __net_init usel_net_init(struct net *net)
{
	struct usel_net *un = net_generic(net, usel_net_id);

	un->stats = __alloc_percpu(USEL_NR_STATS * sizeof(u64), sizeof(u64));
	return un->stats ? 0 : -ENOMEM;
}

static void __net_exit usel_net_exit(struct net *net)
{
	struct usel_net *un = net_generic(net, usel_net_id);

	free_percpu(un->stats);
}

static struct pernet_operations usel_net_ops = {
	.init = usel_net_init,
	.exit = usel_net_exit,
	.id = &usel_net_id,
	.size = sizeof(struct usel_net),
};

int usel_counter_register(void)
{
	int err;

	err = register_pernet_subsys(&usel_net_ops);
	if (err)
		return err;
	err = flt_stats_register(&usel_counters);
	if (err)
		unregister_pernet_subsys(&usel_net_ops);
	return err;
}

void usel_counter_unregister(void)
{
	flt_stats_unregister(&usel_counters);
	unregister_pernet_subsys(&usel_net_ops);
}
