// SPDX-License-Identifier: GPL-2.0
/* Each policy at its boundary values. */
#include <errno.h>
#include <string.h>
#include "lard/tests/lib/cluster.h"

static void wrr_spreads_evenly_and_ignores_content(void **state)
{
	struct lard *l = cluster_new(LARD_WRR, 3, 16);
	struct lard_decision d;
	int i;

	(void)state;
	for (i = 0; i < 24; i++)
		assert_int_equal(cluster_ask(l, 7, 0, &d), i % 3);
	for (i = 0; i < 24; i++) {
		assert_true(lard_dispatch(l, 7, 0, &d) >= 0);
		assert_int_equal(lard_load(l, d.node), i / 3 + 1);
	}
	cluster_load(l, 1, 2);
	assert_int_equal(lard_dispatch(l, 7, 0, &d), 1);
	assert_int_equal(d.why, LARD_WHY_FEWEST);
	lard_free(l);
}

static void wrr_follows_weights_even_when_idle(void **state)
{
	struct lard *l = cluster_new(LARD_WRR, 2, 16);
	struct lard_decision d;
	int i, got[2] = { 0 };

	(void)state;
	lard_node_weight(l, 0, 300, 0);
	for (i = 0; i < 40; i++)
		got[cluster_ask(l, i, 0, &d)]++;
	assert_int_equal(got[0], 30);
	assert_int_equal(got[1], 10);
	lard_free(l);
}

static void lc_gives_ties_to_the_first(void **state)
{
	struct lard *l = cluster_new(LARD_LC, 3, 16);
	struct lard_decision d;

	(void)state;
	assert_int_equal(cluster_ask(l, 1, 0, &d), 0);
	assert_int_equal(cluster_ask(l, 2, 0, &d), 0);
	cluster_load(l, 0, 1);
	assert_int_equal(cluster_ask(l, 3, 0, &d), 1);
	lard_free(l);
}

static void lb_keeps_a_target_on_its_node_even_if_overloaded(void **state)
{
	struct lard *l = cluster_new(LARD_LB, 3, 16);
	struct lard_decision d;
	uint64_t key;

	(void)state;
	for (key = 0; key < 30; key++)
		assert_int_equal(cluster_ask(l, key, 0, &d), key % 3);
	cluster_load(l, 1, 150);
	assert_int_equal(cluster_ask(l, 1, 0, &d), 1);
	assert_int_equal(d.why, LARD_WHY_HASH);
	lard_free(l);
}

static void chbl_spills_above_the_bound_and_comes_back(void **state)
{
	struct lard *l = cluster_new(LARD_CHBL, 4, 16);
	struct lard_decision d;
	int home;

	(void)state;
	home = cluster_ask(l, 12345, 0, &d);
	assert_int_equal(d.why, LARD_WHY_RING);
	/* 8 requests and this one: each node may hold ceil(1.25 * 9 / 4) = 3. */
	cluster_load(l, (home + 1) % 4, 3);
	cluster_load(l, (home + 2) % 4, 3);
	cluster_load(l, home, 2);
	assert_int_equal(cluster_ask(l, 12345, 0, &d), home);
	cluster_load(l, (home + 1) % 4, 2);
	cluster_load(l, home, 3);
	assert_int_not_equal(cluster_ask(l, 12345, 0, &d), home);
	assert_int_equal(d.why, LARD_WHY_RING_SPILL);
	assert_int_equal(d.from, home);
	cluster_load(l, home, 0);
	assert_int_equal(cluster_ask(l, 12345, 0, &d), home);
	lard_free(l);
}

/* In 64 bits the bound of each would be 3 here. */
static void chbl_bound_holds_for_large_numbers(void **state)
{
	struct lard *l = cluster_new(LARD_CHBL, LARD_MAX_NODES, 16);
	struct lard_params params = *lard_get_params(l);
	uint32_t others[LARD_MAX_NODES];
	struct lard_decision d;
	uint64_t key;
	int i;

	(void)state;
	params.bound_percent = 10000;
	lard_set_params(l, &params, 0);
	for (i = 0; i < LARD_MAX_NODES; i++) {
		lard_node_weight(l, i, 65535, 0);
		others[i] = i < 63 ? 446792 + (i < 32) : 0;
	}
	lard_set_others(l, others, 1);
	for (key = 1; key <= 100; key++) {
		cluster_ask(l, key * 12345, 0, &d);
		assert_int_equal(d.why, LARD_WHY_RING);
	}
	lard_free(l);
}

static void chbl_moves_only_the_targets_of_a_node_that_leaves(void **state)
{
	struct lard *l = cluster_new(LARD_CHBL, 8, 16);
	static int before[4000];
	struct lard_decision d;
	int i, moved = 0;

	(void)state;
	for (i = 0; i < 4000; i++)
		before[i] = cluster_ask(l, i * 0x9e3779b97f4a7c15ULL, 0, &d);
	lard_node_state(l, 3, LARD_DOWN, 0);
	for (i = 0; i < 4000; i++)
		if (before[i] != 3)
			moved += cluster_ask(l, i * 0x9e3779b97f4a7c15ULL, 0, &d) != before[i];
	assert_int_equal(moved, 0);
	lard_free(l);
}

static void lard_assigns_first_to_the_least_loaded(void **state)
{
	struct lard *l = cluster_new(LARD_BASIC, 3, 16);
	struct lard_decision d;

	(void)state;
	cluster_load(l, 0, 5);
	cluster_load(l, 1, 4);
	cluster_load(l, 2, 3);
	assert_int_equal(lard_dispatch(l, 1, 0, &d), 2);
	assert_int_equal(d.why, LARD_WHY_FIRST);
	assert_int_equal(lard_assigned(l, 1), 1 << 2);
	assert_int_equal(lard_load(l, 2), 4);
	lard_free(l);
}

/* Loads of node 0 (holds the target), 1 and 2; does the target move, and why? */
static void lard_moves_exactly_at_the_limits(void **state)
{
	static const struct {
		uint32_t load[3];
		int node;
		enum lard_reason why;
	} cases[] = {
		{ { 65, 24, 30 }, 0, LARD_WHY_KEEP },		/* not above T_high */
		{ { 66, 24, 30 }, 1, LARD_WHY_MOVE_IDLE },	/* above, and one below T_low */
		{ { 66, 25, 30 }, 0, LARD_WHY_KEEP_BUSY },	/* above, none below */
		{ { 66, 30, 0 }, 2, LARD_WHY_MOVE_IDLE },
		{ { 129, 25, 25 }, 0, LARD_WHY_KEEP_BUSY },
		{ { 130, 26, 25 }, 2, LARD_WHY_MOVE_CAP },	/* 2 T_high: whatever the others do */
		{ { 131, 25, 26 }, 1, LARD_WHY_MOVE_CAP },
		{ { 24, 0, 0 }, 0, LARD_WHY_KEEP },
	};
	struct lard_params params;
	unsigned int i;

	(void)state;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct lard *l = cluster_new(LARD_BASIC, 3, 16);
		struct lard_decision d;
		int node;

		params = *lard_get_params(l);
		params.max_outstanding = 1000;	/* lets a node reach 2 T_high in so small a cluster */
		assert_int_equal(lard_set_params(l, &params, 0), 0);
		assert_int_equal(cluster_ask(l, 9, 0, &d), 0);
		for (node = 0; node < 3; node++)
			cluster_load(l, node, cases[i].load[node]);
		if (cluster_ask(l, 9, 0, &d) != cases[i].node || d.why != cases[i].why)
			fail_msg("case %u: node %d because %s", i, d.node, lard_reason_name(d.why));
		assert_int_equal(lard_assigned(l, 9), 1ULL << cases[i].node);
		lard_free(l);
	}
}

static void limit_follows_the_number_of_nodes(void **state)
{
	static const uint32_t expected[] = { 0, 24, 89, 154, 219, 284, 349, 414, 479 };
	struct lard *l = cluster_new(LARD_BASIC, 8, 16);
	int n;

	(void)state;
	for (n = 8; n > 0; n--) {
		assert_int_equal(lard_limit(l), expected[n]);
		lard_node_state(l, n - 1, LARD_DOWN, 0);
	}
	assert_int_equal(lard_limit(l), 0);
	assert_int_equal(lard_auto_limit(16, 25, 65), 999);
	lard_node_state(l, 5, LARD_UP, 0);
	lard_node_state(l, 6, LARD_UP, 0);
	assert_int_equal(lard_limit(l), 89);
	lard_node_admin(l, 6, LARD_DRAIN, 0);
	assert_int_equal(lard_limit(l), 24);
	lard_free(l);
}

static void no_policy_exceeds_the_limit(void **state)
{
	enum lard_policy policy;

	(void)state;
	for (policy = 0; policy < LARD_POLICIES; policy++) {
		struct lard *l = cluster_new(policy, 2, 16);
		struct lard_decision d;
		int i;

		for (i = 0; i < 89; i++)
			assert_true(lard_dispatch(l, i, 0, &d) >= 0);
		assert_false(lard_has_room(l));
		assert_int_equal(lard_dispatch(l, 1000, 0, &d), -1);
		assert_int_equal(d.why, LARD_WHY_FULL);
		assert_int_equal(lard_assigned(l, 1000), 0);
		lard_release(l, 0);
		assert_true(lard_dispatch(l, 1000, 0, &d) >= 0);
		lard_free(l);
	}
}

static void no_node_is_an_answer(void **state)
{
	struct lard *l = cluster_new(LARD_REPLICATED, 1, 16);
	struct lard_decision d;

	(void)state;
	lard_node_weight(l, 0, 0, 0);
	assert_int_equal(lard_dispatch(l, 1, 0, &d), -1);
	assert_int_equal(d.why, LARD_WHY_NO_NODE);
	lard_free(l);
}

/* A cluster of 4 with target 5 on node 0, assigned at time 0. */
static struct lard *replicated(void)
{
	struct lard *l = cluster_new(LARD_REPLICATED, 4, 16);
	struct lard_decision d;

	assert_int_equal(cluster_ask(l, 5, 0, &d), 0);
	return l;
}

static void replicated_serves_from_the_least_loaded_member(void **state)
{
	struct lard *l = replicated();
	struct lard_decision d;

	(void)state;
	cluster_load(l, 0, 66);
	assert_int_equal(cluster_ask(l, 5, SECOND, &d), 1);
	assert_int_equal(lard_assigned(l, 5), 0x3);
	cluster_load(l, 0, 3);
	cluster_load(l, 1, 4);
	assert_int_equal(cluster_ask(l, 5, SECOND, &d), 0);
	cluster_load(l, 0, 5);
	assert_int_equal(cluster_ask(l, 5, SECOND, &d), 1);
	assert_int_equal(d.why, LARD_WHY_KEEP);
	lard_free(l);
}

static void replicated_grows_when_changed_within_k(void **state)
{
	struct lard *l = replicated();
	struct lard_decision d;

	(void)state;
	cluster_load(l, 0, 66);
	cluster_load(l, 1, 25);
	cluster_load(l, 2, 24);
	cluster_load(l, 3, 25);
	/* Exactly K is not yet longer than K. */
	assert_int_equal(cluster_ask(l, 5, 20 * SECOND, &d), 2);
	assert_int_equal(d.why, LARD_WHY_GROW_IDLE);
	assert_int_equal(lard_assigned(l, 5), 0x5);
	lard_free(l);
}

static void replicated_migrates_when_stable_for_longer_than_k(void **state)
{
	struct lard *l = replicated();
	struct lard_decision d;

	(void)state;
	cluster_load(l, 0, 66);
	assert_int_equal(cluster_ask(l, 5, 20 * SECOND + 1, &d), 1);
	assert_int_equal(d.why, LARD_WHY_MOVE_IDLE);
	assert_int_equal(d.from, 0);
	assert_int_equal(lard_assigned(l, 5), 0x2);
	lard_free(l);
}

static void replicated_does_not_grow_between_the_limits(void **state)
{
	struct lard *l = replicated();
	struct lard_decision d;
	int i;

	(void)state;
	cluster_load(l, 0, 66);
	for (i = 1; i < 4; i++)
		cluster_load(l, i, 25);
	assert_int_equal(cluster_ask(l, 5, SECOND, &d), 0);
	assert_int_equal(d.why, LARD_WHY_KEEP_BUSY);
	cluster_load(l, 0, 129);
	assert_int_equal(cluster_ask(l, 5, SECOND, &d), 0);
	cluster_load(l, 0, 130);
	assert_int_not_equal(cluster_ask(l, 5, SECOND, &d), 0);
	assert_int_equal(d.why, LARD_WHY_GROW_CAP);
	lard_free(l);
}

static void replicated_set_shrinks_by_one_per_k(void **state)
{
	struct lard *l = replicated();
	struct lard_decision d;

	(void)state;
	cluster_load(l, 0, 66);
	cluster_ask(l, 5, 1 * SECOND, &d);
	cluster_load(l, 1, 66);
	assert_int_equal(cluster_ask(l, 5, 2 * SECOND, &d), 2);
	assert_int_equal(lard_assigned(l, 5), 0x7);
	cluster_load(l, 0, 2);
	cluster_load(l, 1, 3);
	cluster_load(l, 2, 1);

	cluster_ask(l, 5, 22 * SECOND, &d);
	assert_int_equal(lard_assigned(l, 5), 0x7);
	assert_int_equal(cluster_ask(l, 5, 22 * SECOND + 1, &d), 2);
	assert_int_equal(d.why, LARD_WHY_SHRINK);
	assert_int_equal(d.from, 1);			/* the most loaded left */
	assert_int_equal(lard_assigned(l, 5), 0x5);
	cluster_ask(l, 5, 42 * SECOND + 1, &d);
	assert_int_equal(lard_assigned(l, 5), 0x5);
	cluster_ask(l, 5, 42 * SECOND + 2, &d);
	assert_int_equal(lard_assigned(l, 5), 0x4);
	cluster_ask(l, 5, 99 * SECOND, &d);
	assert_int_equal(lard_assigned(l, 5), 0x4);	/* the last one stays */
	lard_free(l);
}

static void k_is_tunable(void **state)
{
	struct lard *l = replicated();
	struct lard_params params = *lard_get_params(l);
	struct lard_decision d;

	(void)state;
	assert_int_equal(params.replication_us, 20 * SECOND);
	params.replication_us = 5 * SECOND;
	assert_int_equal(lard_set_params(l, &params, 0), 0);
	cluster_load(l, 0, 66);
	cluster_ask(l, 5, 5 * SECOND + 1, &d);
	assert_int_equal(d.why, LARD_WHY_MOVE_IDLE);
	lard_free(l);
}

static void bad_parameters_change_nothing(void **state)
{
	struct lard *l = cluster_new(LARD_BASIC, 2, 16);
	struct lard_params bad[5];
	enum lard_policy policy;
	const char *why;
	unsigned int i;

	(void)state;
	for (i = 0; i < 5; i++)
		bad[i] = *lard_get_params(l);
	bad[0].t_high = 25;			/* must exceed t_low */
	bad[1].t_low = 65;
	bad[2].t_low = 0;
	bad[3].policy = LARD_POLICIES;
	bad[4].bound_percent = 99;
	for (i = 0; i < 5; i++) {
		assert_int_equal(lard_check_params(&bad[i], &why), -EINVAL);
		assert_non_null(why);
		assert_int_equal(lard_set_params(l, &bad[i], 0), -EINVAL);
	}
	assert_int_equal(lard_get_params(l)->t_low, 25);
	assert_int_equal(lard_get_params(l)->t_high, 65);
	assert_int_equal(lard_policy_parse("lard/r", &policy), 0);
	assert_int_equal(policy, LARD_REPLICATED);
	assert_int_equal(lard_policy_parse("LARD", &policy), -EINVAL);
	assert_int_equal(lard_policy_parse("", &policy), -EINVAL);
	lard_free(l);
}

static void t_high_follows_from_delay_and_service_time(void **state)
{
	(void)state;
	assert_int_equal(lard_t_high(25, 105), 65);
	assert_int_equal(lard_t_high(25, 107.9), 66);
}

static void dead_node_is_forgotten_and_stays_so_when_back(void **state)
{
	struct lard *l = cluster_new(LARD_BASIC, 3, 16);
	struct lard_decision d;

	(void)state;
	assert_int_equal(cluster_ask(l, 1, 0, &d), 0);
	assert_int_equal(cluster_ask(l, 2, 0, &d), 1);
	lard_node_state(l, 0, LARD_DOWN, 0);
	lard_node_state(l, 0, LARD_UP, 0);
	assert_int_equal(lard_assigned(l, 1), 0);
	assert_int_equal(lard_assigned(l, 2), 0x2);
	cluster_load(l, 0, 1);
	assert_int_not_equal(cluster_ask(l, 1, 0, &d), 0);
	assert_int_equal(d.why, LARD_WHY_FIRST);
	lard_free(l);
}

static void dead_member_leaves_the_set(void **state)
{
	struct lard *l = replicated();
	struct lard_decision d;

	(void)state;
	cluster_load(l, 0, 66);
	cluster_ask(l, 5, SECOND, &d);
	assert_int_equal(lard_assigned(l, 5), 0x3);
	cluster_load(l, 0, 0);
	lard_node_state(l, 0, LARD_DOWN, SECOND);
	assert_int_equal(cluster_ask(l, 5, SECOND, &d), 1);
	assert_int_equal(d.why, LARD_WHY_KEEP);
	lard_node_state(l, 0, LARD_UP, SECOND);
	assert_int_equal(lard_assigned(l, 5), 0x2);
	lard_free(l);
}

static void drained_node_keeps_what_nobody_asks_for(void **state)
{
	struct lard *l = cluster_new(LARD_REPLICATED, 2, 16);
	struct lard_decision d;

	(void)state;
	assert_int_equal(cluster_ask(l, 1, 0, &d), 0);
	assert_int_equal(cluster_ask(l, 2, 0, &d), 1);
	assert_int_equal(cluster_ask(l, 3, 0, &d), 0);
	lard_node_admin(l, 0, LARD_DRAIN, 0);
	assert_int_equal(cluster_ask(l, 1, 0, &d), 1);	/* asked for: moves */
	lard_node_admin(l, 0, LARD_ACTIVE, 0);
	assert_int_equal(cluster_ask(l, 1, 0, &d), 1);
	assert_int_equal(cluster_ask(l, 3, 0, &d), 0);
	lard_node_admin(l, 0, LARD_MAINTENANCE, 0);
	lard_node_admin(l, 0, LARD_ACTIVE, 0);
	assert_int_equal(lard_assigned(l, 3), 0);
	lard_free(l);
}

static void deleted_slot_waits_for_its_requests(void **state)
{
	struct lard *l = cluster_new(LARD_WRR, 1, 16);
	struct lard_node_info info;
	struct lard_decision d;

	(void)state;
	assert_int_equal(lard_dispatch(l, 1, 0, &d), 0);
	lard_node_del(l, 0, 0);
	assert_int_equal(lard_node_find(l, "be0"), -1);
	assert_false(lard_node_get(l, 0, &info));
	assert_int_equal(lard_outstanding(l), 0);
	assert_int_equal(lard_node_add(l, "be0", 100, 0), 1);
	lard_release(l, 0);
	assert_int_equal(lard_node_add(l, "new", 100, 0), 0);
	assert_int_equal(lard_node_add(l, "new", 100, 0), -EEXIST);
	assert_int_equal(lard_node_add(l, "", 100, 0), -EINVAL);
	lard_free(l);
}

static void a_new_node_in_an_old_slot_inherits_nothing(void **state)
{
	struct lard *l = cluster_new(LARD_BASIC, 2, 16);
	struct lard_decision d;

	(void)state;
	assert_int_equal(cluster_ask(l, 1, 0, &d), 0);
	lard_node_del(l, 0, 0);
	assert_int_equal(lard_node_add(l, "other", 100, 0), 0);
	lard_node_state(l, 0, LARD_UP, 0);
	assert_int_equal(lard_assigned(l, 1), 0);
	lard_free(l);
}

static void policy_switches_keep_mappings(void **state)
{
	struct lard *l = replicated();
	struct lard_params params = *lard_get_params(l);
	struct lard_decision d;

	(void)state;
	cluster_load(l, 0, 66);
	cluster_ask(l, 5, SECOND, &d);
	cluster_load(l, 0, 1);
	params.policy = LARD_WRR;
	lard_set_params(l, &params, SECOND);
	cluster_ask(l, 5, SECOND, &d);
	params.policy = LARD_BASIC;
	lard_set_params(l, &params, SECOND);
	assert_int_equal(cluster_ask(l, 5, SECOND, &d), 1);	/* best member of {0, 1} */
	assert_int_equal(d.why, LARD_WHY_KEEP);
	assert_int_equal(lard_assigned(l, 5), 0x2);
	lard_free(l);
}

static void thresholds_scale_with_weight(void **state)
{
	struct lard *l = cluster_new(LARD_BASIC, 2, 16);
	struct lard_node_info info;

	(void)state;
	lard_node_weight(l, 0, 300, 0);
	lard_node_get(l, 0, &info);
	assert_int_equal(info.high, 97);	/* 65 * 1.5, rounded down */
	assert_int_equal(info.low, 38);		/* 25 * 1.5, rounded up */
	lard_node_get(l, 1, &info);
	assert_int_equal(info.high, 32);
	assert_int_equal(lard_limit(l), 89);
	lard_free(l);
}

static void slow_start_ramps_up(void **state)
{
	struct lard *l = cluster_new(LARD_WRR, 2, 16);
	struct lard_params params = *lard_get_params(l);
	struct lard_decision d;
	int i, got, last = -1;
	uint64_t now;

	(void)state;
	params.slow_start_us = 10 * SECOND;
	lard_set_params(l, &params, 100 * SECOND);
	lard_node_state(l, 1, LARD_DOWN, 100 * SECOND);
	lard_node_state(l, 1, LARD_UP, 100 * SECOND);
	for (now = 100 * SECOND; now <= 110 * SECOND; now += 3 * SECOND) {
		for (i = 0, got = 0; i < 420; i++)
			got += cluster_ask(l, i, now, &d) == 1;
		assert_true(got > last);
		if (last < 0)
			assert_in_range(got, 19, 21);	/* a twentieth beside a whole one */
		last = got;
	}
	for (i = 0, got = 0; i < 420; i++)
		got += cluster_ask(l, i, 111 * SECOND, &d) == 1;
	assert_int_equal(got, 210);
	lard_free(l);
}

static void retry_avoids_what_refused_and_changes_no_mapping(void **state)
{
	struct lard *l = replicated();
	struct lard_decision d;

	(void)state;
	assert_int_equal(lard_dispatch(l, 5, SECOND, &d), 0);
	lard_release(l, 0);
	assert_int_equal(lard_retry(l, 5, SECOND, 0x1, &d), 1);
	assert_int_equal(d.why, LARD_WHY_RETRY);
	assert_int_equal(lard_load(l, 1), 1);
	assert_int_equal(lard_assigned(l, 5), 0x1);
	assert_int_equal(lard_retry(l, 5, SECOND, 0xf, &d), -1);
	lard_free(l);
}

static void explain_says_what_dispatch_does_and_changes_nothing(void **state)
{
	enum lard_policy policy;
	uint64_t seed = 99;

	(void)state;
	for (policy = 0; policy < LARD_POLICIES; policy++) {
		struct lard *l = cluster_new(policy, 5, 64);
		struct lard_decision said, again, did;
		char text[512];
		int i;

		for (i = 0; i < 2000; i++) {
			uint64_t key = (seed = seed * 6364136223846793005ULL + 1) >> 57;
			int node = (seed >> 40) % 5;

			memset(&said, 0, sizeof(said));
			memset(&again, 0, sizeof(again));
			memset(&did, 0, sizeof(did));
			lard_explain(l, key, i * 100000, &said);
			lard_explain(l, key, i * 100000, &again);
			assert_memory_equal(&said, &again, sizeof(said));
			lard_dispatch(l, key, i * 100000, &did);
			assert_memory_equal(&said, &did, sizeof(said));
			assert_true(lard_decision_text(l, &did, "/x", text, sizeof(text)) > 10);
			if (lard_load(l, node) && (seed >> 50) % 3)
				lard_release(l, node);
		}
		lard_free(l);
	}
}

static void every_reason_has_a_name(void **state)
{
	enum lard_reason why;

	(void)state;
	for (why = 0; why < LARD_REASONS; why++)
		assert_true(strlen(lard_reason_name(why)) > 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(wrr_spreads_evenly_and_ignores_content),
		cmocka_unit_test(wrr_follows_weights_even_when_idle),
		cmocka_unit_test(lc_gives_ties_to_the_first),
		cmocka_unit_test(lb_keeps_a_target_on_its_node_even_if_overloaded),
		cmocka_unit_test(chbl_spills_above_the_bound_and_comes_back),
		cmocka_unit_test(chbl_bound_holds_for_large_numbers),
		cmocka_unit_test(chbl_moves_only_the_targets_of_a_node_that_leaves),
		cmocka_unit_test(lard_assigns_first_to_the_least_loaded),
		cmocka_unit_test(lard_moves_exactly_at_the_limits),
		cmocka_unit_test(limit_follows_the_number_of_nodes),
		cmocka_unit_test(no_policy_exceeds_the_limit),
		cmocka_unit_test(no_node_is_an_answer),
		cmocka_unit_test(replicated_serves_from_the_least_loaded_member),
		cmocka_unit_test(replicated_grows_when_changed_within_k),
		cmocka_unit_test(replicated_migrates_when_stable_for_longer_than_k),
		cmocka_unit_test(replicated_does_not_grow_between_the_limits),
		cmocka_unit_test(replicated_set_shrinks_by_one_per_k),
		cmocka_unit_test(k_is_tunable),
		cmocka_unit_test(bad_parameters_change_nothing),
		cmocka_unit_test(t_high_follows_from_delay_and_service_time),
		cmocka_unit_test(dead_node_is_forgotten_and_stays_so_when_back),
		cmocka_unit_test(dead_member_leaves_the_set),
		cmocka_unit_test(drained_node_keeps_what_nobody_asks_for),
		cmocka_unit_test(deleted_slot_waits_for_its_requests),
		cmocka_unit_test(a_new_node_in_an_old_slot_inherits_nothing),
		cmocka_unit_test(policy_switches_keep_mappings),
		cmocka_unit_test(thresholds_scale_with_weight),
		cmocka_unit_test(slow_start_ramps_up),
		cmocka_unit_test(retry_avoids_what_refused_and_changes_no_mapping),
		cmocka_unit_test(explain_says_what_dispatch_does_and_changes_nothing),
		cmocka_unit_test(every_reason_has_a_name),
	};

	return cmocka_run_group_tests_name("lard_policy", tests, NULL, NULL);
}
