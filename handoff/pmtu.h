/* SPDX-License-Identifier: GPL-2.0 */
/* Routers on the way to a peer say that an outer packet was too large. */
#ifndef HOF_PMTU_H
#define HOF_PMTU_H

#include <linux/skbuff.h>

struct hof_net;

/**
 * hof_pmtu4 - an ICMP error came: if it is about an outer packet, heed it
 * @hn:   namespace
 * @skb:  the error; it goes its way afterwards. Its headers may have moved
 * @icmp: offset of the ICMP header
 *
 * Softirq, RCU.
 */
void hof_pmtu4(struct hof_net *hn, struct sk_buff *skb, unsigned int icmp);
void hof_pmtu6(struct hof_net *hn, struct sk_buff *skb, unsigned int icmp);

#endif
