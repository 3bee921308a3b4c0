// SPDX-License-Identifier: GPL-2.0
/*
 * The policies. Each reads the engine and says what it would do; policy.c does it. So explaining a
 * decision runs the same lines as making it.
 */
#include "engine.h"

/* Loads are compared relative to shares: a/x < b/y without division. */
static bool less_loaded(const struct node *a, const struct node *b)
{
	return (uint64_t)node_load(a) * b->share < (uint64_t)node_load(b) * a->share;
}

/* Ties go to the first from @start on. -1: empty set. */
static int least_loaded(const struct lard *l, uint64_t set, unsigned int start)
{
	uint64_t after = ~0ULL << start;
	const uint64_t parts[] = { set & after, set & ~after };
	unsigned int part, i;
	int best = -1;

	for (part = 0; part < 2; part++)
		for_each_node(i, parts[part])
			if (best < 0 || less_loaded(&l->nodes[i], &l->nodes[best]))
				best = i;
	return best;
}

/* Ties go to the last, so that with several nodes it is not the one least_loaded() gives. */
static int most_loaded(const struct lard *l, uint64_t set, unsigned int start)
{
	uint64_t after = ~0ULL << start;
	const uint64_t parts[] = { set & after, set & ~after };
	unsigned int part, i;
	int best = -1;

	for (part = 0; part < 2; part++)
		for_each_node(i, parts[part])
			if (best < 0 || !less_loaded(&l->nodes[i], &l->nodes[best]))
				best = i;
	return best;
}

static bool some_below_low(const struct lard *l)
{
	unsigned int i;

	for_each_node(i, l->eligible)
		if (node_load(&l->nodes[i]) < l->nodes[i].low)
			return true;
	return false;
}

uint64_t target_nodes(const struct lard *l, const struct target *t)
{
	uint64_t set = t->set & l->eligible;
	unsigned int i;

	if (t->epoch == l->epoch)
		return set;
	for_each_node(i, set)
		if (l->nodes[i].forgotten > t->epoch)
			set &= ~NODE_BIT(i);
	return set;
}

static void choose(const struct lard *l, struct lard_decision *d, int node, enum lard_reason why)
{
	d->node = node;
	d->why = why;
	d->load = node_load(&l->nodes[node]);
	d->others = l->nodes[node].others;
}

static void choose_from(const struct lard *l, struct lard_decision *d, int from)
{
	d->from = from;
	d->from_load = node_load(&l->nodes[from]);
}

/* Fewest active; among ties the one whose turn it is by weight. */
static void decide_wrr(const struct lard *l, struct lard_decision *d, struct plan *plan)
{
	int first = least_loaded(l, l->eligible, 0), best = -1;
	const struct node *least = &l->nodes[first];
	unsigned int i;

	for_each_node(i, l->eligible) {
		const struct node *n = &l->nodes[i];

		if (less_loaded(least, n))
			continue;
		plan->ties |= NODE_BIT(i);
		if (best < 0 || n->credit + n->share > l->nodes[best].credit + l->nodes[best].share)
			best = i;
	}
	choose(l, d, best, LARD_WHY_FEWEST);
}

/* hash mod n; with unequal weights, modulo shares. */
static void decide_lb(const struct lard *l, uint64_t key, struct lard_decision *d)
{
	uint32_t share = l->shares / l->count;
	bool equal = true;
	uint64_t rest;
	unsigned int i;

	for_each_node(i, l->eligible)
		equal &= l->nodes[i].share == share;
	rest = equal ? key % l->count : key % l->shares;
	for_each_node(i, l->eligible) {
		uint64_t own = equal ? 1 : l->nodes[i].share;

		if (rest < own) {
			choose(l, d, i, LARD_WHY_HASH);
			return;
		}
		rest -= own;
	}
}

/* A node's bound: its share of (all requests + this one), times the factor, rounded up. */
static uint64_t ring_bound(const struct lard *l, const struct node *n)
{
	uint64_t whole = 100 * l->shares;
	uint64_t all = l->params.bound_percent * (total_load(l) + 1ULL);

	/* Others may say so much, and weights be so large, that 64 bits do not hold it. */
	return ((unsigned __int128)all * n->share + whole - 1) / whole;
}

static void decide_chbl(const struct lard *l, uint64_t key, struct lard_decision *d)
{
	uint32_t at = ring_find(&l->ring, key), walked;
	uint32_t home = l->ring.points[at].node;
	uint64_t full = 0;

	for (walked = 0; walked < l->ring.used; walked++) {
		uint32_t i = l->ring.points[at].node;

		if (!(full & NODE_BIT(i))) {
			if (node_load(&l->nodes[i]) + 1 <= ring_bound(l, &l->nodes[i])) {
				choose(l, d, i, i == home ? LARD_WHY_RING : LARD_WHY_RING_SPILL);
				if (i != home)
					choose_from(l, d, home);
				return;
			}
			full |= NODE_BIT(i);
		}
		if (++at == l->ring.used)
			at = 0;
	}
	/* Unreachable while the factor is 100 or more: not all can be above the mean. */
	choose(l, d, home, LARD_WHY_RING);
}

/* Is @n to be relieved (the condition of Figures 3.2 and 3.3)? */
static bool overloaded(const struct lard *l, const struct node *n, bool *idle)
{
	*idle = node_load(n) > n->high && some_below_low(l);
	return *idle || node_load(n) >= n->cap;
}

/* Figure 3.2. */
static void decide_basic(const struct lard *l, struct lard_decision *d, struct plan *plan)
{
	int n, p;
	bool idle;

	plan->remember = true;
	/* A set of several is left over from lard/r: its best member goes on alone. */
	n = least_loaded(l, d->was, l->cursor);
	if (n < 0) {
		n = least_loaded(l, l->eligible, l->cursor);
		plan->scanned = plan->changed = true;
		choose(l, d, n, LARD_WHY_FIRST);
	} else if (overloaded(l, &l->nodes[n], &idle)) {
		p = least_loaded(l, l->eligible, l->cursor);
		plan->scanned = true;
		plan->changed = p != n;
		if (p == n) {
			choose(l, d, p, LARD_WHY_KEEP_BUSY);
		} else {
			choose_from(l, d, n);
			choose(l, d, p, idle ? LARD_WHY_MOVE_IDLE : LARD_WHY_MOVE_CAP);
		}
	} else {
		choose(l, d, n, node_load(&l->nodes[n]) > l->nodes[n].high ?
		       LARD_WHY_KEEP_BUSY : LARD_WHY_KEEP);
	}
	plan->set = NODE_BIT(d->node);
}

/* Figure 3.3; the order of its steps is the algorithm. */
static void decide_replicated(const struct lard *l, struct lard_decision *d, struct plan *plan)
{
	enum lard_reason why;
	int n, m, p = -1;
	bool idle;

	plan->remember = true;
	plan->set = d->was;
	n = least_loaded(l, plan->set, l->cursor);
	if (n < 0) {
		n = least_loaded(l, l->eligible, l->cursor);
		plan->scanned = plan->changed = true;
		plan->set = NODE_BIT(n);
		choose(l, d, n, LARD_WHY_FIRST);
		return;
	}

	m = most_loaded(l, plan->set, l->cursor);	/* before any addition */
	why = node_load(&l->nodes[n]) > l->nodes[n].high ? LARD_WHY_KEEP_BUSY : LARD_WHY_KEEP;
	if (overloaded(l, &l->nodes[n], &idle)) {
		p = least_loaded(l, l->eligible, l->cursor);
		plan->scanned = true;
		if (!(plan->set & NODE_BIT(p))) {
			plan->set |= NODE_BIT(p);
			plan->changed = true;
			why = idle ? LARD_WHY_GROW_IDLE : LARD_WHY_GROW_CAP;
			choose_from(l, d, n);
		}
		n = p;
	}
	if ((plan->set & (plan->set - 1)) && d->age_us > l->params.replication_us) {
		plan->set &= ~NODE_BIT(m);
		choose_from(l, d, m);
		if (!plan->changed)
			why = LARD_WHY_SHRINK;
		else
			why = why == LARD_WHY_GROW_IDLE ? LARD_WHY_MOVE_IDLE : LARD_WHY_MOVE_CAP;
		plan->changed = true;
	}
	choose(l, d, n, why);
}

static void describe(const struct lard *l, uint64_t key, uint64_t now, struct lard_decision *d)
{
	const struct target *t = target_find(&l->table, key);
	int idlest = least_loaded(l, l->eligible, 0);

	*d = (struct lard_decision){
		.node = -1,
		.from = -1,
		.total = total_load(l),
		.limit = l->limit,
		.idlest = idlest < 0 ? 0 : node_load(&l->nodes[idlest]),
	};
	if (t) {
		d->was = target_nodes(l, t);
		d->age_us = now - t->last_mod;
		d->learnt = t->learnt && d->was;
	}
	d->set = d->was;
}

void decide(const struct lard *l, uint64_t key, uint64_t now, struct lard_decision *d,
	    struct plan *plan)
{
	*plan = (struct plan){ 0 };
	describe(l, key, now, d);
	if (!l->eligible) {
		d->why = LARD_WHY_NO_NODE;
		return;
	}
	if (!has_room(l)) {
		d->why = LARD_WHY_FULL;
		return;
	}

	switch (l->params.policy) {
	case LARD_LB:
		decide_lb(l, key, d);
		break;
	case LARD_BASIC:
		decide_basic(l, d, plan);
		break;
	case LARD_REPLICATED:
		decide_replicated(l, d, plan);
		break;
	case LARD_LC:
		choose(l, d, least_loaded(l, l->eligible, 0), LARD_WHY_FEWEST);
		break;
	case LARD_CHBL:
		decide_chbl(l, key, d);
		break;
	case LARD_WRR:
	default:
		decide_wrr(l, d, plan);
		break;
	}
	if (plan->remember)
		d->set = plan->set;
}

/* Other members of the set first: they may have the content. */
void decide_retry(const struct lard *l, uint64_t key, uint64_t tried, struct lard_decision *d)
{
	int n;

	describe(l, key, 0, d);
	d->age_us = 0;
	n = least_loaded(l, d->was & ~tried, l->cursor);
	if (n < 0)
		n = least_loaded(l, l->eligible & ~tried, l->cursor);
	if (n < 0) {
		d->why = LARD_WHY_NO_NODE;
		return;
	}
	choose(l, d, n, LARD_WHY_RETRY);
	if (tried)
		choose_from(l, d, __builtin_ctzll(tried));
}
