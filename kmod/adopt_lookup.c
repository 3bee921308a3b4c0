// SPDX-License-Identifier: GPL-2.0
/* What the target has to say of a four-tuple: its listener, its routes, its sockets. */
#include <net/addrconf.h>
#include <net/inet6_hashtables.h>
#include <net/inet_hashtables.h>
#include <net/ip6_route.h>
#include <net/route.h>
#include <net/tcp.h>
#include "adopt.h"
#include "compat/lookup.h"

static __be32 flt_addr4(const u8 *bytes)
{
	__be32 addr;

	memcpy(&addr, bytes, sizeof(addr));
	return addr;
}

/* A listener bound to a device is not found: which device the client's packets will come in by is
 * for the forwarding to choose.
 */
struct sock *flt_listener_lookup(struct net *net, const struct flt_tuple *tuple,
				 struct sk_buff *skb)
{
	int doff = skb ? sizeof(struct tcphdr) : 0;
	struct sock *sk = NULL;

	rcu_read_lock();
	local_bh_disable();
	if (tuple->family == AF_INET) {
		sk = flt_compat_listener4(net, skb, doff, flt_addr4(tuple->client),
					  tuple->client_port, flt_addr4(tuple->server),
					  ntohs(tuple->server_port), 0);
#if IS_ENABLED(CONFIG_IPV6)
	} else {
		struct in6_addr client, server;

		memcpy(&client, tuple->client, sizeof(client));
		memcpy(&server, tuple->server, sizeof(server));
		sk = flt_compat_listener6(net, skb, doff, &client, tuple->client_port, &server,
					  ntohs(tuple->server_port), 0);
#endif
	}
	if (sk && !refcount_inc_not_zero(&sk->sk_refcnt))
		sk = NULL;
	local_bh_enable();
	rcu_read_unlock();
	return sk;
}

static struct sock *flt_established_lookup(struct net *net, const struct flt_tuple *tuple)
{
	if (tuple->family == AF_INET)
		return flt_compat_established4(net, flt_addr4(tuple->client), tuple->client_port,
					       flt_addr4(tuple->server),
					       ntohs(tuple->server_port), 0);
#if IS_ENABLED(CONFIG_IPV6)
	struct in6_addr client, server;

	memcpy(&client, tuple->client, sizeof(client));
	memcpy(&server, tuple->server, sizeof(server));
	return flt_compat_established6(net, &client, tuple->client_port, &server,
				       ntohs(tuple->server_port), 0);
#else
	return NULL;
#endif
}

/*
 * The rule that tcp_timewait_state_process() has for a SYN: the client has
 * begun anew when its sequence numbers or its clock are past what the old
 * connection ended with. It has answered a SYN-ACK at the giver, so it is not
 * in the old connection any more: one that still waits for the client's FIN
 * (substate FIN_WAIT2) waits in vain.
 */
static bool flt_timewait_may_end(const struct sock *sk, const struct flt_state *state)
{
	const struct tcp_timewait_sock *tw = tcp_twsk(sk);

	if (after(state->rcv_start, READ_ONCE(tw->tw_rcv_nxt)))
		return true;
	return (state->flags & FLT_WIRE_TIMESTAMP) && READ_ONCE(tw->tw_ts_recent_stamp) &&
	       (s32)(READ_ONCE(tw->tw_ts_recent) - state->ts_recent) < 0;
}

enum flt_refusal flt_tuple_vacate(struct net *net, const struct flt_state *state)
{
	enum flt_refusal why = FLT_REFUSE_NONE;
	struct sock *sk;

	rcu_read_lock();
	local_bh_disable();
	sk = flt_established_lookup(net, &state->tuple);
	if (sk && sk->sk_state == TCP_TIME_WAIT && flt_timewait_may_end(sk, state)) {
		inet_twsk_deschedule_put(inet_twsk(sk));
	} else if (sk) {
		sock_gen_put(sk);
		why = FLT_REFUSE_DUPLICATE;
	}
	local_bh_enable();
	rcu_read_unlock();
	return why;
}

enum flt_refusal flt_tuple_local(struct net *net, const struct flt_tuple *tuple)
{
	bool local = false;

	if (tuple->family == AF_INET) {
		local = inet_addr_type(net, flt_addr4(tuple->server)) == RTN_LOCAL;
#if IS_ENABLED(CONFIG_IPV6)
	} else {
		struct in6_addr server;

		memcpy(&server, tuple->server, sizeof(server));
		local = ipv6_chk_addr(net, &server, NULL, 0);
#endif
	}
	return local ? FLT_REFUSE_NONE : FLT_REFUSE_NOTLOCAL;
}

bool flt_tuple_routed(struct net *net, const struct flt_tuple *tuple)
{
	if (tuple->family == AF_INET) {
		struct flowi4 fl4 = {
			.daddr = flt_addr4(tuple->client),
			.saddr = flt_addr4(tuple->server),
			.flowi4_proto = IPPROTO_TCP,
			.fl4_sport = tuple->server_port,
			.fl4_dport = tuple->client_port,
		};
		struct rtable *rt = ip_route_output_flow(net, &fl4, NULL);

		if (IS_ERR(rt))
			return false;
		ip_rt_put(rt);
		return true;
	}
#if IS_ENABLED(CONFIG_IPV6)
	struct flowi6 fl6 = {
		.flowi6_proto = IPPROTO_TCP,
		.fl6_sport = tuple->server_port,
		.fl6_dport = tuple->client_port,
	};
	struct dst_entry *dst;
	int err;

	memcpy(&fl6.daddr, tuple->client, sizeof(fl6.daddr));
	memcpy(&fl6.saddr, tuple->server, sizeof(fl6.saddr));
	dst = ip6_route_output(net, NULL, &fl6);
	err = dst->error;
	dst_release(dst);
	return !err;
#else
	return false;
#endif
}
