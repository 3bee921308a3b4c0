// SPDX-License-Identifier: GPL-2.0
/*
 * Giving a connection away. The order is what makes it safe:
 *
 *	entry in HOLD	from here on the client's packets wait
 *	checkpoint	so nothing changes behind its back
 *	freeze		the program can neither read nor write, and TCP sends nothing
 *	HANDOFF, ACK	the socket is not locked meanwhile
 *	unchanged?	the program may have ended the connection after all
 *	COMMIT		the decision: before it everything can be undone
 *	release		silently; a packet finds the entry, never a dead socket
 *	entry FORWARD	held packets go first
 */

#include <linux/mm.h>
#include <linux/slab.h>
#include <net/tcp.h>

#include "kmod/endpoint.h"
#include "kmod/freeze.h"
#include "kmod/ktls_face.h"
#include "kmod/node.h"
#include "kmod/service.h"
#include "kmod/socklock.h"

#include "adopt.h"
#include "claim.h"
#include "counter.h"
#include "early.h"
#include "entry.h"
#include "flight.h"
#include "forward.h"
#include "message.h"
#include "origin.h"
#include "peer.h"
#include "permit.h"
#include "relay.h"
#include "ticket.h"
#include "trace.h"
#include "track.h"
#include "transfer.h"

/* What waited may be many packets, and their CPU another machine's. */
#define HOF_ENDING		(2 * HZ)
#define HOF_ENDING_LOOK_US	100

void hof_transfer_put(struct hof_transfer *t)
{
	if (!refcount_dec_and_test(&t->ref))
		return;
	if (t->peer)
		hof_peer_put(t->peer);
	if (t->from)
		hof_adoption_put(t->from);
	kvfree(t->ckpt);
	if (t->sk)
		sock_put(t->sk);
	if (t->rule)
		hof_early_rule_put(t->rule);
	hof_file_put(t->file);
	kfree(t);
}

/* The node owns the connection: the point of no return is behind us. */
static void hof_transfer_done(struct hof_transfer *t)
{
	u32 usec = ktime_us_delta(ktime_get(), t->start);
	struct hof_entry *e = t->entry;

	atomic_inc(&t->peer->node->load);
	hof_count(t->hn, HOF_STAT_HANDOFF_DONE);
	hof_count_latency(t->hn, usec);
	trace_hof_settle(&t->tuple, t->id, t->peer->node->id, FLT_REFUSE_NONE);
	hof_track_forget(t->hn, &t->tuple);
	if (t->ticket)
		hof_ticket_done(t->ticket, usec);
	if (t->rule)
		hof_early_done(t);
	rcu_read_lock();	/* once it forwards, it may go at any time */
	spin_lock_bh(&e->lock);
	e->ticket = t->ticket;
	/*
	 * Not since the submission, which may have been on this link before its NODE_UP was
	 * heard: the answer came on it, so it has been by now.
	 */
	WRITE_ONCE(e->ups, READ_ONCE(t->peer->ups));
	WRITE_ONCE(e->epoch, t->epoch);
	spin_unlock_bh(&e->lock);
	hof_hold_forward(t->hn, e);
	/* Pairs with hof_peer_lose(): either it sees FORWARD or we see the node go. */
	smp_mb();
	if (atomic_read(&t->peer->downs) != t->downs)
		hof_entry_kill(t->hn, e, t->id);
	rcu_read_unlock();
}

/* What is held would be as good as lost to a socket that stands still. */
static void hof_transfer_thaw(struct hof_transfer *t)
{
	flt_freeze_thaw(t->frozen);
	t->frozen = NULL;
}

/* The connection stays here: what was held goes to its socket. */
static void hof_transfer_failed(struct hof_transfer *t, enum flt_refusal why)
{
	if (t->rule)
		hof_early_failed(t);
	else
		hof_transfer_thaw(t);
	hof_hold_reinject(t->hn, t->entry);
	hof_count(t->hn, HOF_STAT_HANDOFF_FAILED);
	hof_count_refusal(t->hn, why);
	trace_hof_settle(&t->tuple, t->id, t->peer->node->id, why);
	if (!t->ticket)
		return;
	hof_ticket_failed(t->ticket, why);
	hof_ticket_put(t->ticket);
}

/*
 * This is in the work item of the link, which its program's call may not hold up: a program that
 * keeps it has changed it, as one that ends it. Who only looks, or waits to read or write, is over
 * in a moment.
 */
static bool hof_transfer_lock(struct sock *sk)
{
	int tries = 10;

	while (!flt_sock_trylock(sk)) {
		if (!--tries)
			return false;
		usleep_range(500, 1000);
	}
	return true;
}

/* Who gave us the connection hears of its end when our entry is over, not when our socket is. */
static void hof_transfer_relay(struct hof_transfer *t)
{
	t->ticket->direct = hof_relay_is_direct(t->from);
	t->ticket->back = t->back;
	t->ticket->proof = t->proof;
	if (t->from)
		t->ticket->relay = hof_relay_begin(t->from, t->peer->node);
}

static enum flt_refusal hof_transfer_say_commit(struct hof_transfer *t, u32 tsval)
{
	/* Atomic only queues: a link that sends at once would lock its socket inside ours. */
	int err = hof_message_send_commit(t->peer->node, t->id, tsval, t->proof, GFP_ATOMIC);

	if (err)
		return err == -ENOMEM ? FLT_REFUSE_NOMEM : FLT_REFUSE_NODEDOWN;
	return FLT_REFUSE_NONE;
}

static enum flt_refusal hof_transfer_commit(struct hof_transfer *t)
{
	enum flt_refusal why = FLT_REFUSE_NONE;
	struct sock *sk = t->sk;

	/* What the node was given up with before did not include this. */
	t->downs = atomic_read(&t->peer->downs);
	/* Its SYN-ACK is older than the checkpoint, and nothing can have changed. */
	if (t->rule)
		return hof_transfer_say_commit(t, 0);
	if (!hof_transfer_lock(sk))
		return FLT_REFUSE_CHANGED;
	flt_freeze_lift(t->frozen);
	if (sock_flag(sk, SOCK_DEAD))
		why = FLT_REFUSE_ABORTED;
	else if (!flt_endpoint_unchanged(sk, t->ckpt))
		why = FLT_REFUSE_CHANGED;
	if (why != FLT_REFUSE_NONE)
		goto out;
	why = hof_transfer_say_commit(t, flt_endpoint_tsval(sk));
	if (why != FLT_REFUSE_NONE)
		goto out;
	hof_transfer_relay(t);
	flt_endpoint_release(sk);
out:
	release_sock(sk);
	return why;
}

/* @why is the node's answer, or why there is none. Process context. */
static void hof_transfer_settle(struct hof_transfer *t, enum flt_refusal why, bool answered)
{
	bool refused = answered && why != FLT_REFUSE_NONE;

	if (atomic_cmpxchg(&t->phase, HOF_WAITING, HOF_SETTLING) != HOF_WAITING)
		return;
	if (why == FLT_REFUSE_NONE)
		why = hof_transfer_commit(t);
	if (why == FLT_REFUSE_NONE) {
		if (t->sk)
			hof_transfer_thaw(t);	/* it is over: nothing goes on */
		hof_transfer_done(t);
	} else {
		if (!refused)
			hof_message_send(t->peer->node, HOF_MSG_ABORT, t->id, why, GFP_KERNEL);
		hof_transfer_failed(t, why);
	}
	hof_flight_remove(t);
}

void hof_transfer_late(struct hof_transfer *t)
{
	hof_transfer_settle(t, FLT_REFUSE_TIMEOUT, false);
}

/* With a reference; NULL: not under way, or not to @node. */
static struct hof_transfer *hof_transfer_to(struct hof_net *hn, const struct flt_node *node,
					    u64 id)
{
	struct hof_transfer *t = hof_flight_get(hn, id);

	if (t && t->peer->node != node) {
		hof_transfer_put(t);
		t = NULL;
	}
	return t;
}

void hof_transfer_ack(struct hof_net *hn, struct flt_node *node, u64 id, u32 epoch, u32 wait_ms)
{
	struct hof_transfer *t = hof_transfer_to(hn, node, id);

	if (!t)
		return;
	t->epoch = epoch;
	if (wait_ms && ktime_ms_delta(ktime_get(), t->start) >= wait_ms)
		hof_transfer_settle(t, FLT_REFUSE_TIMEOUT, false);	/* given up there */
	else
		hof_transfer_settle(t, FLT_REFUSE_NONE, true);
	hof_transfer_put(t);
}

void hof_transfer_nak(struct hof_net *hn, struct flt_node *node, u64 id, enum flt_refusal why)
{
	struct hof_transfer *t = hof_transfer_to(hn, node, id);

	if (!t)
		return;
	hof_transfer_settle(t, why, true);
	hof_transfer_put(t);
}

int hof_transfer_query(struct hof_net *hn, struct flt_node *node, u64 id)
{
	struct hof_transfer *t = hof_flight_get(hn, id);

	if (t) {
		/* Its time runs; the node will hear. */
		hof_transfer_put(t);
		return 0;
	}
	hof_message_send(node, HOF_MSG_ABORT, id, FLT_REFUSE_ABORTED, GFP_KERNEL);
	return 0;
}

static bool hof_transfer_is_for(const struct hof_transfer *t, const void *node)
{
	return t->peer->node == node;
}

static bool hof_transfer_is_by(const struct hof_transfer *t, const void *file)
{
	return t->file == file;
}

/* Every one that waits and matches fails. */
static void hof_transfer_fail_all(struct hof_net *hn, enum flt_refusal why,
				  bool (*match)(const struct hof_transfer *t, const void *arg),
				  const void *arg)
{
	struct hof_transfer *t;
	unsigned int bucket = 0;

	while ((t = hof_flight_next(hn, &bucket, match, arg))) {
		hof_transfer_settle(t, why, false);
		hof_transfer_put(t);
	}
}

void hof_transfer_node_down(struct hof_net *hn, struct flt_node *node)
{
	hof_transfer_fail_all(hn, FLT_REFUSE_NODEDOWN, hof_transfer_is_for, node);
}

void hof_transfer_file_closed(struct hof_file *file)
{
	hof_transfer_fail_all(file->hn, FLT_REFUSE_ABORTED, hof_transfer_is_by, file);
	/* The rest is in the hands of others, and decided soon. */
	wait_event(file->landed, !READ_ONCE(file->inflight));
}

/*
 * Something has the tuple already: a handoff of this very socket, or an entry
 * that has outlived its connection, which must not keep a live one from moving.
 * -EAGAIN: one that leaves, as that of an early handoff in vain, which has made
 * this socket and puts the last of what waited into it.
 */
static int hof_transfer_collision(struct hof_transfer *t)
{
	struct hof_entry *e;
	int err = 0;

	rcu_read_lock();
	e = hof_entry_find_tuple(t->hn, &t->tuple);
	if (e && hof_hold_is_ending(e))
		err = -EAGAIN;
	else if (e && hof_entry_state(e) == HOF_HOLD)
		err = -EBUSY;
	else if (e)
		hof_entry_remove(t->hn, e);
	rcu_read_unlock();
	return err;
}

static int hof_transfer_insert(struct hof_transfer *t)
{
	unsigned long until = jiffies + HOF_ENDING;
	int err, tries = 2;

	while ((err = hof_entry_insert(t->hn, t->entry)) == -EEXIST && tries) {
		err = hof_transfer_collision(t);
		if (err && (err != -EAGAIN || time_after_eq(jiffies, until)))
			return -EBUSY;
		if (err)
			fsleep(HOF_ENDING_LOOK_US);
		else
			tries--;
	}
	return err == -EEXIST ? -EBUSY : err;
}

/* Who has not said that he takes unacknowledged bytes is not sent any. */
static u32 hof_transfer_send_max(const struct hof_transfer *t)
{
	u64 features = READ_ONCE(t->peer->node->features);
	u32 max = READ_ONCE(t->hn->tunables.send_max);

	if (t->may || !(features & FLT_FEATURE_SENDQUEUE))
		return 0;
	return features & FLT_FEATURE_LARGE ? max : min(max, FLT_CHECKPOINT_SMALL_SEND);
}

static u32 hof_transfer_unread_max(const struct hof_transfer *t)
{
	u64 features = READ_ONCE(t->peer->node->features);
	u32 max = READ_ONCE(t->hn->tunables.unread_max);

	return features & FLT_FEATURE_LARGE ? max : min(max, FLT_CHECKPOINT_SMALL_UNREAD);
}

static unsigned int hof_transfer_flags(const struct hof_transfer *t)
{
	u64 features = READ_ONCE(t->peer->node->features);

	return (features & FLT_FEATURE_HALFCLOSED ? FLT_CHECKPOINT_END : 0) |
	       (features & FLT_FEATURE_OOO ? FLT_CHECKPOINT_OOO : 0);
}

/* @tls: what the socket has of keys; NULL: the caller has them, and it has none. */
static enum flt_refusal hof_transfer_checkpoint(struct hof_transfer *t, struct flt_tls *tls)
{
	enum flt_refusal why = FLT_REFUSE_NONE;

	if (t->may && !flt_sock_lock_soon(t->sk))
		return FLT_REFUSE_BUSY;
	if (!t->may)
		lock_sock(t->sk);
	/* What has come for who had the lock is in the checkpoint, and not lost. */
	sk_flush_backlog(t->sk);
	if (t->may)
		why = t->may(t->sk, t->arg);
	if (why == FLT_REFUSE_NONE)
		why = flt_endpoint_checkpoint(t->sk, hof_transfer_flags(t),
					      hof_transfer_unread_max(t), hof_transfer_send_max(t),
					      tls, &t->ckpt);
	/* Its program may have made another connection of it since we looked. */
	if (why == FLT_REFUSE_NONE && memcmp(&t->ckpt->tuple, &t->tuple, sizeof(t->tuple)))
		why = FLT_REFUSE_CHANGED;
	if (why == FLT_REFUSE_NONE)
		why = flt_endpoint_freeze(t->sk, &t->frozen);
	/* What the client expects next, if nothing of it was lost on the way. */
	if (why == FLT_REFUSE_NONE)
		WRITE_ONCE(t->entry->acked, tcp_sk(t->sk)->snd_nxt);
	release_sock(t->sk);
	return why;
}

static int hof_transfer_errno(enum flt_refusal why)
{
	switch (why) {
	case FLT_REFUSE_NONE:
		return 0;
	case FLT_REFUSE_BUSY:
		return -EBUSY;
	case FLT_REFUSE_NOMEM:
		return -ENOMEM;
	case FLT_REFUSE_NODEDOWN:
	case FLT_REFUSE_TIMEOUT:
	case FLT_REFUSE_NOROUTE:
		return -EHOSTUNREACH;
	case FLT_REFUSE_TABLEFULL:
		return -ENOSPC;
	default:
		return -EOPNOTSUPP;
	}
}

static enum flt_refusal hof_transfer_send(struct hof_transfer *t, u32 flags,
					  const struct flt_tls *tls)
{
	const struct hof_msg_origin *origin = t->origin.voucher ? &t->origin : NULL;
	int err;

	if (t->back)
		flags |= HOF_ADOPT_BACK;
	if (tls)
		err = hof_message_send_keys(t->peer->node, t->id, flags, origin, t->ckpt, tls,
					    READ_ONCE(t->hn->tunables.keys_in_clear));
	else
		err = hof_message_send_handoff(t->peer->node, t->id, flags, origin, t->ckpt,
					       GFP_KERNEL);
	switch (err) {
	case 0:
		return FLT_REFUSE_NONE;
	case -EPERM:
		return FLT_REFUSE_KEYS;
	case -EMSGSIZE:
		return FLT_REFUSE_TOOMUCH;
	case -ENOMEM:
		return FLT_REFUSE_NOMEM;
	case -ENOBUFS:
		return FLT_REFUSE_TIMEOUT;	/* it does not take what it has been sent already */
	default:
		return FLT_REFUSE_NODEDOWN;
	}
}

static struct hof_transfer *hof_transfer_create(struct hof_file *file, struct sock *sk,
						struct flt_node *node,
						const struct hof_submit *args)
{
	struct hof_transfer *t = kzalloc(sizeof(*t), GFP_KERNEL_ACCOUNT);

	if (!t)
		return NULL;
	t->ticket = hof_ticket_create(file, args->cookie, node->id,
				      args->flags & HOF_TELL_LATER, HOF_ENTRY_GFP);
	if (!t->ticket) {
		kfree(t);
		return NULL;
	}
	refcount_set(&t->ref, 1);
	atomic_set(&t->phase, HOF_WAITING);
	t->hn = file->hn;
	t->ticket->watch = args->flags & HOF_WANT_IDLE;
	t->id = hof_net_new_id(t->hn);
	kref_get(&file->ref);
	t->file = file;
	hof_hold_init(&t->hold);
	flt_tuple_from_sock(sk, &t->tuple);
	t->start = ktime_get();
	sock_hold(sk);
	t->sk = sk;
	t->from = hof_adoption_of(sk);
	return t;
}

/* Given away before: the socket is closed and its entry remembers the connection. */
static bool hof_transfer_given(struct hof_net *hn, struct sock *sk)
{
	struct flt_tuple tuple;
	struct hof_entry *e;
	bool given;

	flt_tuple_from_sock(sk, &tuple);
	rcu_read_lock();
	e = hof_entry_find_tuple(hn, &tuple);
	given = e && hof_entry_state(e) != HOF_GONE;
	rcu_read_unlock();
	return given;
}

/*
 * hof_transfer_begin - all that comes before the message
 * @t:    fresh
 * @node: target
 * @tls:  see hof_transfer_checkpoint()
 *
 * Return: 0; or a negative errno, or a refusal, and then nothing of it is left.
 */
static int hof_transfer_begin(struct hof_transfer *t, struct flt_node *node, struct flt_tls *tls)
{
	enum flt_refusal why;
	struct hof_peer *peer;
	int err;

	if (hof_claim_awaited(t->from))
		return FLT_REFUSE_BUSY;
	/* Not accepted yet: its keys are not there. */
	if (t->from && t->from->keys && !flt_ktls_is_ours(t->sk))
		return FLT_REFUSE_BUSY;
	/* Whose listener it came by is not known any more. */
	if (!hof_sock_door(t->sk))
		return FLT_REFUSE_ULP;
	/* Not before: the answer may come between the two. */
	if (READ_ONCE(node->features) & FLT_FEATURE_CLAIM)
		t->proof = hof_origin_name(t->hn, t->id, node, t->from, &t->origin,
					   &t->back);
	peer = hof_peer_get(t->hn, node);
	if (IS_ERR(peer)) {
		if (PTR_ERR(peer) != -EHOSTUNREACH)
			return PTR_ERR(peer);
		hof_count(t->hn, HOF_STAT_HANDOFF_NO_PATH);
		return FLT_REFUSE_NOROUTE;
	}
	t->peer = peer;
	t->entry = hof_entry_alloc(&t->tuple, peer, &t->hold, HOF_ENTRY_GFP);
	if (!t->entry)
		return -ENOMEM;
	t->entry->id = t->id;
	err = hof_transfer_insert(t);
	if (err) {
		hof_entry_free(t->entry);
		if (err == -EBUSY)
			return FLT_REFUSE_BUSY;
		return err == -ENOSPC ? FLT_REFUSE_TABLEFULL : err;
	}
	why = hof_transfer_checkpoint(t, tls);
	if (why != FLT_REFUSE_NONE)
		hof_hold_reinject(t->hn, t->entry);
	return why;
}

enum flt_refusal hof_transfer_target(struct hof_net *hn, const struct flt_node *node,
				     const struct flt_tls *tls)
{
	if (!READ_ONCE(hn->tunables.handoff))
		return FLT_REFUSE_POLICY;
	if (!flt_node_is_up(node))
		return FLT_REFUSE_NODEDOWN;
	/* What a client has sent is for the node, not for who speaks in its place. */
	if (!flt_node_is_proven(node) && !flt_service_insecure(hn->net)) {
		pr_warn_ratelimited("nothing is given to node %s: no authenticated link (node set NAME auth psk, or local set insecure on)\n",
				    node->name);
		return FLT_REFUSE_INSECURE;
	}
	if (!flt_node_may_know(node, FLT_FEATURE_SECTIONS))
		return FLT_REFUSE_VERSION;
	if (!tls)
		return FLT_REFUSE_NONE;
	if (!hof_permit_keys(hn, node)) {
		pr_warn_ratelimited("no keys are given to node %s: its link is not encrypted (node set NAME auth psk)\n",
				    node->name);
		return FLT_REFUSE_KEYS;
	}
	/* Who does not say that he knows what they are is not sent them. */
	if (!(READ_ONCE(node->features) & FLT_FEATURE_TLS))
		return FLT_REFUSE_VERSION;
	return FLT_REFUSE_NONE;
}

bool hof_transfer_retract(struct hof_transfer *t)
{
	if (atomic_cmpxchg(&t->phase, HOF_WAITING, HOF_SETTLING) != HOF_WAITING)
		return false;
	if (t->rule)
		hof_early_failed(t);
	else
		hof_transfer_thaw(t);
	hof_hold_reinject(t->hn, t->entry);
	hof_flight_remove(t);
	return true;
}

/*
 * The listener that takes it is one of the port of the one that accepted it here; where its packets
 * come in, of the service's own, as then; or of the one that the giver has named.
 */
static void hof_transfer_door(const struct hof_transfer *t, struct flt_tls *tls, u16 named)
{
	tls->port = named;
	if (!named && !t->back && t->from && t->from->port != t->tuple.server_port)
		tls->port = ntohs(t->from->port);
}

/*
 * @own: room for keys that the socket itself has; with the port that its giver names, or 0.
 * Return: 0: an event tells; a negative errno, or a refusal: the socket is as before.
 */
static int hof_transfer_start(struct hof_file *file, struct sock *sk, struct flt_node *node,
			      const struct hof_submit *args, const struct flt_tls *tls,
			      struct flt_tls *own,
			      enum flt_refusal (*may)(struct sock *sk, void *arg), void *arg)
{
	struct hof_net *hn = file->hn;
	u32 timeout_ms = args->timeout_ms ?: READ_ONCE(hn->tunables.timeout_ms);
	enum flt_refusal why = FLT_REFUSE_NONE;
	struct hof_transfer *t;
	u16 named = own->port;
	int state, err;

	state = inet_sk_state_load(sk);
	if (state == TCP_CLOSE && hof_transfer_given(hn, sk))
		return -EALREADY;
	if ((1 << state) & (TCPF_CLOSE | TCPF_LISTEN | TCPF_SYN_SENT | TCPF_SYN_RECV))
		return FLT_REFUSE_STATE;
	why = hof_transfer_target(hn, node, flt_ktls_is_ours(sk) ? own : tls);
	if (why != FLT_REFUSE_NONE)
		return why;
	err = hof_forward_hook(hn);
	if (err)
		return err;
	t = hof_transfer_create(file, sk, node, args);
	if (!t)
		return -ENOMEM;
	t->may = may;
	t->arg = arg;
	err = hof_transfer_begin(t, node, tls ? NULL : own);
	if (err) {
		hof_ticket_put(t->ticket);
		hof_transfer_put(t);
		return err;
	}
	hof_count(hn, HOF_STAT_HANDOFF_SUBMITTED);
	trace_hof_submit(&t->tuple, t->id, node->id, FLT_REFUSE_NONE);
	/* From here on answers, the clock and others may settle it: see @phase. */
	hof_flight_add(t, timeout_ms);
	if (own->version) {
		hof_transfer_door(t, own, named);
		tls = own;
	}
	why = hof_transfer_send(t, args->flags, tls);
	if (why != FLT_REFUSE_NONE && hof_transfer_retract(t))
		hof_ticket_put(t->ticket);
	else
		why = FLT_REFUSE_NONE;	/* on its way, or an event tells */
	hof_transfer_put(t);
	return why;
}

static void hof_transfer_refused(struct hof_net *hn, const struct sock *sk,
				 const struct flt_node *node, enum flt_refusal why)
{
	hof_count_refusal(hn, why);
	if (trace_hof_submit_enabled()) {
		struct flt_tuple tuple;

		flt_tuple_from_sock(sk, &tuple);
		trace_hof_submit(&tuple, 0, node->id, why);
	}
}

int hof_transfer_submit(struct hof_file *file, struct sock *sk, struct flt_node *node,
			struct hof_submit *args, const struct flt_tls *tls)
{
	struct flt_tls own = {};
	int err;

	if (tls && !tls->version) {
		if (!flt_ktls_is_ours(sk))
			return -EINVAL;
		own.port = tls->port;
		tls = NULL;
	}
	err = hof_transfer_start(file, sk, node, args, tls, &own, NULL, NULL);
	memzero_explicit(&own, sizeof(own));
	if (err <= 0)
		return err;
	args->refusal = err;
	hof_transfer_refused(file->hn, sk, node, err);
	return hof_transfer_errno(err);
}

enum flt_refusal hof_transfer_give(struct hof_file *file, struct sock *sk, struct flt_node *node,
				   u64 cookie, u32 flags,
				   enum flt_refusal (*may)(struct sock *sk, void *arg), void *arg)
{
	struct hof_adoption *from = hof_adoption_of(sk);
	struct hof_submit args = { .cookie = cookie, .flags = flags };
	struct flt_tls own = {};
	int why;

	if (from) {
		args.flags |= READ_ONCE(from->flags) &
			      (HOF_ADOPT_WANT_IDLE | (flags ? 0 : HOF_ADOPT_HOPS));
		hof_adoption_put(from);
	}
	why = hof_transfer_start(file, sk, node, &args, NULL, &own, may, arg);
	memzero_explicit(&own, sizeof(own));
	if (why < 0)
		why = why == -ENOMEM ? FLT_REFUSE_NOMEM : FLT_REFUSE_BUSY;
	/* Most are not between two requests just now, which is no fault. */
	if (why != FLT_REFUSE_NONE && why != FLT_REFUSE_CHANGED)
		hof_transfer_refused(file->hn, sk, node, why);
	return why;
}
