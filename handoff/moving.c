// SPDX-License-Identifier: GPL-2.0
/*
 * One connection that is to change its process: when is it between two requests?
 *
 * A layer on its socket hears what arrives. When that is the beginning of a next request, the
 * program is not told: a work item moves the connection first, with the request unread. Whether
 * it may is decided under the socket's lock, and so is the move: a program that reads or writes
 * before has it for this request, and one that is later finds the end of file. So nothing need be
 * kept from the program but the wake-up, and a move that is refused costs it only that moment.
 */

#include <linux/slab.h>
#include <net/tcp.h>

#include "kmod/requeue.h"
#include "kmod/socklock.h"
#include "kmod/stack.h"

#include "adopt.h"
#include "drain.h"
#include "move.h"
#include "moving.h"
#include "request.h"

/* A move that was put off. */
#define HOF_PAUSE_MIN	((unsigned long)HZ / 50)
#define HOF_PAUSE_MAX	((unsigned long)HZ)
/* Moves at once, of all that there are: what they take is nobody's time. */
#define HOF_MOVING_MAX	2

/* Of its own, so that the module can wait for the last of it. */
static struct workqueue_struct *hof_moving_wq __ro_after_init;

static void hof_moving_release(struct kref *ref)
{
	kfree(container_of(ref, struct hof_moving, ref));
}

static void hof_moving_put(struct hof_moving *m)
{
	kref_put(&m->ref, hof_moving_release);
}

static void hof_moving_queue(struct hof_moving *m)
{
	struct hof_drain *drain = m->move->drain;

	kref_get(&m->ref);
	if (!queue_work(drain ? drain->wq : hof_moving_wq, &m->work))
		hof_moving_put(m);
}

/*
 * A client that asks again at once does so within the same tick. But what acknowledged the last of
 * ours was then sent before that request, or with it.
 */
static bool hof_sock_hears_more(const struct tcp_sock *tp)
{
	return READ_ONCE(tp->snd_una) == READ_ONCE(tp->write_seq) &&
	       READ_ONCE(tp->snd_wl1) != READ_ONCE(tp->rcv_nxt);
}

/* Everything is read, and the last word was the server's. */
static bool hof_sock_has_answered(const struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	return READ_ONCE(tp->copied_seq) == READ_ONCE(tp->rcv_nxt) && READ_ONCE(tp->bytes_sent) &&
	       (s32)(READ_ONCE(tp->lsndtime) - READ_ONCE(inet_csk(sk)->icsk_ack.lrcvtime)) >= 0 &&
	       !hof_sock_hears_more(tp);
}

/* And the client has all of it. */
static bool hof_sock_waits(const struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	return hof_sock_has_answered(sk) && READ_ONCE(tp->snd_una) == READ_ONCE(tp->write_seq);
}

bool hof_moving_waits(const struct hof_moving *m)
{
	return hof_sock_waits(m->sk);
}

/*
 * Something has arrived, or somebody wakes the program: not always with the socket's lock, so
 * what has arrived is looked at by the work item.
 */
static bool hof_moving_data_ready(struct flt_layer *layer, struct sock *sk)
{
	struct hof_moving **priv = flt_layer_priv(layer);
	struct hof_moving *m = READ_ONCE(*priv);
	struct tcp_sock *tp = tcp_sk(sk);
	u32 copied, written, arrived;
	bool fresh, pass;

	if (!m)
		return true;
	spin_lock_bh(&m->lock);
	copied = READ_ONCE(tp->copied_seq);
	written = READ_ONCE(tp->write_seq);
	arrived = READ_ONCE(tp->rcv_nxt);
	/* There may be nothing: a program that reads without being told was faster. */
	fresh = !m->frozen && !before(copied, m->seen) && before(copied, arrived);
	m->seen = arrived;
	if (fresh && !m->stopped && !m->lost) {
		m->answered = written != m->mark;
		m->begin = copied;
		m->frozen = true;
		m->ready = false;
		hof_moving_queue(m);
	}
	if (fresh)
		m->mark = written;
	pass = !m->frozen;
	spin_unlock_bh(&m->lock);
	return pass;
}

static void hof_moving_free(struct flt_layer *layer)
{
	struct hof_moving **priv = flt_layer_priv(layer);

	if (*priv)
		hof_moving_put(*priv);
}

static const struct flt_layer_ops hof_moving_layer = {
	.owner = THIS_MODULE,
	.name = "handoff-move",
	.data_ready = hof_moving_data_ready,
	.free = hof_moving_free,
	.priv_size = sizeof(struct hof_moving *),
};

/* The program hears of what has arrived after all. */
static void hof_moving_thaw(struct hof_moving *m)
{
	struct sock *sk = m->sk;
	bool was, locked;

	spin_lock_bh(&m->lock);
	was = m->frozen;
	m->frozen = false;
	/* What has arrived meanwhile is no reason to begin again. */
	m->seen = READ_ONCE(tcp_sk(sk)->rcv_nxt);
	spin_unlock_bh(&m->lock);
	if (!was)
		return;
	/*
	 * As TCP does it, with the socket's lock: another layer may count on that. A program that
	 * has it for long is told all the same.
	 */
	locked = flt_sock_lock_soon(sk);
	hof_sock_tell(sk, locked);
	if (locked)
		release_sock(sk);
}

/* Between two requests, with the next one unread: for that it was frozen. */
static bool hof_moving_at_request(struct hof_moving *m, struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	bool at, expected, ready;
	enum hof_request what;
	u32 next;

	/* Said before, and refused by the one that it was for: what is learned is learned once. */
	spin_lock_bh(&m->lock);
	ready = m->frozen && m->ready && tp->copied_seq == m->begin && tp->write_seq == m->mark;
	spin_unlock_bh(&m->lock);
	if (ready)
		return true;
	what = hof_request_next(sk, &next);
	spin_lock_bh(&m->lock);
	at = m->frozen && tp->copied_seq == m->begin && tp->write_seq == m->mark;
	expected = m->known && m->next == tp->copied_seq;
	/* Within its body nothing new is learned, nor at its end as long as nothing follows. */
	if (!m->known || after(tp->copied_seq, m->next) ||
	    (expected && tp->copied_seq != tp->rcv_nxt)) {
		m->known = at && what == HOF_REQUEST_WHOLE;
		m->next = next;
		if (at && what == HOF_REQUEST_UNCLEAR)
			m->lost = true;
	}
	spin_unlock_bh(&m->lock);
	if (!at || what == HOF_REQUEST_NONE)
		return false;
	/* @answered is as it was when that was frozen, and stays so until it is thawed. */
	if (!m->answered)
		m->lost = true;
	/* Else what came may be of the body of the one before. */
	if (!m->answered || !expected)
		return false;
	spin_lock_bh(&m->lock);
	m->ready = true;
	spin_unlock_bh(&m->lock);
	return true;
}

static bool hof_moving_still(const struct hof_moving *m, const struct tcp_sock *tp)
{
	u32 ms = m->move->idle_ms;

	return ms && m->still && hof_sock_waits(m->sk) && m->look_rcv == tp->rcv_nxt &&
	       m->look_snd == tp->write_seq &&
	       time_after_eq(jiffies, m->still + msecs_to_jiffies(ms));
}

/* Under the socket's lock. */
static enum flt_refusal hof_moving_may(struct sock *sk, void *arg)
{
	struct hof_moving *m = arg;

	if (sk->sk_state != TCP_ESTABLISHED)
		return FLT_REFUSE_STATE;
	/* A kernel user of it: a pair of sockets. */
	if (!flt_layer_is_among_own(m->layer))
		return FLT_REFUSE_FOREIGN;
	if (hof_sock_is_new(sk) || hof_moving_at_request(m, sk) ||
	    hof_moving_still(m, tcp_sk(sk)))
		return FLT_REFUSE_NONE;
	return FLT_REFUSE_CHANGED;
}

static enum flt_refusal hof_moving_take(struct sock *sk, struct sock *child, void *arg)
{
	return hof_adoption_move(sk, child);
}

static void hof_moving_give_back(struct sock *sk, struct sock *child, void *arg)
{
	hof_adoption_move_back(sk, child);
}

static enum flt_refusal hof_moving_try(struct hof_moving *m)
{
	struct flt_requeue how = {
		.port = hof_sock_door(m->sk),
		.may = hof_moving_may,
		.take = hof_moving_take,
		.give_back = hof_moving_give_back,
		.arg = m,
	};
	enum flt_refusal why = FLT_REFUSE_NOLISTENER;
	unsigned int tries;

	if (m->move->drain)
		return hof_drain_give(m->move->drain, m->sk, hof_moving_may, m);
	/* One that closes at this moment is not the only one, perhaps. */
	for (tries = 0; tries < 3 && why == FLT_REFUSE_NOLISTENER; tries++) {
		mutex_lock(&m->move->lock);
		how.listener = hof_move_listener(m->move, m->sk);
		mutex_unlock(&m->move->lock);
		if (!how.listener)
			break;
		why = flt_endpoint_requeue(m->sk, &how);
		sock_put(how.listener);
	}
	return why;
}

static bool hof_refusal_is_final(enum flt_refusal why)
{
	switch (why) {
	case FLT_REFUSE_NOTTCP:
	case FLT_REFUSE_ULP:
	case FLT_REFUSE_MPTCP:
	case FLT_REFUSE_PSOCK:
	case FLT_REFUSE_MD5:
	case FLT_REFUSE_IPOPTIONS:
	case FLT_REFUSE_REPAIR:
	case FLT_REFUSE_FOREIGN:
	case FLT_REFUSE_SCOPE:
	case FLT_REFUSE_ACCECN:
	case FLT_REFUSE_NOTLOCAL:
	case FLT_REFUSE_POLICY:
		return true;
	default:
		return false;
	}
}

/*
 * The new server has no room, or there is none in memory, or it is of no kind that can move now:
 * soon again, then later and later. Where its program has just done something there will be news.
 */
static void hof_moving_put_off(struct hof_moving *m, enum flt_refusal why)
{
	if (why == FLT_REFUSE_CHANGED) {
		m->pause = 0;
		return;
	}
	m->pause = clamp(2 * m->pause, HOF_PAUSE_MIN, HOF_PAUSE_MAX);
	WRITE_ONCE(m->not_before, jiffies + m->pause);
}

static bool hof_moving_is_over(const struct hof_moving *m)
{
	return inet_sk_state_load(m->sk) != TCP_ESTABLISHED || sock_flag(m->sk, SOCK_DEAD);
}

void hof_moving_stop(struct hof_moving *m)
{
	spin_lock_bh(&m->lock);
	m->stopped = true;
	spin_unlock_bh(&m->lock);
}

/* It stays, so none of its requests is held back any more. */
static void hof_moving_give_up(struct hof_moving *m, enum flt_refusal why)
{
	hof_moving_stop(m);
	WRITE_ONCE(m->why, why);
}

static void hof_moving_take_off(struct hof_moving *m)
{
	flt_layer_detach(m->layer);
	m->layer = NULL;
	sock_put(m->sk);
	hof_moving_put(m);	/* the list's */
}

static void hof_moving_work(struct work_struct *work)
{
	struct hof_moving *m = container_of(work, struct hof_moving, work);
	struct hof_move *move = m->move;
	enum flt_refusal why;
	bool over;

	/* Once more after its end: something had queued it meanwhile. */
	if (!m->layer)
		goto put;
	over = hof_moving_is_over(m);
	why = over || READ_ONCE(m->why) ? FLT_REFUSE_STATE : hof_moving_try(m);
	if (why != FLT_REFUSE_NONE)
		over = hof_moving_is_over(m);
	if (why == FLT_REFUSE_NONE || over)
		hof_moving_stop(m);
	else if (hof_refusal_is_final(why) || (move->drain && hof_drain_is_final(why)))
		hof_moving_give_up(m, why);
	else
		hof_moving_put_off(m, why);
	if (why != FLT_REFUSE_NONE)
		hof_moving_thaw(m);

	mutex_lock(&move->lock);
	if (why == FLT_REFUSE_NONE)
		move->moved++;
	else if (over)
		move->ended++;
	else
		hof_move_tried(move, why);
	if ((why == FLT_REFUSE_NONE || over) && !move->closing) {
		list_del_init(&m->list);
		mutex_unlock(&move->lock);
		hof_moving_take_off(m);
	} else {
		mutex_unlock(&move->lock);
	}
put:
	hof_moving_put(m);
}

void hof_moving_end(struct hof_moving *m)
{
	if (cancel_work_sync(&m->work))
		hof_moving_put(m);
	hof_moving_thaw(m);
	hof_moving_take_off(m);
}

void hof_moving_look(struct hof_moving *m, u32 idle_ms)
{
	const struct tcp_sock *tp = tcp_sk(m->sk);
	u32 rcv = READ_ONCE(tp->rcv_nxt), snd = READ_ONCE(tp->write_seq);
	struct hof_moving **priv = flt_layer_priv(m->layer);

	if (!READ_ONCE(*priv))
		return;		/* it is just being added */
	if (hof_moving_is_over(m)) {
		hof_moving_queue(m);
		return;
	}
	if (READ_ONCE(m->why))
		return;
	if (!m->still || rcv != m->look_rcv || snd != m->look_snd) {
		m->look_rcv = rcv;
		m->look_snd = snd;
		m->still = jiffies ?: 1;
	} else if (m->pause && time_before(jiffies, READ_ONCE(m->not_before))) {
		return;
	} else if (idle_ms && time_after_eq(jiffies, m->still + msecs_to_jiffies(idle_ms)) &&
		   hof_sock_waits(m->sk)) {
		hof_moving_queue(m);
	} else if (hof_sock_is_new(m->sk)) {
		hof_moving_queue(m);
	}
}

/* What has been before is known by TCP's own marks only. */
static void hof_moving_mark(struct hof_moving *m)
{
	struct hof_moving **priv = flt_layer_priv(m->layer);
	const struct tcp_sock *tp = tcp_sk(m->sk);

	sock_owned_by_me(m->sk);
	m->seen = tp->rcv_nxt;
	m->mark = tp->write_seq - hof_sock_has_answered(m->sk);
	kref_get(&m->ref);
	WRITE_ONCE(*priv, m);
	if (hof_sock_is_new(m->sk))
		hof_moving_queue(m);
}

int hof_moving_begin(struct hof_move *move, struct sock *sk)
{
	struct hof_moving *m;
	int err = 0;

	m = kzalloc(sizeof(*m), GFP_KERNEL_ACCOUNT);
	if (!m)
		return -ENOMEM;
	kref_init(&m->ref);
	INIT_WORK(&m->work, hof_moving_work);
	spin_lock_init(&m->lock);
	m->move = move;
	m->sk = sk;
	/* It is another program's: its lock is not waited for. */
	if (flt_sock_lock_soon(sk)) {
		m->layer = flt_layer_add(sk, &hof_moving_layer, GFP_ATOMIC | __GFP_ACCOUNT);
		release_sock(sk);
	} else {
		m->layer = ERR_PTR(-EBUSY);
	}
	if (IS_ERR(m->layer)) {
		err = PTR_ERR(m->layer);
		kfree(m);
		return err;
	}
	sock_hold(sk);
	mutex_lock(&move->lock);
	list_add_tail(&m->list, &move->conns);
	move->watched = true;
	hof_move_watch(move);
	mutex_unlock(&move->lock);
	if (flt_sock_lock_soon(sk)) {
		hof_moving_mark(m);
		release_sock(sk);
		return 0;
	}
	mutex_lock(&move->lock);
	list_del(&m->list);
	mutex_unlock(&move->lock);
	hof_moving_take_off(m);
	return -EBUSY;
}

void hof_moving_flush(void)
{
	flush_workqueue(hof_moving_wq);
}

int __init hof_moving_init(void)
{
	hof_moving_wq = alloc_workqueue("hof_move", WQ_UNBOUND, HOF_MOVING_MAX);
	return hof_moving_wq ? 0 : -ENOMEM;
}

void hof_moving_exit(void)
{
	flt_layer_remove_all(&hof_moving_layer);
	destroy_workqueue(hof_moving_wq);
}
