/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What differs between the kernels Flotilla builds for: one probe, one wrapper,
 * one API each. tools/build/probe compiles probes/NAME.c against the kernel and
 * defines FLT_HAVE_NAME for those that compile; distributions backport, so the
 * kernel's version number says nothing.
 */
#ifndef FLT_COMPAT_H
#define FLT_COMPAT_H

#include <linux/hrtimer.h>
#include <net/inet_connection_sock.h>
#include <net/request_sock.h>
#include <flt_compat_config.h>

/**
 * flt_compat_syn_recv_sock - create the child of a finished handshake
 * @listener: the listener
 * @skb:      ends the handshake; data points at its TCP header
 * @req:      not in any hash table
 * @old:      whose place in the established hash the child takes, or NULL: who makes children
 *	      knows a request there, and looks at nothing of it but its place
 * @own:      set when the child went into the established hash
 *
 * The handshake code itself is not exported; every listener carries a pointer
 * to it. No route is passed: only then does it fill the child's flow in.
 *
 * Context: RCU read side, bottom halves off.
 * Return: the child, bh-locked and with two references, or NULL.
 */
static inline struct sock *flt_compat_syn_recv_sock(struct sock *listener, struct sk_buff *skb,
						    struct request_sock *req,
						    struct sock *old, bool *own)
{
	const struct inet_connection_sock_af_ops *ops = inet_csk(listener)->icsk_af_ops;

#ifdef FLT_HAVE_SYN_RECV_SOCK_INIT
	return ops->syn_recv_sock(listener, skb, req, NULL, inet_reqsk(old), own, NULL);
#else
	return ops->syn_recv_sock(listener, skb, req, NULL, inet_reqsk(old), own);
#endif
}

/**
 * flt_compat_hrtimer_setup - initialise a timer of the monotonic clock
 * @timer: not in use
 * @run:   what it does
 * @mode:  as it will be started
 */
static inline void flt_compat_hrtimer_setup(struct hrtimer *timer,
					    enum hrtimer_restart (*run)(struct hrtimer *timer),
					    enum hrtimer_mode mode)
{
#ifdef FLT_HAVE_HRTIMER_SETUP
	hrtimer_setup(timer, run, CLOCK_MONOTONIC, mode);
#else
	hrtimer_init(timer, CLOCK_MONOTONIC, mode);
	timer->function = run;
#endif
}

#endif
