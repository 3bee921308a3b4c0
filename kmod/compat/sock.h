/* SPDX-License-Identifier: GPL-2.0 */
/* Sockets: what of their types and timers differs between kernels. */
#ifndef FLT_COMPAT_SOCK_H
#define FLT_COMPAT_SOCK_H

#include <net/inet_connection_sock.h>
#include <net/tcp.h>
#include <flt_compat_config.h>

/* What bind() and connect() take inside the kernel. */
#ifdef FLT_HAVE_SOCKADDR_UNSIZED
#define flt_sockaddr	sockaddr_unsized
#else
#define flt_sockaddr	sockaddr
#endif

/* Classic ECN (RFC 3168) was agreed on. */
#ifdef TCP_ECN_MODE_RFC3168
#define FLT_TCP_ECN_OK	TCP_ECN_MODE_RFC3168
#else
#define FLT_TCP_ECN_OK	TCP_ECN_OK
#endif

/**
 * flt_compat_has_accecn - does a connection count marks by AccECN?
 * @tp: its socket, owned
 *
 * The counters of both sides belong to the connection; a checkpoint has no place for them.
 */
static inline bool flt_compat_has_accecn(const struct tcp_sock *tp)
{
#ifdef TCP_ECN_MODE_ACCECN
	return tp->ecn_flags & TCP_ECN_MODE_ACCECN;
#else
	return false;
#endif
}

/**
 * flt_compat_keepalive_start - start the keepalive timer, or start it anew
 * @sk: owned
 * @in: in jiffies
 */
static inline void flt_compat_keepalive_start(struct sock *sk, unsigned long in)
{
#ifdef FLT_HAVE_KEEPALIVE_TIMER
	inet_csk_reset_keepalive_timer(sk, in);
#else
	sk_reset_timer(sk, &inet_csk(sk)->icsk_keepalive_timer, jiffies + in);
#endif
}

/**
 * flt_compat_keepalive_stop - stop the keepalive timer
 * @sk: owned
 */
static inline void flt_compat_keepalive_stop(struct sock *sk)
{
#ifdef FLT_HAVE_KEEPALIVE_TIMER
	inet_csk_delete_keepalive_timer(sk);
#else
	sk_stop_timer(sk, &inet_csk(sk)->icsk_keepalive_timer);
#endif
}

#endif
