/* SPDX-License-Identifier: GPL-2.0 */
#ifndef FLT_NETLINK_H
#define FLT_NETLINK_H

#include <net/genetlink.h>
#include "netns.h"

extern struct genl_family flt_family;

/* All attributes of a node, into a message; -EMSGSIZE. */
int flt_node_put_attrs(struct sk_buff *skb, struct flt_node *node);

int flt_netlink_init(void);
void flt_netlink_exit(void);

#endif
