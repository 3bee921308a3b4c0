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

/* struct flt_dump - where the rows of a dump go. */
struct flt_dump {
	struct sk_buff *skb;
	struct netlink_callback *cb;
};

/* Begins a row, which genlmsg_end() ends; NULL: no room. */
static inline void *flt_dump_row(const struct flt_dump *dump, enum flt_cmd cmd)
{
	return genlmsg_put(dump->skb, NETLINK_CB(dump->cb->skb).portid,
			   dump->cb->nlh->nlmsg_seq, &flt_family, NLM_F_MULTI, cmd);
}

/* Where a dump goes on, next time. */
static inline u64 *flt_dump_cursor(struct netlink_callback *cb)
{
	BUILD_BUG_ON(sizeof(u64) > sizeof(cb->ctx));
	return (u64 *)cb->ctx;
}

int flt_netlink_init(void);
void flt_netlink_exit(void);

#endif
