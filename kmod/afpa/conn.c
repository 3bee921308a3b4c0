// SPDX-License-Identifier: GPL-2.0
/* Life of a connection, and whose it is. */

#include <linux/module.h>
#include <linux/slab.h>
#include <net/tcp.h>

#include "kmod/memcg.h"
#include "kmod/socklock.h"
#include "kmod/stack.h"

#include "conn.h"
#include "counter.h"
#include "queue.h"
#include "read.h"
#include "site.h"
#include "trace.h"

/*
 * Nothing was read and nothing written yet. A connection that has moved here from elsewhere does
 * not look like that, and is the program's.
 */
static bool afpa_sock_is_fresh(const struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	return (u32)tp->bytes_received == tp->rcv_nxt - tp->copied_seq && !tp->bytes_sent &&
	       tp->write_seq == tp->snd_nxt;
}

void afpa_conn_get(struct afpa_conn *conn)
{
	refcount_inc(&conn->users);
}

void afpa_conn_put(struct afpa_conn *conn)
{
	if (!refcount_dec_and_test(&conn->users))
		return;
	afpa_place_put(conn->place);
	kfree(conn);
}

/* A site that is gone may have been looked through, and is to stay empty. */
static bool afpa_conn_enlist(struct afpa_conn *conn)
{
	struct afpa_place *place = conn->place;
	bool there;

	spin_lock_bh(&place->lock);
	there = !READ_ONCE(place->gone);
	if (there) {
		list_add_tail(&conn->list, &place->conns);
		place->nr_conns++;
	}
	spin_unlock_bh(&place->lock);
	return there;
}

struct afpa_conn *afpa_conn_make(struct flt_layer *layer, struct sock *sk,
				 struct afpa_place *place)
{
	const struct afpa_protocol *protocol = place->protocol;
	struct mem_cgroup *old;
	struct afpa_conn *conn;

	sock_owned_by_me(sk);
	if (!afpa_sock_is_fresh(sk))
		return NULL;
	old = flt_sock_pays(sk);
	conn = kzalloc(sizeof(*conn) + protocol->data_size + protocol->request_size,
		       GFP_NOWAIT | __GFP_ACCOUNT | __GFP_NOWARN);
	set_active_memcg(old);
	if (!conn)
		return NULL;
	conn->sk = sk;
	conn->layer = layer;
	conn->place = place;
	refcount_inc(&place->users);
	refcount_set(&conn->users, 1);
	INIT_DELAYED_WORK(&conn->work, afpa_queue_work);
	INIT_WORK(&conn->read.work, afpa_read_work);
	INIT_LIST_HEAD(&conn->hold.list);
	/* Its program is heard of, should it write in the midst of an answer. */
	flt_layer_take_ops(sk);
	conn->since = jiffies;
	conn->una = tcp_sk(sk)->snd_una;
	afpa_conn_settle(conn, sk);
	if (!afpa_conn_enlist(conn)) {
		afpa_conn_put(conn);
		return NULL;
	}
	return conn;
}

bool afpa_conn_is_ours(const struct afpa_conn *conn, const struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	return tp->copied_seq == conn->copied && tp->write_seq == conn->written;
}

void afpa_conn_settle(struct afpa_conn *conn, const struct sock *sk)
{
	conn->copied = tcp_sk(sk)->copied_seq;
	conn->written = tcp_sk(sk)->write_seq;
}

void afpa_conn_end_answer(struct afpa_conn *conn)
{
	afpa_answer_end(&conn->ans);
	if (conn->pinned) {
		conn->pinned = false;
		module_put(THIS_MODULE);
	}
}

static void afpa_conn_unlist(struct afpa_conn *conn)
{
	struct afpa_place *place = conn->place;

	spin_lock_bh(&place->lock);
	if (!list_empty(&conn->list)) {
		list_del_init(&conn->list);
		place->nr_conns--;
	}
	spin_unlock_bh(&place->lock);
}

bool afpa_conn_abandon(struct afpa_conn *conn)
{
	if (test_and_set_bit(AFPA_CONN_LEFT, &conn->flags))
		return false;
	afpa_conn_unlist(conn);
	flt_layer_detach(conn->layer);
	return true;
}

void afpa_conn_leave(struct afpa_conn *conn)
{
	afpa_conn_end_answer(conn);
	afpa_conn_abandon(conn);
}

void afpa_conn_die(struct afpa_conn *conn)
{
	afpa_conn_end_answer(conn);
	set_bit(AFPA_CONN_LEFT, &conn->flags);
	afpa_conn_unlist(conn);
}

void afpa_conn_reset(struct afpa_conn *conn, struct sock *sk)
{
	afpa_conn_end_answer(conn);
	flt_sock_abort(sk, ECONNABORTED);
}

void afpa_conn_finish(struct afpa_conn *conn, struct sock *sk)
{
	WRITE_ONCE(conn->closed, true);
	WRITE_ONCE(sk->sk_shutdown, sk->sk_shutdown | SEND_SHUTDOWN);
	sk->sk_prot->shutdown(sk, SEND_SHUTDOWN);
	conn->written = tcp_sk(sk)->write_seq;
	afpa_count(conn->place->an, AFPA_STAT_CLOSED);
}

bool afpa_conn_must_break(const struct afpa_conn *conn)
{
	unsigned long gone = 0, most = msecs_to_jiffies(READ_ONCE(conn->place->an->stall_ms));
	const struct afpa_object *obj;

	rcu_read_lock();
	obj = READ_ONCE(conn->ans.obj);
	if (obj && obj->file)
		gone = READ_ONCE(obj->gone);
	rcu_read_unlock();
	return obj && (READ_ONCE(conn->broken) || (gone && time_after(jiffies, gone + most)));
}

void afpa_conn_break(struct afpa_conn *conn)
{
	struct sock *sk = conn->sk;

	if (!flt_sock_trylock(sk))
		return;
	/* Another answer may be under way by now. */
	if (!test_bit(AFPA_CONN_LEFT, &conn->flags) && !sock_flag(sk, SOCK_DEAD) &&
	    afpa_conn_must_break(conn)) {
		afpa_conn_reset(conn, sk);
		afpa_conn_leave(conn);
		afpa_count(conn->place->an, AFPA_STAT_RESET_FILE);
	}
	release_sock(sk);
}

/* What a program could have put into the queue itself. */
static u64 afpa_conn_flush_most(const struct sock *sk)
{
	return READ_ONCE(sock_net(sk)->ipv4.sysctl_tcp_wmem[2]);
}

int afpa_conn_flush(struct afpa_conn *conn, struct sock *sk)
{
	int ret;

	if (!conn->ans.obj)
		return 0;
	if (conn->busy || !sk->sk_socket)
		return -EAGAIN;
	if (conn->ans.end - conn->ans.pos > afpa_conn_flush_most(sk))
		return -EPIPE;
	conn->busy = true;
	ret = afpa_answer_send(&conn->ans, sk, true);
	conn->busy = false;
	conn->written = tcp_sk(sk)->write_seq;
	if (!afpa_answer_is_sent(&conn->ans) && (!ret || ret == -EAGAIN || ret == -ENODATA))
		return -EAGAIN;
	afpa_count(conn->place->an, AFPA_STAT_FLUSHED);
	if (conn->ans.closes && !conn->closed && afpa_answer_is_sent(&conn->ans))
		afpa_conn_finish(conn, sk);
	if (conn->ans.files && list_empty(&conn->hold.list) &&
	    tcp_sk(sk)->snd_una != tcp_sk(sk)->write_seq)
		afpa_hold_keep(conn, sk);
	afpa_conn_end_answer(conn);
	afpa_conn_settle(conn, sk);
	return 0;
}

bool afpa_conn_clear(struct afpa_conn *conn)
{
	struct sock *sk = conn->sk;
	bool reset;

	if (!flt_sock_trylock(sk))
		return false;
	reset = conn->ans.obj && !test_bit(AFPA_CONN_LEFT, &conn->flags);
	if (reset) {
		afpa_conn_reset(conn, sk);
		afpa_count(conn->place->an, AFPA_STAT_RESET_SITE);
	}
	afpa_conn_leave(conn);
	/* The first bytes of a request may be there of which the program has not heard. */
	if (!reset && !sock_flag(sk, SOCK_DEAD))
		sk->sk_data_ready(sk);
	release_sock(sk);
	return true;
}
