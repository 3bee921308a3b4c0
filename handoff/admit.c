// SPDX-License-Identifier: GPL-2.0
/* Speculative admission: which connections are surplus, and when there is none. */

#include <linux/math64.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <net/tcp.h>

#include "kmod/endpoint.h"
#include "kmod/node.h"
#include "kmod/stats.h"

#include "admit.h"
#include "assign.h"
#include "counter.h"
#include "gate.h"
#include "gate_priv.h"
#include "net.h"
#include "trace.h"

/* Changes of a window come as other nodes like: no more than 100 a second change the listeners. */
#define HOF_ADMIT_SIZE_AFTER	(HZ / 100)

/* Threads that make children of what was moved: a few, one for each link at most. */
static LIST_HEAD(hof_admit_takings);
static DEFINE_SPINLOCK(hof_admit_takings_lock);

void hof_admit_taking_begin(struct hof_admit_taking *t)
{
	t->task = current;
	spin_lock_bh(&hof_admit_takings_lock);
	list_add(&t->list, &hof_admit_takings);
	spin_unlock_bh(&hof_admit_takings_lock);
}

void hof_admit_taking_end(struct hof_admit_taking *t)
{
	spin_lock_bh(&hof_admit_takings_lock);
	list_del(&t->list);
	spin_unlock_bh(&hof_admit_takings_lock);
}

/* A handshake that interrupts such a thread is another matter. */
static bool hof_admit_is_taking(void)
{
	struct hof_admit_taking *t;
	bool is = false;

	if (in_serving_softirq() || list_empty_careful(&hof_admit_takings))
		return false;
	spin_lock_bh(&hof_admit_takings_lock);
	list_for_each_entry(t, &hof_admit_takings, list)
		is |= t->task == current;
	spin_unlock_bh(&hof_admit_takings_lock);
	return is;
}

/* --- what the operator says --- */

void hof_admit_init(struct hof_admit *a)
{
	spin_lock_init(&a->lock);
}

static int hof_admit_option(struct hof_admit_rule *rule, const struct hof_policy_option *option)
{
	if (option->value > HOF_ADMIT_MAX)
		return -ERANGE;
	if (!strcmp(option->name, "admit"))
		rule->inc = option->value;
	else if (!strcmp(option->name, "admit_base"))
		rule->base = option->value;
	else if (!strcmp(option->name, "admit_again"))
		rule->again = option->value;
	else if (!strcmp(option->name, "admit_quota") && option->value <= 1)
		rule->quota = option->value;
	else
		return -ERANGE;
	return 0;
}

int hof_admit_prepare(struct hof_policy_set *set)
{
	struct hof_admit_rule *rule = &set->admit;
	unsigned int i;
	bool any = false;

	rule->again = U32_MAX;
	for (i = 0; i < set->nr_options; i++) {
		if (strncmp(set->options[i].name, "admit", strlen("admit")))
			continue;
		if (hof_admit_option(rule, &set->options[i]))
			return -ERANGE;
		any = true;
	}
	if (rule->again == U32_MAX)
		rule->again = rule->inc;
	return any && !rule->inc ? -ERANGE : 0;
}

/* --- the window --- */

static void hof_admit_event(const struct hof_assigned *s, const struct flt_tuple *tuple, u32 node,
			    enum hof_admit_stat what)
{
	flt_stats_inc(s->stats, HOF_POLICY_STATS + what);
	hof_count(s->hn, HOF_STAT_ADMIT + what);
	trace_hof_admit(tuple, hof_admit_window(s), node, what);
}

u32 hof_admit_window(const struct hof_assigned *s)
{
	u32 waiting = atomic_read(&s->admit.waiting), inc = 0;
	const struct hof_policy_set *set;

	rcu_read_lock();
	set = rcu_dereference(s->set);
	if (set && !READ_ONCE(s->admit.closed))
		inc = set->admit.inc;
	rcu_read_unlock();
	/* An operator may have made it smaller than what waits. */
	return inc > waiting ? inc - waiting : 0;
}

static u64 hof_admit_sum(struct hof_net *hn, bool windows)
{
	struct hof_assigned *s;
	u64 sum = 0;

	rcu_read_lock();
	list_for_each_entry_rcu(s, &hn->assigned, here)
		sum += windows ? hof_admit_window(s) : (u32)atomic_read(&s->admit.waiting);
	rcu_read_unlock();
	return sum;
}

u64 hof_admit_windows(struct hof_net *hn)
{
	return hof_admit_sum(hn, true);
}

u64 hof_admit_waiting(struct hof_net *hn)
{
	return hof_admit_sum(hn, false);
}

static bool hof_admit_knows(const struct hof_admit *a, u32 node)
{
	unsigned int i;

	lockdep_assert_held(&a->lock);
	for (i = 0; i < min_t(unsigned int, a->nr_by, HOF_ADMIT_NODES); i++)
		if (a->by[i] == node)
			return true;
	return false;
}

/* @node had no room; 0: none was there to be asked. */
static void hof_admit_close(struct hof_assigned *s, const struct flt_tuple *tuple, u32 node)
{
	struct hof_admit *a = &s->admit;
	bool was;

	spin_lock_bh(&a->lock);
	was = a->closed;
	if (!was) {
		a->nr_by = 0;
		atomic_set(&a->served, 0);
		WRITE_ONCE(a->closed, true);
	}
	if (node && !hof_admit_knows(a, node))
		a->by[a->nr_by++ % HOF_ADMIT_NODES] = node;
	spin_unlock_bh(&a->lock);
	if (was)
		return;
	hof_admit_event(s, tuple, node, HOF_ADMIT_CLOSED);
	hof_admit_resize(s->hn);
}

/* By the word of @node, which had none; 0: by our own. */
static bool hof_admit_open(struct hof_assigned *s, u32 node)
{
	struct hof_admit *a = &s->admit;
	bool opens;

	spin_lock_bh(&a->lock);
	opens = a->closed && (!node || hof_admit_knows(a, node));
	if (opens)
		WRITE_ONCE(a->closed, false);
	spin_unlock_bh(&a->lock);
	if (!opens)
		return false;
	hof_admit_event(s, &s->at, node, node ? HOF_ADMIT_NOTIFIED : HOF_ADMIT_AGAIN);
	hof_admit_resize(s->hn);
	return true;
}

void hof_admit_notified(struct hof_net *hn, const struct flt_node *node,
			const struct flt_tuple *at)
{
	struct hof_assigned *s = hof_assigned_get(hn, at);

	if (!s || !hof_admit_open(s, node->id))
		hof_count(hn, HOF_STAT_ROOM_IGNORED);
	if (s)
		hof_assigned_put(s);
}

/* NOTIFY may be lost, and its node too: after so many requests it is tried again. */
static void hof_admit_served(struct hof_assigned *s)
{
	const struct hof_policy_set *set;
	u32 again;

	if (!READ_ONCE(s->admit.closed))
		return;
	rcu_read_lock();
	set = rcu_dereference(s->set);
	again = set ? set->admit.again : 0;
	rcu_read_unlock();
	if (again && (u32)atomic_inc_return(&s->admit.served) >= again)
		hof_admit_open(s, 0);
}

/* --- the tag --- */

/* Of as many connections in a row as the queue has places every so manieth, evenly. */
static bool hof_admit_has_turn(struct hof_admit *a, u32 base, u32 inc)
{
	u32 all = base + inc, turn = (u32)atomic_inc_return(&a->seen) % all, rest;

	div_u64_rem((u64)turn * inc, all, &rest);
	return rest < inc;
}

static bool hof_admit_is_surplus(struct hof_admit *a, const struct hof_admit_rule *rule,
				 const struct sock *listener, const struct hof_admit_queue *q)
{
	u32 base = rule->base;

	if (!base)
		base = READ_ONCE(q->ours) ? READ_ONCE(q->own) :
					    READ_ONCE(listener->sk_max_ack_backlog);
	if (rule->quota)
		return hof_admit_has_turn(a, base, rule->inc);
	/* TCP itself would not have let it in: see sk_acceptq_is_full(). */
	return READ_ONCE(listener->sk_ack_backlog) > base;
}

/* Two CPUs may want the last place. */
static bool hof_admit_take(struct hof_admit *a, u32 inc)
{
	int waiting = atomic_read(&a->waiting);

	do {
		if (READ_ONCE(a->closed) || waiting >= (int)inc)
			return false;
	} while (!atomic_try_cmpxchg(&a->waiting, &waiting, waiting + 1));
	return true;
}

static bool hof_admit_tag(struct hof_assigned *s, const struct sock *listener,
			  const struct hof_admit_queue *q)
{
	const struct hof_policy_set *set;
	bool tag = false;

	rcu_read_lock();
	set = rcu_dereference(s->set);
	if (set && set->admit.inc && !hof_admit_is_taking())
		tag = hof_admit_is_surplus(&s->admit, &set->admit, listener, q) &&
		      hof_admit_take(&s->admit, set->admit.inc);
	rcu_read_unlock();
	return tag;
}

struct hof_gate *hof_admit_child(const struct sock *listener, const struct hof_admit_queue *q,
				 struct sock *child)
{
	struct hof_assigned *s;
	struct hof_gate *g;
	struct flt_tuple tuple;

	flt_tuple_from_sock(child, &tuple);
	s = hof_assigned_get(hof_net(sock_net(child)), &tuple);
	if (!s)
		return NULL;
	if (!hof_admit_tag(s, listener, q)) {
		hof_assigned_put(s);
		return NULL;
	}
	g = hof_gate_create_of(s, child, GFP_ATOMIC | __GFP_ACCOUNT);
	if (!g) {
		atomic_dec(&s->admit.waiting);
		hof_assigned_put(s);
		return NULL;
	}
	g->tagged = true;
	hof_admit_event(s, &tuple, 0, HOF_ADMIT_TAGGED);
	return g;
}

bool hof_admit_is_plain(const struct hof_policy_set *set, const struct hof_gate *g)
{
	return set->admit.inc && !g->tagged;
}

void hof_admit_untag(struct hof_gate *g)
{
	if (g->tagged)
		atomic_dec(&g->service->admit.waiting);
	g->tagged = false;
}

static void hof_admit_decided(struct hof_gate *g, enum hof_admit_stat what)
{
	struct flt_tuple tuple;

	if (!g->tagged)
		return;
	flt_tuple_from_sock(g->sk, &tuple);
	hof_admit_untag(g);
	hof_admit_event(g->service, &tuple, g->target, what);
	if (what == HOF_ADMIT_REJECTED)
		hof_admit_close(g->service, &tuple, g->target);
}

void hof_admit_moved(struct hof_gate *g)
{
	lockdep_assert_held(&g->lock);
	hof_admit_decided(g, HOF_ADMIT_MOVED);
}

void hof_admit_refused(struct hof_gate *g, enum flt_refusal why)
{
	lockdep_assert_held(&g->lock);
	/* Else it is our own socket that cannot go. */
	if (why >= FLT_REFUSE_NOLISTENER)
		hof_admit_decided(g, HOF_ADMIT_REJECTED);
}

void hof_admit_stayed(struct hof_gate *g, u8 why)
{
	lockdep_assert_held(&g->lock);
	hof_admit_decided(g, why == HOF_POLICY_STAYED_TARGET ? HOF_ADMIT_REJECTED :
							       HOF_ADMIT_KEPT);
	hof_admit_served(g->service);
}

void hof_admit_ended(struct hof_gate *g)
{
	spin_lock_bh(&g->lock);
	hof_admit_decided(g, HOF_ADMIT_DROPPED);
	spin_unlock_bh(&g->lock);
}

/* --- the listeners' queues --- */

void hof_admit_resize(struct hof_net *hn)
{
	queue_delayed_work(system_unbound_wq, &hn->admit_size, HOF_ADMIT_SIZE_AFTER);
}

/* Its own places and more, or so many: that of the services of this listener that wants most. */
static u32 hof_admit_length(const struct sock *sk, u32 own,
			    bool (*has)(const struct hof_assigned *s, const struct sock *sk))
{
	const struct hof_policy_set *set;
	struct hof_assigned *s;
	u32 length = 0, one;

	list_for_each_entry(s, &hof_net(sock_net(sk))->assigned, here) {
		set = hof_policy_set_of(s);
		if (!set->admit.inc || !has(s, sk))
			continue;
		one = set->admit.base ?: own;
		if (!READ_ONCE(s->admit.closed))
			one += set->admit.inc;
		length = max(length, one);
	}
	return length ?: own;
}

/*
 * The program may say listen() at the same time, which writes under a lock that a program can
 * have for long: what it writes is not lost, whoever is first.
 */
void hof_admit_fit(struct sock *sk, struct hof_admit_queue *q,
		   bool (*has)(const struct hof_assigned *s, const struct sock *sk))
{
	bool changed = false, listened = xchg(&q->listened, false);
	u32 now = READ_ONCE(sk->sk_max_ack_backlog), want;

	lockdep_assert_held(&hof_policy_lock);
	do {
		changed |= q->ours && now != q->set;
		if (!q->ours || now != q->set || (listened && !q->caught))
			WRITE_ONCE(q->own, now);
		want = has ? hof_admit_length(sk, q->own, has) : q->own;
	} while (now != want && !try_cmpxchg(&sk->sk_max_ack_backlog, &now, want));
	q->caught = changed && !listened;
	q->set = want;
	WRITE_ONCE(q->ours, want != q->own);
}

void hof_admit_listened(struct sock *sk, struct hof_admit_queue *q)
{
	WRITE_ONCE(q->listened, true);
	hof_admit_resize(hof_net(sock_net(sk)));
}
