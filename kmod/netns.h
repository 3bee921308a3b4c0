/* SPDX-License-Identifier: GPL-2.0 */
/* What flotilla keeps for each network namespace. */
#ifndef FLT_NETNS_H
#define FLT_NETNS_H

#include <linux/device.h>
#include <linux/mutex.h>
#include <linux/rhashtable.h>
#include <linux/spinlock.h>
#include <linux/xarray.h>
#include <net/net_namespace.h>
#include "node.h"
#include "report.h"

/*
 * For what root of a user namespace can have made: its memory cgroup pays, and what does not
 * fit is refused rather than that somebody is killed for it.
 */
#define FLT_GFP		(GFP_KERNEL_ACCOUNT | __GFP_RETRY_MAYFAIL | __GFP_NOWARN)

struct flt_listener;
struct flt_services;

/**
 * struct flt_local - who this node is; replaced as a whole, read under RCU
 * @name: empty until FLT_CMD_LOCAL_SET
 * @v4:   link address, sin_family 0 when there is none; sin_port is zero
 * @v6:   the same for IPv6
 * @port: of both listeners, host order
 * @rcu:  for freeing
 */
struct flt_local {
	char name[FLT_NAME_MAX];
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
	u16 port;
	struct rcu_head rcu;
};

/**
 * struct flt_dispatch - parameters of the dispatcher (sysfs device "dispatch")
 * @dev:  the device; NULL before and after
 * @lock: orders writers, so that t_low < t_high always holds
 * @policy: index of the policy's name
 * @t_low, @t_high, @replication, @limit: read with READ_ONCE; @limit 0 is automatic
 * @shown: max_outstanding as last announced, under @lock
 */
struct flt_dispatch {
	struct device *dev;
	struct mutex lock;	/* one writer; leaf */
	unsigned int policy;
	unsigned int t_low;
	unsigned int t_high;
	unsigned int replication;
	unsigned int limit;
	unsigned int shown;
};

/**
 * struct flt_net - one network namespace
 * @net:       the namespace; it outlives this
 * @lock:      held by whoever changes the node table, a node or @local; process
 *	       context; outermost of our locks; never held while a notifier or a
 *	       message handler runs or a link is waited for
 * @nodes:     id to node; changed under @lock, read under RCU
 * @next_id:   for ids that are not soon used again, under @lock
 * @by_name, @by_addr: changed under @lock, read under RCU
 * @addresses: those that nodes have (address.c), the same way
 * @nr_nodes:  under @lock, read with READ_ONCE
 * @change:    grows with each change of the table: consistent dumps; under @lock
 * @local:     RCU, replaced under @lock
 * @listener:  IPv4 and IPv6, under @lock
 * @services:  what is adopted (service.c); RCU, replaced under @lock; NULL: nothing
 * @insecure:  they are given and taken also over links that are not authenticated; READ_ONCE
 * @instance:  random; a peer that hears another one knows we were restarted
 * @turn_lock: leaf, process context; guards @turn
 * @turn:      jiffies when the next link that failed may try again
 * @verdict_lock: leaf, process context; guards @verdict
 * @verdict:   what was found here when this node was last examined; peers hear it
 * @stats:     enum flt_counter, per CPU
 * @heartbeat_ms, @grace_ms, @queue_max: tunables of the links, READ_ONCE
 * @links_dev: the sysfs device of these tunables
 * @dispatch:  parameters of the dispatcher
 */
struct flt_net {
	struct net *net;
	struct mutex lock;	/* the table and this node's identity */
	struct xarray nodes;
	u32 next_id;
	struct rhashtable by_name;
	struct rhashtable by_addr;
	struct rhashtable addresses;
	unsigned int nr_nodes;
	unsigned int change;
	struct flt_local __rcu *local;
	struct flt_listener *listener[2];
	struct flt_services __rcu *services;
	bool insecure;
	u64 instance;
	spinlock_t turn_lock;	/* leaf: turn */
	unsigned long turn;
	spinlock_t verdict_lock;	/* leaf: verdict */
	struct flt_verdict verdict;
	u64 __percpu *stats;
	unsigned int heartbeat_ms;
	unsigned int grace_ms;
	unsigned int queue_max;
	struct device *links_dev;
	struct flt_dispatch dispatch;
};

struct flt_net *flt_net(const struct net *net);

/* Copies the namespace's identity; false before FLT_CMD_LOCAL_SET. */
bool flt_local_copy(struct flt_net *fn, struct flt_local *local);

int flt_netns_init(void);
void flt_netns_exit(void);

#endif
