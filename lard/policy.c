// SPDX-License-Identifier: GPL-2.0
/* The policy engine's state: parameters, nodes, loads, and carrying decisions out. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "engine.h"
#include "mix.h"

#define RAMP_STEPS	20	/* a slow start goes from 1/20 of the weight to all of it */
#define SHARE		1000	/* of weight 1 */

static const char *const policy_names[LARD_POLICIES] = {
	[LARD_WRR] = "wrr",
	[LARD_LB] = "lb",
	[LARD_BASIC] = "lard",
	[LARD_REPLICATED] = "lard/r",
	[LARD_LC] = "lc",
	[LARD_CHBL] = "chbl",
};

const char *lard_policy_name(enum lard_policy policy)
{
	return policy < LARD_POLICIES ? policy_names[policy] : "unknown";
}

int lard_policy_parse(const char *name, enum lard_policy *policy)
{
	unsigned int i;

	for (i = 0; i < LARD_POLICIES; i++) {
		if (!strcmp(name, policy_names[i])) {
			*policy = i;
			return 0;
		}
	}
	return -EINVAL;
}

uint32_t lard_auto_limit(unsigned int nodes, uint32_t t_low, uint32_t t_high)
{
	return nodes ? (nodes - 1) * t_high + t_low - 1 : 0;
}

uint32_t lard_t_high(uint32_t t_low, double ratio)
{
	return (t_low + ratio) / 2;
}

/* The weight that counts at @now. */
static uint32_t share_at(const struct lard *l, const struct node *n, uint64_t now)
{
	uint64_t ramp = l->params.slow_start_us, step;

	if (!ramp || now - n->up_since >= ramp)
		return n->weight * SHARE;
	step = (now - n->up_since) * RAMP_STEPS / ramp + 1;
	return n->weight * (SHARE / RAMP_STEPS) * step;
}

static void rebuild_ring(struct lard *l)
{
	unsigned int i;

	ring_clear(&l->ring);
	for_each_node(i, l->eligible) {
		const struct node *n = &l->nodes[i];
		uint32_t points = (uint64_t)RING_POINTS * n->share * l->count / l->shares;

		ring_add(&l->ring, i, n->ident, points ? points : 1);
	}
	ring_sort(&l->ring);
	l->ring_stale = false;
}

/* Everything that follows from parameters, nodes and, with slow start, the time. */
static void refresh(struct lard *l, uint64_t now)
{
	const struct lard_params *p = &l->params;
	unsigned int i;

	l->eligible = 0;
	l->shares = 0;
	l->count = 0;
	l->outstanding = 0;
	l->others = 0;
	l->next_ramp = UINT64_MAX;
	for (i = 0; i < LARD_MAX_NODES; i++) {
		struct node *n = &l->nodes[i];

		n->credit = 0;
		if (!n->used || n->gone || n->state != LARD_UP || n->admin != LARD_ACTIVE ||
		    !n->weight)
			continue;
		n->share = share_at(l, n, now);
		if (n->share < n->weight * SHARE) {
			uint64_t next = now + p->slow_start_us / RAMP_STEPS + 1;

			if (next < l->next_ramp)
				l->next_ramp = next;
		}
		l->eligible |= NODE_BIT(i);
		l->shares += n->share;
		l->outstanding += n->load;
		l->others += n->others;
		l->count++;
	}
	for_each_node(i, l->eligible) {
		struct node *n = &l->nodes[i];
		uint64_t part = (uint64_t)n->share * l->count;

		/* Rounded so that the integer comparisons equal those of the exact values. */
		n->low = (p->t_low * part + l->shares - 1) / l->shares;
		n->high = p->t_high * part / l->shares;
		n->cap = (2ULL * p->t_high * part + l->shares - 1) / l->shares;
	}
	l->limit = p->max_outstanding ? p->max_outstanding :
		   lard_auto_limit(l->count, p->t_low, p->t_high);
	l->ring_stale = true;
	mirror_hear(l);
	mirror_all(l);
}

static void advance(struct lard *l, uint64_t now)
{
	mirror_hear(l);
	if (now >= l->next_ramp)
		refresh(l, now);
	if (l->ring_stale && l->params.policy == LARD_CHBL && l->eligible)
		rebuild_ring(l);
}

int lard_check_params(const struct lard_params *p, const char **why)
{
	const char *wrong = NULL;

	if (p->policy >= LARD_POLICIES)
		wrong = "unknown policy";
	else if (!p->t_low)
		wrong = "t_low must be at least 1";
	else if (p->t_high <= p->t_low)
		wrong = "t_high must be greater than t_low";
	else if (p->t_high > 1000000)
		wrong = "t_high must be at most 1000000";
	else if (p->bound_percent < 100 || p->bound_percent > 10000)
		wrong = "the load bound must be between 100 and 10000 percent";
	if (why)
		*why = wrong;
	return wrong ? -EINVAL : 0;
}

struct lard *lard_new(const struct lard_params *params, uint32_t targets, uint64_t seed)
{
	struct lard *l;

	if (lard_check_params(params, NULL))
		return NULL;
	l = calloc(1, sizeof(*l));
	if (!l)
		return NULL;
	if (target_table_init(&l->table, targets, seed)) {
		free(l);
		return NULL;
	}
	l->params = *params;
	refresh(l, 0);
	return l;
}

void lard_free(struct lard *l)
{
	if (!l)
		return;
	target_table_exit(&l->table);
	free(l);
}

int lard_set_params(struct lard *l, const struct lard_params *params, uint64_t now)
{
	if (lard_check_params(params, NULL))
		return -EINVAL;
	l->params = *params;
	refresh(l, now);
	return 0;
}

const struct lard_params *lard_get_params(const struct lard *l)
{
	return &l->params;
}

/* Mappings to the node count as never made. O(1): they are looked at when next used. */
static void forget(struct lard *l, struct node *n)
{
	n->forgotten = ++l->epoch;
}

int lard_node_find(const struct lard *l, const char *name)
{
	int i;

	for (i = 0; i < LARD_MAX_NODES; i++)
		if (l->nodes[i].used && !l->nodes[i].gone && !strcmp(l->nodes[i].name, name))
			return i;
	return -1;
}

/* One that is gone keeps its slot until what it was given has ended. */
static bool is_free(const struct lard *l, int node)
{
	const struct node *n = &l->nodes[node];

	return !n->used || (n->gone && !n->load && !mirror_given(l, node));
}

int lard_node_add(struct lard *l, const char *name, uint32_t weight, uint64_t now)
{
	size_t len = strlen(name);
	int i;

	if (!len || len >= LARD_NAME_MAX || weight > 65535)
		return -EINVAL;
	if (lard_node_find(l, name) >= 0)
		return -EEXIST;
	for (i = 0; i < LARD_MAX_NODES; i++)
		if (is_free(l, i))
			break;
	if (i == LARD_MAX_NODES)
		return -ENOSPC;

	l->nodes[i] = (struct node){
		.used = true,
		.weight = weight,
		.ident = hash_bytes(name, len),
	};
	memcpy(l->nodes[i].name, name, len + 1);
	mirror_begin(l, i);
	forget(l, &l->nodes[i]);	/* what the slot's last owner had */
	refresh(l, now);
	return i;
}

void lard_node_del(struct lard *l, int node, uint64_t now)
{
	struct node *n = &l->nodes[node];

	forget(l, n);
	n->gone = true;
	n->used = !is_free(l, node);
	refresh(l, now);
}

void lard_node_weight(struct lard *l, int node, uint32_t weight, uint64_t now)
{
	if (l->nodes[node].weight == weight)
		return;
	l->nodes[node].weight = weight;
	refresh(l, now);
}

void lard_node_state(struct lard *l, int node, enum lard_state state, uint64_t now)
{
	struct node *n = &l->nodes[node];

	if (n->state == state)
		return;
	n->state = state;
	if (state == LARD_DOWN)
		forget(l, n);
	else
		n->up_since = now;
	refresh(l, now);
}

void lard_node_admin(struct lard *l, int node, enum lard_admin admin, uint64_t now)
{
	struct node *n = &l->nodes[node];

	if (n->admin == admin)
		return;
	if (admin == LARD_MAINTENANCE)
		forget(l, n);
	if (n->admin == LARD_MAINTENANCE)
		n->up_since = now;
	n->admin = admin;
	refresh(l, now);
}

bool lard_node_get(const struct lard *l, int node, struct lard_node_info *info)
{
	const struct node *n;

	if (node < 0 || node >= LARD_MAX_NODES || !l->nodes[node].used)
		return false;
	n = &l->nodes[node];
	*info = (struct lard_node_info){
		.name = n->name,
		.weight = n->weight,
		.load = n->load + mirror_given(l, node),
		.others = n->others,
		.ident = n->ident,
		.state = n->state,
		.admin = n->admin,
		.eligible = l->eligible & NODE_BIT(node),
		.low = n->low,
		.high = n->high,
		.chosen = n->chosen + mirror_chosen(l, node),
	};
	return !n->gone;
}

static void charge(struct lard *l, int node)
{
	l->nodes[node].load++;
	if (l->eligible & NODE_BIT(node))
		l->outstanding++;
	mirror_load(l, node);
}

static void settle_credit(struct lard *l, uint64_t ties, int chosen)
{
	int64_t total = 0;
	unsigned int i;

	for_each_node(i, ties) {
		l->nodes[i].credit += l->nodes[i].share;
		total += l->nodes[i].share;
	}
	if (ties)
		l->nodes[chosen].credit -= total;
}

int lard_dispatch(struct lard *l, uint64_t key, uint64_t now, struct lard_decision *d)
{
	struct plan plan;

	advance(l, now);
	decide(l, key, now, d, &plan);
	l->reasons[d->why]++;
	l->kept.kept = false;
	if (d->node < 0)
		return -1;

	if (plan.remember) {
		uint64_t evictions = l->table.evictions;
		struct target *t = target_use(&l->table, key);

		t->set = plan.set;
		t->epoch = l->epoch;
		if (plan.changed)
			t->last_mod = now;
		l->kept = (struct lard_kept){
			.kept = true, .key = key, .set = t->set, .since_us = t->last_mod, .epoch = t->epoch,
			.lost = l->table.evictions != evictions, .lost_key = l->table.evicted,
		};
	}
	if (plan.scanned)
		l->cursor = (d->node + 1) % LARD_MAX_NODES;
	settle_credit(l, plan.ties, d->node);
	l->nodes[d->node].chosen++;
	charge(l, d->node);
	return d->node;
}

const struct lard_kept *lard_kept(const struct lard *l)
{
	return &l->kept;
}

int lard_explain(struct lard *l, uint64_t key, uint64_t now, struct lard_decision *d)
{
	struct plan plan;

	advance(l, now);
	decide(l, key, now, d, &plan);
	return d->node;
}

int lard_retry(struct lard *l, uint64_t key, uint64_t now, uint64_t tried,
	       struct lard_decision *d)
{
	advance(l, now);
	decide_retry(l, key, tried, d);
	l->reasons[d->why]++;
	if (d->node < 0)
		return -1;
	l->nodes[d->node].chosen++;
	charge(l, d->node);
	return d->node;
}

void lard_release(struct lard *l, int node)
{
	struct node *n = &l->nodes[node];

	assert(n->used && n->load);
	n->load--;
	if (l->eligible & NODE_BIT(node))
		l->outstanding--;
	mirror_load(l, node);
	if (n->gone)
		n->used = !is_free(l, node);
}

void lard_charge(struct lard *l, int node)
{
	assert(l->nodes[node].used);
	charge(l, node);
}

uint64_t lard_eligible(const struct lard *l)
{
	return l->eligible;
}

unsigned int lard_nodes(const struct lard *l)
{
	return l->count;
}

uint32_t lard_load(const struct lard *l, int node)
{
	return l->nodes[node].load + mirror_given(l, node);
}

uint32_t lard_outstanding(const struct lard *l)
{
	uint32_t all = l->outstanding;
	unsigned int i;

	for_each_node(i, l->eligible)
		all += mirror_given(l, i);
	return all;
}

uint32_t lard_outstanding_others(const struct lard *l)
{
	return l->others;
}

uint32_t lard_limit(const struct lard *l)
{
	return l->limit;
}

bool lard_has_room(struct lard *l)
{
	mirror_hear(l);
	return has_room(l);
}

uint64_t lard_assigned(const struct lard *l, uint64_t key)
{
	const struct target *t = target_find(&l->table, key);

	return t ? target_nodes(l, t) : 0;
}

void lard_set_others(struct lard *l, const uint32_t *loads, unsigned int fronts)
{
	unsigned int i;

	l->fronts = fronts;
	l->others = 0;
	for (i = 0; i < LARD_MAX_NODES; i++) {
		struct node *n = &l->nodes[i];

		n->others = loads[i] < LARD_OTHERS_MAX ? loads[i] : LARD_OTHERS_MAX;
		if (l->eligible & NODE_BIT(i))
			l->others += n->others;
	}
	mirror_all(l);
}

/* Decided here, and not forgotten since: it may be of nodes that get no requests for a while. */
static bool is_decided(const struct lard *l, const struct target *t)
{
	unsigned int i;

	for_each_node(i, t->learnt ? 0 : t->set)
		if (l->nodes[i].forgotten <= t->epoch)
			return true;
	return false;
}

bool lard_learn(struct lard *l, uint64_t key, uint64_t set, bool hearsay, uint64_t now)
{
	struct target *t = target_find(&l->table, key);
	uint64_t known = t ? target_nodes(l, t) : 0;

	set &= l->eligible;
	if (!set || known == set || (known && hearsay) || (t && is_decided(l, t)))
		return false;
	if (!t)
		t = target_learn(&l->table, key);
	if (!t)
		return false;
	target_mark(&l->table, t, true);
	t->set = set;
	t->epoch = l->epoch;
	t->last_mod = now;
	l->learned++;
	return true;
}

bool lard_walk(const struct lard *l, uint32_t *at, unsigned int *steps, bool learnt, uint64_t *key,
	       uint64_t *set)
{
	while (*steps && *at < l->table.used) {
		const struct target *t = &l->table.targets[(*at)++];

		(*steps)--;
		*key = t->key;
		*set = t->learnt == learnt ? target_nodes(l, t) : 0;
		if (*set)
			return true;
	}
	if (*at >= l->table.used)
		*at = 0;
	return false;
}

void lard_table_get(const struct lard *l, struct lard_table_info *info)
{
	info->used = l->table.used;
	info->capacity = l->table.capacity;
	info->evictions = l->table.evictions;
	info->learnt = l->table.learnt;
	info->learned = l->learned;
	info->adopted = l->table.adopted;
}

uint64_t lard_reason_count(const struct lard *l, enum lard_reason why)
{
	return l->reasons[why];
}
