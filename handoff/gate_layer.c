// SPDX-License-Identifier: GPL-2.0
/* The gate's layer on a socket: what TCP says, and what programs do. */

#include <linux/module.h>
#include <linux/slab.h>
#include <linux/splice.h>
#include <net/tcp.h>

#include "kmod/endpoint.h"
#include "kmod/memcg.h"
#include "kmod/stack.h"

#include "admit.h"
#include "assign.h"
#include "gate.h"
#include "gate_priv.h"
#include "net.h"
#include "request.h"

/**
 * struct hof_gate_share - our share of a socket
 * @gate:  of a connection that a program has, or that is surplus; set once
 * @child: it came by a listener with this layer
 * @queue: of a listener
 */
struct hof_gate_share {
	struct hof_gate *gate;
	bool child;
	struct hof_admit_queue queue;
};

static struct hof_gate *hof_gate_of(struct flt_layer *layer)
{
	struct hof_gate_share *share = flt_layer_priv(layer);

	return READ_ONCE(share->gate);
}

struct hof_admit_queue *hof_gate_queue_of(struct flt_layer *layer)
{
	struct hof_gate_share *share = flt_layer_priv(layer);

	return &share->queue;
}

/* NULL: a listener's, or one that nobody has accepted; or it has none, or there is no memory. */
static struct hof_gate *hof_gate_make(struct flt_layer *layer, struct sock *sk, gfp_t gfp)
{
	struct hof_gate_share *share = flt_layer_priv(layer);
	struct hof_gate *g = hof_gate_of(layer);
	struct mem_cgroup *old;

	if (g || !share->child)
		return g;
	old = flt_sock_pays(sk);
	g = hof_gate_create(sk, gfp);
	set_active_memcg(old);
	if (!g)
		return NULL;
	/* accept() and the first data, each may be first. */
	if (cmpxchg(&share->gate, NULL, g))
		hof_gate_put(g);
	return hof_gate_of(layer);
}

/* What was queued, and not looked at: TCP says nothing of less than SO_RCVLOWAT. */
static void hof_gate_kick(struct hof_gate *g)
{
	const struct tcp_sock *tp = tcp_sk(g->sk);

	if (READ_ONCE(g->state) == HOF_GATE_SHUT &&
	    READ_ONCE(tp->rcv_nxt) != READ_ONCE(tp->copied_seq))
		hof_gate_queue(g, 0);
}

static bool hof_gate_data_ready(struct flt_layer *layer, struct sock *sk)
{
	struct hof_gate *g;

	/* A child that is not accepted yet is looked at then. */
	if (sk->sk_state == TCP_LISTEN || !READ_ONCE(sk->sk_socket))
		return true;
	g = hof_gate_make(layer, sk, GFP_ATOMIC | __GFP_ACCOUNT);
	if (!g)
		return true;
	if (!g->accepted) {
		/* Of an accept() that is older than the listener's layer. */
		g->accepted = true;
		flt_layer_take_ops(sk);
	}
	if (!hof_sock_told_unlocked())
		return hof_gate_look(g);
	hof_gate_kick(g);
	return !hof_gate_holds(g);
}

static bool hof_gate_state_change(struct flt_layer *layer, struct sock *sk)
{
	struct hof_gate *g = hof_gate_of(layer);

	if (!g || hof_sock_is_whole(sk))
		return true;
	spin_lock_bh(&g->lock);
	if (g->state == HOF_GATE_MORE)
		hof_gate_stay(g, HOF_POLICY_STAYED_ENDED, false);
	/* What is cut off is no whole answer. */
	if (READ_ONCE(sk->sk_err))
		g->key = 0;
	spin_unlock_bh(&g->lock);
	return true;
}

static void hof_gate_accepted(struct flt_layer *layer, struct socket *sock)
{
	struct hof_gate *g = hof_gate_make(layer, sock->sk, GFP_KERNEL_ACCOUNT);

	if (!g)
		return;
	g->accepted = true;
	if (!skb_queue_empty_lockless(&sock->sk->sk_receive_queue))
		hof_gate_look_again(g);
}

static int hof_gate_may_recv(struct flt_layer *layer, struct sock *sk, int how)
{
	struct hof_gate *g = hof_gate_of(layer);

	if (!g || how & (MSG_OOB | MSG_ERRQUEUE) || !hof_gate_holds(g))
		return 0;
	hof_gate_kick(g);
	return how & MSG_DONTWAIT ? -EAGAIN : FLT_ANSWER;
}

static int hof_gate_may_splice_read(struct flt_layer *layer, struct sock *sk, int how)
{
	struct hof_gate *g = hof_gate_of(layer);
	struct socket *sock = sk->sk_socket;

	if (!g || !hof_gate_holds(g))
		return 0;
	hof_gate_kick(g);
	return how & SPLICE_F_NONBLOCK || (sock && sock->file->f_flags & O_NONBLOCK) ?
	       -EAGAIN : FLT_ANSWER;
}

/* As TCP would for the first byte. FLT_PASS: there is something to be had. */
static int hof_gate_wait(struct hof_gate *g, struct sock *sk)
{
	long left = sock_rcvtimeo(sk, false);
	int ret = FLT_PASS;
	DEFINE_WAIT(data);
	DEFINE_WAIT(off);

	for (;;) {
		prepare_to_wait(&g->service->off, &off, TASK_INTERRUPTIBLE);
		prepare_to_wait(sk_sleep(sk), &data, TASK_INTERRUPTIBLE);
		if (!hof_gate_holds(g))
			break;
		if (!left)
			ret = -EAGAIN;
		else if (signal_pending(current))
			ret = sock_intr_errno(left);
		if (ret != FLT_PASS)
			break;
		left = schedule_timeout(left);
	}
	finish_wait(sk_sleep(sk), &data);
	finish_wait(&g->service->off, &off);
	return ret;
}

static int hof_gate_recvmsg(struct flt_layer *layer, struct socket *sock, struct msghdr *msg,
			    size_t len, int flags)
{
	return hof_gate_wait(hof_gate_of(layer), sock->sk);
}

static ssize_t hof_gate_splice_read(struct flt_layer *layer, struct socket *sock, loff_t *ppos,
				    struct pipe_inode_info *pipe, size_t len, unsigned int flags)
{
	return hof_gate_wait(hof_gate_of(layer), sock->sk);
}

static __poll_t hof_gate_poll(struct flt_layer *layer, struct file *file, struct socket *sock,
			      struct poll_table_struct *wait)
{
	__poll_t mask = flt_layer_next_poll(layer, file, sock, wait);
	struct hof_gate *g = hof_gate_of(layer);

	if (!g || !(mask & (EPOLLIN | EPOLLRDNORM)) || !hof_gate_holds(g))
		return mask;
	hof_gate_kick(g);
	return mask & ~(EPOLLIN | EPOLLRDNORM);
}

/* Before the first byte of an answer is on its way. */
static int hof_gate_may_send(struct flt_layer *layer, struct sock *sk, int how)
{
	struct hof_gate *g = hof_gate_of(layer);
	const struct tcp_sock *tp = tcp_sk(sk);

	if (!g || READ_ONCE(g->state) != HOF_GATE_OPEN || hof_gate_is_off(g) ||
	    READ_ONCE(tp->copied_seq) != READ_ONCE(tp->rcv_nxt))
		return 0;
	spin_lock_bh(&g->lock);
	if (g->state == HOF_GATE_OPEN)
		hof_gate_set_state(g, HOF_GATE_SHUT);
	spin_unlock_bh(&g->lock);
	/* It may have come in between. */
	hof_gate_kick(g);
	return 0;
}

static bool hof_gate_inherit(struct flt_layer *layer, struct sock *child)
{
	struct hof_assigned *s;
	struct flt_tuple tuple;

	flt_tuple_from_sock(child, &tuple);
	s = hof_assigned_get(hof_net(sock_net(child)), &tuple);
	if (s)
		hof_assigned_put(s);
	return s;
}

static void hof_gate_init_child(struct flt_layer *layer, struct flt_layer *child, struct sock *sk)
{
	struct hof_gate_share *share = flt_layer_priv(child);

	share->child = true;
	share->gate = hof_admit_child(flt_layer_sock(layer), hof_gate_queue_of(layer), sk);
}

static void hof_gate_returned(struct flt_layer *layer, struct socket *sock, enum flt_op op, int ret)
{
	if (op == FLT_OP_LISTEN && !ret)
		hof_admit_listened(sock->sk, hof_gate_queue_of(layer));
}

static void hof_gate_free(struct flt_layer *layer)
{
	struct hof_gate *g = hof_gate_of(layer);

	if (g)
		hof_gate_put(g);
}

static void hof_gate_destruct(struct flt_layer *layer, struct sock *sk)
{
	struct hof_gate *g = hof_gate_of(layer);

	if (g)
		hof_gate_ends(g);
}

const struct flt_layer_ops hof_gate_layer = {
	.owner = THIS_MODULE,
	.name = "handoff-gate",
	.data_ready = hof_gate_data_ready,
	.state_change = hof_gate_state_change,
	.free = hof_gate_free,
	.destruct = hof_gate_destruct,
	.inherit = hof_gate_inherit,
	.init_child = hof_gate_init_child,
	.accepted = hof_gate_accepted,
	.returned = hof_gate_returned,
	.priv_size = sizeof(struct hof_gate_share),
	.may_recv = hof_gate_may_recv,
	.may_send = hof_gate_may_send,
	.may_splice_read = hof_gate_may_splice_read,
	.recvmsg = hof_gate_recvmsg,
	.splice_read = hof_gate_splice_read,
	.poll = hof_gate_poll,
};

bool hof_gate_alone(const struct sock *sk)
{
	const struct flt_layer *layer;
	bool alone;

	rcu_read_lock();
	layer = flt_layer_find(sk, &hof_gate_layer);
	alone = layer && flt_layer_is_among_own(layer);
	rcu_read_unlock();
	return alone;
}
