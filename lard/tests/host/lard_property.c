// SPDX-License-Identifier: GPL-2.0
/*
 * What must hold after any history: the load bounds of the paper's section 3.1.4, and that no
 * target is lost when nodes flap. Random histories; seeds are fixed: 1 to SEEDS.
 */
#include <string.h>
#include "lard/tests/lib/cluster.h"
#include "lard/tests/lib/draw.h"

#define SEEDS	40
#define STEPS	30000

struct loads {
	uint32_t least;
	int above;	/* nodes at T_high or more */
	uint32_t sum;
};

static struct loads look(const struct lard *l)
{
	const struct lard_params *p = lard_get_params(l);
	struct loads loads = { .least = UINT32_MAX };
	uint64_t set;

	for (set = lard_eligible(l); set; set &= set - 1) {
		uint32_t load = lard_load(l, __builtin_ctzll(set));

		loads.sum += load;
		loads.above += load >= p->t_high;
		if (load < loads.least)
			loads.least = load;
	}
	return loads;
}

/* A skewed draw: low keys are hot, so that nodes get out of balance. */
static uint64_t draw_key(void)
{
	return next(next(next(300) + 1) + 1);
}

/* Nodes of high numbers are faster. */
static void end_random_request(struct lard *l, int nodes)
{
	int node = next(nodes), other = next(nodes);

	if (other > node)
		node = other;
	if (lard_load(l, node))
		lard_release(l, node);
}

static void check_bounds(const struct lard *l, int nodes, const struct lard_decision *d,
			 uint32_t least_before)
{
	const struct lard_params *p = lard_get_params(l);
	struct loads loads = look(l);

	assert_int_equal(loads.sum, lard_outstanding(l));
	assert_true(loads.sum <= lard_limit(l));
	/* Some node is always below T_high. */
	assert_true(loads.least < p->t_high);
	if (nodes > 1 && loads.least >= p->t_low)
		assert_true(loads.above <= nodes - 2);
	/* No decision makes an imbalance of more than 2 T_high - T_low. */
	assert_true(lard_load(l, d->node) - least_before <= 2 * p->t_high - p->t_low);
	assert_true(lard_load(l, d->node) <= 2 * p->t_high);
	/* What is moved or copied gains at least T_high - T_low. */
	if (d->why == LARD_WHY_GROW_IDLE || d->why == LARD_WHY_GROW_CAP ||
	    (p->policy == LARD_BASIC &&
	     (d->why == LARD_WHY_MOVE_IDLE || d->why == LARD_WHY_MOVE_CAP)))
		assert_true(d->from_load - d->load >= p->t_high - p->t_low);
}

static void load_bounds_hold(enum lard_policy policy)
{
	uint64_t whys[LARD_REASONS] = { 0 };
	int seed, step;

	for (seed = 1; seed <= SEEDS; seed++) {
		int nodes = 1 + seed % 8;
		struct lard *l = cluster_new(policy, nodes, 256);
		uint64_t now = 0;

		rng = 0x9e3779b97f4a7c15ULL * seed;
		for (step = 0; step < STEPS; step++) {
			struct lard_decision d;
			uint32_t least = look(l).least;

			now += next(20000);
			if (next(100) < 48) {
				end_random_request(l, nodes);
				continue;
			}
			if (lard_dispatch(l, draw_key(), now, &d) >= 0) {
				check_bounds(l, nodes, &d, least);
			} else {
				assert_int_equal(d.why, LARD_WHY_FULL);
				assert_int_equal(look(l).sum, lard_limit(l));
			}
			whys[d.why]++;
		}
		lard_free(l);
	}
	/* The histories are worth something only if they reach the rules. */
	assert_true(whys[LARD_WHY_FULL] > 100 && whys[LARD_WHY_KEEP] > 100);
	assert_true(whys[LARD_WHY_KEEP_BUSY] > 100);
	assert_true(whys[LARD_WHY_MOVE_IDLE] + whys[LARD_WHY_GROW_IDLE] > 100);
	print_message("%s: %d seeds of %d steps\n", lard_policy_name(policy), SEEDS, STEPS);
}

static void lard_load_bounds_hold(void **state)
{
	(void)state;
	load_bounds_hold(LARD_BASIC);
}

static void replicated_load_bounds_hold(void **state)
{
	(void)state;
	load_bounds_hold(LARD_REPLICATED);
}

static void flap(struct lard *l, int nodes, uint64_t now)
{
	int node = next(nodes);

	switch (next(6)) {
	case 0:
		lard_node_state(l, node, LARD_DOWN, now);
		break;
	case 1:
	case 2:
		lard_node_state(l, node, LARD_UP, now);
		break;
	case 3:
		lard_node_admin(l, node, next(3), now);
		break;
	case 4:
		lard_node_admin(l, node, LARD_ACTIVE, now);
		break;
	default:
		lard_node_weight(l, node, next(4) * 100, now);
		break;
	}
}

static void check_served(const struct lard *l, int nodes, uint64_t key,
			 const struct lard_decision *d)
{
	enum lard_policy policy = lard_get_params(l)->policy;
	uint32_t sum = 0;
	int node;

	if (d->node >= 0)
		assert_true(lard_eligible(l) & (1ULL << d->node));
	else if (d->why == LARD_WHY_NO_NODE)
		assert_int_equal(lard_nodes(l), 0);
	else
		assert_true(lard_outstanding(l) >= lard_limit(l));

	assert_int_equal(lard_assigned(l, key) & ~lard_eligible(l), 0);
	if (d->node >= 0 && (policy == LARD_BASIC || policy == LARD_REPLICATED))
		assert_true(lard_assigned(l, key) & (1ULL << d->node));
	for (node = 0; node < nodes; node++)
		if (lard_eligible(l) & (1ULL << node))
			sum += lard_load(l, node);
	assert_int_equal(sum, lard_outstanding(l));
}

/* While any node can serve, every target is served, by one that can; loads always add up. */
static void no_target_is_lost_when_nodes_flap(void **state)
{
	enum lard_policy policy;
	int seed, step;

	(void)state;
	for (policy = 0; policy < LARD_POLICIES; policy++) {
		for (seed = 1; seed <= SEEDS; seed++) {
			int nodes = 2 + seed % 6;
			struct lard *l = cluster_new(policy, nodes, 64);
			uint64_t now = 0;

			rng = 0xd1342543de82ef95ULL * seed;
			for (step = 0; step < STEPS / 10; step++) {
				struct lard_decision d;
				uint64_t key = draw_key();

				now += next(2000000);
				if (!next(10))
					flap(l, nodes, now);
				if (next(2))
					end_random_request(l, nodes);
				lard_dispatch(l, key, now, &d);
				check_served(l, nodes, key, &d);
			}
			lard_free(l);
		}
	}
	print_message("%d policies, %d seeds of %d steps\n", LARD_POLICIES, SEEDS, STEPS / 10);
}

/* Nobody exceeds its share by more than the factor, whatever is asked for. */
static void bounded_loads_are_bounded(void **state)
{
	int seed, step;

	(void)state;
	for (seed = 1; seed <= SEEDS; seed++) {
		int nodes = 1 + seed % 9;
		struct lard *l = cluster_new(LARD_CHBL, nodes, 16);

		rng = 0xa0761d6478bd642fULL * seed;
		for (step = 0; step < STEPS / 4; step++) {
			struct lard_decision d;

			if (next(100) < 45) {
				end_random_request(l, nodes);
				continue;
			}
			if (lard_dispatch(l, next(5), 0, &d) < 0)
				continue;
			assert_true(lard_load(l, d.node) <=
				    (125 * lard_outstanding(l) + 100 * nodes - 1) / (100 * nodes));
		}
		lard_free(l);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lard_load_bounds_hold),
		cmocka_unit_test(replicated_load_bounds_hold),
		cmocka_unit_test(no_target_is_lost_when_nodes_flap),
		cmocka_unit_test(bounded_loads_are_bounded),
	};

	return cmocka_run_group_tests_name("lard_property", tests, NULL, NULL);
}
