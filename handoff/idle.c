// SPDX-License-Identifier: GPL-2.0
/*
 * That a server waits for the next request cannot be heard, only seen: it has sent something
 * since the last one, all of it is acknowledged, nothing is unread, and so it stays from one
 * look to the next. TCP tells nobody when all is acknowledged, so there is a clock; but a
 * connection that has been busy for long is looked at seldom, and only those are whose turn
 * it is.
 */

#include <linux/log2.h>
#include <net/tcp.h>

#include "adopt.h"
#include "counter.h"
#include "idle.h"
#include "life.h"
#include "net.h"

/* Looks are so far apart; in the next list twice as far. */
#define HOF_LOOK_MS	10

/* The next look comes after an eighth of the time that a connection has been busy. */
#define HOF_LOOK_SHARE	8

/* Most that are looked at before bottom halves may run. */
#define HOF_LOOK_BATCH	64

static void hof_idle_arm(struct hof_net *hn, unsigned long at)
{
	unsigned long now = jiffies;

	lockdep_assert_held(&hn->adopt_lock);
	if (hn->watching && !time_before(at, hn->watch_at))
		return;
	hn->watching = true;
	hn->watch_at = at;
	mod_delayed_work(system_unbound_wq, &hn->watch, time_after(at, now) ? at - now : 0);
}

/*
 * In one list all wait equally long, so the first is the first to be due. Who waits long may
 * wait a little longer: to wake up costs as much as a hundred looks.
 */
static void hof_idle_wait(struct hof_adoption *a, unsigned int list)
{
	unsigned long wait = msecs_to_jiffies(HOF_LOOK_MS << list);

	a->look_at = roundup(jiffies + wait, max(wait / 8, 1));
	list_move_tail(&a->busy, &a->hn->busy[list]);
}

static unsigned int hof_idle_list(const struct hof_adoption *a)
{
	unsigned int looks = jiffies_to_msecs(jiffies - a->busy_since) /
			     (HOF_LOOK_SHARE * HOF_LOOK_MS);

	return looks ? min_t(unsigned int, ilog2(looks), HOF_BUSY_LISTS - 1) : 0;
}

/* Not idle now, whatever it was; @write_seq as a mark to see the server answer. */
static void hof_idle_set_busy(struct hof_adoption *a)
{
	struct hof_net *hn = a->hn;

	lockdep_assert_held(&hn->adopt_lock);
	if (hn->watched_no_more || a->passed)
		return;
	WRITE_ONCE(a->idle, false);
	a->unsure = false;
	a->sent = READ_ONCE(tcp_sk(a->sk)->write_seq);
	a->seen = a->sent;
	a->busy_since = jiffies;
	hof_idle_wait(a, 0);
	hof_idle_arm(hn, a->look_at);
}

void hof_idle_watch(struct hof_adoption *a)
{
	spin_lock_bh(&a->hn->adopt_lock);
	if (!a->dead)
		hof_idle_set_busy(a);
	spin_unlock_bh(&a->hn->adopt_lock);
}

void hof_idle_data(struct hof_adoption *a)
{
	/* Unlocked at first: most data comes for a connection that is busy anyway. */
	if (!READ_ONCE(a->idle))
		return;
	spin_lock_bh(&a->hn->adopt_lock);
	if (a->idle) {
		hof_idle_set_busy(a);
		hof_life_changed(a);
	}
	spin_unlock_bh(&a->hn->adopt_lock);
}

static void hof_idle_look_at(struct hof_adoption *a)
{
	const struct tcp_sock *tp = tcp_sk(a->sk);
	u32 write_seq = READ_ONCE(tp->write_seq);
	bool still = write_seq == a->seen;
	bool done = write_seq != a->sent && READ_ONCE(tp->snd_una) == write_seq &&
		    READ_ONCE(tp->copied_seq) == READ_ONCE(tp->rcv_nxt);

	a->seen = write_seq;
	if (done && still) {
		list_del_init(&a->busy);
		WRITE_ONCE(a->idle, true);
		hof_life_changed(a);
		return;
	}
	/* It may just have become idle; a second look tells. If not, it is busy as ever. */
	a->unsure = done && !a->unsure;
	hof_idle_wait(a, a->unsure ? 0 : hof_idle_list(a));
}

static struct hof_adoption *hof_idle_due(struct hof_net *hn, unsigned int list,
					 unsigned long now)
{
	struct hof_adoption *a;

	a = list_first_entry_or_null(&hn->busy[list], struct hof_adoption, busy);
	return a && time_before_eq(a->look_at, now) ? a : NULL;
}

static void hof_idle_look_list(struct hof_net *hn, unsigned int list, unsigned long now)
{
	struct hof_adoption *a;
	unsigned int nr = 0;

	lockdep_assert_held(&hn->adopt_lock);
	while ((a = hof_idle_due(hn, list, now))) {
		hof_idle_look_at(a);
		if (++nr % HOF_LOOK_BATCH == 0) {
			spin_unlock_bh(&hn->adopt_lock);
			cond_resched();
			spin_lock_bh(&hn->adopt_lock);
		}
	}
	hof_count_add(hn, HOF_STAT_LIFE_LOOKS, nr);
}

static void hof_idle_look(struct work_struct *work)
{
	struct hof_net *hn = container_of(work, struct hof_net, watch.work);
	unsigned long now = jiffies;
	struct hof_adoption *a;
	unsigned int list;

	spin_lock_bh(&hn->adopt_lock);
	for (list = 0; list < HOF_BUSY_LISTS; list++)
		hof_idle_look_list(hn, list, now);
	hn->watching = false;
	for (list = 0; list < HOF_BUSY_LISTS; list++) {
		a = list_first_entry_or_null(&hn->busy[list], struct hof_adoption, busy);
		if (a)
			hof_idle_arm(hn, a->look_at);
	}
	spin_unlock_bh(&hn->adopt_lock);
}

void hof_idle_stop(struct hof_net *hn)
{
	struct hof_adoption *a, *next;
	unsigned int list;

	spin_lock_bh(&hn->adopt_lock);
	hn->watched_no_more = true;
	for (list = 0; list < HOF_BUSY_LISTS; list++)
		list_for_each_entry_safe(a, next, &hn->busy[list], busy)
			list_del_init(&a->busy);
	spin_unlock_bh(&hn->adopt_lock);
	cancel_delayed_work_sync(&hn->watch);
}

void hof_idle_net_init(struct hof_net *hn)
{
	unsigned int list;

	for (list = 0; list < HOF_BUSY_LISTS; list++)
		INIT_LIST_HEAD(&hn->busy[list]);
	INIT_DELAYED_WORK(&hn->watch, hof_idle_look);
}
