// SPDX-License-Identifier: GPL-2.0
/* Does syn_recv_sock() take a function that initialises the child of an IPv6 listener? */
#include <net/inet_connection_sock.h>

struct sock *flt_probe(const struct inet_connection_sock_af_ops *ops, const struct sock *listener,
		       struct sk_buff *skb, struct request_sock *req, bool *own);
struct sock *flt_probe(const struct inet_connection_sock_af_ops *ops, const struct sock *listener,
		       struct sk_buff *skb, struct request_sock *req, bool *own)
{
#ifndef FLT_PROBE_NOT
	return ops->syn_recv_sock(listener, skb, req, NULL, NULL, own, NULL);
#else
	return ops->syn_recv_sock(listener, skb, req, NULL, NULL, own);
#endif
}
