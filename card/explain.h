/* SPDX-License-Identifier: GPL-2.0 */
/* What this node knows of one block, for people. */
#ifndef CARD_EXPLAIN_H
#define CARD_EXPLAIN_H

#include "net.h"
#include "wire.h"

struct netlink_ext_ack;

/**
 * struct card_explained - of CARD_CMD_EXPLAIN
 * @name:   of the disk or export
 * @policy: its policy
 * @held, @copy: enums of the uapi
 * @home, @previous, @next, @ask: names of nodes; "" nobody, "self" this one
 * @nr_hosted, @host_max: of the cache
 */
struct card_explained {
	char name[CARD_NAME_MAX];
	char policy[CARD_NAME_MAX];
	u8 held, copy;
	char home[FLT_NAME_MAX];
	char previous[FLT_NAME_MAX];
	char next[FLT_NAME_MAX];
	char ask[FLT_NAME_MAX];
	u32 nr_hosted, host_max;
};

/* @name: of a disk or an export; NULL: the only one with a policy. */
int card_explain(struct card_net *cn, const char *name, u64 block, struct card_explained *out,
		 struct netlink_ext_ack *extack);

#endif
