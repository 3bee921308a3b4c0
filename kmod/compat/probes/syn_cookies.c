// SPDX-License-Identifier: GPL-2.0
/* exports: __cookie_v4_init_sequence __cookie_v4_check secure_tcp_seq_and_ts_off */
/* May modules answer SYNs with cookies that TCP knows for its own? */
#include <net/secure_seq.h>
#include <net/tcp.h>

u32 flt_probe(struct net *net, const struct iphdr *iph, const struct tcphdr *th, u16 *mss);
u32 flt_probe(struct net *net, const struct iphdr *iph, const struct tcphdr *th, u16 *mss)
{
	return secure_tcp_seq_and_ts_off(net, iph->daddr, iph->saddr, th->dest, th->source).ts_off +
	       __cookie_v4_init_sequence(iph, th, mss) + __cookie_v4_check(iph, th);
}
