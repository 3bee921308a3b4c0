// SPDX-License-Identifier: GPL-2.0
/* What other front-ends say of targets and loads, and what it may not do to what was decided here. */
#include <string.h>
#include "lard/engine.h"
#include "lard/tests/lib/cluster.h"
#include "lard/tests/lib/draw.h"

#define SEEDS	20
#define STEPS	4000
#define NODES	8
#define TARGETS	32

static void what_is_decided_here_outlives_a_drain(void **state)
{
	struct lard *l = cluster_new(LARD_BASIC, 3, 16);
	struct lard_decision d;
	int home;

	(void)state;
	home = cluster_ask(l, 1, 0, &d);
	lard_node_admin(l, home, LARD_DRAIN, 0);
	assert_int_equal(lard_assigned(l, 1), 0);
	assert_false(lard_learn(l, 1, 7, false, 0));
	assert_false(lard_learn(l, 1, 7, true, 0));
	lard_node_admin(l, home, LARD_ACTIVE, 0);
	assert_int_equal(lard_assigned(l, 1), NODE_BIT(home));
	/* A death is another thing: its memory is empty. */
	lard_node_state(l, home, LARD_DOWN, 0);
	assert_true(lard_learn(l, 1, 7, true, 0));
	assert_int_equal(lard_assigned(l, 1), 7 & ~NODE_BIT(home));
	lard_free(l);
}

static void what_is_learnt_of_a_node_goes_with_it(void **state)
{
	struct lard *l = cluster_new(LARD_BASIC, 3, 16);

	(void)state;
	lard_node_admin(l, 0, LARD_DRAIN, 0);
	lard_node_state(l, 1, LARD_DOWN, 0);
	assert_false(lard_learn(l, 1, 3, false, 0));
	assert_true(lard_learn(l, 1, ~0ULL, false, 0));
	assert_int_equal(lard_assigned(l, 1), 4);
	lard_node_state(l, 1, LARD_UP, 0);
	assert_int_equal(lard_assigned(l, 1), 4);
	lard_node_del(l, 2, 0);
	assert_int_equal(lard_node_add(l, "other", 100, 0), 2);
	lard_node_state(l, 2, LARD_UP, 0);
	assert_int_equal(lard_assigned(l, 1), 0);
	lard_free(l);
}

static void something_happens(struct lard *l, uint64_t now)
{
	int node = next(NODES);
	uint32_t loads[LARD_MAX_NODES];
	struct lard_decision d;
	char name[16];
	int i;

	switch (next(12)) {
	case 0:
		lard_node_state(l, node, next(4) ? LARD_UP : LARD_DOWN, now);
		break;
	case 1:
		lard_node_admin(l, node, next(3) ? LARD_ACTIVE : 1 + next(2), now);
		break;
	case 2:
		if (!next(8) && !lard_load(l, node)) {
			lard_node_del(l, node, now);
			snprintf(name, sizeof(name), "n%u", (unsigned int)next(1 << 30));
			assert_int_equal(lard_node_add(l, name, 1 + next(200), now), node);
			lard_node_state(l, node, LARD_UP, now);
		}
		break;
	case 3:
		for (i = 0; i < LARD_MAX_NODES; i++)
			loads[i] = next(3) ? next(100) : UINT32_MAX;
		lard_set_others(l, loads, next(8));
		break;
	case 4:
	case 5:
		if (lard_dispatch(l, next(3 * TARGETS), now, &d) >= 0 && next(4))
			lard_release(l, d.node);
		break;
	case 6:
		if (lard_load(l, node))
			lard_release(l, node);
		break;
	default:
		break;
	}
}

static uint32_t decided(const struct lard *l)
{
	return l->table.used - l->table.learnt;
}

static void somebody_says_something(struct lard *l, uint64_t now)
{
	uint64_t key = next(3 * TARGETS), set = next(2) ? ~0ULL : next(1 << NODES), was = lard_assigned(l, key);
	const struct target *t = target_find(&l->table, key);
	bool own = t && !t->learnt && was;
	uint32_t before = decided(l);

	lard_learn(l, key, set, next(2), now);
	if (own)
		assert_int_equal(lard_assigned(l, key), was);
	/* Only one whose nodes have all died becomes another's word. */
	assert_true(decided(l) == before || (decided(l) == before - 1 && t && !was));
}

static void all_is_counted(const struct lard *l)
{
	const struct target_table *table = &l->table;
	uint32_t at, learnt = 0, seen = 0, others = 0;
	unsigned int i;

	for (at = table->newest; at != TARGET_NONE; at = table->targets[at].older, seen++) {
		learnt += table->targets[at].learnt;
		assert_ptr_equal(target_find(table, table->targets[at].key), &table->targets[at]);
	}
	assert_int_equal(seen, table->used);
	assert_int_equal(learnt, table->learnt);
	for_each_node(i, l->eligible)
		others += l->nodes[i].others;
	assert_int_equal(others, l->others);
}

static void counts_are_right_after_any_history(void **state)
{
	uint64_t seed, step;

	(void)state;
	for (seed = 1; seed <= SEEDS; seed++) {
		struct lard *l = cluster_new(seed % 2 ? LARD_BASIC : LARD_REPLICATED, NODES, TARGETS);

		rng = seed * 0x9e3779b97f4a7c15ULL;
		for (step = 0; step < STEPS; step++) {
			something_happens(l, step * SECOND);
			somebody_says_something(l, step * SECOND);
			all_is_counted(l);
		}
		lard_free(l);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_decided_here_outlives_a_drain),
		cmocka_unit_test(what_is_learnt_of_a_node_goes_with_it),
		cmocka_unit_test(counts_are_right_after_any_history),
	};

	return cmocka_run_group_tests_name("lard_learn", tests, NULL, NULL);
}
