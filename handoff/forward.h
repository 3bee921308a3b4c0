/* SPDX-License-Identifier: GPL-2.0 */
/* The hook that sends a client's packets to whom the connection belongs. */
#ifndef HOF_FORWARD_H
#define HOF_FORWARD_H

#include <linux/netfilter.h>
#include <linux/skbuff.h>

struct hof_entry;
struct hof_net;
struct hof_path;

/* Put the hooks in; they stay until the namespace or the module goes. Process context. */
int hof_forward_hook(struct hof_net *hn);
void hof_forward_unhook(struct hof_net *hn);
bool hof_forward_is_hook(nf_hookfn *hook);

/* Send a packet of the connection on; consumed. Counts it. RCU, bottom halves off. */
void hof_forward_packet(struct hof_net *hn, struct hof_entry *e, struct sk_buff *skb);

/* Put outer headers on and send; consumed. RCU. */
void hof_encap_xmit(struct hof_net *hn, const struct hof_path *path, struct sk_buff *skb);

/* Tell the sender that the packet does not fit; consumed. RCU. */
void hof_quote_too_big(struct hof_net *hn, struct sk_buff *skb, unsigned int mtu);

/* An ICMP error about a packet that the owner of a connection sent. */
unsigned int hof_quote4(struct hof_net *hn, struct sk_buff *skb);
unsigned int hof_quote6(struct hof_net *hn, struct sk_buff *skb, unsigned int offset);

#endif
