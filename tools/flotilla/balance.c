// SPDX-License-Identifier: GPL-2.0
/* From loads and weights to moves. */
#include <stdlib.h>
#include "balance.h"

__extension__ typedef unsigned __int128 wide;

/* @load of all by weight, and what is lost by rounding it down. */
static uint64_t part(wide load, uint32_t weight, uint64_t weights, uint64_t *rest)
{
	*rest = load * weight % weights;
	return load * weight / weights;
}

/**
 * struct claim - of a node to one of the units that rounding has left
 */
struct claim {
	uint64_t rest;
	bool has;	/* it has more than its share already: nothing need move for it */
	uint32_t node;
};

static int by_claim(const void *a, const void *b)
{
	const struct claim *x = a, *y = b;

	if (x->has != y->has)
		return x->has ? -1 : 1;
	if (x->rest != y->rest)
		return x->rest > y->rest ? -1 : 1;
	return x->node < y->node ? -1 : x->node > y->node;
}

/* So many percent, in whole units; where there is none in it, the nearest ones. */
static void bound(struct balance_node *node, wide load, uint64_t weights, uint32_t within_percent)
{
	wide share = load * node->weight, whole = (wide)weights * 100;
	uint32_t less = within_percent < 100 ? 100 - within_percent : 0;
	uint64_t low = (share * less + whole - 1) / whole, high = share * (100 + within_percent) / whole;
	uint64_t below = share / weights, above = (share + weights - 1) / weights;

	node->low = low < below ? low : below;
	node->high = high > above ? high : above;
}

/* Without memory the units that are left go to the first ones: a little less fair. */
static void give_rest(struct balance_node *nodes, uint32_t nr, wide load, uint64_t weights, uint64_t left)
{
	struct claim *claims = calloc(nr, sizeof(*claims));
	uint64_t rest;
	uint32_t i;

	for (i = 0; claims && i < nr; i++) {
		part(load, nodes[i].weight, weights, &rest);
		claims[i] = (struct claim){ .rest = rest, .has = rest && nodes[i].load > nodes[i].share, .node = i };
	}
	if (claims)
		qsort(claims, nr, sizeof(*claims), by_claim);
	for (i = 0; i < nr && left; i++) {
		nodes[claims ? claims[i].node : i].share++;
		left--;
	}
	free(claims);
}

void balance_bounds(struct balance_node *nodes, uint32_t nr, uint32_t within_percent)
{
	uint64_t weights = 0, given = 0, load = 0, rest;
	uint32_t i;

	for (i = 0; i < nr; i++) {
		weights += nodes[i].weight;
		load += nodes[i].load;
	}
	for (i = 0; i < nr; i++) {
		nodes[i].after = nodes[i].load;
		nodes[i].share = part(load, nodes[i].weight, weights, &rest);
		given += nodes[i].share;
		bound(&nodes[i], load, weights, within_percent);
	}
	give_rest(nodes, nr, load, weights, load - given);
}

bool balance_is_near(const struct balance_node *node)
{
	return node->after >= node->low && node->after <= node->high;
}

bool balance_is_within(const struct balance_node *nodes, uint32_t nr)
{
	uint32_t i;

	for (i = 0; i < nr; i++)
		if (!balance_is_near(&nodes[i]))
			return false;
	return true;
}

/**
 * struct plan - balance_plan() under way
 * @order: indices of connections: those of a node together, the largest first
 * @first: of each node in @order, and one more
 * @spent: nodes that nothing can be taken from any more
 * @tried: pairs of which nothing fits: a row of @tried for who gives
 */
struct plan {
	const struct balance *b;
	size_t *order, *first;
	bool *spent, *tried;
	size_t moves;
};

static uint64_t excess(const struct balance_node *node)
{
	return node->after > node->share ? node->after - node->share : 0;
}

static uint64_t deficit(const struct balance_node *node)
{
	return node->after < node->share ? node->share - node->after : 0;
}

/* Is @a of more worth than @b, each by its node's weight? */
static bool is_worse(uint64_t a, const struct balance_node *of_a, uint64_t b, const struct balance_node *of_b)
{
	return (wide)a * of_b->weight > (wide)b * of_a->weight;
}

/* Who has too much, most of all; nr_nodes: nobody. */
static uint32_t find_giver(const struct plan *p)
{
	const struct balance_node *nodes = p->b->nodes;
	uint32_t i, best = p->b->nr_nodes;

	for (i = 0; i < p->b->nr_nodes; i++)
		if (nodes[i].gives && !p->spent[i] && excess(&nodes[i]) && nodes[i].after <= nodes[i].load &&
		    (best == p->b->nr_nodes || is_worse(excess(&nodes[i]), &nodes[i], excess(&nodes[best]), &nodes[best])))
			best = i;
	return best;
}

static bool fits_pair(const struct plan *p, uint32_t from, uint32_t to)
{
	const struct balance *b = p->b;

	return from != to && b->nodes[to].takes && deficit(&b->nodes[to]) && b->nodes[to].after >= b->nodes[to].load &&
	       !p->tried[(size_t)from * b->nr_nodes + to] &&
	       (!balance_is_near(&b->nodes[from]) || !balance_is_near(&b->nodes[to])) &&
	       (!b->may || b->may(b->arg, from, to));
}

/* Who has too little, most of all. */
static uint32_t find_taker(const struct plan *p, uint32_t from)
{
	const struct balance_node *nodes = p->b->nodes;
	uint32_t i, best = p->b->nr_nodes;

	for (i = 0; i < p->b->nr_nodes; i++)
		if (fits_pair(p, from, i) &&
		    (best == p->b->nr_nodes || is_worse(deficit(&nodes[i]), &nodes[i], deficit(&nodes[best]), &nodes[best])))
			best = i;
	return best;
}

static void move(struct plan *p, struct balance_conn *conn, uint32_t to)
{
	p->b->nodes[conn->node].after -= conn->load;
	p->b->nodes[to].after += conn->load;
	conn->to = to;
	p->moves++;
}

/* None gets past its share. */
static bool fits(const struct balance_node *from, const struct balance_node *to, uint64_t load)
{
	return load <= excess(from) && load <= deficit(to);
}

/* One does, but not past the bound, and the two are nearer then, together. */
static bool does_good(const struct balance_node *from, const struct balance_node *to, uint64_t load)
{
	uint64_t before = excess(from) + deficit(to);
	uint64_t e = load > excess(from) ? load - excess(from) : excess(from) - load;
	uint64_t d = load > deficit(to) ? load - deficit(to) : deficit(to) - load;

	return from->after >= from->low + load && to->after + load <= to->high && e + d < before;
}

static bool move_some(struct plan *p, uint32_t from, uint32_t to)
{
	const struct balance *b = p->b;
	const struct balance_node *giver = &b->nodes[from], *taker = &b->nodes[to];
	size_t begin = p->moves, i;

	for (i = p->first[from]; i < p->first[from + 1] && p->moves < b->max; i++) {
		struct balance_conn *conn = &b->conns[p->order[i]];

		if (!excess(giver) || !deficit(taker))
			break;
		if (conn->to == BALANCE_STAYS && conn->load && fits(giver, taker, conn->load))
			move(p, conn, to);
	}
	if (p->moves > begin)
		return true;
	for (i = p->first[from + 1]; i-- > p->first[from] && p->moves < b->max; ) {
		struct balance_conn *conn = &b->conns[p->order[i]];

		if (conn->to == BALANCE_STAYS && conn->load && does_good(giver, taker, conn->load)) {
			move(p, conn, to);
			return true;
		}
	}
	return false;
}

static int by_size(const void *a, const void *b, void *arg)
{
	const struct balance_conn *conns = arg;
	const struct balance_conn *x = &conns[*(const size_t *)a], *y = &conns[*(const size_t *)b];

	if (x->node != y->node)
		return x->node < y->node ? -1 : 1;
	if (x->load != y->load)
		return x->load > y->load ? -1 : 1;
	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	return x < y ? -1 : x > y;
}

static void sort(struct plan *p)
{
	const struct balance *b = p->b;
	size_t i;
	uint32_t node;

	for (i = 0; i < b->nr_conns; i++) {
		p->order[i] = i;
		b->conns[i].to = BALANCE_STAYS;
	}
	qsort_r(p->order, b->nr_conns, sizeof(*p->order), by_size, b->conns);
	for (node = 0, i = 0; node <= b->nr_nodes; node++) {
		while (i < b->nr_conns && b->conns[p->order[i]].node < node)
			i++;
		p->first[node] = i;
	}
}

/* Each turn moves something, or gives up a pair or a node: it ends. */
static void plan_all(struct plan *p)
{
	uint32_t from, to;

	while (p->moves < p->b->max && (from = find_giver(p)) < p->b->nr_nodes) {
		to = find_taker(p, from);
		if (to == p->b->nr_nodes)
			p->spent[from] = true;
		else if (!move_some(p, from, to))
			p->tried[(size_t)from * p->b->nr_nodes + to] = true;
	}
}

long balance_plan(const struct balance *b)
{
	struct plan p = { .b = b };
	long moves = -1;

	p.order = calloc(b->nr_conns + 1, sizeof(*p.order));
	p.first = calloc((size_t)b->nr_nodes + 1, sizeof(*p.first));
	p.spent = calloc((size_t)b->nr_nodes + 1, sizeof(*p.spent));
	p.tried = calloc((size_t)b->nr_nodes * b->nr_nodes + 1, sizeof(*p.tried));
	if (p.order && p.first && p.spent && p.tried) {
		sort(&p);
		plan_all(&p);
		moves = p.moves;
	}
	free(p.order);
	free(p.first);
	free(p.spent);
	free(p.tried);
	return moves;
}
