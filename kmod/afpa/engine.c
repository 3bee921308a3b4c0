// SPDX-License-Identifier: GPL-2.0
/*
 * The way of a request: what is in the receive queue is looked at in place; only when an answer has
 * been begun is the request taken out. So whatever is not answered is the program's, untouched.
 */

#include <linux/ctype.h>
#include <linux/module.h>
#include <linux/percpu.h>
#include <linux/skmsg.h>
#include <net/tcp.h>
#include <flotilla/afpa.h>

#include "cache.h"
#include "conn.h"
#include "counter.h"
#include "engine.h"
#include "log.h"
#include "queue.h"
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

enum afpa_step {
	AFPA_GO_ON,
	AFPA_WAIT,		/* for bytes, room, or a work item */
	AFPA_LEAVE,		/* to the program */
};

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
	if (conn->req.method == AFPA_METHOD_HEAD)
		afpa_count(an, AFPA_STAT_HEADS);
}

static enum afpa_step afpa_send(struct afpa_conn *conn, struct sock *sk)
{
	struct afpa_answer *ans = &conn->ans;
	u64 pos = ans->pos;
	bool closes;
	int ret;

	ret = afpa_answer_send(ans, sk, false);
	conn->written = tcp_sk(sk)->write_seq;
	afpa_count_add(conn->place->an, AFPA_STAT_BYTES, ans->pos - pos);
	if (ret == -EAGAIN)
		afpa_count(conn->place->an, AFPA_STAT_NO_MEMORY);
	if (ret == 0 || ret == -EAGAIN) {
		afpa_answer_park(ans);
		return AFPA_WAIT;
	}
	trace_afpa_answered(sk, ans, ret);
	closes = ans->closes;
	afpa_answer_end(ans);
	if (ret < 0)
		return AFPA_LEAVE;
	if (closes)
		afpa_conn_finish(conn, sk);
	return AFPA_GO_ON;
}

static struct afpa_object *afpa_find(struct afpa_conn *conn, char *bytes)
{
	const struct afpa_request *req = &conn->req;
	struct afpa_key_ref key = {
		.site = conn->place->id,
		.host_len = req->host_len,
		.path_len = req->path_len,
		.host = bytes + req->host_at,
		.path = bytes + req->path_at,
	};
	u32 i;

	/* Another authority than ours: a proxy may stand behind. */
	if (req->port && req->port != inet_sk(conn->sk)->inet_num)
		return NULL;
	for (i = 0; i < key.host_len; i++)
		bytes[req->host_at + i] = tolower(bytes[req->host_at + i]);
	return afpa_cache_get(&conn->place->an->cache, &key);
}

/* A whole request of @len bytes is at @bytes. */
static enum afpa_step afpa_answer(struct afpa_conn *conn, struct sock *sk, char *bytes, u32 len,
				  enum afpa_where where)
{
	struct afpa_object *obj = afpa_find(conn, bytes);
	enum afpa_step step;

	trace_afpa_request(sk, bytes + conn->req.path_at, conn->req.path_len, obj);
	if (!obj) {
		afpa_count(conn->place->an, AFPA_STAT_MISSES);
		return AFPA_LEAVE;
	}
	if (!afpa_answer_begin(&conn->ans, obj, &conn->req)) {
		afpa_object_put(obj);
		afpa_count(conn->place->an, AFPA_STAT_NO_MEMORY);
		return AFPA_LEAVE;
	}
	if (!READ_ONCE(obj->recent))
		WRITE_ONCE(obj->recent, true);
	atomic64_inc(&obj->hits);
	afpa_hit_count(conn, where);
	afpa_log_answer(conn->place->an, sk, &conn->ans, bytes, len);
	/* First the answer, so that it takes the acknowledgment along. */
	step = afpa_send(conn, sk);
	tcp_read_done(sk, len);
	afpa_conn_settle(conn, sk);
	afpa_request_init(&conn->req);
	return step;
}

/* The rest of a request cannot come, as in tcp_epollin_ready(): a small SO_RCVBUF. */
static bool afpa_lacks_room(const struct sock *sk)
{
	u32 least = min_t(u32, inet_csk(sk)->icsk_ack.rcv_mss, AFPA_REQUEST_MAX);

	return tcp_rmem_pressure(sk) || tcp_receive_window(tcp_sk(sk)) <= least;
}

static enum afpa_step afpa_next_request(struct afpa_conn *conn, struct sock *sk,
					struct afpa_look *look, enum afpa_where where)
{
	struct afpa_net *an = conn->place->an;
	enum afpa_step step;
	int len;

	if (!afpa_may_answer(conn, sk)) {
		afpa_count(an, AFPA_STAT_TAKEN);
		return AFPA_LEAVE;
	}
	len = afpa_request_parse(look->byte + look->at, look->len - look->at, &conn->req);
	if (!len && afpa_look_is_short(look)) {
		if (!afpa_look_fill(look, sk))
			return AFPA_LEAVE;
		len = afpa_request_parse(look->byte, look->len, &conn->req);
	}
	if (len < 0) {
		afpa_count(an, AFPA_STAT_DEFERRED);
		return AFPA_LEAVE;
	}
	if (len) {
		step = afpa_answer(conn, sk, look->byte + look->at, len, where);
		look->at += len;
		return step;
	}
	/* The program learns that no more will come, and sees what came. */
	if (sk->sk_shutdown & RCV_SHUTDOWN)
		return AFPA_LEAVE;
	if (look->at == look->len)
		return AFPA_WAIT;
	if (afpa_lacks_room(sk))
		return AFPA_LEAVE;
	afpa_count(an, AFPA_STAT_PARTIAL);
	return AFPA_WAIT;
}

/* After the last answer: what a client sends all the same must not make a RST of the close. */
static enum afpa_step afpa_swallow(struct afpa_conn *conn, struct sock *sk)
{
	int queued = tcp_inq(sk);

	if (sk->sk_err || sk->sk_shutdown & RCV_SHUTDOWN)
		return AFPA_LEAVE;
	if (queued > 0)
		tcp_read_done(sk, queued);
	return AFPA_WAIT;
}

static enum afpa_step afpa_engine_turn(struct afpa_conn *conn, struct sock *sk,
				       enum afpa_where where)
{
	struct afpa_look *look = this_cpu_ptr(afpa_looks);
	enum afpa_step step = AFPA_GO_ON;
	unsigned int n;

	/* Its program has ended the connection that the answer was for, and may have another. */
	if ((conn->ans.obj || conn->closed) && tcp_sk(sk)->write_seq != conn->written)
		return AFPA_LEAVE;
	if (conn->ans.obj) {
		afpa_count(conn->place->an, AFPA_STAT_CONTINUED);
		step = afpa_send(conn, sk);
	}
	if (step == AFPA_GO_ON && !conn->closed && !afpa_look_fill(look, sk))
		return AFPA_LEAVE;
	for (n = 0; step == AFPA_GO_ON && !conn->closed; n++) {
		if (n < AFPA_BURST) {
			step = afpa_next_request(conn, sk, look, where);
			continue;
		}
		afpa_count(conn->place->an, AFPA_STAT_BURSTS);
		step = afpa_queue_conn(conn, 0) ? AFPA_WAIT : AFPA_LEAVE;
	}
	return step == AFPA_GO_ON ? afpa_swallow(conn, sk) : step;
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
	if (step == AFPA_WAIT)
		return sk->sk_shutdown & RCV_SHUTDOWN;
	afpa_conn_leave(conn);
	if (where != AFPA_IN_EVENT)
		sk->sk_data_ready(sk);
	return true;
}
