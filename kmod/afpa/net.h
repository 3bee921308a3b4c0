/* SPDX-License-Identifier: GPL-2.0 */
/* What afpa keeps for each network namespace. */
#ifndef AFPA_NET_H
#define AFPA_NET_H

#include <linux/mutex.h>
#include <linux/workqueue.h>
#include <net/net_namespace.h>

#include "cache.h"
#include "read.h"
#include "remote.h"

struct afpa_log;

/**
 * struct afpa_net - a network namespace
 * @net:        it; outlives this
 * @stats:      per-CPU counters, enum afpa_stat
 * @lock:       changes of @sites, @dying and of what listeners have our layer; process context,
 *		outermost; no lock of a socket is waited for under it but for some milliseconds
 * @sites:      under @lock
 * @dying:      sites that were taken away and have connections still; the same
 * @nr_sites:   of @sites
 * @next_site:  the next one's number; the same
 * @mode:       enum afpa_mode, READ_ONCE
 * @stall_ms:   see struct afpa_info, READ_ONCE
 * @max_object: the same
 * @cache:      the objects of all sites
 * @log:        RCU, set under @lock; NULL: nobody writes it down
 * @reads:      that are under way, or wait for a thread, of each queue (read.c)
 * @held:       connections with answers that are not acknowledged (hold.c), under @held_lock: a
 *		leaf, bottom halves off
 * @remote:     commands of other nodes, and for them (remote.h)
 * @watch:      looks after listeners and connections while there are sites (watch.c)
 */
struct afpa_net {
	struct net *net;
	u64 __percpu *stats;
	struct mutex lock;	/* @sites, @dying */
	struct list_head sites;
	struct list_head dying;
	unsigned int nr_sites;
	u32 next_site;
	u32 mode;
	u32 stall_ms;
	u64 max_object;
	struct afpa_cache cache;
	struct afpa_log __rcu *log;
	atomic_t reads[AFPA_READER_QUEUES];
	spinlock_t held_lock;	/* @held */
	struct list_head held;
	struct afpa_remote_net remote;
	struct delayed_work watch;
};

struct afpa_net *afpa_net(const struct net *net);
int afpa_net_register(void);
void afpa_net_unregister(void);

/* All sites of all namespaces go, for module exit. */
void afpa_net_leave_all(void);

#endif
