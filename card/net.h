/* SPDX-License-Identifier: GPL-2.0 */
/* What card keeps for each network namespace. */
#ifndef CARD_NET_H
#define CARD_NET_H

#include <linux/mutex.h>
#include <linux/xarray.h>
#include <net/net_namespace.h>

/**
 * struct card_net - a network namespace
 * @net:     it
 * @lock:    serialises making and ending exports and disks; process context, outermost;
 *	     not held while a disk or an export waits for others
 * @exports: struct card_export by number; changed under @lock, read under RCU
 * @disks:   struct card_disk by number; changed under @lock, read under RCU
 * @seats_lock: guards @seats; process context, leaf
 * @seats:   struct card_seat: places of writers
 * @next_export, @next_disk: numbers are not soon used again; under @lock
 * @going:   nothing new; under @lock
 * @stats:   enum card_stat, per CPU
 */
struct card_net {
	struct net *net;
	struct mutex lock;	/* changes of @exports and @disks */
	struct xarray exports;
	struct xarray disks;
	struct mutex seats_lock;	/* seats */
	struct list_head seats;
	u32 next_export;
	u32 next_disk;
	bool going;
	u64 __percpu *stats;
};

struct card_net *card_net(const struct net *net);

int card_net_register(void);
void card_net_unregister(void);

#endif
