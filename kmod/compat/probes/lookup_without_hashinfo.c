// SPDX-License-Identifier: GPL-2.0
/* Do lookups of sockets find the tables by themselves? */
#include <net/inet_hashtables.h>

struct sock *flt_probe(struct net *net, struct inet_hashinfo *tables);
struct sock *flt_probe(struct net *net, struct inet_hashinfo *tables)
{
#ifndef FLT_PROBE_NOT
	return __inet_lookup_established(net, 0, 0, 0, 0, 0, 0);
#else
	return __inet_lookup_established(net, tables, 0, 0, 0, 0, 0, 0);
#endif
}
