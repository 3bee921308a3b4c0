/* SPDX-License-Identifier: GPL-2.0 */
/* Lookups of TCP sockets: older kernels ask where the tables of the namespace are. */
#ifndef FLT_COMPAT_LOOKUP_H
#define FLT_COMPAT_LOOKUP_H

#include <net/inet6_hashtables.h>
#include <net/inet_hashtables.h>
#include <net/net_namespace.h>
#include <flt_compat_config.h>

/* All: RCU read side; the ports as the kernel's own take them, of the client as it is sent. */

static inline struct sock *flt_compat_listener4(struct net *net, struct sk_buff *skb, int doff,
						__be32 client, __be16 from, __be32 server, u16 to,
						int dif)
{
#ifdef FLT_HAVE_LOOKUP_WITHOUT_HASHINFO
	return __inet_lookup_listener(net, skb, doff, client, from, server, to, dif, 0);
#else
	return __inet_lookup_listener(net, net->ipv4.tcp_death_row.hashinfo, skb, doff, client,
				      from, server, to, dif, 0);
#endif
}

static inline struct sock *flt_compat_established4(struct net *net, __be32 client, __be16 from,
						   __be32 server, u16 to, int dif)
{
#ifdef FLT_HAVE_LOOKUP_WITHOUT_HASHINFO
	return __inet_lookup_established(net, client, from, server, to, dif, 0);
#else
	return __inet_lookup_established(net, net->ipv4.tcp_death_row.hashinfo, client, from,
					 server, to, dif, 0);
#endif
}

#if IS_ENABLED(CONFIG_IPV6)
static inline struct sock *flt_compat_listener6(struct net *net, struct sk_buff *skb, int doff,
						const struct in6_addr *client, __be16 from,
						const struct in6_addr *server, u16 to, int dif)
{
#ifdef FLT_HAVE_LOOKUP_WITHOUT_HASHINFO
	return inet6_lookup_listener(net, skb, doff, client, from, server, to, dif, 0);
#else
	return inet6_lookup_listener(net, net->ipv4.tcp_death_row.hashinfo, skb, doff, client,
				     from, server, to, dif, 0);
#endif
}

static inline struct sock *flt_compat_established6(struct net *net, const struct in6_addr *client,
						   __be16 from, const struct in6_addr *server,
						   u16 to, int dif)
{
#ifdef FLT_HAVE_LOOKUP_WITHOUT_HASHINFO
	return __inet6_lookup_established(net, client, from, server, to, dif, 0);
#else
	return __inet6_lookup_established(net, net->ipv4.tcp_death_row.hashinfo, client, from,
					  server, to, dif, 0);
#endif
}
#endif

#endif
