// SPDX-License-Identifier: GPL-2.0
/* Rules of services: what the operator says, and what he is told. */

#include <linux/memcontrol.h>
#include <linux/module.h>
#include <linux/percpu.h>
#include <linux/rculist.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "kmod/redirect.h"

#include "counter.h"
#include "early.h"
#include "forward.h"
#include "path.h"
#include "redirect.h"

/**
 * struct hof_redirect_settings - what a rule is told, before it is
 * @above: as in struct hof_redirect
 * @queue: the same
 * @hysteresis: the same
 * @take: the same
 * @fixed: the same
 */
struct hof_redirect_settings {
	u32 above;
	u32 queue;
	u32 hysteresis;
	u32 take;
	u32 fixed;
};

static const struct hof_redirect_settings hof_redirect_defaults = {
	.above = HOF_REDIRECT_NEVER,
	.queue = HOF_REDIRECT_NEVER,
	.hysteresis = 1,
	.take = 1,
	.fixed = HOF_REDIRECT_NEVER,
};

/* @none: the word for HOF_REDIRECT_NEVER, if it may be that. */
static const struct hof_redirect_name {
	const char *name;
	const char *none;
	size_t offset;
	u32 max;
} hof_redirect_names[] = {
	{ "above", "off", offsetof(struct hof_redirect_settings, above), S32_MAX },
	{ "queue", "off", offsetof(struct hof_redirect_settings, queue), 100 },
	{ "hysteresis", NULL, offsetof(struct hof_redirect_settings, hysteresis), S32_MAX },
	{ "take", NULL, offsetof(struct hof_redirect_settings, take), 1 },
	{ "hint", "auto", offsetof(struct hof_redirect_settings, fixed), S32_MAX },
};

static int hof_redirect_parse_one(struct hof_redirect_settings *s, char *arg)
{
	char *text = strchr(arg, '=');
	u32 value;
	size_t i;

	if (!text)
		return -EINVAL;
	*text++ = '\0';
	for (i = 0; i < ARRAY_SIZE(hof_redirect_names); i++) {
		const struct hof_redirect_name *n = &hof_redirect_names[i];

		if (strcmp(arg, n->name))
			continue;
		if (n->none && !strcmp(text, n->none))
			value = HOF_REDIRECT_NEVER;
		else if (!isdigit(*text) || kstrtou32(text, 10, &value))
			return -EINVAL;
		else if (value > n->max)
			return -ERANGE;
		*(u32 *)((u8 *)s + n->offset) = value;
		return 0;
	}
	return -EINVAL;
}

static int hof_redirect_parse(struct hof_redirect_settings *s, const char *args)
{
	char *copy, *rest, *arg;
	int err = 0;

	copy = kstrdup(args, GFP_KERNEL);
	if (!copy)
		return -ENOMEM;
	rest = copy;
	while (!err && (arg = strsep(&rest, " ")))
		if (*arg)
			err = hof_redirect_parse_one(s, arg);
	kfree(copy);
	return err;
}

static void hof_redirect_get(const struct hof_redirect *r, struct hof_redirect_settings *s)
{
	s->above = r->above;
	s->queue = r->queue;
	s->hysteresis = r->hysteresis;
	s->take = r->take;
	s->fixed = r->fixed;
}

static void hof_redirect_put(struct hof_redirect *r, const struct hof_redirect_settings *s)
{
	WRITE_ONCE(r->above, s->above);
	WRITE_ONCE(r->queue, s->queue);
	WRITE_ONCE(r->hysteresis, s->hysteresis);
	WRITE_ONCE(r->take, s->take);
	WRITE_ONCE(r->fixed, s->fixed);
}

static void hof_redirect_free(struct rcu_head *rcu)
{
	struct hof_redirect *r = container_of(rcu, struct hof_redirect, rcu);

	mem_cgroup_put(r->memcg);
	free_percpu(r->stats);
	kfree(r);
}

static struct hof_redirect *hof_redirect_create(struct hof_net *hn, const struct flt_tuple *at)
{
	struct hof_redirect *r = kzalloc(sizeof(*r), GFP_KERNEL_ACCOUNT);

	if (!r)
		return NULL;
	r->stats = __alloc_percpu_gfp(HOF_REDIRECT_STATS * sizeof(u64), sizeof(u64),
				      GFP_KERNEL_ACCOUNT);
	if (!r->stats) {
		kfree(r);
		return NULL;
	}
	r->hn = hn;
	r->at = *at;
	r->memcg = get_mem_cgroup_from_mm(current->mm);
	r->told = HOF_REDIRECT_NEVER;
	INIT_LIST_HEAD(&r->offers);
	return r;
}

static void hof_redirect_drop(struct hof_redirect *r)
{
	struct hof_offer *o, *next;

	lockdep_assert_held(&r->hn->redirect_lock);
	list_del_rcu(&r->node);
	WRITE_ONCE(r->hn->nr_redirects, r->hn->nr_redirects - 1);
	list_for_each_entry_safe(o, next, &r->offers, node)
		hof_offer_drop(o);
	call_rcu(&r->rcu, hof_redirect_free);
}

static int hof_redirect_change(struct hof_net *hn, const struct flt_tuple *at, const char *args)
{
	struct hof_redirect_settings s = hof_redirect_defaults;
	struct hof_redirect *r = hof_redirect_find(hn, at), *fresh = NULL;
	int err;

	lockdep_assert_held(&hn->redirect_lock);
	if (r)
		hof_redirect_get(r, &s);
	err = hof_redirect_parse(&s, args);
	if (err)
		return err;
	if (!r) {
		if (hof_early_has(hn, at))
			return -EBUSY;
		if (hn->nr_redirects == HOF_REDIRECT_MAX)
			return -ENOSPC;
		fresh = hof_redirect_create(hn, at);
		if (!fresh)
			return -ENOMEM;
		r = fresh;
	}
	hof_redirect_put(r, &s);
	hof_hint_judge(r);
	if (fresh) {
		list_add_tail_rcu(&fresh->node, &hn->redirects);
		WRITE_ONCE(hn->nr_redirects, hn->nr_redirects + 1);
	}
	hof_hint_kick(hn);
	return 0;
}

static int hof_redirect_set(struct net *net, const struct flt_tuple *at, const char *args)
{
	struct hof_net *hn = hof_net(net);
	int err = hof_forward_hook(hn);

	if (err)
		return err;
	mutex_lock(&hn->early_lock);	/* neither comes while the other is looked for */
	mutex_lock(&hn->redirect_lock);
	err = hof_redirect_change(hn, at, args);
	mutex_unlock(&hn->redirect_lock);
	mutex_unlock(&hn->early_lock);
	return err;
}

static int hof_redirect_off(struct net *net, const struct flt_tuple *at)
{
	struct hof_net *hn = hof_net(net);
	struct hof_redirect *r;

	mutex_lock(&hn->redirect_lock);
	r = hof_redirect_find(hn, at);
	if (r) {
		hof_redirect_drop(r);
		hof_hint_kick(hn);
	}
	mutex_unlock(&hn->redirect_lock);
	return r ? 0 : -ENOENT;
}

static void hof_redirect_drop_all(struct hof_net *hn)
{
	struct hof_redirect *r, *next;

	mutex_lock(&hn->redirect_lock);
	list_for_each_entry_safe(r, next, &hn->redirects, node)
		hof_redirect_drop(r);
	mutex_unlock(&hn->redirect_lock);
}

/* --- what he is told --- */

static const char *const hof_redirect_stat_names[] = {
	[HOF_REDIRECT_SENT] = "sent",
	[HOF_REDIRECT_AGAIN] = "again",
	[HOF_REDIRECT_SILENT] = "silent",
	[HOF_REDIRECT_NONE] = "none",
	[HOF_REDIRECT_HEAVY] = "heavy",
	[HOF_REDIRECT_FULL] = "full",
	[HOF_REDIRECT_NO_ROUTE] = "noroute",
	[HOF_REDIRECT_TAKEN] = "taken",
	[HOF_REDIRECT_REFUSED] = "refused",
};

static_assert(ARRAY_SIZE(hof_redirect_stat_names) == HOF_REDIRECT_STATS);

static u64 hof_redirect_stat(const struct hof_redirect *r, enum hof_redirect_stat stat)
{
	u64 sum = 0;
	int cpu;

	for_each_possible_cpu(cpu)
		sum += READ_ONCE(per_cpu_ptr(r->stats, cpu)[stat]);
	return sum;
}

/* Why a node gets the next SYN or does not. RCU. */
static const char *hof_offer_word(const struct hof_redirect *r, const struct hof_offer *o)
{
	const struct flt_node *node = o->peer->node;

	if (hof_offer_stands(r->hn, o)) {
		if (READ_ONCE(o->busy))
			return "busy";
		if (hof_offer_rests(o))
			return "mute";
		if (hof_offer_load(o) + r->hysteresis >= r->load)
			return "heavy";
		return hof_path_get(o->peer) ? "lighter" : "noroute";
	}
	if (!flt_node_is_up(node))
		return "down";
	if (READ_ONCE(node->admin) != FLT_ADMIN_ACTIVE || !READ_ONCE(node->weight))
		return "drained";
	return time_before(jiffies, READ_ONCE(o->until)) ? "insecure" : "silent";
}

/**
 * struct hof_redirect_walk - a dump
 * @skip: rows that were told before
 * @done: rows so far
 * @emit: where they go
 * @arg:  for @emit
 * @row:  the next
 */
struct hof_redirect_walk {
	u64 skip;
	u64 done;
	int (*emit)(const struct flt_redirect_row *row, void *arg);
	void *arg;
	struct flt_redirect_row row;
};

static int hof_redirect_tell(struct hof_redirect_walk *w, const char *what, u64 value)
{
	int err = 0;

	if (w->done >= w->skip) {
		w->row.what = what;
		w->row.value = value;
		err = w->emit(&w->row, w->arg);
	}
	if (!err)
		w->done++;
	return err;
}

static int hof_redirect_tell_offers(struct hof_redirect_walk *w, const struct hof_redirect *r)
{
	const char *word;
	struct hof_offer *o;
	int err = 0;

	list_for_each_entry(o, &r->offers, node) {
		w->row.node = o->peer->node->name;
		rcu_read_lock();
		word = hof_offer_word(r, o);
		rcu_read_unlock();
		err = hof_redirect_tell(w, word, hof_offer_load(o));
		if (err)
			break;
	}
	w->row.node = NULL;
	return err;
}

static int hof_redirect_tell_rule(struct hof_redirect_walk *w, const struct hof_redirect *r)
{
	u32 told = READ_ONCE(r->told);
	struct hof_redirect_settings s;
	unsigned int i;
	int err = 0;

	hof_redirect_get(r, &s);
	w->row.at = r->at;
	for (i = 0; !err && i < ARRAY_SIZE(hof_redirect_names); i++)
		err = hof_redirect_tell(w, hof_redirect_names[i].name,
					*(u32 *)((u8 *)&s + hof_redirect_names[i].offset));
	err = err ?: hof_redirect_tell(w, "told", told);
	err = err ?: hof_redirect_tell(w, "load", r->load);
	err = err ?: hof_redirect_tell(w, "share", r->share);
	err = err ?: hof_redirect_tell(w, "active", r->active);
	for (i = 0; !err && i < HOF_REDIRECT_STATS; i++)
		err = hof_redirect_tell(w, hof_redirect_stat_names[i], hof_redirect_stat(r, i));
	return err ?: hof_redirect_tell_offers(w, r);
}

static int hof_redirect_walk(struct net *net, u64 *cursor,
			     int (*emit)(const struct flt_redirect_row *row, void *arg), void *arg)
{
	struct hof_redirect_walk w = { .skip = *cursor, .emit = emit, .arg = arg };
	struct hof_net *hn = hof_net(net);
	struct hof_redirect *r;
	int err = 0;

	mutex_lock(&hn->redirect_lock);
	list_for_each_entry(r, &hn->redirects, node) {
		err = hof_redirect_tell_rule(&w, r);
		if (err)
			break;
	}
	mutex_unlock(&hn->redirect_lock);
	*cursor = w.done;
	return err;
}

static const struct flt_redirect_source hof_redirect_source = {
	.owner = THIS_MODULE,
	.set = hof_redirect_set,
	.off = hof_redirect_off,
	.walk = hof_redirect_walk,
};

int __init hof_redirect_init(void)
{
	return flt_redirect_source_register(&hof_redirect_source);
}

/* No rule comes from here on; those that there are go with their namespaces. */
void hof_redirect_exit(void)
{
	flt_redirect_source_unregister(&hof_redirect_source);
}

void hof_redirect_net_init(struct hof_net *hn)
{
	mutex_init(&hn->redirect_lock);
	INIT_LIST_HEAD(&hn->redirects);
	hof_hint_net_init(hn);
}

void hof_redirect_net_exit(struct hof_net *hn)
{
	hof_redirect_drop_all(hn);
	hof_hint_stop(hn);
}
