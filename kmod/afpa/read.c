// SPDX-License-Identifier: GPL-2.0
/*
 * Threads that read. They are apart from the work items that answer, which must not wait for a
 * disk: however many of these do, what is in memory goes on.
 */

#include <linux/module.h>

#include "conn.h"
#include "counter.h"
#include "file.h"
#include "queue.h"
#include "read.h"
#include "site.h"
#include "trace.h"

/* Reads at once; others wait for these. */
#define AFPA_READERS	64

static struct workqueue_struct *afpa_readers;

bool afpa_read_is_under_way(const struct afpa_conn *conn)
{
	return test_bit_acquire(AFPA_CONN_READING, &conn->flags);
}

bool afpa_read_queue(struct afpa_conn *conn, struct afpa_object *obj, u64 pos)
{
	sock_owned_by_me(conn->sk);
	if (!try_module_get(THIS_MODULE))
		return false;
	refcount_inc(&obj->users);
	conn->read.obj = obj;
	conn->read.pos = pos;
	set_bit(AFPA_CONN_READING, &conn->flags);
	sock_hold(conn->sk);
	afpa_conn_get(conn);
	queue_work(afpa_readers, &conn->read.work);
	return true;
}

/* Nobody but us has what is read until the bit is cleared. */
static void afpa_read_chunk(struct afpa_conn *conn, struct afpa_pins *pins)
{
	struct afpa_object *obj = conn->read.obj;
	u64 pos = conn->read.pos;

	conn->read.err = afpa_file_read(obj->file, pos, min_t(u64, obj->body_len - pos, AFPA_CHUNK),
					conn->sk, pins);
	trace_afpa_read(obj, pos, conn->read.err);
	afpa_count(conn->place->an, AFPA_STAT_READS);
	if (conn->read.err)
		afpa_count(conn->place->an, AFPA_STAT_READ_ERRORS);
	conn->read.obj = NULL;
	afpa_object_put(obj);
	clear_bit_unlock(AFPA_CONN_READING, &conn->flags);
}

void afpa_read_work(struct work_struct *work)
{
	struct afpa_conn *conn = container_of(work, struct afpa_conn, read.work);
	struct sock *sk = conn->sk;
	struct afpa_pins pins;

	afpa_read_chunk(conn, &pins);
	/* As long as it is pinned it is there. */
	if (!afpa_queue_try(conn))
		afpa_queue_conn(conn, 1);
	afpa_pins_put(&pins);
	/* Half an answer cannot be taken back. */
	if (afpa_conn_must_break(conn))
		afpa_conn_break(conn);
	sock_put(sk);
	afpa_conn_put(conn);
	module_put(THIS_MODULE);	/* afpa_read_exit() waits for what follows */
}

int afpa_read_init(void)
{
	afpa_readers = alloc_workqueue("afpa-read", WQ_UNBOUND, AFPA_READERS);
	return afpa_readers ? 0 : -ENOMEM;
}

void afpa_read_exit(void)
{
	destroy_workqueue(afpa_readers);
}
