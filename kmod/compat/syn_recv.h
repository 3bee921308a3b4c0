/* SPDX-License-Identifier: GPL-2.0 */
/*
 * syn_recv_sock() has a last parameter on some kernels. Whoever wraps it defines
 * flt_syn_recv() with that parameter and installs flt_on_syn_recv(), which is
 * of the kernel's own type.
 */
#ifndef FLT_COMPAT_SYN_RECV_H
#define FLT_COMPAT_SYN_RECV_H

#include <net/inet_connection_sock.h>
#include <flt_compat_config.h>

/* What that parameter is; NULL where there is none. */
typedef void (*flt_child_init)(struct sock *newsk, const struct sock *sk);

static struct sock *flt_syn_recv(const struct sock *sk, struct sk_buff *skb,
				 struct request_sock *req, struct dst_entry *dst,
				 struct request_sock *req_unhash, bool *own, flt_child_init init);

#ifdef FLT_HAVE_SYN_RECV_SOCK_INIT
static struct sock *flt_on_syn_recv(const struct sock *sk, struct sk_buff *skb,
				    struct request_sock *req, struct dst_entry *dst,
				    struct request_sock *req_unhash, bool *own,
				    flt_child_init init)
{
	return flt_syn_recv(sk, skb, req, dst, req_unhash, own, init);
}

static inline struct sock *flt_real_syn_recv(const struct inet_connection_sock_af_ops *ops,
					     const struct sock *sk, struct sk_buff *skb,
					     struct request_sock *req, struct dst_entry *dst,
					     struct request_sock *req_unhash, bool *own,
					     flt_child_init init)
{
	return ops->syn_recv_sock(sk, skb, req, dst, req_unhash, own, init);
}
#else
static struct sock *flt_on_syn_recv(const struct sock *sk, struct sk_buff *skb,
				    struct request_sock *req, struct dst_entry *dst,
				    struct request_sock *req_unhash, bool *own)
{
	return flt_syn_recv(sk, skb, req, dst, req_unhash, own, NULL);
}

static inline struct sock *flt_real_syn_recv(const struct inet_connection_sock_af_ops *ops,
					     const struct sock *sk, struct sk_buff *skb,
					     struct request_sock *req, struct dst_entry *dst,
					     struct request_sock *req_unhash, bool *own,
					     flt_child_init init)
{
	return ops->syn_recv_sock(sk, skb, req, dst, req_unhash, own);
}
#endif

#endif
