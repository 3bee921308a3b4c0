// SPDX-License-Identifier: GPL-2.0
/* The multicast group "events". */

#include "counter.h"
#include "event.h"
#include "netlink.h"

static void flt_event_send(struct flt_net *fn, struct flt_node *node, enum flt_event type)
{
	struct sk_buff *skb;
	void *head;

	if (!genl_has_listeners(&flt_family, fn->net, 0))
		return;
	skb = genlmsg_new(NLMSG_GOODSIZE, GFP_KERNEL);
	if (!skb)
		goto lost;
	head = genlmsg_put(skb, 0, 0, &flt_family, 0, FLT_CMD_EVENT);
	if (!head || nla_put_u8(skb, FLT_A_EVENT_TYPE, type) ||
	    (node && flt_node_put_attrs(skb, node))) {
		nlmsg_free(skb);
		goto lost;
	}
	genlmsg_end(skb, head);
	/* Whoever reads too slowly gets ENOBUFS from its own socket. */
	genlmsg_multicast_netns(&flt_family, fn->net, skb, 0, 0, GFP_KERNEL);
	return;
lost:
	flt_count(fn, FLT_EVENTS_LOST);
}

void flt_event_node(struct flt_net *fn, struct flt_node *node, enum flt_event type)
{
	flt_event_send(fn, node, type);
}

void flt_event_dispatch(struct flt_net *fn)
{
	flt_event_send(fn, NULL, FLT_EVENT_DISPATCH);
}
