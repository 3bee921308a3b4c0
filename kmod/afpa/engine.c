// SPDX-License-Identifier: GPL-2.0
/*
 * The way of a request: what is in the receive queue is looked at in place; only when an answer has
 * been begun is the request taken out. So whatever is not answered is the program's, untouched.
 */

#include <linux/indirect_call_wrapper.h>
#include <linux/module.h>
#include <linux/percpu.h>
#include <linux/skmsg.h>
#include <net/tcp.h>
#include <flotilla/afpa.h>

#include "cache.h"
#include "conn.h"
#include "counter.h"
#include "engine.h"
#include "file.h"
#include "log.h"
#include "protocol.h"
#include "queue.h"
#include "read.h"
#include "site.h"
#include "trace.h"

/**
 * struct afpa_look - copy of the beginning of a receive queue; one of each CPU
 * @at:   where the next request begins in @byte
 * @len:  bytes in @byte
 * @byte: bytes
 */
struct afpa_look {
	u32 at;
	u32 len;
	char byte[AFPA_REQUEST_MAX];
};

/* Too large for what each CPU has for variables of modules. */
static struct afpa_look __percpu *afpa_looks;

int afpa_engine_init(void)
{
	afpa_looks = alloc_percpu(struct afpa_look);
	return afpa_looks ? 0 : -ENOMEM;
}

void afpa_engine_exit(void)
{
	free_percpu(afpa_looks);
}

/* False: there are bytes that the processor cannot read (device memory). */
static bool afpa_look_fill(struct afpa_look *look, struct sock *sk)
{
	u32 seq = tcp_sk(sk)->copied_seq;
	struct sk_buff *skb;

	look->at = 0;
	look->len = 0;
	skb_queue_walk(&sk->sk_receive_queue, skb) {
		u32 offset = seq - TCP_SKB_CB(skb)->seq, n;

		if (TCP_SKB_CB(skb)->tcp_flags & TCPHDR_SYN)
			offset--;
		if (offset >= skb->len)
			break;
		n = min_t(u32, skb->len - offset, sizeof(look->byte) - look->len);
		if (skb_copy_bits(skb, offset, look->byte + look->len, n))
			return false;
		look->len += n;
		seq += n;
		if (look->len == sizeof(look->byte))
			break;
	}
	return true;
}

/* There is more in the queue than in the copy. */
static bool afpa_look_is_short(const struct afpa_look *look)
{
	return look->at && look->len == sizeof(look->byte);
}

/* Of all things that may have become of a connection, those with which it is still ours. */
static bool afpa_may_answer(const struct afpa_conn *conn, const struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	return afpa_conn_is_ours(conn, sk) && !READ_ONCE(conn->place->gone) &&
	       READ_ONCE(conn->place->an->mode) != AFPA_MODE_OFF &&
	       (1 << sk->sk_state) & (TCPF_ESTABLISHED | TCPF_CLOSE_WAIT) &&
	       !sk->sk_err && !(sk->sk_shutdown & SEND_SHUTDOWN) &&
	       !tp->repair && !tp->urg_data && !inet_csk_has_ulp(sk) && !sk_psock(sk);
}

static void afpa_hit_count(struct afpa_conn *conn, enum afpa_where where)
{
	struct afpa_net *an = conn->place->an;

	afpa_count(an, AFPA_STAT_HITS);
	if (where == AFPA_IN_ACCEPT)
		afpa_count(an, AFPA_STAT_HITS_ACCEPT);
	else if (where == AFPA_IN_WORK)
		afpa_count(an, AFPA_STAT_HITS_WORKER);
	else if (in_serving_softirq())
		afpa_count(an, AFPA_STAT_HITS_SOFTIRQ);
}

static enum afpa_result afpa_send(struct afpa_conn *conn, struct sock *sk)
{
	struct afpa_answer *ans = &conn->ans;
	u64 pos = ans->pos;
	int ret;

	ret = afpa_answer_send(ans, sk, false);
	/* Its FIN is not waited with for acknowledgments. */
	if (ans->closes && !conn->closed && (ret == 0 || ret == 1) && afpa_answer_is_sent(ans))
		afpa_conn_finish(conn, sk);
	conn->written = tcp_sk(sk)->write_seq;
	afpa_count_add(conn->place->an, AFPA_STAT_BYTES, ans->pos - pos);
	if (ret == -EAGAIN)
		afpa_count(conn->place->an, AFPA_STAT_NO_MEMORY);
	/* If it does not come to that the watch goes on with the answer. */
	if (ret == -ENODATA)
		afpa_read_queue(conn, ans->obj, afpa_answer_wants(ans));
	if (ret == 0 || ret == -EAGAIN || ret == -ENODATA) {
		afpa_answer_park(ans);
		return AFPA_PENDING;
	}
	trace_afpa_answered(sk, ans, ret);
	afpa_answer_end(ans);
	return ret < 0 ? AFPA_FAILED : AFPA_SENT;
}

/* --- what protocols call --- */

/* To its protocol it is a miss; if a thread may read it, the request is looked at again then. */
static void afpa_turn_lacks(struct afpa_turn *turn, struct afpa_object *obj)
{
	struct afpa_net *an = turn->conn->place->an;

	afpa_count(an, AFPA_STAT_ABSENT);
	if (READ_ONCE(an->mode) == AFPA_MODE_SOFTIRQ || turn->lacks)
		afpa_object_put(obj);
	else
		turn->lacks = obj;
}

struct afpa_object *afpa_turn_find(struct afpa_turn *turn, struct afpa_key_ref *key)
{
	struct afpa_place *place = turn->conn->place;
	struct afpa_object *obj;

	key->site = place->id;
	obj = afpa_cache_get(&place->an->cache, key);
	if (obj && !afpa_object_is_there(obj)) {
		afpa_turn_lacks(turn, obj);
		obj = NULL;
	}
	trace_afpa_request(turn->sk, key->path, key->path_len, obj);
	return obj;
}
EXPORT_SYMBOL_GPL(afpa_turn_find);

void afpa_turn_answer(struct afpa_turn *turn, struct afpa_object **objs, unsigned int nr)
{
	afpa_answer_begin(turn->answer, objs[0]);
	afpa_answer_add(turn->answer, objs + 1, nr - 1);
}
EXPORT_SYMBOL_GPL(afpa_turn_answer);

/* For the next request on the connection. */
static __always_inline void afpa_request_forget(struct afpa_turn *turn)
{
	unsigned int words = turn->conn->place->protocol->request_size / sizeof(u64);
	u64 *word = turn->request;

	while (words--)
		*word++ = 0;
}

enum afpa_result afpa_act_send(struct afpa_turn *turn)
{
	const struct afpa_answer *ans = turn->answer;
	struct afpa_conn *conn = turn->conn;
	struct sock *sk = turn->sk;
	enum afpa_result result;
	unsigned int i;

	if (!turn->used)
		return afpa_send(conn, sk);
	afpa_cache_used(&conn->place->an->cache, ans->obj);
	for (i = 0; i < ans->nr_more; i++)
		afpa_cache_used(&conn->place->an->cache, ans->more[i]);
	afpa_hit_count(conn, turn->where);
	afpa_log_answer(conn->place->an, sk, ans, turn->bytes, turn->used);
	/* First the answer, so that it takes the acknowledgment along. */
	result = afpa_send(conn, sk);
	tcp_read_done(sk, turn->used);
	afpa_conn_settle(conn, sk);
	afpa_request_forget(turn);
	return result;
}
EXPORT_SYMBOL_GPL(afpa_act_send);

/* --- the machine --- */

/* No protocol needs as many steps for a request; a table that goes in circles is to end. */
#define AFPA_STEPS	(4 * AFPA_PROTOCOL_STATES)

/* A mistake of a table or of a function, with which the same would happen again and again. */
static enum afpa_step afpa_protocol_errs(struct afpa_turn *turn, const char *how)
{
	pr_warn_ratelimited("protocol %s %s\n", turn->conn->place->protocol->name, how);
	turn->result = AFPA_FOREIGN;
	return AFPA_LEAVE;
}

static enum afpa_step afpa_machine_run(struct afpa_turn *turn, u8 state)
{
	const struct afpa_protocol *protocol = turn->conn->place->protocol;
	enum afpa_result result;
	unsigned int n;
	u8 next;

	for (n = 0; n < AFPA_STEPS; n++) {
		/* Where a call by pointer is dear, those of HTTP are none. */
		result = INDIRECT_CALL_3(protocol->states[state].act, afpa_act_send,
					 afpa_http_request, afpa_http_cached, turn);
		next = protocol->next[state][result];
		if (next && next < AFPA_NEXT) {
			state = next;
			continue;
		}
		turn->result = result;
		turn->conn->state = state;
		if (next == AFPA_NEXT && turn->conn->ans.obj)
			return afpa_protocol_errs(turn, "begins a request amid an answer");
		return next ?: AFPA_LEAVE;	/* there is no row */
	}
	return afpa_protocol_errs(turn, "goes in circles");
}

/* The rest of a request cannot come, as in tcp_epollin_ready(): a small SO_RCVBUF. */
static bool afpa_lacks_room(const struct sock *sk)
{
	u32 least = min_t(u32, inet_csk(sk)->icsk_ack.rcv_mss, AFPA_REQUEST_MAX);

	return tcp_rmem_pressure(sk) || tcp_receive_window(tcp_sk(sk)) <= least;
}

/* A request that would be the server's stays where it is until a thread has read what it is for. */
static enum afpa_step afpa_leave_to_reader(struct afpa_turn *turn, enum afpa_step step)
{
	struct afpa_object *obj = turn->lacks;

	turn->lacks = NULL;
	turn->reads = step == AFPA_LEAVE && turn->result == AFPA_MISS &&
		      afpa_read_queue(turn->conn, obj, 0);
	afpa_object_put(obj);
	if (!turn->reads)
		return step;
	afpa_request_forget(turn);
	return AFPA_AWAIT;
}

/* Why the connection becomes the program's. */
static enum afpa_step afpa_leave_count(const struct afpa_turn *turn)
{
	if (turn->result == AFPA_FOREIGN)
		afpa_count(turn->conn->place->an, AFPA_STAT_DEFERRED);
	else if (turn->result == AFPA_MISS)
		afpa_count(turn->conn->place->an, AFPA_STAT_MISSES);
	return AFPA_LEAVE;
}

static enum afpa_step afpa_request_begin(struct afpa_turn *turn, const struct afpa_look *look)
{
	u32 copied = turn->conn->copied;
	enum afpa_step step;

	turn->bytes = (char *)look->byte + look->at;
	turn->len = look->len - look->at;
	turn->used = 0;
	step = afpa_machine_run(turn, 0);
	if (turn->lacks)
		step = afpa_leave_to_reader(turn, step);
	if (step == AFPA_NEXT && turn->conn->copied == copied)
		return afpa_protocol_errs(turn, "takes no request out");
	return step;
}

/* What is longer than the copy does not become whole, whatever its protocol waits for. */
static bool afpa_request_is_endless(const struct afpa_turn *turn)
{
	return turn->len == AFPA_REQUEST_MAX && !turn->conn->ans.obj;
}

static enum afpa_step afpa_next_request(struct afpa_turn *turn, struct afpa_look *look)
{
	struct afpa_conn *conn = turn->conn;
	struct sock *sk = turn->sk;
	enum afpa_step step;

	if (!afpa_may_answer(conn, sk)) {
		afpa_count(conn->place->an, AFPA_STAT_TAKEN);
		return AFPA_LEAVE;
	}
	/* Most requests come alone, and nothing is to be seen behind them. */
	if (look->at == look->len && !afpa_look_is_short(look))
		return sk->sk_shutdown & RCV_SHUTDOWN ? AFPA_LEAVE : AFPA_AWAIT;
	step = afpa_request_begin(turn, look);
	if (step == AFPA_AWAIT && !turn->reads && !conn->ans.obj && afpa_look_is_short(look)) {
		if (!afpa_look_fill(look, sk))
			return AFPA_LEAVE;
		step = afpa_request_begin(turn, look);
	}
	if (turn->reads)
		return step;
	if (step == AFPA_AWAIT && afpa_request_is_endless(turn)) {
		turn->result = AFPA_FOREIGN;
		step = AFPA_LEAVE;
	}
	if (step == AFPA_LEAVE)
		return afpa_leave_count(turn);
	look->at += turn->used;
	if (step == AFPA_NEXT || conn->ans.obj)
		return step;
	/* The program learns that no more will come, and sees what came. */
	if (sk->sk_shutdown & RCV_SHUTDOWN)
		return AFPA_LEAVE;
	if (look->at == look->len)
		return AFPA_AWAIT;
	if (afpa_lacks_room(sk))
		return AFPA_LEAVE;
	afpa_count(conn->place->an, AFPA_STAT_PARTIAL);
	return AFPA_AWAIT;
}

/* After the last answer: what a client sends all the same must not make a RST of the close. */
static enum afpa_step afpa_swallow(struct afpa_conn *conn, struct sock *sk)
{
	int queued = tcp_inq(sk);

	if (sk->sk_err || sk->sk_shutdown & RCV_SHUTDOWN)
		return AFPA_LEAVE;
	if (queued > 0)
		tcp_read_done(sk, queued);
	return AFPA_AWAIT;
}

/* A request that nothing was sent for yet can be the server's. */
static enum afpa_step afpa_read_failed(struct afpa_conn *conn)
{
	int err = conn->read.err;

	conn->read.err = 0;
	if (!conn->ans.obj)
		return AFPA_LEAVE;
	/* There may be memory again, a second later: when the watch goes on with it. */
	if (err != -ENOMEM)
		WRITE_ONCE(conn->broken, true);
	return AFPA_AWAIT;
}

static enum afpa_step afpa_engine_turn(struct afpa_conn *conn, struct sock *sk,
				       enum afpa_where where)
{
	struct afpa_look *look = this_cpu_ptr(afpa_looks);
	struct afpa_turn turn = {
		.conn = conn,
		.sk = sk,
		.answer = &conn->ans,
		.data = conn->data,
		.request = (void *)conn->data + conn->place->protocol->data_size,
		.where = where,
	};
	enum afpa_step step = AFPA_NEXT;
	unsigned int n;

	/* Its program has ended the connection that the answer was for, and may have another. */
	if ((conn->ans.obj || conn->closed) && tcp_sk(sk)->write_seq != conn->written)
		return AFPA_LEAVE;
	if (afpa_read_is_under_way(conn))
		return AFPA_AWAIT;
	if (conn->read.err)
		return afpa_read_failed(conn);
	if (conn->broken)
		return AFPA_AWAIT;
	if (conn->ans.obj) {
		afpa_count(conn->place->an, AFPA_STAT_CONTINUED);
		step = afpa_machine_run(&turn, conn->state);
	}
	if (step == AFPA_NEXT && !conn->closed && !afpa_look_fill(look, sk))
		return AFPA_LEAVE;
	for (n = 0; step == AFPA_NEXT && !conn->closed; n++) {
		if (n < AFPA_BURST) {
			step = afpa_next_request(&turn, look);
			continue;
		}
		afpa_count(conn->place->an, AFPA_STAT_BURSTS);
		step = afpa_queue_conn(conn, 0) ? AFPA_AWAIT : AFPA_LEAVE;
	}
	return step == AFPA_NEXT ? afpa_swallow(conn, sk) : step;
}

/* An answer under way holds the module, so that rmmod says EBUSY. */
static void afpa_engine_release(struct afpa_conn *conn)
{
	conn->pinned = conn->ans.obj;
	if (!conn->pinned)
		module_put(THIS_MODULE);
}

bool afpa_engine_run(struct afpa_conn *conn, struct sock *sk, enum afpa_where where)
{
	enum afpa_step step;

	sock_owned_by_me(sk);
	/* TCP calls us from within our own sending, when it has no memory. */
	if (conn->busy)
		return false;
	if (test_bit(AFPA_CONN_LEFT, &conn->flags) && !conn->ans.obj)
		return true;
	if (sock_flag(sk, SOCK_DEAD) || !sk->sk_socket) {
		/* Before accept() there is time, after close() there is none. */
		if (sock_flag(sk, SOCK_DEAD))
			afpa_conn_end_answer(conn);
		return true;
	}
	/* Being unloaded: afpa_site_leave_all() is on its way here. */
	if (!conn->pinned && !try_module_get(THIS_MODULE))
		return true;
	conn->busy = true;
	local_bh_disable();
	rcu_read_lock();
	step = afpa_engine_turn(conn, sk, where);
	rcu_read_unlock();
	local_bh_enable();
	conn->busy = false;
	afpa_engine_release(conn);
	if (step == AFPA_AWAIT)
		return sk->sk_shutdown & RCV_SHUTDOWN;
	afpa_conn_leave(conn);
	if (where != AFPA_IN_EVENT)
		sk->sk_data_ready(sk);
	return true;
}
