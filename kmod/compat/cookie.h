/* SPDX-License-Identifier: GPL-2.0 */
/* SYN cookies as TCP itself makes them; what kernels have no names for is said to be missing. */
#ifndef FLT_COMPAT_COOKIE_H
#define FLT_COMPAT_COOKIE_H

#include <net/secure_seq.h>
#include <net/tcp.h>
#include <flt_compat_config.h>

#if defined(FLT_HAVE_SYN_COOKIES) && IS_ENABLED(CONFIG_SYN_COOKIES)
#define FLT_COOKIES	true
#define FLT_COOKIE_AGE	MAX_SYNCOOKIE_AGE

static inline u32 flt_compat_cookie(const struct iphdr *iph, const struct tcphdr *syn, u16 *mss)
{
	return __cookie_v4_init_sequence(iph, syn, mss);
}

/* The MSS of the cookie that an ACK acknowledges; 0: it is none. */
static inline u16 flt_compat_cookie_check(const struct iphdr *iph, const struct tcphdr *ack)
{
	return __cookie_v4_check(iph, ack);
}

/* Cookies are good for so many of its ticks, the one in which they were made included. */
static inline u32 flt_compat_cookie_clock(void)
{
	return tcp_cookie_time();
}

/* What is added to the clock to make timestamps for this client. */
static inline u32 flt_compat_ts_off(const struct net *net, const struct iphdr *iph,
				    const struct tcphdr *th)
{
	return secure_tcp_seq_and_ts_off(net, iph->daddr, iph->saddr, th->dest, th->source).ts_off;
}

/* For two minutes the listener takes cookies: its queue of SYNs need not run over first. RCU. */
static inline void flt_compat_cookies_expected(const struct sock *listener)
{
	tcp_synq_overflow(listener);
}
#else
#define FLT_COOKIES	false
#define FLT_COOKIE_AGE	2

static inline u32 flt_compat_cookie(const struct iphdr *iph, const struct tcphdr *syn, u16 *mss)
{
	return 0;
}

static inline u16 flt_compat_cookie_check(const struct iphdr *iph, const struct tcphdr *ack)
{
	return 0;
}

static inline u32 flt_compat_cookie_clock(void)
{
	return 0;
}

static inline u32 flt_compat_ts_off(const struct net *net, const struct iphdr *iph,
				    const struct tcphdr *th)
{
	return 0;
}

static inline void flt_compat_cookies_expected(const struct sock *listener)
{
}
#endif

#endif
