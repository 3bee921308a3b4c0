/* SPDX-License-Identifier: GPL-2.0 */
#ifndef FLT_NETLINK_H
#define FLT_NETLINK_H

#include <net/genetlink.h>
#include "netns.h"

extern struct genl_family flt_family;

/* ADDR4 or ADDR6 into @addr, checked: 1 found, 0 neither is there, or an errno. */
int flt_get_addr(struct genl_info *info, enum flt_attr attr4, enum flt_attr attr6,
		 union flt_addr *addr);

/* All attributes of a node, into a message; -EMSGSIZE. */
int flt_node_put_attrs(struct sk_buff *skb, struct flt_node *node);

int flt_netlink_init(void);
void flt_netlink_exit(void);

#endif
