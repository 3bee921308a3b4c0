// SPDX-License-Identifier: GPL-2.0
/*
 * The work item of a connection: for mode thread, for what a softirq would have had too long to do
 * with, and where memory has to be waited for.
 */

#include <linux/module.h>

#include "conn.h"
#include "counter.h"
#include "engine.h"
#include "queue.h"
#include "site.h"

/* Jiffies that a work item waits for the lock, and holds the module. */
#define AFPA_QUEUE_TRIES	250

static struct workqueue_struct *afpa_workqueue;

bool afpa_queue_conn(struct afpa_conn *conn, unsigned long delay)
{
	if (test_and_set_bit(AFPA_CONN_QUEUED, &conn->flags))
		return true;
	if (!try_module_get(THIS_MODULE)) {
		clear_bit(AFPA_CONN_QUEUED, &conn->flags);
		return false;
	}
	sock_hold(conn->sk);
	afpa_conn_get(conn);
	queue_delayed_work(afpa_workqueue, &conn->work, delay);
	return true;
}

/*
 * With the lock as a softirq has it: a program that writes or shuts down amid an answer waits for
 * it, but would be refused if it found its socket owned.
 */
bool afpa_queue_try(struct afpa_conn *conn)
{
	struct sock *sk = conn->sk;
	bool ours, answering;

	spin_lock_bh(&sk->sk_lock.slock);
	ours = !sock_owned_by_user(sk);
	if (ours) {
		answering = conn->ans.obj;
		afpa_engine_run(conn, sk, AFPA_IN_WORK);
		/* The program may wait for room. */
		if (answering && !conn->ans.obj && sk->sk_socket)
			sk->sk_write_space(sk);
	}
	spin_unlock_bh(&sk->sk_lock.slock);
	return ours;
}

/*
 * Its program may have the lock for ever. Without it nothing can be done about the connection: an
 * answer may be beginning, and callbacks of others want to be called with it. The watch tries on.
 */
static void afpa_queue_missed(struct afpa_conn *conn)
{
	if (++conn->tries < AFPA_QUEUE_TRIES) {
		afpa_queue_conn(conn, 1);
		return;
	}
	conn->tries = 0;
	afpa_count(conn->place->an, AFPA_STAT_LOCKED);
	set_bit(AFPA_CONN_MISSED, &conn->flags);
}

void afpa_queue_again(struct afpa_conn *conn)
{
	if (test_bit(AFPA_CONN_MISSED, &conn->flags) && afpa_queue_try(conn))
		clear_bit(AFPA_CONN_MISSED, &conn->flags);
}

void afpa_queue_work(struct work_struct *work)
{
	struct afpa_conn *conn = container_of(work, struct afpa_conn, work.work);
	struct sock *sk = conn->sk;

	clear_bit(AFPA_CONN_QUEUED, &conn->flags);
	/* What happens from here on queues it anew. */
	smp_mb__after_atomic();
	if (afpa_queue_try(conn))
		conn->tries = 0;
	else
		afpa_queue_missed(conn);
	sock_put(sk);
	afpa_conn_put(conn);
	module_put(THIS_MODULE);	/* afpa_queue_exit() waits for what follows */
}

int afpa_queue_init(void)
{
	afpa_workqueue = alloc_workqueue("afpa", WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
	return afpa_workqueue ? 0 : -ENOMEM;
}

void afpa_queue_exit(void)
{
	destroy_workqueue(afpa_workqueue);
}
