// SPDX-License-Identifier: GPL-2.0
/* This room's layer on a socket: what TCP and programs do to a spliced one. */

#include <linux/module.h>
#include <net/tcp.h>

#include "kmod/stack.h"

#include "copy.h"
#include "counter.h"
#include "forward.h"
#include "gather.h"
#include "judge.h"
#include "layer.h"
#include "pair.h"

static struct ssp_end *ssp_end(struct flt_layer *layer)
{
	return flt_layer_priv(layer);
}

/* --- what TCP says; the socket is locked, RCU is held --- */

static struct ssp_pair *ssp_pair_of(struct flt_layer *layer)
{
	return rcu_dereference(ssp_end(layer)->pair);
}

static bool ssp_data_ready(struct flt_layer *layer, struct sock *sk)
{
	struct ssp_pair *p = ssp_pair_of(layer);
	int side;

	if (!p || p->telling || p->state == SSP_ENDED)
		return true;
	/* It was disconnected a moment ago. Nobody locks a listener whose children are told of. */
	if (unlikely(sk->sk_state == TCP_LISTEN))
		return true;
	side = ssp_side(p, sk);
	if (side && !ssp_is_bidir(p))
		return true;
	if (p->state == SSP_RUNNING && !ssp_gather(p, sk))
		ssp_kick(p, sk, BIT(side));
	return false;
}

static bool ssp_write_space(struct flt_layer *layer, struct sock *sk)
{
	struct ssp_pair *p = ssp_pair_of(layer);
	int side;

	if (!p || p->telling || p->state == SSP_ENDED)
		return true;
	side = ssp_side(p, sk);
	if (!side && !ssp_is_bidir(p))
		return true;
	/* Not for each ACK: TCP's own measure of when it is worth while. */
	if (p->state == SSP_RUNNING && sk_stream_is_writeable(sk) && !ssp_gathers(p)) {
		if (sk->sk_socket)
			clear_bit(SOCK_NOSPACE, &sk->sk_socket->flags);
		if (!skb_queue_empty_lockless(&p->sk[!side]->sk_receive_queue))
			ssp_kick(p, sk, BIT(!side));
	}
	return false;
}

/*
 * A FIN is in the queue and data_ready follows; the queue must not be touched here,
 * in the midst of TCP's work on the packet. Anything else is rare: left to the work item.
 */
static bool ssp_state_change(struct flt_layer *layer, struct sock *sk)
{
	struct ssp_pair *p = ssp_pair_of(layer);

	if (p && !p->telling && p->state == SSP_RUNNING && sk->sk_state != TCP_CLOSE_WAIT)
		ssp_pair_queue(p, 0);
	return true;
}

static bool ssp_error_report(struct flt_layer *layer, struct sock *sk)
{
	struct ssp_pair *p = ssp_pair_of(layer);

	if (p && !p->telling && p->state == SSP_RUNNING)
		ssp_pair_queue(p, 0);
	return true;
}

/* --- what programs do --- */

/* No transfer holds for the socket, and what its end left there is seen from now on. */
static bool ssp_is_over(const struct ssp_pair *p)
{
	/* Pairs with ssp_pair_ended(). */
	return !p || smp_load_acquire(&p->state) == SSP_ENDED;
}

/* A transfer forbids it while it lasts; @write: sending, else receiving. */
static bool ssp_rules(const struct ssp_pair *p, const struct sock *sk, bool write)
{
	return ssp_is_bidir(p) || ssp_side(p, sk) == write;
}

static bool ssp_forbids(const struct ssp_pair *p, const struct sock *sk, bool write)
{
	return !ssp_is_over(p) && ssp_rules(p, sk, write);
}

static int ssp_refuse(struct ssp_pair *p)
{
	ssp_count(p->net, SSP_STAT_BUSY_CALLS);
	return -EBUSY;
}

static bool ssp_is_forbidden(struct ssp_end *end, const struct sock *sk, bool write)
{
	struct ssp_pair *p;
	bool no;

	rcu_read_lock();
	p = rcu_dereference(end->pair);
	no = p && ssp_forbids(p, sk, write);
	if (no)
		ssp_refuse(p);
	rcu_read_unlock();
	return no;
}

static int ssp_may_send(struct flt_layer *layer, struct sock *sk, int flags)
{
	return ssp_is_forbidden(ssp_end(layer), sk, true) ? -EBUSY : 0;
}

/* Either there is something to read or nothing will come; the source is locked. */
static bool ssp_copy_settled(const struct ssp_end *end, const struct ssp_pair *p)
{
	return end->copy_bytes || READ_ONCE(p->state) != SSP_RUNNING;
}

/* Under the source's lock: wait for the copy. */
static int ssp_copy_wait(struct sock *sk, struct ssp_end *end, struct ssp_pair *p, int flags)
{
	long timeo = sock_rcvtimeo(sk, flags & MSG_DONTWAIT);
	DEFINE_WAIT_FUNC(wait, woken_wake_function);
	int err = 0;

	add_wait_queue(sk_sleep(sk), &wait);
	while (!ssp_copy_settled(end, p)) {
		if (!timeo) {
			err = -EAGAIN;
			break;
		}
		if (signal_pending(current)) {
			err = sock_intr_errno(timeo);
			break;
		}
		sk_wait_event(sk, &timeo, ssp_copy_settled(end, p), &wait);
	}
	remove_wait_queue(sk_sleep(sk), &wait);
	return err;
}

/*
 * The copy comes before what the socket itself has. Returns the number of bytes, or
 * 0: there is no copy (any more), or a negative errno.
 */
static int ssp_recv_copy(struct sock *sk, struct ssp_end *end, struct ssp_pair *p,
			 struct msghdr *msg, int flags)
{
	int ret = 0;

	lock_sock(sk);
	if (p)
		ret = ssp_copy_wait(sk, end, p, flags);
	if (!ret && msg_data_left(msg))
		ret = ssp_copy_read(end, sk, msg, flags & MSG_PEEK);
	if (!p)
		ssp_copy_pin(end);
	release_sock(sk);
	return ret;
}

/* 0: the socket itself is read; FLT_ANSWER: the copy comes first. Under RCU, or @p is held. */
static int ssp_recv_from(const struct ssp_end *end, struct ssp_pair *p, const struct sock *sk)
{
	if (p && ssp_forbids(p, sk, false) && !ssp_keeps_copy(p))
		return ssp_refuse(p);
	if (p ? ssp_keeps_copy(p) && !ssp_side(p, sk) : READ_ONCE(end->copy_bytes))
		return FLT_ANSWER;
	return 0;
}

static int ssp_may_recv(struct flt_layer *layer, struct sock *sk, int flags)
{
	struct ssp_end *end = ssp_end(layer);
	int say;

	if (flags & MSG_ERRQUEUE)
		return 0;
	rcu_read_lock();
	say = ssp_recv_from(end, rcu_dereference(end->pair), sk);
	rcu_read_unlock();
	return say;
}

static int ssp_recvmsg(struct flt_layer *layer, struct socket *sock, struct msghdr *msg,
		       size_t len, int flags)
{
	struct ssp_end *end = ssp_end(layer);
	struct ssp_pair *p = ssp_pair_get(end);
	struct sock *sk = sock->sk;
	int ret;

	ret = ssp_recv_from(end, p, sk);
	if (ret != FLT_ANSWER) {
		ret = ret ?: FLT_PASS;
		goto out;
	}
	if (flags & (MSG_OOB | MSG_TRUNC)) {
		ret = -EOPNOTSUPP;
		goto out;
	}
	ret = ssp_recv_copy(sk, end, p, msg, flags);
	/* There is room for the forwarding, or this was the last of it. */
	if (p && ret > 0 && (READ_ONCE(p->held) || READ_ONCE(p->state) == SSP_DRAINING) &&
	    !ssp_run(p, SSP_CALL))
		ssp_pair_queue(p, 0);
	if (ret || !len)
		ssp_layer_changed(sk);
	else
		ret = FLT_PASS;
out:
	if (p)
		ssp_pair_put(p);
	return ret;
}

static int ssp_may_splice_read(struct flt_layer *layer, struct sock *sk, int flags)
{
	struct ssp_end *end = ssp_end(layer);

	if (ssp_is_forbidden(end, sk, false))
		return -EBUSY;
	return READ_ONCE(end->copy_bytes) ? FLT_ANSWER : 0;
}

static ssize_t ssp_splice_read(struct flt_layer *layer, struct socket *sock, loff_t *ppos,
			       struct pipe_inode_info *pipe, size_t len, unsigned int flags)
{
	return copy_splice_read(sock->file, ppos, pipe, len, flags);
}

static int ssp_may_shutdown(struct flt_layer *layer, struct sock *sk, int how)
{
	struct ssp_end *end = ssp_end(layer);

	if (((how + 1) & SEND_SHUTDOWN && ssp_is_forbidden(end, sk, true)) ||
	    ((how + 1) & RCV_SHUTDOWN && ssp_is_forbidden(end, sk, false)))
		return -EBUSY;
	return 0;
}

#define SSP_POLL_IN	(EPOLLIN | EPOLLRDNORM | EPOLLRDHUP)
#define SSP_POLL_OUT	(EPOLLOUT | EPOLLWRNORM | EPOLLWRBAND)

/* No transfer is under way, and none has left anything to read. */
static bool ssp_poll_is_plain(struct flt_layer *layer)
{
	bool over;

	rcu_read_lock();
	over = ssp_is_over(ssp_pair_of(layer));
	rcu_read_unlock();
	smp_rmb();	/* pairs with ssp_end_clear() */
	return over && !READ_ONCE(ssp_end(layer)->copy_bytes);
}

static __poll_t ssp_poll(struct flt_layer *layer, struct file *file, struct socket *sock,
			 struct poll_table_struct *wait)
{
	struct ssp_end *end = ssp_end(layer);
	struct sock *sk = sock->sk;
	struct ssp_pair *p;
	__poll_t mask;
	bool was_over;

	/* Whoever asks all his sockets asks many that were spliced once: not us the next time. */
	if (wait && ssp_poll_is_plain(layer))
		flt_layer_skip_poll(layer, sock, ssp_poll_is_plain);
again:
	rcu_read_lock();
	was_over = ssp_is_over(ssp_pair_of(layer));
	rcu_read_unlock();
	mask = flt_layer_next_poll(layer, file, sock, wait);
	rcu_read_lock();
	p = rcu_dereference(end->pair);
	if (ssp_is_over(p)) {
		/* The mask is from before the end, which may have left an error. */
		if (!was_over) {
			rcu_read_unlock();
			wait = NULL;
			goto again;
		}
		if (READ_ONCE(end->copy_bytes))
			mask |= EPOLLIN | EPOLLRDNORM;
		goto out;
	}
	/* Of a transfer under way, as the mask is; should it end here, that wakes us. */
	if (ssp_rules(p, sk, true))
		mask &= ~SSP_POLL_OUT;
	if (ssp_rules(p, sk, false)) {
		/* The source's end or error is ours to hear until all before it is passed on. */
		mask &= ~(SSP_POLL_IN | EPOLLHUP | EPOLLERR);
		if (ssp_keeps_copy(p) && ssp_copy_readable(p))
			mask |= EPOLLIN | EPOLLRDNORM;
	}
out:
	rcu_read_unlock();
	return mask;
}

/*
 * Whoever has the socket locked may have it for as long as he likes: rmmod is not to wait for him.
 * It has begun, so there is no copy any more: it would hold the module.
 */
static void ssp_forget_copy(struct ssp_end *end, struct sock *sk)
{
	if (!READ_ONCE(end->copy_bytes) || !try_module_get(THIS_MODULE))
		return;
	lock_sock(sk);
	ssp_copy_drop(end, sk);
	ssp_copy_pin(end);
	release_sock(sk);
	module_put(THIS_MODULE);	/* the layer is held still */
}

/* The connection is given up by its program; nothing of it is for the socket's next one. */
static void ssp_leave(struct ssp_end *end, struct sock *sk)
{
	struct ssp_pair *p;

	p = ssp_pair_get(end);
	if (p) {
		ssp_lock_socks(p->sk[0], p->sk[1]);
		ssp_judge_left(p, ssp_side(p, sk));
		ssp_unlock_socks(p->sk[0], p->sk[1]);
		ssp_pair_put(p);
	}
	ssp_forget_copy(end, sk);
}

/*
 * The last descriptor of @sock is being closed, by whoever had it last: the other end may be
 * locked for as long as its program likes, and the pair then ends later. This socket has no next
 * connection.
 */
static void ssp_release(struct flt_layer *layer, struct socket *sock)
{
	struct ssp_end *end = ssp_end(layer);
	struct sock *sk = sock->sk;
	struct ssp_pair *p;

	p = ssp_pair_get(end);
	if (p) {
		if (ssp_trylock_socks(p->sk[0], p->sk[1])) {
			ssp_judge_left(p, ssp_side(p, sk));
			ssp_unlock_socks(p->sk[0], p->sk[1]);
		} else {
			WRITE_ONCE(p->left[ssp_side(p, sk)], true);
			ssp_pair_queue(p, 0);
		}
		ssp_pair_put(p);
	}
	ssp_forget_copy(end, sk);
}

static void ssp_destruct(struct flt_layer *layer, struct sock *sk)
{
	struct ssp_end *end = ssp_end(layer);

	ssp_copy_drop(end, sk);
	/* Its release did not come to us, if the module is still held. */
	ssp_copy_pin(end);
}

static void ssp_free(struct flt_layer *layer)
{
	ssp_copy_exit(ssp_end(layer));
}

/*
 * The program has given the socket to kTLS or the like, whose operations are on it now: nothing
 * more comes to us, not even its close. The caller has its descriptor.
 */
static void ssp_let_go(struct ssp_end *end, struct sock *sk)
{
	struct ssp_pair *p = ssp_pair_get(end);

	if (p) {
		ssp_lock_socks(p->sk[0], p->sk[1]);
		ssp_judge_lost(p);
		ssp_unlock_socks(p->sk[0], p->sk[1]);
		ssp_pair_put(p);
	}
	ssp_forget_copy(end, sk);
}

/* SO_RCVLOWAT of a spliced socket is ours; what the program wants it gets at the end. */
static void ssp_keep_lowat(struct ssp_pair *p, struct sock *sk)
{
	if (p->state == SSP_ENDED)
		return;
	p->lowat[ssp_side(p, sk)] = sk->sk_rcvlowat;
	WRITE_ONCE(sk->sk_rcvlowat, 1);
}

static bool ssp_is_connected(const struct sock *sk)
{
	return !((1 << READ_ONCE(sk->sk_state)) &
		 (TCPF_CLOSE | TCPF_LISTEN | TCPF_SYN_SENT | TCPF_SYN_RECV));
}

static void ssp_returned(struct flt_layer *layer, struct socket *sock, enum flt_op op, int ret)
{
	struct ssp_pair *p;

	if (op == FLT_OP_SETSOCKOPT && inet_csk_has_ulp(sock->sk)) {
		ssp_let_go(ssp_end(layer), sock->sk);
		return;
	}
	if (ret)
		return;
	/* By connect(AF_UNSPEC): the socket may become another connection, or a listener. */
	if (op == FLT_OP_LISTEN || (op == FLT_OP_CONNECT && !ssp_is_connected(sock->sk))) {
		ssp_leave(ssp_end(layer), sock->sk);
		return;
	}
	if (op != FLT_OP_SETSOCKOPT && op != FLT_OP_RCVLOWAT)
		return;
	p = ssp_pair_get(ssp_end(layer));
	if (!p)
		return;
	if (op == FLT_OP_RCVLOWAT)
		ssp_keep_lowat(p, sock->sk);
	else
		ssp_pair_queue(p, 0);	/* it may be in repair now */
	ssp_pair_put(p);
}

static const struct flt_layer_ops ssp_layer_ops = {
	.owner = THIS_MODULE,
	.name = "splice",
	.data_ready = ssp_data_ready,
	.write_space = ssp_write_space,
	.state_change = ssp_state_change,
	.error_report = ssp_error_report,
	.destruct = ssp_destruct,
	.free = ssp_free,
	.priv_size = sizeof(struct ssp_end),
	.may_recv = ssp_may_recv,
	.may_send = ssp_may_send,
	.may_splice_read = ssp_may_splice_read,
	.may_shutdown = ssp_may_shutdown,
	.recvmsg = ssp_recvmsg,
	.splice_read = ssp_splice_read,
	.poll = ssp_poll,
	.release = ssp_release,
	.returned = ssp_returned,
};

struct ssp_end *ssp_end_find(const struct sock *sk)
{
	struct flt_layer *layer = flt_layer_find(sk, &ssp_layer_ops);

	return layer ? ssp_end(layer) : NULL;
}

struct ssp_end *ssp_end_make(struct sock *sk)
{
	struct ssp_end *end = ssp_end_find(sk);
	struct flt_layer *layer;

	if (end)
		return end;
	layer = flt_layer_add(sk, &ssp_layer_ops, GFP_KERNEL);
	if (IS_ERR(layer)) {
		/* Another thread was faster. */
		end = PTR_ERR(layer) == -EEXIST ? ssp_end_find(sk) : NULL;
		return end ?: ERR_CAST(layer);
	}
	return ssp_end(layer);
}

void ssp_layer_changed(struct sock *sk)
{
	flt_layer_changed(sk, &ssp_layer_ops);
}

void ssp_layer_remove_all(void)
{
	flt_layer_remove_all(&ssp_layer_ops);
}
