// SPDX-License-Identifier: GPL-2.0
/*
 * Packets whose bytes the processor cannot read, as those of a device that has put them into its
 * own memory (devmem): what comes to a TCP port, by IPv4, is marked so. For tests.
 */

#include <linux/module.h>
#include <linux/netfilter.h>
#include <linux/netfilter_ipv4.h>
#include <linux/skbuff.h>
#include <linux/tcp.h>
#include <net/ip.h>
#include <net/net_namespace.h>

static unsigned short port;
module_param(port, ushort, 0444);
MODULE_PARM_DESC(port, "TCP port that they come to");

static unsigned int unread_mark(void *priv, struct sk_buff *skb, const struct nf_hook_state *state)
{
	struct tcphdr copy, *th;

	if (ip_hdr(skb)->protocol != IPPROTO_TCP)
		return NF_ACCEPT;
	th = skb_header_pointer(skb, ip_hdrlen(skb), sizeof(copy), &copy);
	if (th && th->dest == htons(port) && skb_is_nonlinear(skb))
		skb->unreadable = true;
	return NF_ACCEPT;
}

static const struct nf_hook_ops unread_ops = {
	.hook = unread_mark,
	.pf = NFPROTO_IPV4,
	.hooknum = NF_INET_LOCAL_IN,
	.priority = NF_IP_PRI_LAST,
};

static int __init unread_init(void)
{
	return nf_register_net_hook(&init_net, &unread_ops);
}

static void __exit unread_exit(void)
{
	nf_unregister_net_hook(&init_net, &unread_ops);
}

module_init(unread_init);
module_exit(unread_exit);

MODULE_DESCRIPTION("Flotilla: packets that cannot be read, for tests");
MODULE_LICENSE("GPL");
