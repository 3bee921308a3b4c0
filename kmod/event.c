// SPDX-License-Identifier: GPL-2.0
/* The multicast group "events". */

#include <linux/rwsem.h>
#include "counter.h"
#include "event.h"
#include "netlink.h"

/*
 * Namespaces come before the family and go after it; its group numbers mean
 * something only while it is registered. Held for reading while an event is
 * sent; outside of all our locks.
 */
static DECLARE_RWSEM(flt_event_sem);
static bool flt_event_open;

void flt_event_enable(bool on)
{
	down_write(&flt_event_sem);
	flt_event_open = on;
	up_write(&flt_event_sem);
}

static void flt_event_send(struct flt_net *fn, struct flt_node *node, enum flt_event type)
{
	struct sk_buff *skb;
	void *head;

	lockdep_assert_held(&flt_event_sem);
	if (!flt_event_open || !genl_has_listeners(&flt_family, fn->net, 0))
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
	down_read(&flt_event_sem);
	flt_event_send(fn, node, type);
	up_read(&flt_event_sem);
}

void flt_event_dispatch(struct flt_net *fn)
{
	down_read(&flt_event_sem);
	flt_event_send(fn, NULL, FLT_EVENT_DISPATCH);
	up_read(&flt_event_sem);
}
