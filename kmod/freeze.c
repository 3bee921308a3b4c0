// SPDX-License-Identifier: GPL-2.0
/*
 * Freezing: how a connection stands still with nobody holding its lock.
 *
 * Output: the operations of its address family are replaced by a copy whose queue_xmit() says that
 * there was no memory: TCP takes such a segment for not sent, and has it again later.
 *
 * Input: the caller keeps the client's packets away, but one may have been past that already. What
 * was acknowledged last is set so far ahead that every segment looks old (tcp_sequence()), and is
 * dropped before anything of it is believed.
 *
 * The program: a send buffer without room, and an end of the last segment to which nothing can be
 * added, make tcp_sendmsg() wait as it does when the client reads slowly. The receive queue is put
 * aside, and copied_seq with it, so that recv() and poll() find nothing.
 *
 * Timers that fire all the same find nothing pending, or what they send goes nowhere, and does not
 * count: a client that is not heard is not dead.
 */
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/workqueue.h>
#include <net/tcp.h>
#include "checkpoint.h"
#include "compat/done.h"
#include "compat/syn_recv.h"
#include "endpoint_trace.h"
#include "freeze.h"
#include "ktls_face.h"
#include "socklock.h"
#include "stack_priv.h"

/* More than a window, and less than half of all numbers. */
#define FLT_FREEZE_AHEAD	(BIT(30) + BIT(29))

/* Looks at a lock that a program keeps. */
#define FLT_FREEZE_LATE_MIN	((unsigned long)HZ / 50 + 1)
#define FLT_FREEZE_LATE_MAX	((unsigned long)HZ)

/**
 * struct flt_freeze - one connection that stands still
 * @sk:       a counted reference
 * @silence:  the operations that it was given
 * @tuple:    its addresses
 * @lifted:   the socket is as it was
 * @aside:    @unread has its receive queue; not with kTLS, which has places in it
 * @ack:      the client waits for an acknowledgment
 * @done:     a FIN has come: SOCK_DONE
 * @tossed:   it was closed with bytes unread, of which the client is to be told
 * @eor:      of @tail
 * @shutdown: RCV_SHUTDOWN, if it was there
 * @userlocks: SOCK_SNDBUF_LOCK, if it was there
 * @sndbuf:   of the socket
 * @copied_seq: the same
 * @rcv_nxt:  the same
 * @rcv_wup:  the same
 * @rcv_wnd:  the same
 * @tail:     last of the write queue; only compared
 * @unread:   in order
 * @pause:    of @late
 * @late:     thaws what could not be locked
 *
 * Under the socket's lock, but @pause and @late: of who thaws it.
 */
struct flt_freeze {
	struct sock *sk;
	const struct flt_silence *silence;
	struct flt_tuple tuple;
	bool lifted;
	bool aside;
	bool ack;
	bool done;
	bool tossed;
	u8 eor;
	u8 shutdown;
	u8 userlocks;
	int sndbuf;
	u32 copied_seq, rcv_nxt, rcv_wup, rcv_wnd;
	struct sk_buff *tail;
	struct sk_buff_head unread;
	unsigned long pause;
	struct delayed_work late;
};

/**
 * struct flt_silence - operations of an address family that send nothing
 * @real: TCP's own; NULL: not used yet. Set once, under flt_silence_lock
 * @ops:  a copy of them, as long as the module
 * @anew: the same, of a socket that its program has connected since
 *
 * IPv4's, IPv6's, and those of an IPv6 socket with an IPv4 client.
 */
struct flt_silence {
	const struct inet_connection_sock_af_ops *real;
	struct inet_connection_sock_af_ops ops;
	struct inet_connection_sock_af_ops anew;
};

static struct flt_silence flt_silences[3];
static DEFINE_SPINLOCK(flt_silence_lock);

static struct workqueue_struct *flt_freeze_wq __ro_after_init;

/* What comes is old; a window that is told to nobody must not open this. */
static void flt_freeze_shut(struct tcp_sock *tp)
{
	tp->pred_flags = 0;
	tp->rcv_wup = tp->rcv_nxt + FLT_FREEZE_AHEAD;
	tp->rcv_wnd = 0;
}

/* What was sent, and heard by nobody, is no sign that the client is gone. */
static void flt_freeze_probes(struct sock *sk)
{
	inet_csk(sk)->icsk_probes_out = 0;
	inet_csk(sk)->icsk_probes_tstamp = 0;
}

/* Synchronised: its sequence numbers mean something. */
static bool flt_sock_is_connected(const struct sock *sk)
{
	return !((1 << sk->sk_state) & (TCPF_CLOSE | TCPF_LISTEN | TCPF_SYN_SENT | TCPF_SYN_RECV));
}

/* Its program has made a listener of it: a child would take these operations along for good. */
static int flt_silent_conn_request(struct sock *sk, struct sk_buff *skb)
{
	return 0;
}

static struct sock *flt_syn_recv(const struct sock *sk, struct sk_buff *skb,
				 struct request_sock *req, struct dst_entry *dst,
				 struct request_sock *req_unhash, bool *own, flt_child_init init)
{
	return NULL;
}

static bool flt_silence_is_for(const struct flt_silence *s, const struct sock *sk)
{
	const struct inet_connection_sock_af_ops *ops = inet_csk(sk)->icsk_af_ops;

	return ops == &s->ops || ops == &s->anew;
}

static const struct flt_silence *flt_silence_of(const struct sock *sk)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(flt_silences); i++)
		if (flt_silence_is_for(&flt_silences[i], sk))
			return &flt_silences[i];
	return NULL;
}

static int flt_silent_xmit(struct sock *sk, struct sk_buff *skb, struct flowi *fl)
{
	/* Somebody has ended it, so it does not move, and its client is told. */
	if (tcp_hdr(skb)->rst)
		return flt_silence_of(sk)->real->queue_xmit(sk, skb, fl);
	if (flt_sock_is_connected(sk))
		flt_freeze_shut(tcp_sk(sk));
	flt_freeze_probes(sk);
	/* A probe's number is acknowledged. TCP counts it when we are back: then there is none. */
	if (ntohl(tcp_hdr(skb)->seq) == tcp_sk(sk)->snd_una - 1)
		inet_csk(sk)->icsk_probes_out--;
	kfree_skb(skb);
	return -ENOBUFS;
}

/*
 * In connect(), also of a connection that is restored (TCP_REPAIR): what there was to read is of
 * another one, whatever the numbers of this one are. It is silent all the same until the thaw.
 */
static int flt_silent_rebuild_header(struct sock *sk)
{
	const struct flt_silence *s = flt_silence_of(sk);

	if (sk->sk_state == TCP_SYN_SENT && inet_csk(sk)->icsk_af_ops == &s->ops) {
		write_lock_bh(&sk->sk_callback_lock);
		WRITE_ONCE(inet_csk(sk)->icsk_af_ops, &s->anew);
		write_unlock_bh(&sk->sk_callback_lock);
	}
	return s->real->rebuild_header(sk);
}

bool flt_endpoint_is_frozen(const struct sock *sk)
{
	sock_owned_by_me(sk);
	return flt_silence_of(sk);
}
EXPORT_SYMBOL_GPL(flt_endpoint_is_frozen);

/* NULL: they are nobody's that is known. */
static const struct flt_silence *flt_silence_get(const struct inet_connection_sock_af_ops *real)
{
	struct flt_silence *s = flt_silences, *found = NULL;

	if (real->queue_xmit != flt_bases[0].real_af->queue_xmit &&
	    (!flt_base_has_v6 || real->queue_xmit != flt_bases[1].real_af->queue_xmit))
		return NULL;
	spin_lock_bh(&flt_silence_lock);
	for (; !found && s < flt_silences + ARRAY_SIZE(flt_silences); s++) {
		if (!s->real) {
			s->ops = *real;
			s->ops.queue_xmit = flt_silent_xmit;
			s->ops.conn_request = flt_silent_conn_request;
			s->ops.syn_recv_sock = flt_on_syn_recv;
			s->ops.rebuild_header = flt_silent_rebuild_header;
			s->anew = s->ops;
			s->real = real;
		}
		if (s->real == real)
			found = s;
	}
	spin_unlock_bh(&flt_silence_lock);
	return found;
}

/*
 * Layers put operations of theirs there as well, and take them away, by sk_callback_lock alone
 * (stack_base.c): what is told apart is only whether a stack is on the socket.
 */
bool flt_silence_begin(struct sock *sk)
{
	const struct inet_connection_sock_af_ops *real;
	const struct flt_base *base = flt_base(sk);
	const struct flt_silence *s;

	write_lock_bh(&sk->sk_callback_lock);
	real = inet_csk(sk)->icsk_af_ops;
	if (base && real == &base->af)
		real = base->real_af;
	s = flt_silence_get(real);
	if (s)
		WRITE_ONCE(inet_csk(sk)->icsk_af_ops, &s->ops);
	write_unlock_bh(&sk->sk_callback_lock);
	return s;
}

void flt_silence_end(struct sock *sk)
{
	const struct flt_silence *s;

	write_lock_bh(&sk->sk_callback_lock);
	s = flt_silence_of(sk);
	if (s) {
		WRITE_ONCE(inet_csk(sk)->icsk_af_ops, s->real);
		if (flt_stack_is_on(sk) && flt_base(sk))
			flt_base_hook(sk, flt_base(sk));
	}
	write_unlock_bh(&sk->sk_callback_lock);
}

static void flt_freeze_timers(struct flt_freeze *f)
{
	struct inet_connection_sock *icsk = inet_csk(f->sk);

	f->ack = inet_csk_ack_scheduled(f->sk) || tcp_sk(f->sk)->compressed_ack;
	flt_freeze_probes(f->sk);
	icsk->icsk_ack.pending = 0;
	clear_bit(TCP_ACK_DEFERRED, &f->sk->sk_tsq_flags);
	inet_csk_clear_xmit_timer(f->sk, ICSK_TIME_DACK);
	inet_csk_clear_xmit_timer(f->sk, ICSK_TIME_RETRANS);
}

static void flt_freeze_output(struct flt_freeze *f)
{
	struct sock *sk = f->sk;

	f->sndbuf = sk->sk_sndbuf;
	f->userlocks = sk->sk_userlocks & SOCK_SNDBUF_LOCK;
	WRITE_ONCE(sk->sk_sndbuf, 0);
	sk->sk_userlocks |= SOCK_SNDBUF_LOCK;	/* TCP lets it be */
	f->tail = tcp_write_queue_tail(sk);
	if (f->tail) {
		f->eor = TCP_SKB_CB(f->tail)->eor;
		TCP_SKB_CB(f->tail)->eor = 1;
	}
}

static void flt_freeze_input(struct flt_freeze *f)
{
	struct sock *sk = f->sk;
	struct tcp_sock *tp = tcp_sk(sk);

	f->rcv_nxt = tp->rcv_nxt;
	f->rcv_wup = tp->rcv_wup;
	f->rcv_wnd = tp->rcv_wnd;
	flt_freeze_shut(tp);
	f->copied_seq = tp->copied_seq;
	f->shutdown = sk->sk_shutdown & RCV_SHUTDOWN;
	f->done = sock_flag(sk, SOCK_DONE);
	f->aside = !flt_ktls_is_ours(sk);
	if (!f->aside)
		return;
	skb_queue_splice_init(&sk->sk_receive_queue, &f->unread);
	WRITE_ONCE(tp->copied_seq, tp->rcv_nxt);
	/* Or who reads would find the end before what is in front of it. */
	WRITE_ONCE(sk->sk_shutdown, sk->sk_shutdown & ~RCV_SHUTDOWN);
	sock_reset_flag(sk, SOCK_DONE);
}

static void flt_freeze_late(struct work_struct *work);

enum flt_refusal flt_endpoint_freeze(struct sock *sk, struct flt_freeze **out)
{
	struct flt_freeze *f;

	sock_owned_by_me(sk);

	f = kzalloc(sizeof(*f), GFP_KERNEL_ACCOUNT);
	if (!f)
		return FLT_REFUSE_NOMEM;
	if (!flt_silence_begin(sk)) {
		kfree(f);
		return FLT_REFUSE_FOREIGN;
	}
	__module_get(THIS_MODULE);
	sock_hold(sk);
	f->sk = sk;
	f->silence = flt_silence_of(sk);
	flt_tuple_from_sock(sk, &f->tuple);
	__skb_queue_head_init(&f->unread);
	INIT_DELAYED_WORK(&f->late, flt_freeze_late);
	flt_freeze_timers(f);
	flt_freeze_output(f);
	flt_freeze_input(f);
	trace_flt_endpoint_freeze(&f->tuple, f->rcv_nxt - f->copied_seq, FLT_REFUSE_NONE);
	*out = f;
	return FLT_REFUSE_NONE;
}
EXPORT_SYMBOL_GPL(flt_endpoint_freeze);

static void flt_lift_output(struct flt_freeze *f)
{
	struct sock *sk = f->sk;
	struct sk_buff *tail = tcp_write_queue_tail(sk);

	/* Else its program has set another size, which counts. */
	if (!sk->sk_sndbuf) {
		WRITE_ONCE(sk->sk_sndbuf, f->sndbuf);
		if (!f->userlocks)
			sk->sk_userlocks &= ~SOCK_SNDBUF_LOCK;
	}
	if (tail && tail == f->tail)
		TCP_SKB_CB(tail)->eor = f->eor;
}

/* Not if its program has ended it by connect(AF_UNSPEC), and made what it may of it since. */
static bool flt_freeze_is_same(const struct flt_freeze *f)
{
	const struct sock *sk = f->sk;

	if (inet_csk(sk)->icsk_af_ops != &f->silence->ops || sk->sk_state == TCP_LISTEN ||
	    inet_sk(sk)->inet_dport != f->tuple.client_port)
		return false;
	/* By TCP_REPAIR bytes may have come, even have been read, or the numbers be others. */
	return !f->aside || tcp_sk(sk)->copied_seq == f->rcv_nxt;
}

static bool flt_freeze_has_bytes(const struct flt_freeze *f)
{
	u32 end = f->rcv_nxt - f->done;

	return f->aside && before(f->copied_seq, end);
}

static void flt_lift_input(struct flt_freeze *f)
{
	struct sock *sk = f->sk;
	struct tcp_sock *tp = tcp_sk(sk);

	if (!flt_freeze_is_same(f)) {
		/* Under repair, perhaps: it must hear its client all the same. */
		if (flt_sock_is_connected(sk) && after(tp->rcv_wup, tp->rcv_nxt))
			tp->rcv_wup = tp->rcv_nxt;
		return;
	}
	tp->rcv_wup = f->rcv_wup;
	tp->rcv_wnd = f->rcv_wnd;
	if (!f->aside)
		return;
	if (sock_flag(sk, SOCK_DEAD)) {
		f->tossed = flt_freeze_has_bytes(f);
		return;
	}
	skb_queue_splice_init(&f->unread, &sk->sk_receive_queue);
	WRITE_ONCE(tp->copied_seq, f->copied_seq);
	WRITE_ONCE(sk->sk_shutdown, sk->sk_shutdown | f->shutdown);
	if (f->done)
		sock_set_flag(sk, SOCK_DONE);
}

void flt_freeze_lift(struct flt_freeze *f)
{
	struct sock *sk = f->sk;

	sock_owned_by_me(sk);
	if (f->lifted)
		return;
	f->lifted = true;
	flt_lift_output(f);
	flt_lift_input(f);
	__skb_queue_purge(&f->unread);
	flt_freeze_probes(sk);
	/* Else they are TCP's, or of who has frozen what its program has connected since. */
	if (flt_silence_is_for(f->silence, sk))
		flt_silence_end(sk);
}
EXPORT_SYMBOL_GPL(flt_freeze_lift);

/* As in close(), which found nothing unread. */
static void flt_thaw_reset(struct sock *sk)
{
	/* From there TCP sends no RST by itself; close() does it before. */
	if ((1 << sk->sk_state) & (TCPF_LAST_ACK | TCPF_CLOSING))
		flt_compat_set_state(sk, TCP_FIN_WAIT1);
	flt_sock_abort(sk, ECONNABORTED);
}

static void flt_thaw_timers(struct flt_freeze *f)
{
	struct sock *sk = f->sk;
	struct inet_connection_sock *icsk = inet_csk(sk);

	if (f->ack) {
		inet_csk_schedule_ack(sk);
		inet_csk_reset_xmit_timer(sk, ICSK_TIME_DACK, TCP_DELACK_MIN, TCP_RTO_MAX);
	}
	if (tcp_sk(sk)->packets_out)
		inet_csk_reset_xmit_timer(sk, ICSK_TIME_RETRANS, icsk->icsk_rto, TCP_RTO_MAX);
	else if (tcp_send_head(sk))
		inet_csk_reset_xmit_timer(sk, ICSK_TIME_PROBE0, icsk->icsk_rto, TCP_RTO_MAX);
	/* What may be sent is sent when the lock is given back (tcp_release_cb()). */
	if (tcp_send_head(sk) && !test_and_set_bit(TCP_TSQ_DEFERRED, &sk->sk_tsq_flags))
		sock_hold(sk);
}

/* Others may replace it at the same time. */
static void flt_sock_call(struct sock *sk, void (*callback)(struct sock *sk))
{
	callback(sk);
}

static void flt_thaw_locked(struct flt_freeze *f)
{
	struct sock *sk = f->sk;

	flt_freeze_lift(f);
	if (f->tossed && sk->sk_state != TCP_CLOSE)
		flt_thaw_reset(sk);
	if (flt_sock_is_connected(sk))
		flt_thaw_timers(f);
	if (sock_flag(sk, SOCK_DEAD) || sk->sk_state == TCP_LISTEN)
		return;
	/* Who has looked meanwhile has found nothing, and no room. */
	if (!skb_queue_empty(&sk->sk_receive_queue))
		flt_sock_call(sk, READ_ONCE(sk->sk_data_ready));
	if (f->shutdown)
		flt_sock_call(sk, READ_ONCE(sk->sk_state_change));
	flt_sock_call(sk, READ_ONCE(sk->sk_write_space));
}

static void flt_thaw_end(struct flt_freeze *f)
{
	sock_put(f->sk);
	kfree(f);
	module_put(THIS_MODULE);
}

/* True: it is over. */
static bool flt_thaw_try(struct flt_freeze *f)
{
	if (!flt_sock_lock_soon(f->sk))
		return false;
	flt_thaw_locked(f);
	trace_flt_endpoint_thaw(&f->tuple, f->rcv_nxt - f->copied_seq, FLT_REFUSE_NONE);
	release_sock(f->sk);
	return true;
}

static void flt_freeze_late(struct work_struct *work)
{
	struct flt_freeze *f = container_of(to_delayed_work(work), struct flt_freeze, late);

	if (flt_thaw_try(f)) {
		flt_thaw_end(f);
		return;
	}
	f->pause = clamp(2 * f->pause, FLT_FREEZE_LATE_MIN, FLT_FREEZE_LATE_MAX);
	queue_delayed_work(flt_freeze_wq, &f->late, f->pause);
}

void flt_freeze_thaw(struct flt_freeze *f)
{
	might_sleep();

	if (!f)
		return;
	/* Lifted and ended: given away, or killed, and then its program has been told. */
	if ((f->lifted && inet_sk_state_load(f->sk) == TCP_CLOSE) || flt_thaw_try(f))
		flt_thaw_end(f);
	else
		queue_delayed_work(flt_freeze_wq, &f->late, FLT_FREEZE_LATE_MIN);
}
EXPORT_SYMBOL_GPL(flt_freeze_thaw);

int __init flt_freeze_init(void)
{
	flt_freeze_wq = alloc_workqueue("flt_thaw", WQ_UNBOUND, 0);
	return flt_freeze_wq ? 0 : -ENOMEM;
}

/* Nothing is frozen; somebody may be in the last instructions of what thaws. */
void flt_freeze_exit(void)
{
	destroy_workqueue(flt_freeze_wq);
}
