// SPDX-License-Identifier: GPL-2.0
/* Services and their policies: what the operator has said. */

#include <linux/module.h>
#include <linux/percpu.h>
#include <linux/rculist.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "kmod/migrate.h"
#include "kmod/stats.h"

#include "assign.h"
#include "counter.h"
#include "gate.h"
#include "net.h"

/* Of one namespace: looked through for each connection of their listeners. */
#define HOF_ASSIGNED_MAX	256

/* See assign.h. */
DEFINE_MUTEX(hof_policy_lock);
LIST_HEAD(hof_assigned_all);

static void hof_assigned_free(struct rcu_head *rcu)
{
	struct hof_assigned *s = container_of(rcu, struct hof_assigned, rcu);

	free_percpu(s->stats);
	kfree(s);
}

void hof_assigned_put(struct hof_assigned *s)
{
	if (refcount_dec_and_test(&s->ref))
		call_rcu(&s->rcu, hof_assigned_free);
}

static bool hof_assigned_is(const struct hof_assigned *s, const struct flt_tuple *at)
{
	return s->at.family == at->family &&
	       s->at.server_port == at->server_port &&
	       !memcmp(s->at.server, at->server, sizeof(at->server));
}

struct hof_assigned *hof_assigned_get(struct hof_net *hn, const struct flt_tuple *tuple)
{
	struct hof_assigned *s;

	rcu_read_lock();
	list_for_each_entry_rcu(s, &hn->assigned, here)
		if (hof_assigned_is(s, tuple) && refcount_inc_not_zero(&s->ref))
			goto out;
	s = NULL;
out:
	rcu_read_unlock();
	return s;
}

void hof_assigned_count(struct hof_assigned *s, enum hof_policy_stat stat)
{
	flt_stats_inc(s->stats, stat);
}

u64 hof_assigned_stat(const struct hof_assigned *s, unsigned int stat)
{
	u64 sum = 0;
	int cpu;

	for_each_possible_cpu(cpu)
		sum += READ_ONCE(per_cpu_ptr(s->stats, cpu)[stat]);
	return sum;
}

static struct hof_assigned *hof_assigned_create(struct hof_net *hn, const struct flt_tuple *at)
{
	struct hof_assigned *s = kzalloc(sizeof(*s), GFP_KERNEL_ACCOUNT);
	static u64 nr;

	lockdep_assert_held(&hof_policy_lock);
	if (!s)
		return NULL;
	s->stats = __alloc_percpu_gfp((HOF_POLICY_STATS + HOF_ADMIT_STATS) * sizeof(u64),
				      sizeof(u64), GFP_KERNEL_ACCOUNT);
	if (!s->stats) {
		kfree(s);
		return NULL;
	}
	refcount_set(&s->ref, 1);
	s->hn = hn;
	s->id = ++nr;
	s->at = *at;
	init_waitqueue_head(&s->off);
	spin_lock_init(&s->lock);
	hof_admit_init(&s->admit);
	INIT_LIST_HEAD(&s->held);
	return s;
}

/* --- arguments --- */

/* "be2" is a node, "bytes=10000" an option. */
static int hof_policy_set_arg(struct hof_policy_set *set, char *arg)
{
	char *value = strchr(arg, '=');
	struct hof_policy_option *option;

	if (!value) {
		if (set->nr_nodes == HOF_POLICY_NODES_MAX)
			return -ENOSPC;
		if (strscpy(set->nodes[set->nr_nodes], arg, FLT_NAME_MAX) <= 0)
			return -EINVAL;
		set->nr_nodes++;
		return 0;
	}
	if (set->nr_options == HOF_POLICY_OPTIONS_MAX)
		return -ENOSPC;
	option = &set->options[set->nr_options];
	*value++ = '\0';
	if (strscpy(option->name, arg, sizeof(option->name)) <= 0 || !isdigit(*value) ||
	    kstrtou64(value, 0, &option->value))
		return -EINVAL;
	set->nr_options++;
	return 0;
}

static int hof_policy_set_args(struct hof_policy_set *set, const char *args)
{
	char *copy, *rest, *arg;
	int err = 0;

	if (strscpy(set->args, args, sizeof(set->args)) < 0)
		return -ENOSPC;
	copy = kstrdup(args, GFP_KERNEL);
	if (!copy)
		return -ENOMEM;
	rest = copy;
	while (!err && (arg = strsep(&rest, " ")))
		if (*arg)
			err = hof_policy_set_arg(set, arg);
	kfree(copy);
	return err;
}

static void hof_policy_set_free(struct hof_policy_set *set)
{
	if (!set)
		return;
	module_put(set->owner);
	kfree_rcu(set, rcu);
}

/* What the module itself offers needs no hold: its exit switches all off. */
static struct hof_policy_set *hof_policy_set_create(const char *name, const char *args)
{
	const struct hof_policy_ops *ops;
	struct hof_policy_set *set;
	int err;

	lockdep_assert_held(&hof_policy_lock);
	ops = hof_policy_find(name);
	if (!ops)
		return ERR_PTR(-ENOENT);
	set = kzalloc(sizeof(*set), GFP_KERNEL_ACCOUNT);
	if (!set)
		return ERR_PTR(-ENOMEM);
	strscpy(set->name, ops->name, sizeof(set->name));
	err = hof_policy_set_args(set, args) ?: hof_admit_prepare(set);
	if (!err && ops->owner != THIS_MODULE && !try_module_get(ops->owner))
		err = -ENOENT;
	if (err) {
		kfree(set);
		return ERR_PTR(err);
	}
	set->owner = ops->owner != THIS_MODULE ? ops->owner : NULL;
	RCU_INIT_POINTER(set->ops, ops);
	return set;
}

/* --- on and off --- */

static struct hof_assigned *hof_assigned_find(struct hof_net *hn, const struct flt_tuple *at)
{
	struct hof_assigned *s;

	lockdep_assert_held(&hof_policy_lock);
	list_for_each_entry(s, &hn->assigned, here)
		if (hof_assigned_is(s, at))
			return s;
	return NULL;
}

int hof_policy_set(struct hof_net *hn, const struct flt_tuple *at, const char *name,
		   const char *args)
{
	struct hof_policy_set *set, *old = NULL;
	struct hof_assigned *s;
	int err = 0;

	mutex_lock(&hof_policy_lock);
	set = hof_policy_set_create(name, args);
	if (IS_ERR(set)) {
		mutex_unlock(&hof_policy_lock);
		return PTR_ERR(set);
	}
	s = hof_assigned_find(hn, at);
	if (s) {
		set->service = s;
		old = rcu_replace_pointer(s->set, set, true);
	} else if (hn->nr_assigned == HOF_ASSIGNED_MAX) {
		err = -ENOSPC;
	} else {
		s = hof_assigned_create(hn, at);
		err = s ? hof_gate_begin(hn) : -ENOMEM;
		if (!err) {
			set->service = s;
			rcu_assign_pointer(s->set, set);
			list_add_tail(&s->list, &hof_assigned_all);
			list_add_tail_rcu(&s->here, &hn->assigned);
			hn->nr_assigned++;
		} else if (s) {
			hof_assigned_put(s);
		}
	}
	if (err) {
		old = set;
	} else {
		s->admits |= set->admit.inc != 0;
		hof_gate_watch(hn);
	}
	mutex_unlock(&hof_policy_lock);
	hof_policy_set_free(old);
	if (!err)
		hof_gate_settle(hn);
	return err;
}

/* Its gates are open from here on. */
static void hof_assigned_off(struct hof_assigned *s)
{
	struct hof_policy_set *set = hof_policy_set_of(s);

	lockdep_assert_held(&hof_policy_lock);
	list_del(&s->list);
	list_del_rcu(&s->here);
	s->hn->nr_assigned--;
	RCU_INIT_POINTER(s->set, NULL);
	synchronize_rcu();	/* nobody is asked, so nothing more is held */
	hof_gate_open_all(s);
	hof_gate_leave(s);
	wake_up_all(&s->off);
	hof_policy_set_free(set);
	hof_assigned_put(s);
}

int hof_policy_off(struct hof_net *hn, const struct flt_tuple *at)
{
	struct hof_assigned *s;

	mutex_lock(&hof_policy_lock);
	s = hof_assigned_find(hn, at);
	if (s)
		hof_assigned_off(s);
	mutex_unlock(&hof_policy_lock);
	return s ? 0 : -ENOENT;
}

/* @hn NULL: all. */
static void hof_assigned_off_all(struct hof_net *hn)
{
	struct hof_assigned *s, *next;

	mutex_lock(&hof_policy_lock);
	list_for_each_entry_safe(s, next, &hof_assigned_all, list)
		if (!hn || s->hn == hn)
			hof_assigned_off(s);
	mutex_unlock(&hof_policy_lock);
}

void hof_assigned_net_exit(struct hof_net *hn)
{
	hof_assigned_off_all(hn);
	hof_gate_net_exit(hn);
}

/* --- what an operator says (kmod/migrate.c) --- */

static const char *const hof_policy_stat_names[] = {
	[HOF_POLICY_ASKED] = "asked",
	[HOF_POLICY_MOVED] = "moved",
	[HOF_POLICY_STAYED] = "stayed",
	[HOF_POLICY_STAYED_MORE] = "more",
	[HOF_POLICY_STAYED_CAME] = "came",
	[HOF_POLICY_STAYED_HOPS] = "hops",
	[HOF_POLICY_STAYED_UNSURE] = "unsure",
	[HOF_POLICY_STAYED_ENDED] = "ended",
	[HOF_POLICY_STAYED_TARGET] = "target",
	[HOF_POLICY_STAYED_REFUSED] = "refused",
	[HOF_POLICY_STAYED_PLAIN] = "plain",
};

static_assert(ARRAY_SIZE(hof_policy_stat_names) == HOF_POLICY_STATS);

static int hof_migrate_set(struct net *net, const struct flt_tuple *at, const char *name,
			   const char *args)
{
	return hof_policy_set(hof_net(net), at, name, args);
}

static int hof_migrate_off(struct net *net, const struct flt_tuple *at)
{
	return hof_policy_off(hof_net(net), at);
}

/* Of one whose policy has admission: what the operator has said, what is, and what has been. */
static const char *const hof_admit_row_names[] = {
	"admit", "admit-base", "admit-again", "admit-quota", "admit-window", "admit-waiting",
	/* in the order of enum hof_admit_stat */
	"admit-tagged", "admit-moved", "admit-rejected", "admit-kept", "admit-dropped",
	"admit-closed", "admit-notified", "admit-reopened",
};

#define HOF_ADMIT_ROWS	(ARRAY_SIZE(hof_admit_row_names) - HOF_ADMIT_STATS)

static u64 hof_admit_row(const struct hof_assigned *s, const struct hof_policy_set *set, u32 row)
{
	switch (row) {
	case 0:
		return set->admit.inc;
	case 1:
		return set->admit.base;
	case 2:
		return set->admit.again;
	case 3:
		return set->admit.quota;
	case 4:
		return hof_admit_window(s);
	case 5:
		return atomic_read(&s->admit.waiting);
	default:
		return hof_assigned_stat(s, HOF_POLICY_STATS + row - HOF_ADMIT_ROWS);
	}
}

static void hof_migrate_fill(struct flt_migrate_row *row, const struct hof_assigned *s,
			     const struct hof_policy_set *set, u32 stat)
{
	if (stat < HOF_POLICY_STATS) {
		row->what = hof_policy_stat_names[stat];
		row->value = hof_assigned_stat(s, stat);
	} else {
		row->what = hof_admit_row_names[stat - HOF_POLICY_STATS];
		row->value = hof_admit_row(s, set, stat - HOF_POLICY_STATS);
	}
}

static int hof_migrate_walk(struct net *net, u64 *cursor,
			    int (*emit)(const struct flt_migrate_row *row, void *arg), void *arg)
{
	const struct hof_policy_set *set;
	struct flt_migrate_row row;
	struct hof_assigned *s;
	u64 n = 0;
	u32 stat, all;
	int err = 0;

	mutex_lock(&hof_policy_lock);
	list_for_each_entry(s, &hof_net(net)->assigned, here) {
		set = hof_policy_set_of(s);
		row.at = s->at;
		row.policy = set->name;
		row.args = set->args;
		all = HOF_POLICY_STATS + (set->admit.inc ? ARRAY_SIZE(hof_admit_row_names) : 0);
		for (stat = 0; stat < all; stat++) {
			if (n++ < *cursor)
				continue;
			hof_migrate_fill(&row, s, set, stat);
			err = emit(&row, arg);
			if (err)
				goto out;
			++*cursor;
		}
	}
out:
	mutex_unlock(&hof_policy_lock);
	return err;
}

static const struct flt_migrate_source hof_migrate_source = {
	.owner = THIS_MODULE,
	.set = hof_migrate_set,
	.off = hof_migrate_off,
	.walk = hof_migrate_walk,
};

int __init hof_assigned_init(void)
{
	return flt_migrate_source_register(&hof_migrate_source);
}

/* Nobody sets any more; what there is goes. */
void hof_assigned_exit(void)
{
	flt_migrate_source_unregister(&hof_migrate_source);
	hof_assigned_off_all(NULL);
}
