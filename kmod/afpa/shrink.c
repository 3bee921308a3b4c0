// SPDX-License-Identifier: GPL-2.0
/*
 * What the machine's reclaim takes of all caches, in pages. What programs can have again goes
 * first: as long as one namespace has such objects, none loses others. Reclaim of a memory cgroup
 * does not come here: who puts makes room himself (device.c).
 */

#include <linux/shrinker.h>
#include <net/net_namespace.h>

#include "cache.h"
#include "net.h"
#include "shrink.h"

static struct shrinker *afpa_shrinker;

static unsigned long afpa_shrink_pages(enum afpa_clock clock)
{
	unsigned long pages = 0;
	struct net *net;

	rcu_read_lock();
	for_each_net_rcu(net)
		pages += READ_ONCE(afpa_net(net)->cache.used[clock]) >> PAGE_SHIFT;
	rcu_read_unlock();
	return pages;
}

static unsigned long afpa_shrink_count(struct shrinker *shrinker, struct shrink_control *sc)
{
	return afpa_shrink_pages(AFPA_CLOCK_ALL) ?: SHRINK_EMPTY;
}

/* Of each namespace the share that it has of all. */
static unsigned long afpa_shrink_clock(enum afpa_clock clock, unsigned long pages)
{
	unsigned long all = afpa_shrink_pages(clock);
	struct net *net;
	u64 freed = 0;

	if (!all)
		return 0;
	rcu_read_lock();
	for_each_net_rcu(net)
		freed += afpa_cache_shrink(afpa_net(net), clock, min(pages, all), all);
	rcu_read_unlock();
	return freed >> PAGE_SHIFT;
}

static unsigned long afpa_shrink_scan(struct shrinker *shrinker, struct shrink_control *sc)
{
	unsigned long freed = afpa_shrink_clock(AFPA_CLOCK_AUTOMATIC, sc->nr_to_scan);

	if (freed >= sc->nr_to_scan || afpa_shrink_pages(AFPA_CLOCK_AUTOMATIC))
		return freed;
	return freed + afpa_shrink_clock(AFPA_CLOCK_ALL, sc->nr_to_scan - freed);
}

int afpa_shrinker_register(void)
{
	afpa_shrinker = shrinker_alloc(0, "afpa-cache");
	if (!afpa_shrinker)
		return -ENOMEM;
	afpa_shrinker->count_objects = afpa_shrink_count;
	afpa_shrinker->scan_objects = afpa_shrink_scan;
	shrinker_register(afpa_shrinker);
	return 0;
}

void afpa_shrinker_unregister(void)
{
	shrinker_free(afpa_shrinker);
}
