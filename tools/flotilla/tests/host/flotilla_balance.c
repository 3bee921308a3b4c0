// SPDX-License-Identifier: GPL-2.0
/* What rebalance plans ends, takes nobody past the bound, and meets it when that can be. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "tools/flotilla/balance.h"

#define NODES	12
#define CONNS	3000
#define ROUNDS	4000
#define SEED	20261128

/**
 * struct world - nodes, their connections, and who may not give to whom
 */
struct world {
	struct balance_node nodes[NODES], was[NODES];
	struct balance_conn conns[CONNS];
	bool barred[NODES][NODES];
	struct balance b;
	uint32_t within;
	unsigned int round;
};

static bool may(const void *arg, uint32_t from, uint32_t to)
{
	const struct world *w = arg;

	return !w->barred[from][to];
}

static void begin(struct world *w, uint32_t nodes, uint32_t within)
{
	memset(w, 0, sizeof(*w));
	w->b = (struct balance){ .nodes = w->nodes, .nr_nodes = nodes, .conns = w->conns, .may = may, .arg = w,
				 .max = SIZE_MAX };
	w->within = within;
	while (nodes--)
		w->nodes[nodes] = (struct balance_node){ .weight = 100, .gives = true, .takes = true };
}

static void put(struct world *w, uint32_t node, size_t nr, uint32_t load)
{
	for (; nr--; w->b.nr_conns++) {
		w->conns[w->b.nr_conns] = (struct balance_conn){ .node = node, .load = load, .rank = rand() % 4 };
		w->nodes[node].load += load;
	}
}

static long plan(struct world *w)
{
	balance_bounds(w->nodes, w->b.nr_nodes, w->within);
	memcpy(w->was, w->nodes, sizeof(w->was));
	return balance_plan(&w->b);
}

/* What holds of every plan. */
static void check(const struct world *w, long moves)
{
	uint64_t load[NODES] = { 0 }, shares = 0, loads = 0;
	bool gave[NODES] = { false }, took[NODES] = { false };
	size_t i, seen = 0;

	for (i = 0; i < w->b.nr_nodes; i++)
		load[i] = w->nodes[i].load;
	for (i = 0; i < w->b.nr_conns; i++) {
		const struct balance_conn *conn = &w->conns[i];

		if (conn->to == BALANCE_STAYS)
			continue;
		seen++;
		if (conn->to >= w->b.nr_nodes || conn->to == conn->node || !conn->load)
			fail_msg("round %u: connection %zu of %u goes to %u", w->round, i, conn->node, conn->to);
		if (w->barred[conn->node][conn->to] || !w->nodes[conn->node].gives || !w->nodes[conn->to].takes)
			fail_msg("round %u: %u may not give to %u", w->round, conn->node, conn->to);
		gave[conn->node] = took[conn->to] = true;
		load[conn->node] -= conn->load;
		load[conn->to] += conn->load;
	}
	assert_int_equal(seen, moves);
	assert_true(seen <= w->b.max);
	for (i = 0; i < w->b.nr_nodes; i++) {
		const struct balance_node *n = &w->nodes[i];

		shares += n->share;
		loads += n->load;
		if (n->share < n->low || n->share > n->high)
			fail_msg("round %u: a share of %lu is not in %lu to %lu", w->round, n->share, n->low, n->high);
		if (load[i] != n->after)
			fail_msg("round %u: node %zu would have %lu, not %lu", w->round, i, load[i], n->after);
		if (gave[i] && took[i])
			fail_msg("round %u: node %zu gives and takes", w->round, i);
		if (gave[i] && n->load <= n->share)
			fail_msg("round %u: node %zu has %lu of %lu and gives", w->round, i, n->load, n->share);
		if (took[i] && n->load >= n->share)
			fail_msg("round %u: node %zu has %lu of %lu and takes", w->round, i, n->load, n->share);
		if ((gave[i] && n->after < n->low) || (took[i] && n->after > n->high))
			fail_msg("round %u: node %zu had %lu, would have %lu of %lu to %lu", w->round, i, n->load, n->after,
				 n->low, n->high);
		if (balance_is_near(&w->was[i]) && !balance_is_near(n))
			fail_msg("round %u: node %zu leaves the bound", w->round, i);
	}
	assert_true(shares == loads);
}

/* The distance of all from their shares; each plan makes it less. */
static uint64_t distance(const struct balance_node *nodes, uint32_t nr)
{
	uint64_t sum = 0;

	for (; nr--; nodes++)
		sum += nodes->after > nodes->share ? nodes->after - nodes->share : nodes->share - nodes->after;
	return sum;
}

/* As if all of it had been done: how many more plans there are until nothing is left to plan. */
static unsigned int plans_until_over(struct world *w, long moves)
{
	unsigned int plans = 0;
	uint64_t before;
	uint32_t n;
	size_t i;

	for (; moves; plans++) {
		for (i = 0; i < w->b.nr_conns; i++)
			if (w->conns[i].to != BALANCE_STAYS)
				w->conns[i].node = w->conns[i].to;
		for (n = 0; n < w->b.nr_nodes; n++)
			w->nodes[n].load = w->nodes[n].after;
		moves = plan(w);
		check(w, moves);
		before = distance(w->was, w->b.nr_nodes);
		if (moves && distance(w->nodes, w->b.nr_nodes) >= before)
			fail_msg("round %u: it is no nearer", w->round);
		assert_true(plans < 3);
	}
	return plans;
}

static void connections_of_random_nodes_are_within_the_bound_after(void **state)
{
	static struct world w;
	unsigned int round;
	uint32_t i;
	long moves;

	(void)state;
	srand(SEED);
	for (round = 0; round < ROUNDS; round++) {
		begin(&w, 1 + rand() % NODES, rand() % 4 ? rand() % 40 : 0);
		w.round = round;
		for (i = 0; i < w.b.nr_nodes; i++) {
			if (round % 3)
				w.nodes[i].weight = 1 + rand() % (rand() % 5 ? 100 : 65535);
			put(&w, i, rand() % 3 ? rand() % (rand() % 2 ? 10 : CONNS / NODES) : 0, 1);
		}
		moves = plan(&w);
		check(&w, moves);
		if (!balance_is_within(w.nodes, w.b.nr_nodes))
			fail_msg("round %u: it could be within %u%%", round, w.within);
		if (balance_is_within(w.was, w.b.nr_nodes) && moves)
			fail_msg("round %u: it was near enough, and %ld move", round, moves);
		assert_int_equal(plans_until_over(&w, moves), moves ? 1 : 0);
	}
}

static void loads_of_random_connections_come_nearer(void **state)
{
	static struct world w;
	unsigned int round, worlds = 0, met = 0;
	uint32_t i;
	size_t n;
	long moves;

	(void)state;
	srand(SEED);
	for (round = 0; round < ROUNDS; round++) {
		begin(&w, 2 + rand() % (NODES - 1), rand() % 40);
		w.round = round;
		for (i = 0; i < w.b.nr_nodes; i++) {
			w.nodes[i].weight = 1 + rand() % 100;
			for (n = rand() % 30; n--; )
				put(&w, i, 1, rand() % 5 ? rand() % 50 : rand() % 100000);
		}
		moves = plan(&w);
		check(&w, moves);
		worlds++;
		met += balance_is_within(w.nodes, w.b.nr_nodes);
		plans_until_over(&w, moves);
	}
	print_message("# of %u worlds %u are within the bound\n", worlds, met);
	assert_true(met > 0 && met < worlds);
}

static void who_may_not_is_left_alone(void **state)
{
	static struct world w;
	unsigned int round;
	uint32_t i, j;
	long moves;

	(void)state;
	srand(SEED);
	for (round = 0; round < ROUNDS; round++) {
		begin(&w, 2 + rand() % (NODES - 1), rand() % 20);
		w.round = round;
		for (i = 0; i < w.b.nr_nodes; i++) {
			put(&w, i, rand() % 40, 1);
			w.nodes[i].load += rand() % 2 ? rand() % 20 : 0;	/* that cannot move */
			w.nodes[i].gives = rand() % 4;
			w.nodes[i].takes = rand() % 4;
			for (j = 0; j < w.b.nr_nodes; j++)
				w.barred[i][j] = !(rand() % 4);
		}
		if (rand() % 2)
			w.b.max = rand() % 30;
		moves = plan(&w);
		check(&w, moves);
	}
}

static void the_fair_share_is_by_weight(void **state)
{
	static struct world w;

	(void)state;
	begin(&w, 3, 10);
	w.nodes[2].weight = 200;
	put(&w, 0, 80, 1);
	assert_int_equal(plan(&w), 60);
	assert_int_equal(w.nodes[0].after, 20);
	assert_int_equal(w.nodes[1].after, 20);
	assert_int_equal(w.nodes[2].after, 40);
	assert_int_equal(w.nodes[2].low, 36);
	assert_int_equal(w.nodes[2].high, 44);
}

static void a_bound_has_whole_numbers_and_can_be_met(void **state)
{
	static const struct {
		uint32_t within, load[3], low, high;
	} cases[] = {
		{ 10, { 60, 0, 0 }, 18, 22 }, { 10, { 3, 0, 0 }, 1, 1 }, { 10, { 2, 0, 0 }, 0, 1 }, { 0, { 4, 0, 0 }, 1, 2 },
		{ 10, { 1, 1, 1 }, 1, 1 }, { 100, { 9, 9, 9 }, 0, 18 }, { 10, { 0, 0, 0 }, 0, 0 }, { 49, { 6, 0, 0 }, 2, 2 },
		{ 50, { 6, 0, 0 }, 1, 3 },
	};
	static struct world w;
	size_t i, n;

	(void)state;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		begin(&w, 3, cases[i].within);
		for (n = 0; n < 3; n++)
			put(&w, n, cases[i].load[n], 1);
		plan(&w);
		if (w.nodes[1].low != cases[i].low || w.nodes[1].high != cases[i].high)
			fail_msg("case %zu: %lu to %lu", i, w.nodes[1].low, w.nodes[1].high);
		assert_true(balance_is_within(w.nodes, 3));
	}
}

static void no_more_move_than_have_to(void **state)
{
	static struct world w;

	(void)state;
	begin(&w, 3, 10);
	put(&w, 0, 22, 1);
	put(&w, 1, 20, 1);
	put(&w, 2, 18, 1);
	assert_int_equal(plan(&w), 0);
	/* One is outside now, and gives to who has the least, no more than that may have; and then it is near enough. */
	put(&w, 0, 3, 1);
	assert_int_equal(plan(&w), 3);
	check(&w, 3);
	assert_int_equal(w.nodes[0].after, 22);
	assert_int_equal(w.nodes[1].after, 20);
	/* What is left over by rounding is for who has it already. */
	begin(&w, 3, 0);
	put(&w, 0, 2, 1);
	put(&w, 1, 3, 1);
	put(&w, 2, 5, 1);
	assert_int_equal(plan(&w), 1);
}

static void what_cannot_be_met_is_approached(void **state)
{
	static struct world w;

	(void)state;
	/* One connection is more than a share: it stays. */
	begin(&w, 2, 10);
	put(&w, 0, 1, 1000);
	put(&w, 1, 1, 1);
	assert_int_equal(plan(&w), 0);
	/* No one fits, but one does good. */
	begin(&w, 2, 10);
	put(&w, 0, 3, 100);
	put(&w, 1, 1, 130);
	assert_int_equal(plan(&w), 1);
	check(&w, 1);
	assert_true(balance_is_within(w.nodes, 2));
}

static void the_largest_numbers_are_no_others(void **state)
{
	static struct world w;
	uint32_t i;

	(void)state;
	begin(&w, NODES, 100);
	for (i = 0; i < NODES; i++)
		w.nodes[i].weight = 65535;
	put(&w, 0, CONNS, UINT32_MAX);
	check(&w, plan(&w));
	w.within = 10;
	check(&w, plan(&w));
	assert_true(balance_is_within(w.nodes, NODES));
	begin(&w, 1, 10);
	put(&w, 0, 5, 1);
	assert_int_equal(plan(&w), 0);
	begin(&w, 0, 10);
	assert_int_equal(plan(&w), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(connections_of_random_nodes_are_within_the_bound_after),
		cmocka_unit_test(loads_of_random_connections_come_nearer),
		cmocka_unit_test(who_may_not_is_left_alone),
		cmocka_unit_test(the_fair_share_is_by_weight),
		cmocka_unit_test(a_bound_has_whole_numbers_and_can_be_met),
		cmocka_unit_test(no_more_move_than_have_to),
		cmocka_unit_test(what_cannot_be_met_is_approached),
		cmocka_unit_test(the_largest_numbers_are_no_others),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
