// SPDX-License-Identifier: GPL-2.0
/*
 * A connection moves within the machine: the checkpoint of one socket becomes a child of
 * another listener (adopt.c), which takes the first one's place in the hash under the bucket's
 * lock. The order, and what undoes it:
 *
 *	park		the client's packets wait below TCP, whoever gets them
 *	lock, may?	the program can do nothing from here on
 *	checkpoint
 *	adopt		the child instead of the socket in the hash	(give back)
 *	listener locked	it listens, so the next step cannot fail
 *	enqueue
 *	release		the socket is a shell: end of file
 *	unpark		whoever is in the hash gets the packets
 */
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <net/inet_hashtables.h>
#include <net/ipv6.h>
#include <net/tcp.h>
#include <net/transp_v6.h>
#include "adopt.h"
#include "compat/request.h"
#include "endpoint.h"
#include "endpoint_trace.h"
#include "freeze.h"
#include "ktls.h"
#include "requeue.h"
#include "socklock.h"

/* The order of inet_lookup_listener(). */
#define FLT_RANK_ANY	1
#define FLT_RANK_FAMILY	1
#define FLT_RANK_EXACT	2

static unsigned int flt_listener_rank4(const struct sock *listener, __be32 server)
{
	unsigned int rank = FLT_RANK_ANY;
	__be32 own = 0;

	if (listener->sk_family == AF_INET) {
		rank += FLT_RANK_FAMILY;
		own = listener->sk_rcv_saddr;
	}
#if IS_ENABLED(CONFIG_IPV6)
	else if (ipv6_addr_v4mapped(&listener->sk_v6_rcv_saddr))
		own = listener->sk_v6_rcv_saddr.s6_addr32[3];
	else if (ipv6_only_sock(listener) || !ipv6_addr_any(&listener->sk_v6_rcv_saddr))
		return 0;
#endif
	if (!own)
		return rank;
	return own == server ? rank + FLT_RANK_EXACT : 0;
}

static unsigned int flt_listener_rank6(const struct sock *listener, const void *server)
{
#if IS_ENABLED(CONFIG_IPV6)
	if (listener->sk_family != AF_INET6)
		return 0;
	if (ipv6_addr_any(&listener->sk_v6_rcv_saddr))
		return FLT_RANK_ANY;
	if (!memcmp(&listener->sk_v6_rcv_saddr, server, sizeof(struct in6_addr)))
		return FLT_RANK_ANY + FLT_RANK_EXACT;
#endif
	return 0;
}

unsigned int flt_listener_rank_of(const struct sock *listener, const struct net *net,
				  const struct flt_tuple *tuple)
{
	__be32 server;

	if (READ_ONCE(listener->sk_state) != TCP_LISTEN || listener->sk_bound_dev_if ||
	    !net_eq(sock_net(listener), net) ||
	    inet_sk(listener)->inet_num != ntohs(tuple->server_port))
		return 0;
	if (tuple->family != AF_INET)
		return flt_listener_rank6(listener, tuple->server);
	memcpy(&server, tuple->server, sizeof(server));
	return flt_listener_rank4(listener, server);
}
EXPORT_SYMBOL_GPL(flt_listener_rank_of);

bool flt_sock_came(const struct sock *sk)
{
#if IS_ENABLED(CONFIG_IPV6)
	if (sk->sk_family == AF_INET6 && !ipv6_addr_v4mapped(&sk->sk_v6_daddr))
		return inet_sk(sk)->inet_daddr == LOOPBACK4_IPV6;
#endif
	return READ_ONCE(inet_sk(sk)->mc_index);
}
EXPORT_SYMBOL_GPL(flt_sock_came);

int flt_listener_mute(struct sock *sk, bool mute)
{
	int err = 0;

	might_sleep();
	if (!flt_sock_lock_soon(sk))
		return -EBUSY;
	if (sk->sk_state != TCP_LISTEN)
		err = -EINVAL;
	else if (mute)
		sk->sk_prot->unhash(sk);
	else if (sk_unhashed(sk))
		err = sk->sk_prot->hash(sk);
	release_sock(sk);
	return err;
}
EXPORT_SYMBOL_GPL(flt_listener_mute);

void flt_adoption_give_back(struct flt_adoption *adoption, struct sock *child)
{
	struct sock *old = adoption->old;

	if (!old)
		return;
	sock_owned_by_me(old);
	sock_owned_by_me(child);
	/* Nobody looks for either meanwhile: packets for both are parked. */
	child->sk_prot->unhash(child);
	old->sk_prot->hash(old);
}

static void flt_requeue_undo(struct flt_adoption *adoption, const struct flt_requeue *how,
			     bool taken)
{
	lock_sock_nested(adoption->child, SINGLE_DEPTH_NESTING);
	if (taken && how->give_back)
		how->give_back(adoption->old, adoption->child, how->arg);
	flt_adoption_give_back(adoption, adoption->child);
	flt_child_destroy(adoption->child);
	flt_compat_reqsk_put(adoption->req);
}

/* Its listener's lock is held, so that it cannot fail: who queues it looks for that. */
static enum flt_refusal flt_requeue_queue(struct flt_adoption *adoption)
{
	struct flt_ktls *ktls = adoption->ktls;

	adoption->ktls = NULL;
	if (ktls)
		flt_ktls_await(ktls, adoption->req, adoption->child);
	flt_child_unpark(adoption->child, adoption->ack_pending);
	if (!WARN_ON_ONCE(!flt_adoption_enqueue(adoption)))
		return FLT_REFUSE_NONE;
	if (ktls)
		flt_ktls_forget(ktls, adoption->req);
	return FLT_REFUSE_ABORTED;
}

/* The child goes to the listener, which cannot close meanwhile: its lock is ours. */
static enum flt_refusal flt_requeue_enqueue(struct flt_adoption *adoption)
{
	enum flt_refusal why = FLT_REFUSE_NOLISTENER;
	struct sock *listener = adoption->listener;

	if (!flt_sock_lock_soon(listener))
		return FLT_REFUSE_BUSY;
	if (listener->sk_state == TCP_LISTEN)
		why = flt_requeue_queue(adoption);
	release_sock(listener);
	return why;
}

static enum flt_refusal flt_requeue_take(struct flt_adoption *adoption,
					 const struct flt_requeue *how)
{
	enum flt_refusal why;

	if (!how->take)
		return FLT_REFUSE_NONE;
	lock_sock_nested(adoption->child, SINGLE_DEPTH_NESTING);
	why = how->take(adoption->old, adoption->child, how->arg);
	release_sock(adoption->child);
	return why;
}

static enum flt_refusal flt_requeue_install(struct flt_adoption *adoption,
					    const struct flt_requeue *how,
					    const struct flt_state *state,
					    const struct flt_streams *data)
{
	struct net *net = sock_net(adoption->old);
	enum flt_refusal why;
	struct sk_buff *skb;
	bool taken = false;

	why = flt_tuple_local(net, &state->tuple);
	if (why)
		return why;
	if (flt_listener_wants_signatures(adoption->listener))
		return FLT_REFUSE_POLICY;
	skb = flt_segment(net, state, TCPHDR_ACK, state->rcv_start, state->snd_una,
			  min_t(u32, state->max_window >> state->snd_wscale, U16_MAX));
	if (!skb)
		return FLT_REFUSE_NOMEM;
	adoption->unread = state->unread;
	adoption->ack_pending = state->flags & FLT_WIRE_ACK_PENDING;
	why = flt_adoption_build(net, state, data, skb, adoption);
	if (why)
		return why;
	why = flt_requeue_take(adoption, how);
	taken = why == FLT_REFUSE_NONE;
	if (taken)
		why = flt_requeue_enqueue(adoption);
	if (why == FLT_REFUSE_NONE)
		sock_put(adoption->child);
	else if (why != FLT_REFUSE_ABORTED)
		flt_requeue_undo(adoption, how, taken);
	return why;
}

static enum flt_refusal flt_requeue_checkpoint(struct flt_adoption *adoption,
					       struct flt_checkpoint **ckpt)
{
	struct flt_tls tls;
	enum flt_refusal why;

	why = flt_endpoint_checkpoint(adoption->old, FLT_CHECKPOINT_OOO, FLT_CHECKPOINT_MAX, 0,
				      &tls, ckpt);
	if (why == FLT_REFUSE_NONE && tls.version) {
		adoption->ktls = flt_ktls_keep(&tls);
		if (!adoption->ktls) {
			kvfree(*ckpt);
			why = FLT_REFUSE_NOMEM;
		}
	}
	memzero_explicit(&tls, sizeof(tls));
	return why;
}

static enum flt_refusal flt_requeue_locked(struct flt_adoption *adoption,
					   const struct flt_requeue *how)
{
	struct sock *sk = adoption->old;
	struct flt_checkpoint *ckpt;
	struct flt_state state;
	struct flt_streams data;
	enum flt_refusal why;

	sock_owned_by_me(sk);
	/* Closed, it is TCP's to end; without a place in the hash there is none to take over. */
	if (sock_flag(sk, SOCK_DEAD) || sk->sk_state != TCP_ESTABLISHED || !sk_hashed(sk))
		return FLT_REFUSE_STATE;
	why = flt_requeue_checkpoint(adoption, &ckpt);
	if (why)
		return why;
	why = flt_wire_decode(ckpt->wire, ckpt->len, &state, &data);
	if (!why)
		why = flt_requeue_install(adoption, how, &state, &data);
	kvfree(ckpt);
	flt_ktls_free(adoption->ktls);
	if (!why)
		flt_endpoint_release(sk);
	return why;
}

enum flt_refusal flt_endpoint_requeue(struct sock *sk, const struct flt_requeue *how)
{
	struct flt_tuple tuple, door;
	struct flt_adoption *adoption;
	enum flt_refusal why;

	might_sleep();

	flt_tuple_from_sock(sk, &tuple);
	door = tuple;
	if (how->port)
		door.server_port = how->port;
	if (!flt_listener_rank_of(how->listener, sock_net(sk), &door))
		return FLT_REFUSE_NOLISTENER;
	/* It is asked again for each of many connections: nothing is made for a no. */
	if (sk_acceptq_is_full(how->listener))
		return FLT_REFUSE_FULL;
	adoption = kzalloc(sizeof(*adoption), GFP_KERNEL);
	if (!adoption)
		return FLT_REFUSE_NOMEM;
	adoption->old = sk;
	adoption->listener = how->listener;
	why = flt_park_begin(sock_net(sk), &adoption->park, &tuple);
	if (why) {
		kfree(adoption);
		return why == FLT_REFUSE_DUPLICATE ? FLT_REFUSE_BUSY : why;
	}
	if (flt_sock_lock_soon(sk)) {
		struct flt_tuple now;

		/* Its program may have made another connection of it meanwhile. */
		flt_tuple_from_sock(sk, &now);
		if (memcmp(&now, &tuple, sizeof(now)))
			why = FLT_REFUSE_CHANGED;
		else if (flt_endpoint_is_frozen(sk))
			why = FLT_REFUSE_BUSY;
		else
			why = how->may ? how->may(sk, how->arg) : FLT_REFUSE_NONE;
		if (!why)
			why = flt_requeue_locked(adoption, how);
		release_sock(sk);
	} else {
		why = FLT_REFUSE_BUSY;
	}
	flt_park_open(&adoption->park);
	flt_park_end(&adoption->park);
	trace_flt_endpoint_requeue(&tuple, adoption->unread, why);
	kfree_rcu(adoption, rcu);
	return why;
}
EXPORT_SYMBOL_GPL(flt_endpoint_requeue);
