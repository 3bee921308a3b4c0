/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The end of a connection of which the client hears nothing, and other states of it: newer kernels
 * hide tcp_done() and tcp_set_state().
 */
#ifndef FLT_COMPAT_DONE_H
#define FLT_COMPAT_DONE_H

#include <linux/ipv6.h>
#include <net/inet_sock.h>
#include <net/tcp.h>
#include <flt_compat_config.h>

#ifndef FLT_HAVE_TCP_DONE
/* The RST that a peer would send; it needs no route and no checksum. */
static inline struct sk_buff *flt_compat_rst(const struct sock *sk, gfp_t gfp)
{
	struct sk_buff *skb = alloc_skb(MAX_TCP_HEADER, gfp);
	struct tcphdr *th;

	if (!skb)
		return NULL;
	skb_reserve(skb, MAX_TCP_HEADER - sizeof(*th));
	skb_set_network_header(skb, -(int)sizeof(struct ipv6hdr));
	memset(skb_network_header(skb), 0, sizeof(struct ipv6hdr));
	th = skb_put_zero(skb, sizeof(*th));
	skb_reset_transport_header(skb);
	th->doff = sizeof(*th) / 4;
	th->rst = 1;
	skb->protocol = sk->sk_family == AF_INET ? htons(ETH_P_IP) : htons(ETH_P_IPV6);
	skb->ip_summed = CHECKSUM_UNNECESSARY;
	skb->dev = sock_net(sk)->loopback_dev;
	memset(TCP_SKB_CB(skb), 0, sizeof(*TCP_SKB_CB(skb)));
	TCP_SKB_CB(skb)->tcp_flags = TCPHDR_RST;
	return skb;
}
#endif

/**
 * flt_compat_tcp_done - as if a RST had come: nothing is sent, timers stop, waiters wake up
 * @sk:  owned, not closed, in no state of a handshake
 * @gfp: __GFP_NOFAIL where there is no way back
 *
 * Context: process, or as @gfp allows.
 * Return: false: no memory, and nothing has changed.
 */
static inline bool flt_compat_tcp_done(struct sock *sk, gfp_t gfp)
{
#ifdef FLT_HAVE_TCP_DONE
	local_bh_disable();
	bh_lock_sock(sk);
	tcp_done(sk);
#else
	struct sk_buff *rst = flt_compat_rst(sk, gfp);

	if (!rst)
		return false;
	local_bh_disable();
	bh_lock_sock(sk);
	tcp_hdr(rst)->seq = htonl(tcp_sk(sk)->rcv_nxt);
	TCP_SKB_CB(rst)->seq = tcp_sk(sk)->rcv_nxt;
	TCP_SKB_CB(rst)->end_seq = tcp_sk(sk)->rcv_nxt;
	sk->sk_backlog_rcv(sk, rst);
	/* Nobody has reset it. */
	WRITE_ONCE(sk->sk_err, 0);
#endif
	bh_unlock_sock(sk);
	local_bh_enable();
	return true;
}

/**
 * flt_compat_set_state - what tcp_set_state() does between states of an end
 * @sk:    owned
 * @state: neither TCP_ESTABLISHED, TCP_CLOSE_WAIT nor TCP_CLOSE
 *
 * BPF programs that follow states (BPF_SOCK_OPS_STATE_CB) do not hear of it.
 */
static inline void flt_compat_set_state(struct sock *sk, int state)
{
	if (sk->sk_state == TCP_ESTABLISHED || sk->sk_state == TCP_CLOSE_WAIT)
		TCP_DEC_STATS(sock_net(sk), TCP_MIB_CURRESTAB);
	inet_sk_set_state(sk, state);
}

/**
 * flt_compat_child_destroy - end a child that no program has, without a FIN or RST
 * @sk: owned; it and two references go
 *
 * Context: process.
 */
static inline void flt_compat_child_destroy(struct sock *sk)
{
#ifdef FLT_HAVE_TCP_DONE
	local_bh_disable();
	bh_lock_sock(sk);
	sock_orphan(sk);
	tcp_orphan_count_inc();
	tcp_done(sk);
	bh_unlock_sock(sk);
	local_bh_enable();
	/* What waits in the backlog finds state CLOSE and is dropped in silence. */
	release_sock(sk);
#else
	/* In repair mode disconnect() sends nothing. */
	tcp_sk(sk)->repair = 1;
	sk->sk_prot->disconnect(sk, 0);
	release_sock(sk);
	tcp_close(sk, 0);
#endif
	sock_put(sk);
}

#endif
