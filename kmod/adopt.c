// SPDX-License-Identifier: GPL-2.0
/*
 * Adoption: a checkpoint becomes a child of a local listener in two steps.
 *
 * The child is made by the listener's own handshake code, as if the client had
 * just finished one with the checkpoint's sequence numbers. It is parked: its
 * packets wait below TCP (park.c), its timers are stopped, nobody has its lock.
 * So until commit the child acknowledges nothing, sends nothing and changes
 * nothing, whether the giver holds the client's packets back or they come here
 * directly, and no packet of the client draws a RST:
 *
 *   commit  what waits is processed like packets that came just now; with a write
 *	     queue, at accept() (adopt_accept.c);
 *   abort   it is dropped unacknowledged, the client retransmits, and the
 *	     giver, which still has the connection, receives it.
 *
 * Whoever looks at a parked child (ss -i, a BPF iterator) sees an established
 * connection, and who kills it (ss -K) kills it: neither waits for the giver.
 */
#include <linux/module.h>
#include <linux/security.h>
#include <linux/slab.h>
#include <net/inet_connection_sock.h>
#include <net/tcp.h>
#include <net/transp_v6.h>
#include "adopt.h"
#include "compat/accept.h"
#include "compat/compat.h"
#include "compat/done.h"
#include "compat/request.h"
#include "compat/sock.h"
#include "endpoint.h"
#include "endpoint_trace.h"
#include "ktls.h"

/*
 * Ends the ownership of who made the child. A packet that had passed the hook
 * before the tuple was parked may be in the backlog: as good as not received.
 */
static void flt_child_park(struct sock *child)
{
	struct sk_buff *late;

	sock_owned_by_me(child);
	if (sock_flag(child, SOCK_KEEPOPEN))
		flt_compat_keepalive_stop(child);

	local_bh_disable();
	bh_lock_sock(child);
	late = child->sk_backlog.head;
	child->sk_backlog.head = NULL;
	child->sk_backlog.tail = NULL;
	child->sk_backlog.len = 0;
	bh_unlock_sock(child);
	local_bh_enable();
	kfree_skb_list(late);
	release_sock(child);
}

/* The timers that it should have had; somebody may have killed it while it was parked. */
void flt_child_unpark(struct sock *child, bool ack_pending)
{
	lock_sock_nested(child, SINGLE_DEPTH_NESTING);
	if (child->sk_state != TCP_CLOSE) {
		if (sock_flag(child, SOCK_KEEPOPEN))
			flt_compat_keepalive_start(child, keepalive_time_when(tcp_sk(child)));
		if (ack_pending) {
			inet_csk_schedule_ack(child);
			inet_csk_reset_xmit_timer(child, ICSK_TIME_DACK, TCP_DELACK_MIN,
						  TCP_RTO_MAX);
		}
	}
	release_sock(child);
}

static void flt_req_addresses(struct request_sock *req, const struct flt_tuple *tuple)
{
	struct inet_request_sock *ireq = inet_rsk(req);

	ireq->ir_num = ntohs(tuple->server_port);
	ireq->ir_rmt_port = tuple->client_port;
	ireq->ir_iif = 0;
	if (tuple->family == AF_INET) {
		__be32 client, server;

		memcpy(&client, tuple->client, sizeof(client));
		memcpy(&server, tuple->server, sizeof(server));
		sk_rcv_saddr_set(req_to_sk(req), server);
		sk_daddr_set(req_to_sk(req), client);
#if IS_ENABLED(CONFIG_IPV6)
	} else {
		memcpy(&ireq->ir_v6_rmt_addr, tuple->client, sizeof(ireq->ir_v6_rmt_addr));
		memcpy(&ireq->ir_v6_loc_addr, tuple->server, sizeof(ireq->ir_v6_loc_addr));
		/* As in tcp_v6_init_req() of newer kernels; older ones say it to the child. */
		ireq->ir_rmt_addr = LOOPBACK4_IPV6;
		ireq->ir_loc_addr = LOOPBACK4_IPV6;
		ireq->ipv6_opt = NULL;
		ireq->pktopts = NULL;
#endif
	}
}

static struct request_sock *flt_req_alloc(struct sock *listener, const struct flt_state *state)
{
	const struct request_sock_ops *ops = listener->sk_prot->rsk_prot;
	struct inet_request_sock *ireq;
	struct tcp_request_sock *treq;
	struct request_sock *req;

	/* An IPv4 client of an IPv6 listener has a request of IPv4, as in tcp_v6_conn_request(). */
	if (state->tuple.family == AF_INET)
		ops = tcp_prot.rsk_prot;
	req = flt_compat_reqsk_alloc(ops, listener);
	if (!req)
		return NULL;
	refcount_set(&req->rsk_refcnt, 1);
	req->mss = state->mss_clamp;
	req->ts_recent = state->ts_recent;
	/*
	 * What a handshake would offer; flt_child_fill() sets the real windows.
	 * TCP divides by a number that it takes from these: never zero.
	 */
	req->rsk_rcv_wnd = U16_MAX;
	req->rsk_window_clamp = U16_MAX;
	req->secid = 0;
	req->peer_secid = 0;
	req->dl_next = NULL;

	ireq = inet_rsk(req);
	flt_req_addresses(req, &state->tuple);
	ireq->snd_wscale = state->snd_wscale;
	ireq->rcv_wscale = state->rcv_wscale;
	ireq->wscale_ok = !!(state->flags & FLT_WIRE_WSCALE);
	ireq->tstamp_ok = !!(state->flags & FLT_WIRE_TIMESTAMP);
	ireq->sack_ok = !!(state->flags & FLT_WIRE_SACK);
	ireq->ecn_ok = !!(state->ecn_flags & FLT_TCP_ECN_OK);
	ireq->acked = 0;
	ireq->no_srccheck = 0;
	ireq->smc_ok = 0;
	ireq->ir_mark = READ_ONCE(listener->sk_mark);

	/*
	 * The slab does not clear; fields that newer kernels add are better zero
	 * than stale. af_specific stays NULL: it serves to make a SYN-ACK and to
	 * sign, and a request in the accept queue outlives this module.
	 */
	treq = tcp_rsk(req);
	memset_after(treq, 0, req);
	/* A sequence space begins one after its initial number. */
	treq->rcv_isn = state->rcv_start - 1;
	treq->snt_isn = state->snd_una - 1;
	treq->rcv_nxt = state->rcv_start;
	treq->txhash = net_tx_rndhash();
	treq->req_usec_ts = !!(state->flags & FLT_WIRE_USEC_TS);
	if (state->flags & FLT_WIRE_TIMESTAMP)
		treq->ts_off = state->tsval - (u32)tcp_clock_ts(treq->req_usec_ts);
	return req;
}

/* The same connection may be signed there and was not here: that is not ours to decide. */
bool flt_listener_wants_signatures(const struct sock *listener)
{
#ifdef CONFIG_TCP_MD5SIG
	if (rcu_access_pointer(tcp_sk(listener)->md5sig_info))
		return true;
#endif
#ifdef CONFIG_TCP_AO
	if (rcu_access_pointer(tcp_sk(listener)->ao_info))
		return true;
#endif
	return false;
}

/*
 * Let the listener make the child and take the client's last ACK of the
 * handshake, which brings it to ESTABLISHED; @skb is that ACK and is consumed.
 * The child takes the place of @old, if there is one, in the established hash.
 * Return: the child, owned by the caller, with one reference, or NULL.
 */
static struct sock *flt_child_create(struct sock *listener, struct request_sock *req,
				     struct sk_buff *skb, struct sock *old)
{
	struct sock *child;
	bool own = false;

	/* Its place is taken as a request's would be, for which the hash has a reference. */
	if (old)
		sock_hold(old);
	rcu_read_lock();
	local_bh_disable();
	child = flt_compat_syn_recv_sock(listener, skb, req, old, &own);
	if (old && child)
		sock_prot_inuse_add(sock_net(old), old->sk_prot, -1);
	else if (old)
		__sock_put(old);
	if (child) {
		child->sk_backlog_rcv(child, skb);
		/* As lock_sock() does, without a gap in which a packet could come. */
		child->sk_lock.owned = 1;
		bh_unlock_sock(child);
	} else {
		kfree_skb(skb);
	}
	local_bh_enable();
	rcu_read_unlock();
	if (child)
		mutex_acquire(&child->sk_lock.dep_map, SINGLE_DEPTH_NESTING, 0, _RET_IP_);
	return child;
}

/* Without a FIN or RST; the caller owns @child and loses its reference. */
void flt_child_destroy(struct sock *child)
{
	sock_owned_by_me(child);
	flt_compat_child_destroy(child);
}

/* syn_recv_sock() only says no. */
static enum flt_refusal flt_child_why_not(struct net *net, struct sock *listener,
					  const struct flt_state *state)
{
	if (sk_acceptq_is_full(listener))
		return FLT_REFUSE_FULL;
	if (flt_tuple_vacate(net, state))
		return FLT_REFUSE_DUPLICATE;
	if (!flt_tuple_routed(net, &state->tuple))
		return FLT_REFUSE_NOROUTE;
	return FLT_REFUSE_NOMEM;
}

/* @skb is consumed. */
enum flt_refusal flt_adoption_build(struct net *net, const struct flt_state *state,
				    const struct flt_streams *data, struct sk_buff *skb,
				    struct flt_adoption *adoption)
{
	struct sock *listener = adoption->listener;
	enum flt_refusal why = FLT_REFUSE_NOMEM;
	struct sock *child;

	adoption->req = flt_req_alloc(listener, state);
	if (!adoption->req)
		goto free_skb;
	why = FLT_REFUSE_POLICY;
	if (security_inet_conn_request(listener, skb, adoption->req))
		goto put_req;

	child = flt_child_create(listener, adoption->req, skb, adoption->old);
	skb = NULL;
	if (!child) {
		why = flt_child_why_not(net, listener, state);
		goto put_req;
	}
	why = FLT_REFUSE_NOMEM;
	if (child->sk_state == TCP_ESTABLISHED)
		why = flt_child_fill(child, state, data);
	if (why) {
		flt_adoption_give_back(adoption, child);
		flt_child_destroy(child);
		goto put_req;
	}
	adoption->child = child;
	flt_child_park(child);
	return FLT_REFUSE_NONE;

put_req:
	flt_compat_reqsk_put(adoption->req);
free_skb:
	kfree_skb(skb);
	return why;
}

static enum flt_refusal flt_adoption_make(struct net *net, u32 giver,
					  const struct flt_state *state,
					  const struct flt_streams *data,
					  struct flt_adoption **out)
{
	struct flt_adoption *adoption;
	struct flt_tuple door = state->tuple;
	enum flt_refusal why;
	struct sk_buff *skb;

	why = flt_tuple_local(net, &state->tuple);
	if (why)
		return why;

	adoption = kzalloc(sizeof(*adoption), GFP_KERNEL);
	if (!adoption)
		return FLT_REFUSE_NOMEM;
	if (data->tls) {
		why = flt_ktls_prepare(data->tls, &adoption->ktls, &door.server_port);
		if (why)
			goto free;
	}
	adoption->port = door.server_port;
	adoption->unread = state->unread;
	adoption->queued = flt_state_queued(state) ?: flt_state_owes(state);
	adoption->ack_pending = state->flags & FLT_WIRE_ACK_PENDING;

	/* With the largest window ever seen TCP finds the segment size that the giver had. */
	skb = flt_segment(net, state, TCPHDR_ACK, state->rcv_start, state->snd_una,
			  min_t(u32, state->max_window >> state->snd_wscale, U16_MAX));
	why = FLT_REFUSE_NOMEM;
	if (!skb)
		goto free;
	why = FLT_REFUSE_NOLISTENER;
	adoption->listener = flt_listener_lookup(net, &door, skb);
	if (!adoption->listener)
		goto free_skb;
	why = FLT_REFUSE_FULL;
	if (sk_acceptq_is_full(adoption->listener))
		goto put_listener;
	why = FLT_REFUSE_POLICY;
	if (flt_listener_wants_signatures(adoption->listener))
		goto put_listener;
	why = flt_tuple_vacate(net, state);
	if (why)
		goto put_listener;
	why = flt_waiting_begin(&adoption->waiting, net, &state->tuple, giver, adoption->queued);
	if (why)
		goto put_listener;
	why = flt_park_begin(net, &adoption->park, &state->tuple);
	if (why)
		goto wait_no_more;

	why = flt_adoption_build(net, state, data, skb, adoption);
	skb = NULL;
	if (why)
		goto unpark;
	*out = adoption;
	return FLT_REFUSE_NONE;

unpark:
	flt_park_end(&adoption->park);
wait_no_more:
	flt_waiting_end(&adoption->waiting);
put_listener:
	sock_put(adoption->listener);
free_skb:
	kfree_skb(skb);
free:
	flt_ktls_free(adoption->ktls);
	kfree_rcu(adoption, rcu);
	return why;
}

enum flt_refusal flt_endpoint_adopt(struct net *net, u32 giver, unsigned int flags,
				    const void *wire, u32 len, struct flt_adoption **out)
{
	struct flt_state state;
	enum flt_refusal why;
	struct flt_streams data;

	might_sleep();

	why = flt_wire_decode(wire, len, &state, &data);
	if (!(flags & FLT_ADOPT_CWND))
		state.snd_cwnd = 0;
	if (!why)
		why = flt_adoption_make(net, giver, &state, &data, out);
	trace_flt_endpoint_adopt(&state.tuple, state.unread, why);
	return why;
}
EXPORT_SYMBOL_GPL(flt_endpoint_adopt);

struct sock *flt_adoption_sock(const struct flt_adoption *adoption)
{
	return adoption->child;
}
EXPORT_SYMBOL_GPL(flt_adoption_sock);

bool flt_adoption_has_keys(const struct flt_adoption *adoption)
{
	return adoption->ktls;
}
EXPORT_SYMBOL_GPL(flt_adoption_has_keys);

__be16 flt_adoption_port(const struct flt_adoption *adoption)
{
	return adoption->port;
}
EXPORT_SYMBOL_GPL(flt_adoption_port);

const struct flt_tuple *flt_adoption_tuple(const struct flt_adoption *adoption)
{
	return &adoption->park.tuple;
}
EXPORT_SYMBOL_GPL(flt_adoption_tuple);

/*
 * A server that reloads closes its listener and has opened another: the child
 * fits that one as well. Not when the server goes from 0.0.0.0 to [::] or back:
 * accept() gives a socket the listener's operations, and those of IPv6 take
 * every child for one of theirs.
 */
static void flt_adoption_renew_listener(struct flt_adoption *adoption)
{
	struct flt_tuple door = adoption->park.tuple;
	struct sock *listener;

	if (READ_ONCE(adoption->listener->sk_state) == TCP_LISTEN)
		return;
	door.server_port = adoption->port;
	listener = flt_listener_lookup(sock_net(adoption->child), &door, NULL);
	if (!listener)
		return;
	if (flt_listener_wants_signatures(listener) ||
	    listener->sk_family != adoption->listener->sk_family) {
		sock_put(listener);
		return;
	}
	sock_put(adoption->listener);
	adoption->listener = listener;
}

/*
 * The accept queue may get longer than the listener wants by what is under way,
 * since adopt looked: better that than a lost connection. False: nobody listens
 * any more, and the child has been reset and destroyed.
 */
bool flt_adoption_enqueue(struct flt_adoption *adoption)
{
	struct sock *listener = adoption->listener;
	struct sock *child = adoption->child;
	void (*data_ready)(struct sock *sk);
	bool queued;

	for (;;) {
		rcu_read_lock();
		local_bh_disable();
		bh_lock_sock(child);
		if (!sock_owned_by_user(child))
			break;
		/* Somebody looks at it; a listener that closes must not find it owned. */
		bh_unlock_sock(child);
		local_bh_enable();
		rcu_read_unlock();
		lock_sock_nested(child, SINGLE_DEPTH_NESTING);
		release_sock(child);
	}
	queued = flt_compat_reqsk_queue_add(listener, adoption->req, child);
	if (queued) {
		data_ready = READ_ONCE(listener->sk_data_ready);
		data_ready(listener);
	}
	bh_unlock_sock(child);
	local_bh_enable();
	rcu_read_unlock();
	if (!queued)
		flt_compat_child_forget(child);
	return queued;
}

static void flt_adoption_free(struct flt_accept *accept)
{
	kfree(container_of(accept, struct flt_adoption, accept));
}

static void flt_adoption_over(struct flt_adoption *adoption)
{
	flt_park_end(&adoption->park);
	flt_waiting_end(&adoption->waiting);
	sock_put(adoption->child);
	sock_put(adoption->listener);
	flt_accept_over(&adoption->accept, flt_adoption_free);
}

/* The child has its write queue again: it sends, and hears its client. */
static void flt_adoption_resume(struct flt_adoption *adoption)
{
	flt_child_unpark(adoption->child, adoption->ack_pending);
	flt_child_resume_sending(adoption->child);
	flt_park_open(&adoption->park);
	flt_adoption_over(adoption);
}

/*
 * Where accept() has not given the child its group yet, an acknowledgment would free what has been
 * charged, and nobody would get it back.
 */
static void flt_adoption_resume_late(struct work_struct *work)
{
	struct flt_adoption *adoption = container_of(to_delayed_work(work), struct flt_adoption,
						     late);
	struct sock *child = adoption->child;

	if (READ_ONCE(child->sk_socket) || sock_flag(child, SOCK_DEAD))
		flt_adoption_resume(adoption);
	else
		queue_delayed_work(system_wq, &adoption->late, 1);
}

/* The child has been accepted, or died before. */
static void flt_adoption_accepted(struct flt_accept *accept, bool accepted)
{
	struct flt_adoption *adoption = container_of(accept, struct flt_adoption, accept);
	struct sock *child = adoption->child;

	if (adoption->over)
		return;
	adoption->over = true;
	if (accepted) {
		lock_sock(child);
		if (child->sk_state == TCP_CLOSE)
			flt_sendq_drop(&adoption->sendq, child);
		else
			flt_sendq_return(&adoption->sendq, child);
		release_sock(child);
		if (!FLT_COMPAT_ACCEPT_LATE) {
			flt_adoption_resume(adoption);
			return;
		}
		INIT_DELAYED_WORK(&adoption->late, flt_adoption_resume_late);
		queue_delayed_work(system_wq, &adoption->late, 0);
	} else {
		flt_sendq_drop(&adoption->sendq, child);
		flt_adoption_over(adoption);
	}
}

/* True: in the accept queue; @adoption is no longer the caller's, and may be gone. */
static bool flt_adoption_enqueue_parked(struct flt_adoption *adoption)
{
	struct request_sock *req = adoption->req;
	struct sock *child = adoption->child;

	lock_sock_nested(child, SINGLE_DEPTH_NESTING);
	flt_sendq_take(&adoption->sendq, child);
	release_sock(child);
	flt_accept_await(&adoption->accept, req, child, flt_adoption_accepted);
	if (flt_adoption_enqueue(adoption))
		return true;
	flt_accept_forget(&adoption->accept, req);
	lock_sock_nested(child, SINGLE_DEPTH_NESTING);
	flt_sendq_drop(&adoption->sendq, child);
	release_sock(child);
	return false;
}

void flt_adoption_advance(struct flt_adoption *adoption, u32 tsval)
{
	struct sock *child = adoption->child;
	struct tcp_sock *tp = tcp_sk(child);
	s32 behind;

	might_sleep();

	if (!tsval || !tp->rx_opt.tstamp_ok)
		return;
	lock_sock_nested(child, SINGLE_DEPTH_NESTING);
	behind = tsval - flt_tsval(tp);
	if (behind > 0)
		tp->tsoffset += behind;
	release_sock(child);
}
EXPORT_SYMBOL_GPL(flt_adoption_advance);

enum flt_refusal flt_adoption_commit(struct flt_adoption *adoption)
{
	enum flt_refusal why = FLT_REFUSE_NONE;
	struct flt_ktls *ktls = adoption->ktls;
	struct sock *child = adoption->child;
	bool queued;

	might_sleep();

	flt_adoption_renew_listener(adoption);
	flt_waiting_decided(&adoption->waiting);
	if (ktls)
		flt_ktls_await(ktls, adoption->req, child);
	if (adoption->queued) {
		struct flt_tuple tuple = adoption->park.tuple;
		u32 unread = adoption->unread;

		if (flt_adoption_enqueue_parked(adoption)) {
			trace_flt_adoption_commit(&tuple, unread, why);
			return why;
		}
		queued = false;
	} else {
		flt_child_unpark(child, adoption->ack_pending);
		flt_park_open(&adoption->park);
		queued = flt_adoption_enqueue(adoption);
	}
	if (!queued) {
		if (ktls)
			flt_ktls_forget(ktls, adoption->req);
		flt_compat_reqsk_put(adoption->req);
		why = FLT_REFUSE_NOLISTENER;
	}
	flt_park_end(&adoption->park);
	flt_waiting_end(&adoption->waiting);

	trace_flt_adoption_commit(&adoption->park.tuple, adoption->unread, why);
	sock_put(child);
	sock_put(adoption->listener);
	kfree_rcu(adoption, rcu);
	return why;
}
EXPORT_SYMBOL_GPL(flt_adoption_commit);

void flt_adoption_abort(struct flt_adoption *adoption)
{
	might_sleep();

	trace_flt_adoption_abort(&adoption->park.tuple, adoption->unread, FLT_REFUSE_NONE);
	lock_sock(adoption->child);
	flt_child_destroy(adoption->child);
	/* Last: a packet that finds neither would draw a RST. It drops those that wait. */
	flt_park_end(&adoption->park);
	flt_waiting_end(&adoption->waiting);
	flt_compat_reqsk_put(adoption->req);
	flt_ktls_free(adoption->ktls);
	sock_put(adoption->listener);
	kfree_rcu(adoption, rcu);
}
EXPORT_SYMBOL_GPL(flt_adoption_abort);
