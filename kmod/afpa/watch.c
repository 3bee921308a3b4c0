// SPDX-License-Identifier: GPL-2.0
/*
 * What no event tells: listeners that have come, clients that take nothing, memory that is there
 * again, objects that have expired, the end of sites whose connections were locked.
 */

#include <linux/module.h>
#include <net/tcp.h>

#include "kmod/socklock.h"

#include "conn.h"
#include "counter.h"
#include "hold.h"
#include "queue.h"
#include "site.h"
#include "watch.h"

static bool afpa_watch_owes(const struct afpa_conn *conn)
{
	const struct tcp_sock *tp = tcp_sk(conn->sk);

	/* After our last answer the client has as long to close. */
	return READ_ONCE(conn->ans.obj) || READ_ONCE(conn->closed) ||
	       READ_ONCE(tp->snd_una) != READ_ONCE(tp->write_seq);
}

static void afpa_watch_reset(struct afpa_conn *conn)
{
	struct sock *sk = conn->sk;

	if (!flt_sock_trylock(sk))
		return;
	/* Nothing has changed meanwhile. */
	if (!test_bit(AFPA_CONN_LEFT, &conn->flags) && afpa_watch_owes(conn) &&
	    tcp_sk(sk)->snd_una == conn->una && !sock_flag(sk, SOCK_DEAD)) {
		afpa_conn_reset(conn, sk);
		afpa_conn_leave(conn);
		afpa_count(conn->place->an, AFPA_STAT_RESET_STALLED);
	}
	release_sock(sk);
}

static void afpa_watch_conn(struct afpa_conn *conn)
{
	const struct tcp_sock *tp = tcp_sk(conn->sk);
	u32 una = READ_ONCE(tp->snd_una);

	if (afpa_conn_must_break(conn)) {
		afpa_conn_break(conn);
		return;
	}
	if (!afpa_watch_owes(conn) || una != conn->una) {
		conn->una = una;
		conn->since = jiffies;
	} else if (time_after(jiffies, conn->since +
			      msecs_to_jiffies(READ_ONCE(conn->place->an->stall_ms)))) {
		afpa_watch_reset(conn);
		return;
	}
	afpa_queue_again(conn);
	/* Nothing is on its way whose acknowledgment would go on with the answer. */
	if (READ_ONCE(conn->ans.obj) && !READ_ONCE(tp->packets_out))
		afpa_queue_conn(conn, 0);
}

void afpa_watch(struct work_struct *work)
{
	struct afpa_net *an = container_of(work, struct afpa_net, watch.work);
	struct afpa_place *place, *next;

	mutex_lock(&an->lock);
	list_for_each_entry(place, &an->sites, list) {
		afpa_site_scan(place, NULL);
		afpa_site_each_conn(place, afpa_watch_conn);
	}
	list_for_each_entry_safe(place, next, &an->dying, list) {
		if (!afpa_site_clear(place))
			continue;
		list_del(&place->list);
		afpa_place_put(place);
	}
	afpa_hold_watch(an);
	if (!list_empty(&an->sites) || !list_empty(&an->dying) || !list_empty(&an->held))
		queue_delayed_work(system_unbound_wq, &an->watch, HZ);
	mutex_unlock(&an->lock);
	afpa_cache_expire(an);
}
