// SPDX-License-Identifier: GPL-2.0
/*
 * Fills the forwarding table with as many entries as asked for, looks them up,
 * closes them and waits until the sweep has removed them. Real handoffs would
 * need as many sockets. What it finds goes to the kernel's log; loading fails
 * when something is not as it must be.
 */

#include <linux/delay.h>
#include <linux/module.h>

#include "../../entry.c"
#include "../../ticket.c"
#include "../../trace.c"

static unsigned int entries = 1000000;
module_param(entries, uint, 0444);
MODULE_PARM_DESC(entries, "how many of each address family, IPv6 a tenth");

static struct flt_node table_node;
static struct hof_peer table_peer;
static struct hof_net *table_net;

void hof_peer_put(struct hof_peer *peer)
{
	refcount_dec(&peer->ref);
}

void hof_relay_end(struct hof_adoption *a, bool lost)
{
}

void hof_relay_drop(struct hof_adoption *a)
{
}

void hof_redirect_settle(struct hof_net *hn, struct hof_entry *e)
{
}

bool hof_redirect_expired(struct hof_net *hn, struct hof_entry *e)
{
	return false;
}

void hof_redirect_ask(struct hof_net *hn)
{
}

void hof_reset_client(struct hof_net *hn, const struct flt_tuple *tuple, u32 seq)
{
	hof_count(hn, HOF_STAT_FORWARD_RESETS);
}

static void table_tuple(u16 family, u32 n, struct flt_tuple *tuple)
{
	size_t size = family == AF_INET ? 4 : 16;

	memset(tuple, 0, sizeof(*tuple));
	tuple->family = family;
	memset(tuple->client, 10, size);
	memset(tuple->server, 20, size);
	*(__be32 *)(tuple->client + size - 4) = htonl(n >> 8);
	tuple->client_port = htons(1024 + (n & 255));
	tuple->server_port = htons(80);
}

static int table_fill(u16 family, u32 nr)
{
	struct flt_tuple tuple;
	struct hof_entry *e;
	u32 n;
	int err;

	for (n = 0; n < nr; n++) {
		table_tuple(family, n, &tuple);
		e = hof_entry_alloc(&tuple, &table_peer, NULL, HOF_ENTRY_GFP);
		if (!e)
			return -ENOMEM;
		spin_lock_bh(&e->lock);
		hof_entry_set_state(e, HOF_FORWARD);
		spin_unlock_bh(&e->lock);
		e->id = n;
		atomic_inc(&table_node.load);
		err = hof_entry_insert(table_net, e);
		if (err) {
			hof_entry_free(e);
			return err;
		}
		if (n % 1024 == 0)
			cond_resched();
	}
	return 0;
}

/* Every one is found, and is the one. */
static int table_find(u16 family, u32 nr, bool close)
{
	struct flt_tuple tuple;
	struct hof_entry *e;
	u32 n, bad = 0;

	for (n = 0; n < nr; n++) {
		table_tuple(family, n, &tuple);
		rcu_read_lock();
		e = hof_entry_find_tuple(table_net, &tuple);
		if (!e || e->id != n)
			bad++;
		else if (close && !hof_entry_close(table_net, e, n, FLT_REFUSE_NONE))
			bad++;
		rcu_read_unlock();
		if (n % 1024 == 0)
			cond_resched();
	}
	return bad ? -ENOENT : 0;
}

static int table_wait_empty(void)
{
	unsigned int tenths;

	for (tenths = 0; tenths < 1200 && hof_entry_count(table_net); tenths++)
		msleep(100);
	return hof_entry_count(table_net) ? -ETIMEDOUT : 0;
}

static int table_family(u16 family, u32 nr)
{
	ktime_t start = ktime_get();
	u64 fill, find;
	int err;

	err = table_fill(family, nr);
	if (err)
		return err;
	fill = ktime_to_ns(ktime_sub(ktime_get(), start));
	start = ktime_get();
	err = table_find(family, nr, false);
	if (err)
		return err;
	find = ktime_to_ns(ktime_sub(ktime_get(), start));
	pr_info("%u entries of family %u: %u bytes each, insert %llu ns, find %llu ns\n",
		nr, family, hof_entry_size(family), div_u64(fill, nr), div_u64(find, nr));
	if (hof_entry_count(table_net) != nr || atomic_read(&table_node.load) != nr)
		return -EIO;
	/* All 2^20 places taken, or as many as there may be: one more is refused. */
	table_net->tunables.forward_max = nr;
	if (table_fill(AF_INET == family ? AF_INET : AF_INET6, 1) != -ENOSPC)
		return -EIO;
	atomic_dec(&table_node.load);
	table_net->tunables.forward_max = U32_MAX;

	start = ktime_get();
	err = table_find(family, nr, true) ?: table_wait_empty();
	pr_info("closed and swept in %lld ms: %d\n", ktime_ms_delta(ktime_get(), start), err);
	if (!err && atomic_read(&table_node.load))
		err = -EIO;
	return err;
}

static int __init table_test_init(void)
{
	int err;

	err = hof_entry_cache_create();
	if (err)
		return err;
	table_net = kzalloc(sizeof(*table_net), GFP_KERNEL);
	err = table_net ? 0 : -ENOMEM;
	if (err)
		goto undo_cache;
	table_net->net = &init_net;
	table_net->tunables = (struct hof_tunables){
		.linger_ms = 1, .linger_rst_ms = 1, .idle_s = 3600, .forward_max = U32_MAX,
	};
	table_net->stats = __alloc_percpu(HOF_STAT_MAX * sizeof(u64), sizeof(u64));
	refcount_set(&table_peer.ref, 1);
	table_peer.node = &table_node;
	err = table_net->stats ? hof_entry_net_init(table_net) : -ENOMEM;
	if (err)
		goto undo_net;
	err = table_family(AF_INET, entries) ?: table_family(AF_INET6, entries / 10);
	hof_entry_net_exit(table_net);
	rcu_barrier();
	if (!err && refcount_read(&table_peer.ref) != 1)
		err = -EIO;
undo_net:
	free_percpu(table_net->stats);
	kfree(table_net);
undo_cache:
	hof_entry_cache_destroy();
	return err;
}

static void __exit table_test_exit(void)
{
}

module_init(table_test_init);
module_exit(table_test_exit);
MODULE_DESCRIPTION("Test of handoff's forwarding table");
MODULE_LICENSE("GPL");
