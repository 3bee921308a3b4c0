// SPDX-License-Identifier: GPL-2.0
/*
 * Decisions of a dispatcher that change nothing but a load, as lard/decide.c makes them. What the
 * page says can be nonsense, and change at any time: then the dispatcher has it wrong, nobody else.
 */

#ifdef __KERNEL__
#include <linux/bitops.h>
#include <linux/compiler.h>
#include <linux/math64.h>
#include <asm/barrier.h>
#define first_of(set)		__ffs64(set)
#define count_of(set)		hweight64(set)
#else
#define first_of(set)		__builtin_ctzll(set)
#define count_of(set)		__builtin_popcountll(set)
#endif

#include "early_choose.h"

#define HOF_SLOT_BIT(i)	(1ULL << (i))

/* The next slot of a set goes out of it into @i; false: it is empty. */
static bool hof_early_next(__u64 *left, unsigned int *i)
{
	if (!*left)
		return false;
	*i = first_of(*left);
	*left &= *left - 1;
	return true;
}

static __u64 hof_early_load(const struct hof_early_page *p, unsigned int i)
{
	return (__u64)READ_ONCE(p->slots[i].load) + READ_ONCE(p->slots[i].given);
}

/* Loads are compared relative to shares; see less_loaded(). */
static bool hof_early_less(const struct hof_early_page *p, unsigned int a, unsigned int b)
{
	return hof_early_load(p, a) * READ_ONCE(p->slots[b].share) <
	       hof_early_load(p, b) * READ_ONCE(p->slots[a].share);
}

/* Ties go to the first from @start on; -1: empty set. */
static int hof_early_least(const struct hof_early_page *p, __u64 set, unsigned int start)
{
	__u64 after = ~0ULL << start;
	__u64 parts[] = { set & after, set & ~after };
	unsigned int part, i;
	int best = -1;

	for (part = 0; part < 2; part++)
		while (hof_early_next(&parts[part], &i))
			if (best < 0 || hof_early_less(p, i, best))
				best = i;
	return best;
}

static bool hof_early_overloaded(const struct hof_early_page *p, unsigned int n, __u64 eligible)
{
	__u64 load = hof_early_load(p, n);
	unsigned int i;

	if (load >= READ_ONCE(p->slots[n].cap))
		return true;
	if (load <= READ_ONCE(p->slots[n].high))
		return false;
	while (hof_early_next(&eligible, &i))
		if (hof_early_load(p, i) < READ_ONCE(p->slots[i].low))
			return true;
	return false;
}

/* Nodes of the target that count: eligible, and not lost since. */
static __u64 hof_early_members(const struct hof_early_page *p, const struct hof_early_target *t,
			       __u64 eligible)
{
	__u64 set = t ? t->nodes & eligible : 0, left = set;
	unsigned int i;

	while (hof_early_next(&left, &i))
		if (READ_ONCE(p->slots[i].forgotten) > t->epoch)
			set &= ~HOF_SLOT_BIT(i);
	return set;
}

static int hof_early_by_target(const struct hof_early_page *p, const struct hof_early_target *t,
			       __u64 eligible, __u64 now_us, bool replicated)
{
	__u64 set = hof_early_members(p, t, eligible), age;
	int n = hof_early_least(p, set, READ_ONCE(p->cursor) % HOF_EARLY_SLOTS);

	if (n < 0)
		return HOF_EARLY_MISS;
	/* A decision takes out who does not count, and remembers that. */
	if (set != t->nodes || hof_early_overloaded(p, n, eligible))
		return HOF_EARLY_ASK;
	if (!(set & (set - 1)))
		return n;
	/* One of several goes on alone, or all of them until the set is too old. */
	age = now_us - t->changed_us;
	return replicated && age <= READ_ONCE(p->replication_us) ? n : HOF_EARLY_ASK;
}

static __u64 hof_early_rest(__u64 key, __u64 parts)
{
#ifdef __KERNEL__
	u64 rest;

	div64_u64_rem(key, parts, &rest);
	return rest;
#else
	return key % parts;
#endif
}

static int hof_early_by_hash(const struct hof_early_page *p, __u64 eligible, __u64 key)
{
	__u64 shares = READ_ONCE(p->shares), nodes = count_of(eligible), left = eligible;
	__u64 share = READ_ONCE(p->slots[first_of(eligible)].share), own, rest;
	bool equal = true;
	unsigned int i;

	while (hof_early_next(&left, &i))
		equal &= READ_ONCE(p->slots[i].share) == share;
	if (!equal && !shares)
		return HOF_EARLY_ASK;
	rest = hof_early_rest(key, equal ? nodes : shares);
	left = eligible;
	while (hof_early_next(&left, &i)) {
		own = equal ? 1 : READ_ONCE(p->slots[i].share);
		if (rest < own)
			return i;
		rest -= own;
	}
	return HOF_EARLY_ASK;
}

static int hof_early_by_policy(const struct hof_early_page *p, const struct hof_early_target *t,
			       __u64 eligible, __u64 key, __u64 now_us)
{
	switch (READ_ONCE(p->policy)) {
	case HOF_EARLY_FEWEST:
		return hof_early_least(p, eligible, 0);
	case HOF_EARLY_HASH:
		return hof_early_by_hash(p, eligible, key);
	case HOF_EARLY_ASSIGNED:
		return hof_early_by_target(p, t, eligible, now_us, false);
	case HOF_EARLY_REPLICATED:
		return hof_early_by_target(p, t, eligible, now_us, true);
	default:
		return HOF_EARLY_ASK;
	}
}

int hof_early_choose(const struct hof_early_page *p, const struct hof_early_target *t, __u64 key,
		     __u64 now_us, bool *relaxed)
{
	__u64 eligible, left, total = 0;
	__u32 version, limit;
	unsigned int i;
	int n;

	/* Pairs with who changes more than a load. Nobody is waited for: it may never go on. */
	version = smp_load_acquire(&p->version);
	eligible = READ_ONCE(p->eligible);
	limit = READ_ONCE(p->limit);
	if (version & 1 || !eligible || READ_ONCE(p->waiting) || now_us >= READ_ONCE(p->until_us))
		return HOF_EARLY_ASK;
	left = eligible;
	while (hof_early_next(&left, &i))
		total += hof_early_load(p, i);
	if (total >= limit)
		return HOF_EARLY_ASK;
	n = hof_early_by_policy(p, t, eligible, key, now_us);
	if (n >= 0)
		*relaxed = total < limit / 2 && hof_early_load(p, n) < READ_ONCE(p->slots[n].low);
	/* All of it is read before the version is, once more. */
	smp_rmb();
	return READ_ONCE(p->version) == version ? n : HOF_EARLY_ASK;
}
