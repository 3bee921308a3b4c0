// SPDX-License-Identifier: GPL-2.0
/* What the client has not acknowledged: into a child, and whom its memory is charged to. */
#include <linux/memcontrol.h>
#include <linux/net.h>
#include <linux/uio.h>
#include <net/tcp.h>
#include "adopt.h"
#include "compat/accept.h"
#include "compat/done.h"

/*
 * Where TCP has to wait for memory it looks at the struct socket, even if it is told not to
 * wait; a child has none before it is accepted.
 */
static void flt_child_lend(struct sock *child, struct socket *sock)
{
	write_lock_bh(&child->sk_callback_lock);
	rcu_assign_pointer(child->sk_wq, sock ? &sock->wq : NULL);
	sk_set_socket(child, sock);
	write_unlock_bh(&child->sk_callback_lock);
}

static bool flt_child_write(struct sock *child, const void *data, u32 len)
{
	struct kvec vec = { .iov_base = (void *)data, .iov_len = len };
	struct msghdr msg = { .msg_flags = MSG_DONTWAIT };

	iov_iter_kvec(&msg.msg_iter, ITER_SOURCE, &vec, 1, len);
	while (msg_data_left(&msg))
		if (tcp_sendmsg_locked(child, &msg, msg_data_left(&msg)) <= 0)
			return false;
	return true;
}

/* Repair mode queues bytes as sent, to be retransmitted when the client does not acknowledge. */
static bool flt_child_write_sent(struct sock *child, const void *data, u32 len)
{
	struct tcp_sock *tp = tcp_sk(child);
	bool done;

	tp->repair = 1;
	tp->repair_queue = TCP_SEND_QUEUE;
	done = flt_child_write(child, data, len);
	tp->repair_queue = TCP_NO_QUEUE;
	tp->repair = 0;
	return done && tp->snd_nxt == tp->write_seq;
}

/* Into a window of nothing, so that nothing is sent. */
static bool flt_child_write_unsent(struct sock *child, const void *data, u32 len)
{
	struct tcp_sock *tp = tcp_sk(child);

	tp->snd_wnd = 0;
	return flt_child_write(child, data, len);
}

enum flt_refusal flt_child_queue_sent(struct sock *child, const struct flt_state *state,
				      const void *data)
{
	u32 queued = flt_state_queued(state), flying = flt_state_flying(state);
	struct tcp_sock *tp = tcp_sk(child);
	u32 lowat = tp->notsent_lowat;
	int sndbuf = child->sk_sndbuf;
	struct socket *sock;
	bool done = true;

	if (!queued)
		return FLT_REFUSE_NONE;
	if (sock_create_lite(child->sk_family, SOCK_STREAM, IPPROTO_TCP, &sock))
		return FLT_REFUSE_NOMEM;
	flt_child_lend(child, sock);
	/* For the time of the filling the limits of the buffer must not matter. */
	WRITE_ONCE(child->sk_sndbuf, INT_MAX);
	WRITE_ONCE(tp->notsent_lowat, U32_MAX);
	if (flying)
		done = flt_child_write_sent(child, data, flying);
	if (done && flying < queued)
		done = flt_child_write_unsent(child, data + flying, queued - flying);
	WRITE_ONCE(tp->notsent_lowat, lowat);
	WRITE_ONCE(child->sk_sndbuf, sndbuf);
	flt_child_lend(child, NULL);
	sock_release(sock);

	/* Parked, it is silent. */
	inet_csk_clear_xmit_timer(child, ICSK_TIME_RETRANS);
	if (!done || tp->snd_nxt != state->snd_nxt || tp->write_seq != state->write_seq)
		return FLT_REFUSE_NOMEM;
	/* What is under way already is no reason not to send what the client's window allows. */
	tcp_snd_cwnd_set(tp, max(tcp_snd_cwnd(tp), tcp_packets_in_flight(tp)));
	return FLT_REFUSE_NONE;
}

enum flt_refusal flt_child_queue_end(struct sock *child, const struct flt_state *state)
{
	struct tcp_sock *tp = tcp_sk(child);
	u32 sent = state->snd_nxt;

	if (!state->end)
		return FLT_REFUSE_NONE;
	WRITE_ONCE(child->sk_shutdown, child->sk_shutdown | SEND_SHUTDOWN);
	if (state->end == FLT_END_ACKED) {
		flt_compat_set_state(child, TCP_FIN_WAIT2);
		return FLT_REFUSE_NONE;
	}
	if (state->end == FLT_END_SENT) {
		sent++;
		tp->repair = 1;
		tp->repair_queue = TCP_SEND_QUEUE;
	}
	tp->snd_wnd = 0;
	child->sk_prot->shutdown(child, SEND_SHUTDOWN);
	tp->repair_queue = TCP_NO_QUEUE;
	tp->repair = 0;
	inet_csk_clear_xmit_timer(child, ICSK_TIME_RETRANS);
	/* Short of memory TCP forgets it, or puts it to what is sent. */
	if (tp->write_seq != state->write_seq + 1 || tp->snd_nxt != sent)
		return FLT_REFUSE_NOMEM;
	tcp_snd_cwnd_set(tp, max(tcp_snd_cwnd(tp), tcp_packets_in_flight(tp)));
	if (child->sk_state == TCP_LAST_ACK)
		flt_compat_set_state(child, TCP_CLOSING);
	return FLT_REFUSE_NONE;
}

void flt_child_resume_sending(struct sock *child)
{
	struct inet_connection_sock *icsk = inet_csk(child);
	bool push = false;

	lock_sock(child);
	if (child->sk_state != TCP_CLOSE) {
		if (tcp_sk(child)->packets_out)
			inet_csk_reset_xmit_timer(child, ICSK_TIME_RETRANS, icsk->icsk_rto,
						  TCP_RTO_MAX);
		else if (tcp_send_head(child))
			inet_csk_reset_xmit_timer(child, ICSK_TIME_PROBE0, icsk->icsk_rto,
						  TCP_RTO_MAX);
		push = !(tcp_sk(child)->nonagle & TCP_NAGLE_CORK);
	}
	release_sock(child);
	/* Without a cork to pull this only sends what may be sent. */
	if (push)
		tcp_sock_set_cork(child, false);
}

void flt_sock_charge(struct sock *sk, int pages)
{
#ifdef CONFIG_MEMCG
	int sndbuf = sk->sk_sndbuf;

	sock_owned_by_me(sk);
	if (!pages || !sk->sk_memcg)
		return;
	/* A socket whose buffer is full is charged in any case, as accept() does it. */
	WRITE_ONCE(sk->sk_sndbuf, 0);
	if (__sk_mem_schedule(sk, pages << PAGE_SHIFT, SK_MEM_SEND)) {
		sk_forward_alloc_add(sk, -(pages << PAGE_SHIFT));
		atomic_long_sub(pages, sk->sk_prot->memory_allocated);
	}
	WRITE_ONCE(sk->sk_sndbuf, sndbuf);
#endif
}

/*
 * accept() charges its program for what there is in a child's receive queue and takes it for
 * granted that the write queue is empty: the pages that are left are what it rounded off. When
 * they are freed the program's group gets them back, so it has to pay for them first.
 *
 * Whoever kills the child (ss -K) between the two would free what has not been paid for. So the
 * write queue is not the child's from before it can be accepted: all that accept() sees of it is
 * that remainder of a page.
 */
void flt_sendq_take(struct flt_sendq *q, struct sock *child)
{
	struct tcp_sock *tp = tcp_sk(child);

	sock_owned_by_me(child);
	__skb_queue_head_init(&q->write);
	INIT_LIST_HEAD(&q->sorted);
	skb_queue_splice_init(&child->sk_write_queue, &q->write);
	list_splice_init(&tp->tsorted_sent_queue, &q->sorted);
	q->rtx = child->tcp_rtx_queue;
	child->tcp_rtx_queue = RB_ROOT;
	q->wmem = child->sk_wmem_queued;
	sk_wmem_queued_add(child, -q->wmem);
}

void flt_sendq_return(struct flt_sendq *q, struct sock *child)
{
	struct tcp_sock *tp = tcp_sk(child);

	sock_owned_by_me(child);
	skb_queue_splice_init(&q->write, &child->sk_write_queue);
	list_splice_init(&q->sorted, &tp->tsorted_sent_queue);
	child->tcp_rtx_queue = q->rtx;
	q->rtx = RB_ROOT;
	sk_wmem_queued_add(child, q->wmem);
	flt_compat_group_lend(child);
	flt_sock_charge(child, q->wmem >> PAGE_SHIFT);
	flt_compat_group_take_back(child);
	q->wmem = 0;
}

static void flt_sendq_free(struct sk_buff *skb)
{
	tcp_skb_tsorted_anchor_cleanup(skb);
	__kfree_skb(skb);
}

void flt_sendq_drop(struct flt_sendq *q, struct sock *child)
{
	struct sk_buff *skb;

	/* TCP gets its pages back, no group does; the remainder is as the child's own. */
	atomic_long_sub(q->wmem >> PAGE_SHIFT, child->sk_prot->memory_allocated);
	sk_mem_uncharge(child, q->wmem & ~PAGE_MASK);
	q->wmem = 0;
	while ((skb = __skb_dequeue(&q->write)))
		flt_sendq_free(skb);
	while ((skb = skb_rb_first(&q->rtx))) {
		rb_erase(&skb->rbnode, &q->rtx);
		flt_sendq_free(skb);
	}
	INIT_LIST_HEAD(&q->sorted);
}
