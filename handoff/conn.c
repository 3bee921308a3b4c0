// SPDX-License-Identifier: GPL-2.0
/* The rows of FLT_CMD_CONN_GET: the forwarding table, bucket by bucket. */

#include <linux/module.h>

#include "kmod/conn.h"

#include "conn.h"
#include "peer.h"
#include "table.h"

/*
 * The cursor of a walk: table, bucket and place in the bucket. A table that is
 * resized between two calls may show a connection twice or not at all.
 */
#define HOF_CURSOR_TABLE	BIT_ULL(63)
#define HOF_CURSOR_PLACE_BITS	20
#define HOF_CURSOR_PLACE	(BIT_ULL(HOF_CURSOR_PLACE_BITS) - 1)

static void hof_conn_fill(const struct hof_entry *e, struct flt_conn *conn)
{
	memset(conn, 0, sizeof(*conn));
	hof_entry_tuple(e, &conn->tuple);
	conn->node = READ_ONCE(e->peer)->node->id;
	conn->state = hof_state_name(e);
	conn->packets = READ_ONCE(e->packets);
	conn->bytes = READ_ONCE(e->bytes);
	conn->age_ms = jiffies_to_msecs(jiffies - e->born);
}

static int hof_conn_walk_bucket(const struct bucket_table *table, u32 bucket, u64 *cursor,
				int (*emit)(const struct flt_conn *conn, void *arg), void *arg)
{
	u64 skip = *cursor & HOF_CURSOR_PLACE;
	struct rhash_head *pos;
	struct flt_conn conn;
	struct hof_entry *e;
	int err;

	rht_for_each_entry_rcu(e, pos, table, bucket, hash) {
		if (skip) {
			skip--;
			continue;
		}
		hof_conn_fill(e, &conn);
		err = emit(&conn, arg);
		if (err)
			return err;
		++*cursor;
	}
	return 0;
}

static int hof_conn_walk_table(struct rhashtable *ht, u64 *cursor,
			       int (*emit)(const struct flt_conn *conn, void *arg), void *arg)
{
	const struct bucket_table *table;
	u32 bucket;
	int err = 0;

	rcu_read_lock();
	table = rht_dereference_rcu(ht->tbl, ht);
	for (;;) {
		bucket = (*cursor & ~HOF_CURSOR_TABLE) >> HOF_CURSOR_PLACE_BITS;
		if (bucket >= table->size)
			break;
		err = hof_conn_walk_bucket(table, bucket, cursor, emit, arg);
		if (err)
			break;
		*cursor = (*cursor & HOF_CURSOR_TABLE) |
			  (u64)(bucket + 1) << HOF_CURSOR_PLACE_BITS;
	}
	rcu_read_unlock();
	return err;
}

static int hof_conn_walk(struct net *net, u64 *cursor,
			 int (*emit)(const struct flt_conn *conn, void *arg), void *arg)
{
	struct hof_net *hn = hof_net(net);
	int err;

	if (!(*cursor & HOF_CURSOR_TABLE)) {
		err = hof_conn_walk_table(&hn->entries4, cursor, emit, arg);
		if (err)
			return err;
		*cursor = HOF_CURSOR_TABLE;
	}
	return hof_conn_walk_table(&hn->entries6, cursor, emit, arg);
}

static const struct flt_conn_source hof_conn_source = {
	.owner = THIS_MODULE,
	.walk = hof_conn_walk,
};

int hof_conn_register(void)
{
	return flt_conn_source_register(&hof_conn_source);
}

void hof_conn_unregister(void)
{
	flt_conn_source_unregister(&hof_conn_source);
}
