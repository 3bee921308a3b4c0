// SPDX-License-Identifier: GPL-2.0
/* The dispatcher's word on targets and nodes, and the loads of what is given by it. */

#include <linux/atomic.h>
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/random.h>
#include <linux/rculist.h>
#include <linux/siphash.h>
#include <linux/slab.h>
#include <linux/timekeeping.h>
#include <linux/uaccess.h>

#include "kmod/compat/cookie.h"

#include "counter.h"
#include "early.h"
#include "early_choose.h"
#include "early_table.h"
#include "entry.h"
#include "ticket.h"

/* Copied from the program at a time. */
#define HOF_EARLY_PIECE	32

/**
 * struct hof_early_known - a target
 * @node: in its bucket
 * @rcu:  for freeing
 * @what: never changes
 * @seen: jiffies when the dispatcher last saw a request for it; by softirq without a lock
 */
struct hof_early_known {
	struct hlist_node node;
	struct rcu_head rcu;
	struct hof_early_target what;
	unsigned long seen;
};

/**
 * struct hof_early_table - of one open device
 * @file:    whose tickets our connections have; it tells us instead of readers
 * @page:    is mapped
 * @shared:  its content, which the program may write at any time
 * @seed:    which clients do not know, who choose the keys
 * @lock:    changes of @nr and @buckets; process context
 * @max:     most targets
 * @nr:      targets; READ_ONCE
 * @bits:    of the number of @buckets
 * @buckets: struct hof_early_known; RCU
 */
struct hof_early_table {
	struct hof_file *file;
	struct page *page;
	struct hof_early_page *shared;
	siphash_key_t seed;
	struct mutex lock;	/* see above */
	u32 max;
	u32 nr;
	unsigned int bits;
	struct hlist_head *buckets;
};

/* --- loads --- */

static atomic_t *hof_early_given(struct hof_early_table *table, unsigned int slot)
{
	return (atomic_t *)&table->shared->slots[slot].given;
}

static void hof_early_tell(const struct hof_ticket *t, enum hof_event_type type)
{
	struct hof_early_table *table = t->file->owner;
	atomic_t *given = hof_early_given(table, t->cookie);

	lockdep_assert_held(&t->file->lock);
	switch (type) {
	case HOF_EVENT_DONE:
		atomic64_inc((atomic64_t *)&table->shared->slots[t->cookie].taken);
		break;
	case HOF_EVENT_FAILED:
	case HOF_EVENT_IDLE:
		atomic_dec(given);
		break;
	case HOF_EVENT_BUSY:
		atomic_inc(given);
		break;
	case HOF_EVENT_CLOSED:
		if (!t->idle)
			atomic_dec(given);
		break;
	default:
		break;
	}
}

struct hof_ticket *hof_early_table_charge(struct hof_early_table *table,
					  const struct hof_early_choice *choice)
{
	struct hof_early_slot *slot = &table->shared->slots[choice->slot];
	struct hof_ticket *t;

	t = hof_ticket_create(table->file, choice->slot, choice->node, choice->relaxed,
			      HOF_EARLY_GFP);
	if (!t)
		return NULL;
	t->watch = true;
	t->direct = true;
	atomic_inc(hof_early_given(table, choice->slot));
	atomic64_inc((atomic64_t *)&slot->chosen);
	return t;
}

/* --- targets --- */

static struct hlist_head *hof_early_bucket(struct hof_early_table *table, u64 key)
{
	/* Spread already; hash_64() would shift by 64 where there is one bucket. */
	return &table->buckets[siphash_1u64(key, &table->seed) & ((1U << table->bits) - 1)];
}

/* RCU, or table->lock. */
static struct hof_early_known *hof_early_lookup(struct hof_early_table *table, u64 key)
{
	struct hof_early_known *k;

	hlist_for_each_entry_rcu(k, hof_early_bucket(table, key), node,
				 lockdep_is_held(&table->lock))
		if (k->what.key == key)
			return k;
	return NULL;
}

/* Nobody but the dispatcher knows who is asked for: once in a while it sees each. */
static bool hof_early_is_stale(struct hof_early_table *table, struct hof_early_known *k)
{
	u32 fresh_ms = READ_ONCE(table->shared->fresh_ms);

	if (!fresh_ms || time_before(jiffies, READ_ONCE(k->seen) + msecs_to_jiffies(fresh_ms)))
		return false;
	WRITE_ONCE(k->seen, jiffies);
	return true;
}

static int hof_early_decide(struct hof_early_table *table, u64 key, bool *relaxed)
{
	struct hof_early_known *k = hof_early_lookup(table, key);

	if (k && hof_early_is_stale(table, k))
		return HOF_EARLY_ASK;
	return hof_early_choose(table->shared, k ? &k->what : NULL, key,
				ktime_to_us(ktime_get()), relaxed);
}

bool hof_early_table_choose(struct hof_net *hn, struct hof_early_table *table, const char *text,
			    unsigned int len, struct hof_early_choice *choice)
{
	u64 key;

	if (!hof_early_key(text, len, READ_ONCE(table->shared->any_host), &key)) {
		hof_count(hn, HOF_STAT_EARLY_TABLE_UNCLEAR);
		return false;
	}
	choice->slot = hof_early_decide(table, key, &choice->relaxed);
	if (choice->slot >= 0) {
		choice->node = READ_ONCE(table->shared->slots[choice->slot].node);
		return true;
	}
	hof_count(hn, choice->slot == HOF_EARLY_MISS ? HOF_STAT_EARLY_TABLE_MISSES :
						       HOF_STAT_EARLY_TABLE_ASKED);
	return false;
}

static void hof_early_forget(struct hof_early_table *table, struct hof_early_known *k)
{
	lockdep_assert_held(&table->lock);
	hlist_del_rcu(&k->node);
	WRITE_ONCE(table->nr, table->nr - 1);
	kfree_rcu(k, rcu);
}

/* 0; -ENOSPC: what was known of it is gone; -ENOMEM. */
static int hof_early_remember(struct hof_early_table *table, const struct hof_early_target *what)
{
	struct hof_early_known *old = hof_early_lookup(table, what->key), *k;

	lockdep_assert_held(&table->lock);
	if (!what->nodes) {
		if (old)
			hof_early_forget(table, old);
		return 0;
	}
	if (!old && table->nr >= table->max)
		return -ENOSPC;
	k = kmalloc(sizeof(*k), HOF_ENTRY_GFP);
	if (!k) {
		if (old)
			hof_early_forget(table, old);
		return -ENOMEM;
	}
	k->what = *what;
	k->seen = jiffies;
	if (old) {
		hlist_replace_rcu(&old->node, &k->node);
		kfree_rcu(old, rcu);
	} else {
		hlist_add_head_rcu(&k->node, hof_early_bucket(table, what->key));
		WRITE_ONCE(table->nr, table->nr + 1);
	}
	return 0;
}

static int hof_early_set_piece(struct hof_early_table *table, struct hof_net *hn,
			       const struct hof_early_target *piece, unsigned int nr)
{
	unsigned int i;
	int refused = 0, err;

	for (i = 0; i < nr; i++) {
		if (piece[i].pad)
			return -EINVAL;
		err = hof_early_remember(table, &piece[i]);
		if (err && err != -ENOSPC)
			return err;
		if (!err)
			continue;
		hof_count(hn, HOF_STAT_EARLY_TABLE_FULL);
		refused++;
	}
	return refused;
}

static int hof_early_set_targets(struct hof_early_table *table, struct hof_net *hn,
				 const struct hof_early_target __user *from, unsigned int nr)
{
	struct hof_early_target piece[HOF_EARLY_PIECE];
	unsigned int done, some;
	int refused = 0, err;

	for (done = 0; done < nr; done += some) {
		some = min_t(unsigned int, nr - done, HOF_EARLY_PIECE);
		if (copy_from_user(piece, from + done, some * sizeof(piece[0])))
			return -EFAULT;
		err = hof_early_set_piece(table, hn, piece, some);
		if (err < 0)
			return err;
		refused += err;
	}
	return refused;
}

static void hof_early_clear(struct hof_early_table *table)
{
	struct hof_early_known *k;
	struct hlist_node *next;
	unsigned int i;

	lockdep_assert_held(&table->lock);
	for (i = 0; i < 1U << table->bits; i++) {
		hlist_for_each_entry_safe(k, next, &table->buckets[i], node)
			hof_early_forget(table, k);
		cond_resched();
	}
}

/* --- the table --- */

void hof_early_table_free(struct hof_early_table *table)
{
	if (!table)
		return;
	if (table->file) {
		/* Its tickets may outlive us, and tell nobody. */
		hof_file_close(table->file);
		hof_file_put(table->file);
	}
	if (table->buckets) {
		mutex_lock(&table->lock);
		hof_early_clear(table);
		mutex_unlock(&table->lock);
	}
	kvfree(table->buckets);
	if (table->page)
		__free_page(table->page);
	kfree(table);
}

static struct hof_early_table *hof_early_table_alloc(struct hof_net *hn, u32 max)
{
	struct hof_early_table *table = kzalloc(sizeof(*table), GFP_KERNEL_ACCOUNT);

	BUILD_BUG_ON(sizeof(struct hof_early_page) > HOF_EARLY_PAGE);
	if (!table)
		return NULL;
	mutex_init(&table->lock);
	get_random_bytes(&table->seed, sizeof(table->seed));
	table->max = max;
	table->bits = ilog2(roundup_pow_of_two(max));
	table->page = alloc_page(GFP_KERNEL_ACCOUNT | __GFP_ZERO);
	table->file = hof_file_create(hn);
	table->buckets = kvcalloc(1UL << table->bits, sizeof(*table->buckets), HOF_ENTRY_GFP);
	if (!table->page || !table->file || !table->buckets) {
		hof_early_table_free(table);
		return NULL;
	}
	table->shared = page_address(table->page);
	table->file->owner = table;
	table->file->tell = hof_early_tell;
	return table;
}

static long hof_early_table_create(struct hof_file *file, const struct hof_early_table_args *args)
{
	struct hof_early_table *table;

	if (!args->nr || args->nr > HOF_EARLY_TARGETS_MAX || args->targets)
		return -EINVAL;
	if (READ_ONCE(file->table))
		return -EEXIST;
	table = hof_early_table_alloc(file->hn, args->nr);
	if (!table)
		return -ENOMEM;
	/* Pairs with hof_file_table(): one thread may map what another one makes. */
	if (!cmpxchg_release(&file->table, NULL, table))
		return 0;
	hof_early_table_free(table);
	return -EEXIST;
}

static long hof_early_table_change(struct hof_file *file, const struct hof_early_table_args *args)
{
	struct hof_early_table *table = hof_file_table(file);
	long err = 0;

	if (args->op == HOF_EARLY_CLEAR ? args->nr || args->targets : args->nr > HOF_EARLY_BATCH)
		return -EINVAL;
	if (!table)
		return -ENOENT;
	if (mutex_lock_interruptible(&table->lock))
		return -EINTR;
	if (args->op == HOF_EARLY_SET)
		err = hof_early_set_targets(table, file->hn, u64_to_user_ptr(args->targets),
					    args->nr);
	else
		hof_early_clear(table);
	mutex_unlock(&table->lock);
	return err;
}

long hof_early_table_ioctl(struct hof_file *file, void __user *arg)
{
	struct hof_early_table_args args;

	/* As HOF_IOC_EARLY, which it is for. */
	if (!capable(CAP_NET_ADMIN))
		return -EPERM;
	if (!FLT_COOKIES)
		return -EOPNOTSUPP;
	if (copy_from_user(&args, arg, sizeof(args)))
		return -EFAULT;
	if (args.size != sizeof(args) || args.pad)
		return -EINVAL;
	switch (args.op) {
	case HOF_EARLY_CREATE:
		return hof_early_table_create(file, &args);
	case HOF_EARLY_SET:
	case HOF_EARLY_CLEAR:
		return hof_early_table_change(file, &args);
	default:
		return -EINVAL;
	}
}

/* The mapping has the open file, and that the table. */
static vm_fault_t hof_early_fault(struct vm_fault *vmf)
{
	struct hof_early_table *table = vmf->vma->vm_private_data;

	if (vmf->pgoff)
		return VM_FAULT_SIGBUS;
	get_page(table->page);
	vmf->page = table->page;
	return 0;
}

static const struct vm_operations_struct hof_early_vm_ops = {
	.fault = hof_early_fault,
};

int hof_early_table_mmap(struct hof_file *file, struct vm_area_struct *vma)
{
	struct hof_early_table *table = hof_file_table(file);

	if (!table)
		return -ENODEV;
	if (vma_pages(vma) != 1 || vma->vm_pgoff || !(vma->vm_flags & VM_SHARED))
		return -EINVAL;
	vma->vm_private_data = table;
	vma->vm_ops = &hof_early_vm_ops;
	return 0;
}
