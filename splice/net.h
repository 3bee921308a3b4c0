/* SPDX-License-Identifier: GPL-2.0 */
/* What splice keeps for each network namespace. */
#ifndef SSP_NET_H
#define SSP_NET_H

#include <linux/atomic.h>
#include <net/net_namespace.h>

/**
 * struct ssp_net - a network namespace
 * @stats:  per-CPU counters, enum ssp_stat
 * @active: transfers whose source is of this namespace
 */
struct ssp_net {
	u64 __percpu *stats;
	atomic_t active;
};

struct ssp_net *ssp_net(const struct net *net);
int ssp_net_register(void);
void ssp_net_unregister(void);

#endif
