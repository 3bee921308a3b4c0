// SPDX-License-Identifier: GPL-2.0
/*
 * The gate of a connection: what a client sends lies unread behind it until a policy has said
 * whether its request stays.
 *
 *	SHUT	between two requests: a program that reads finds nothing, as there is nothing
 *	MORE	a request has begun, and the policy wants more of it
 *	MOVING	it goes to another node
 *	OPEN	the program reads it, and answers
 *
 * It shuts before the first byte of an answer leaves, so that no next request can be read before
 * it was seen. It is looked at when TCP has queued something, under the socket's lock: the program
 * is not even told of a request that moves. To the program that is as if the bytes were not there
 * yet: poll says so, a read that must not wait is told to try again, another one waits.
 */

#include <linux/module.h>
#include <linux/skmsg.h>
#include <linux/slab.h>
#include <net/tcp.h>

#include "kmod/endpoint.h"
#include "kmod/node.h"
#include "kmod/socklock.h"

#include "admit.h"
#include "adopt.h"
#include "assign.h"
#include "counter.h"
#include "gate.h"
#include "gate_priv.h"
#include "net.h"
#include "request.h"
#include "ticket.h"
#include "trace.h"
#include "transfer.h"

/* A look for which the lock was not to be had. */
#define HOF_GATE_AGAIN	(HZ / 10)
/* A node that has not answered gets nothing for so long: its silence costs one request. */
#define HOF_GATE_PAUSE	HZ

struct workqueue_struct *hof_gate_wq __ro_after_init;
/* Works that are queued or run, and who waits for the last of them. */
static atomic_t hof_gate_works = ATOMIC_INIT(0);
static DECLARE_WAIT_QUEUE_HEAD(hof_gate_idle);

static void hof_gate_release(struct kref *ref)
{
	struct hof_gate *g = container_of(ref, struct hof_gate, ref);

	hof_admit_untag(g);
	hof_assigned_put(g->service);
	kfree(g);
}

void hof_gate_put(struct hof_gate *g)
{
	kref_put(&g->ref, hof_gate_release);
}

static void hof_gate_work_over(void)
{
	if (atomic_dec_and_test(&hof_gate_works))
		wake_up_all(&hof_gate_idle);
}

/* The work holds the gate and its socket. Any context. */
void hof_gate_queue(struct hof_gate *g, unsigned long delay)
{
	kref_get(&g->ref);
	sock_hold(g->sk);
	atomic_inc(&hof_gate_works);
	if (!mod_delayed_work(hof_gate_wq, &g->work, delay))
		return;
	/* It was queued before, and has its own. */
	sock_put(g->sk);
	hof_gate_put(g);
	hof_gate_work_over();
}

bool hof_gate_is_off(const struct hof_gate *g)
{
	return !rcu_access_pointer(g->service->set);
}

/* Has the program to wait? Unlocked. */
bool hof_gate_holds(const struct hof_gate *g)
{
	return READ_ONCE(g->state) != HOF_GATE_OPEN && !hof_gate_is_off(g) &&
	       hof_sock_is_whole(g->sk);
}

/* --- what becomes of a request --- */

static void hof_gate_count(struct hof_gate *g, enum hof_policy_stat stat)
{
	hof_assigned_count(g->service, stat);
	hof_count(hof_net(sock_net(g->sk)), HOF_STAT_POLICY + stat);
}

static void hof_gate_trace(const struct hof_gate *g, enum hof_policy_stat stat)
{
	struct flt_tuple tuple;

	if (!trace_hof_policy_enabled())
		return;
	flt_tuple_from_sock(g->sk, &tuple);
	trace_hof_policy(&tuple, g->requests, g->target, stat);
}

void hof_gate_set_state(struct hof_gate *g, enum hof_gate_state state)
{
	struct hof_assigned *s = g->service;

	lockdep_assert_held(&g->lock);
	if (state == HOF_GATE_MORE || g->state == HOF_GATE_MORE) {
		spin_lock(&s->lock);
		if (state == HOF_GATE_MORE)
			list_add_tail(&g->held, &s->held);
		else
			list_del_init(&g->held);
		spin_unlock(&s->lock);
	}
	WRITE_ONCE(g->state, state);
}

/*
 * Where does the request end that begins with the first unread byte? Within its body nothing new
 * is learned. @locked: the socket is.
 */
static void hof_gate_learn(struct hof_gate *g, bool locked)
{
	const struct tcp_sock *tp = tcp_sk(g->sk);
	u32 length = 0;

	g->known = locked && hof_request_look(g->sk, GFP_ATOMIC, &length) == HOF_REQUEST_WHOLE;
	g->next = tp->copied_seq + length;
	/* There is more behind it already: what is answered then may be an earlier one. */
	if (g->known && before(g->next, READ_ONCE(tp->rcv_nxt)))
		g->lost = true;
}

/* Everything that the program has ever sent. */
static u64 hof_sock_written(const struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	return tp->bytes_acked + (u32)(tp->write_seq - tp->snd_una);
}

/* The last request's answer is over. */
static void hof_gate_answered(struct hof_gate *g)
{
	const struct hof_policy_set *set = rcu_dereference(g->service->set);

	if (g->key && set)
		hof_policy_answered(set, g->key, hof_sock_written(g->sk) - g->written);
	g->key = 0;
}

void hof_gate_ends(struct hof_gate *g)
{
	const struct tcp_sock *tp = tcp_sk(g->sk);

	rcu_read_lock();
	if (!g->lost && tp->snd_una == tp->write_seq)
		hof_gate_answered(g);
	rcu_read_unlock();
	hof_admit_ended(g);
}

/* The program gets it. */
void hof_gate_stay(struct hof_gate *g, enum hof_policy_stat why, bool locked)
{
	lockdep_assert_held(&g->lock);
	hof_gate_learn(g, locked);
	hof_gate_set_state(g, HOF_GATE_OPEN);
	g->mark = READ_ONCE(tcp_sk(g->sk)->write_seq);
	g->written = hof_sock_written(g->sk);
	g->requests++;
	hof_gate_count(g, why);
	hof_gate_trace(g, why);
	hof_admit_stayed(g, why);
}

/* By whom has it come here? */
static void hof_gate_meet(struct hof_gate *g)
{
	struct hof_adoption *a;

	if (g->met)
		return;
	g->met = true;
	a = hof_adoption_of(g->sk);
	if (!a)
		return;
	g->came = a->flags & HOF_ADOPT_MOVED;
	g->hops = FIELD_GET(HOF_ADOPT_HOPS, a->flags);
	hof_adoption_put(a);
}

/* What has come is the first of a request that nobody has read: HOF_POLICY_ASKED, or why not. */
static enum hof_policy_stat hof_gate_begins(struct hof_gate *g)
{
	const struct tcp_sock *tp = tcp_sk(g->sk);
	bool came;

	/* Not what the client says, but records of TLS; or a sockmap gets it. */
	if (g->lost || inet_csk_has_ulp(g->sk) || sk_psock(g->sk))
		return HOF_POLICY_STAYED_UNSURE;
	hof_gate_meet(g);
	if (!hof_sock_is_whole(g->sk))
		return HOF_POLICY_STAYED_ENDED;
	came = g->came;
	g->came = false;
	if (came)
		return HOF_POLICY_STAYED_CAME;
	if (hof_sock_is_new(g->sk))
		return HOF_POLICY_ASKED;
	if (g->known && g->next == tp->copied_seq && tp->write_seq != g->mark)
		return HOF_POLICY_ASKED;
	g->lost = true;
	return HOF_POLICY_STAYED_UNSURE;
}

static u32 hof_gate_waited(const struct hof_gate *g)
{
	return jiffies_to_msecs(jiffies - g->since);
}

static bool hof_gate_is_silent(const struct hof_assigned *s, u32 node)
{
	return READ_ONCE(s->silent) == node &&
	       time_before(jiffies, READ_ONCE(s->silent_since) + HOF_GATE_PAUSE);
}

static void hof_gate_refused(struct hof_gate *g, enum flt_refusal why)
{
	spin_lock_bh(&g->lock);
	hof_admit_refused(g, why);
	spin_unlock_bh(&g->lock);
	if (why != FLT_REFUSE_TIMEOUT)
		return;
	WRITE_ONCE(g->service->silent_since, jiffies);
	WRITE_ONCE(g->service->silent, g->target);
}

/* Asks the policy. Return: HOF_POLICY_MORE, or HOF_POLICY_MOVE; else HOF_POLICY_STAY and @why. */
static int hof_gate_ask(struct hof_gate *g, const struct hof_policy_set *set,
			enum hof_policy_stat *why)
{
	const struct tcp_sock *tp = tcp_sk(g->sk);
	const struct hof_tunables *t = &hof_net(sock_net(g->sk))->tunables;
	struct hof_policy_request req = {
		.length = tp->rcv_nxt - tp->copied_seq,
		.requests = g->requests,
		.hops = g->hops,
		.waited_ms = hof_gate_waited(g),
		.sk = g->sk,
		.set = set,
	};
	int verdict;

	flt_tuple_from_sock(g->sk, &req.tuple);
	hof_gate_count(g, HOF_POLICY_ASKED);
	verdict = hof_policy_ask(set, &req);
	*why = HOF_POLICY_STAYED;
	g->key = req.key;
	switch (verdict) {
	case HOF_POLICY_MORE:
		if (req.length < READ_ONCE(t->migrate_bytes) &&
		    req.waited_ms < READ_ONCE(t->migrate_wait_ms))
			return verdict;
		*why = HOF_POLICY_STAYED_MORE;
		break;
	case HOF_POLICY_MOVE:
		*why = HOF_POLICY_STAYED_TARGET;
		if (!req.target || hof_gate_is_silent(g->service, req.target))
			break;
		*why = HOF_POLICY_STAYED_HOPS;
		if (g->hops >= READ_ONCE(t->migrate_max_hops))
			break;
		g->target = req.target;
		return verdict;
	default:
		/* Surplus has no other reason to be here. */
		if (g->tagged && req.down)
			*why = HOF_POLICY_STAYED_TARGET;
		break;
	}
	return HOF_POLICY_STAY;
}

/* A request begins, or goes on. Return: the program may be told. */
static bool hof_gate_judge(struct hof_gate *g)
{
	const struct hof_tunables *t = &hof_net(sock_net(g->sk))->tunables;
	const struct tcp_sock *tp = tcp_sk(g->sk);
	const struct hof_policy_set *set = rcu_dereference(g->service->set);
	enum hof_policy_stat why;
	int verdict;

	lockdep_assert_held(&g->lock);
	if (!set) {
		hof_gate_set_state(g, HOF_GATE_OPEN);
		return true;
	}
	if (g->state != HOF_GATE_MORE) {
		/* Of the body of what stays. */
		if (g->known && before(tp->copied_seq, g->next)) {
			hof_gate_set_state(g, HOF_GATE_OPEN);
			return true;
		}
		why = hof_gate_begins(g);
		if (why == HOF_POLICY_ASKED && hof_admit_is_plain(set, g))
			why = HOF_POLICY_STAYED_PLAIN;
		if (!g->lost)
			hof_gate_answered(g);
		g->key = 0;
		g->begin = tp->copied_seq;
		g->mark = tp->write_seq;
		g->since = jiffies;
		g->target = 0;
	} else {
		why = hof_sock_is_whole(g->sk) && tp->copied_seq == g->begin &&
		      tp->write_seq == g->mark ? HOF_POLICY_ASKED : HOF_POLICY_STAYED_ENDED;
	}
	verdict = why == HOF_POLICY_ASKED ? hof_gate_ask(g, set, &why) : HOF_POLICY_STAY;
	switch (verdict) {
	case HOF_POLICY_MORE:
		if (g->state != HOF_GATE_MORE) {
			hof_gate_set_state(g, HOF_GATE_MORE);
			hof_gate_queue(g, msecs_to_jiffies(READ_ONCE(t->migrate_wait_ms)) + 1);
		}
		return false;
	case HOF_POLICY_MOVE:
		hof_gate_set_state(g, HOF_GATE_MOVING);
		g->asked = false;
		g->decided = false;
		g->refusal = FLT_REFUSE_NONE;
		hof_gate_queue(g, 0);
		return false;
	default:
		hof_gate_stay(g, why, true);
		return true;
	}
}

/*
 * Something may have come. Under the socket's lock, or its spin lock when nobody owns it, and RCU.
 * Return: the program may be told.
 */
bool hof_gate_look(struct hof_gate *g)
{
	const struct tcp_sock *tp = tcp_sk(g->sk);
	bool pass = true;

	if (tp->rcv_nxt == tp->copied_seq)
		return true;
	spin_lock_bh(&g->lock);
	switch (g->state) {
	case HOF_GATE_MOVING:
		pass = !hof_sock_is_whole(g->sk);
		break;
	case HOF_GATE_OPEN:
		if (!g->known || g->next != tp->copied_seq)
			break;
		/* The next comes before the answer. */
		if (g->mark == tp->write_seq) {
			g->lost = true;
			break;
		}
		/* A program that had not read all of a request when it answered. */
		fallthrough;
	default:
		pass = hof_gate_judge(g);
	}
	spin_unlock_bh(&g->lock);
	return pass;
}

/* --- the move: a submission, as a dispatcher's (transfer.c) --- */

static enum flt_refusal hof_gate_may(struct sock *sk, void *arg)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct hof_gate *g = arg;

	if (sk->sk_state != TCP_ESTABLISHED)
		return FLT_REFUSE_STATE;
	if (!hof_gate_alone(sk))
		return FLT_REFUSE_FOREIGN;
	if (tp->copied_seq != g->begin || tp->write_seq != g->mark)
		return FLT_REFUSE_CHANGED;
	return FLT_REFUSE_NONE;
}

/* Under the file's lock: the rest is the work's. The event holds the gate and its socket. */
void hof_gate_tell(const struct hof_ticket *t, enum hof_event_type type)
{
	struct hof_gate *g = (void *)(unsigned long)t->cookie;

	if (type != HOF_EVENT_DONE && type != HOF_EVENT_FAILED)
		return;		/* nothing waits for what comes later; @g may be gone */
	spin_lock_bh(&g->lock);
	g->refusal = type == HOF_EVENT_DONE ? FLT_REFUSE_NONE : t->refusal;
	g->decided = true;
	spin_unlock_bh(&g->lock);
	hof_gate_queue(g, 0);
	sock_put(g->sk);
	hof_gate_put(g);
}

static enum flt_refusal hof_gate_give(struct hof_gate *g)
{
	struct hof_net *hn = hof_net(sock_net(g->sk));
	struct flt_node *node = flt_node_by_id(hn->net, g->target);
	enum flt_refusal why;
	bool notify;

	if (!node)
		return FLT_REFUSE_NONODE;
	notify = READ_ONCE(g->tagged) && READ_ONCE(node->features) & FLT_FEATURE_NOTIFY;
	kref_get(&g->ref);
	sock_hold(g->sk);
	why = hof_transfer_give(hn->gates, g->sk, node, (unsigned long)g,
				HOF_ADOPT_MOVED | FIELD_PREP(HOF_ADOPT_HOPS, g->hops + 1) |
				(notify ? HOF_ADOPT_SURPLUS : 0), hof_gate_may, g);
	flt_node_put(node);
	if (why != FLT_REFUSE_NONE) {
		sock_put(g->sk);
		hof_gate_put(g);
	}
	return why;
}

/* The program hears of what has come after all: see hof_moving_thaw(). */
static void hof_gate_let_through(struct hof_gate *g, enum hof_policy_stat why)
{
	bool locked = flt_sock_lock_soon(g->sk);

	spin_lock_bh(&g->lock);
	if (g->state == HOF_GATE_MORE || g->state == HOF_GATE_MOVING)
		hof_gate_stay(g, why, locked);
	spin_unlock_bh(&g->lock);
	hof_sock_tell(g->sk, locked);
	if (locked)
		release_sock(g->sk);
}

/* Something came of which nobody has told us, or the lock was another's. */
void hof_gate_look_again(struct hof_gate *g)
{
	bool pass;

	if (!flt_sock_lock_soon(g->sk)) {
		if (hof_gate_is_off(g))
			hof_sock_tell(g->sk, false);
		else
			hof_gate_queue(g, HOF_GATE_AGAIN);
		return;
	}
	local_bh_disable();
	rcu_read_lock();
	pass = hof_gate_look(g);
	rcu_read_unlock();
	local_bh_enable();
	if (pass)
		hof_sock_tell(g->sk, true);
	release_sock(g->sk);
}

static void hof_gate_move(struct hof_gate *g)
{
	enum flt_refusal why;
	bool ask, decided;

	spin_lock_bh(&g->lock);
	ask = !g->asked;
	g->asked = true;
	decided = g->decided;
	why = g->refusal;
	g->decided = false;
	spin_unlock_bh(&g->lock);
	if (ask) {
		why = hof_gate_give(g);
		decided = why != FLT_REFUSE_NONE;
	}
	if (!decided)
		return;
	if (why != FLT_REFUSE_NONE) {
		hof_gate_refused(g, why);
		hof_gate_let_through(g, HOF_POLICY_STAYED_REFUSED);
		return;
	}
	spin_lock_bh(&g->lock);
	hof_gate_set_state(g, HOF_GATE_OPEN);
	hof_admit_moved(g);
	spin_unlock_bh(&g->lock);
	hof_gate_count(g, HOF_POLICY_MOVED);
	hof_gate_trace(g, HOF_POLICY_MOVED);
}

/* It wants more bytes: is its time over? */
static void hof_gate_wait_more(struct hof_gate *g, u32 wait_ms)
{
	u32 waited = hof_gate_waited(g);

	if (hof_gate_is_off(g) || waited >= wait_ms) {
		hof_gate_let_through(g, HOF_POLICY_STAYED_MORE);
		return;
	}
	spin_lock_bh(&g->lock);
	/* Else somebody has queued what comes next. */
	if (g->state == HOF_GATE_MORE)
		hof_gate_queue(g, msecs_to_jiffies(wait_ms - waited) + 1);
	spin_unlock_bh(&g->lock);
}

static void hof_gate_work(struct work_struct *work)
{
	struct hof_gate *g = container_of(to_delayed_work(work), struct hof_gate, work);
	struct sock *sk = g->sk;
	u32 wait_ms = READ_ONCE(hof_net(sock_net(sk))->tunables.migrate_wait_ms);

	switch (READ_ONCE(g->state)) {
	case HOF_GATE_MOVING:
		hof_gate_move(g);
		break;
	case HOF_GATE_MORE:
		hof_gate_wait_more(g, wait_ms);
		break;
	case HOF_GATE_SHUT:
		hof_gate_look_again(g);
		break;
	default:
		break;
	}
	sock_put(sk);
	hof_gate_put(g);
	hof_gate_work_over();
}

struct hof_gate *hof_gate_create_of(struct hof_assigned *s, struct sock *sk, gfp_t gfp)
{
	struct hof_gate *g = kzalloc(sizeof(*g), gfp);

	if (!g)
		return NULL;
	kref_init(&g->ref);
	spin_lock_init(&g->lock);
	INIT_LIST_HEAD(&g->held);
	INIT_DELAYED_WORK(&g->work, hof_gate_work);
	g->state = HOF_GATE_SHUT;
	g->service = s;
	g->sk = sk;
	return g;
}

struct hof_gate *hof_gate_create(struct sock *sk, gfp_t gfp)
{
	struct hof_assigned *s;
	struct flt_tuple tuple;
	struct hof_gate *g;

	flt_tuple_from_sock(sk, &tuple);
	s = hof_assigned_get(hof_net(sock_net(sk)), &tuple);
	if (!s)
		return NULL;
	g = hof_gate_create_of(s, sk, gfp);
	if (!g)
		hof_assigned_put(s);
	return g;
}

void hof_gate_open_all(struct hof_assigned *s)
{
	struct hof_gate *g;

	spin_lock_bh(&s->lock);
	list_for_each_entry(g, &s->held, held)
		hof_gate_queue(g, 0);
	spin_unlock_bh(&s->lock);
}

void hof_gate_drain(void)
{
	wait_event(hof_gate_idle, !atomic_read(&hof_gate_works));
}
