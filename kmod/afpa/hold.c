// SPDX-License-Identifier: GPL-2.0
#include <net/tcp.h>

#include "kmod/socklock.h"

#include "conn.h"
#include "counter.h"
#include "hold.h"
#include "site.h"

void afpa_hold_keep(struct afpa_conn *conn, struct sock *sk)
{
	struct afpa_net *an = conn->place->an;
	struct afpa_hold *hold = &conn->hold;
	const struct tcp_sock *tp = tcp_sk(sk);

	hold->ans = conn->ans;
	WRITE_ONCE(conn->ans.obj, NULL);
	/* Sequence numbers would begin anew if the program disconnects, and connects elsewhere. */
	hold->acked = tp->bytes_acked;
	hold->until = tp->bytes_acked + (tp->write_seq - tp->snd_una);
	sock_hold(sk);
	afpa_conn_get(conn);
	spin_lock_bh(&an->held_lock);
	list_add_tail(&hold->list, &an->held);
	spin_unlock_bh(&an->held_lock);
}

static bool afpa_hold_is_over(const struct afpa_conn *conn)
{
	const struct afpa_hold *hold = &conn->hold;
	u64 acked = READ_ONCE(tcp_sk(conn->sk)->bytes_acked);

	return acked >= hold->until || acked < hold->acked ||
	       READ_ONCE(conn->sk->sk_state) == TCP_CLOSE;
}

/* Nobody is kept from writing for longer; half an answer of what he writes is not sent either. */
static void afpa_hold_break(struct afpa_conn *conn)
{
	unsigned long most = msecs_to_jiffies(READ_ONCE(conn->place->an->stall_ms));
	unsigned long gone = READ_ONCE(conn->hold.ans.obj->gone);
	struct sock *sk = conn->sk;

	if (!gone || !time_after(jiffies, gone + most) || !flt_sock_trylock(sk))
		return;
	if (!afpa_hold_is_over(conn)) {
		flt_sock_abort(sk, ECONNABORTED);
		afpa_count(conn->place->an, AFPA_STAT_RESET_FILE);
	}
	release_sock(sk);
}

static void afpa_hold_put(struct afpa_conn *conn)
{
	afpa_answer_end(&conn->hold.ans);
	sock_put(conn->sk);
	afpa_conn_put(conn);
}

/* Each is looked at without the lock: nobody else takes any off. */
void afpa_hold_watch(struct afpa_net *an)
{
	struct afpa_conn *conn, *next;
	LIST_HEAD(held);

	spin_lock_bh(&an->held_lock);
	list_splice_init(&an->held, &held);
	spin_unlock_bh(&an->held_lock);
	list_for_each_entry_safe(conn, next, &held, hold.list) {
		if (afpa_hold_is_over(conn)) {
			list_del_init(&conn->hold.list);
			afpa_hold_put(conn);
		} else {
			afpa_hold_break(conn);
		}
		cond_resched();
	}
	spin_lock_bh(&an->held_lock);
	list_splice(&held, &an->held);
	spin_unlock_bh(&an->held_lock);
}

void afpa_hold_end(struct afpa_net *an)
{
	struct afpa_conn *conn, *next;

	list_for_each_entry_safe(conn, next, &an->held, hold.list) {
		list_del_init(&conn->hold.list);
		afpa_hold_put(conn);
	}
}
