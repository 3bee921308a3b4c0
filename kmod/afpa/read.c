// SPDX-License-Identifier: GPL-2.0
/*
 * Threads that read. They are apart from the work items that answer, which must not wait for a
 * disk: however many of these do, what is in memory goes on.
 */

#include <linux/module.h>
#include <net/tcp_states.h>

#include "conn.h"
#include "counter.h"
#include "file.h"
#include "queue.h"
#include "read.h"
#include "site.h"
#include "trace.h"

/* Reads of a queue at once; others wait for these. */
#define AFPA_READERS	64
/* Of one namespace, with those that wait: each holds a connection, though its client has gone. */
#define AFPA_READS_MOST	1024

static struct workqueue_struct *afpa_readers[AFPA_READER_QUEUES];

/* A disk that is silent has all threads of one. Disks with other numbers do not wait for it. */
static unsigned int afpa_read_number(const struct afpa_object *obj)
{
	dev_t dev = file_inode(obj->file)->i_sb->s_dev;

	return (MAJOR(dev) + MINOR(dev)) % AFPA_READER_QUEUES;
}

bool afpa_read_is_under_way(const struct afpa_conn *conn)
{
	return test_bit_acquire(AFPA_CONN_READING, &conn->flags);
}

static bool afpa_read_reserve(atomic_t *reads)
{
	if (atomic_inc_return(reads) > AFPA_READS_MOST)
		goto undo;
	if (try_module_get(THIS_MODULE))
		return true;
undo:
	atomic_dec(reads);
	return false;
}

bool afpa_read_queue(struct afpa_conn *conn, struct afpa_object *obj, u64 pos)
{
	unsigned int number = afpa_read_number(obj);

	sock_owned_by_me(conn->sk);
	if (!afpa_read_reserve(&conn->place->an->reads[number]))
		return false;
	refcount_inc(&obj->users);
	conn->read.obj = obj;
	conn->read.pos = pos;
	set_bit(AFPA_CONN_READING, &conn->flags);
	sock_hold(conn->sk);
	afpa_conn_get(conn);
	queue_work(afpa_readers[number], &conn->read.work);
	return true;
}

/* While it waited its client has gone, or it became the program's. */
static bool afpa_read_is_in_vain(const struct afpa_conn *conn)
{
	return test_bit(AFPA_CONN_LEFT, &conn->flags) || sock_flag(conn->sk, SOCK_DEAD) ||
	       READ_ONCE(conn->sk->sk_state) == TCP_CLOSE;
}

static void afpa_read_file(struct afpa_conn *conn, const struct afpa_object *obj,
			   struct afpa_pins *pins)
{
	u64 pos = conn->read.pos;

	conn->read.err = afpa_file_read(obj->file, pos, min_t(u64, obj->body_len - pos, AFPA_CHUNK),
					conn->sk, pins);
	trace_afpa_read(obj, pos, conn->read.err);
	afpa_count(conn->place->an, AFPA_STAT_READS);
	if (conn->read.err)
		afpa_count(conn->place->an, AFPA_STAT_READ_ERRORS);
}

/* Nobody but us has what is read until the bit is cleared. */
static void afpa_read_chunk(struct afpa_conn *conn, struct afpa_pins *pins)
{
	struct afpa_object *obj = conn->read.obj;

	pins->nr = 0;
	if (!afpa_read_is_in_vain(conn))
		afpa_read_file(conn, obj, pins);
	conn->read.obj = NULL;
	afpa_object_put(obj);
	clear_bit_unlock(AFPA_CONN_READING, &conn->flags);
}

void afpa_read_work(struct work_struct *work)
{
	struct afpa_conn *conn = container_of(work, struct afpa_conn, read.work);
	atomic_t *reads = &conn->place->an->reads[afpa_read_number(conn->read.obj)];
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
	atomic_dec(reads);	/* of a namespace that the socket holds */
	sock_put(sk);
	afpa_conn_put(conn);
	module_put(THIS_MODULE);	/* afpa_read_exit() waits for what follows */
}

int afpa_read_init(void)
{
	int i;

	for (i = 0; i < AFPA_READER_QUEUES; i++) {
		afpa_readers[i] = alloc_workqueue("afpa-read/%d", WQ_UNBOUND, AFPA_READERS, i);
		if (!afpa_readers[i]) {
			afpa_read_exit();
			return -ENOMEM;
		}
	}
	return 0;
}

void afpa_read_exit(void)
{
	int i;

	for (i = 0; i < AFPA_READER_QUEUES && afpa_readers[i]; i++)
		destroy_workqueue(afpa_readers[i]);
}
