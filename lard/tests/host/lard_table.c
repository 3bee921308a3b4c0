// SPDX-License-Identifier: GPL-2.0
/* The target table is bounded and keeps what is used. */
#include "lard/tests/lib/cluster.h"

static void table_is_bounded_and_keeps_hot_targets(void **state)
{
	struct lard *l = cluster_new(LARD_BASIC, 4, 1000);
	struct lard_table_info info;
	struct lard_decision d;
	uint64_t key, hot;
	int home[10];

	(void)state;
	for (hot = 0; hot < 10; hot++)
		home[hot] = cluster_ask(l, hot, 0, &d);
	for (key = 1000; key < 11000; key++) {
		cluster_ask(l, key, 0, &d);
		for (hot = 0; hot < 10; hot++)
			assert_int_equal(cluster_ask(l, hot, 0, &d), home[hot]);
	}
	lard_table_get(l, &info);
	assert_int_equal(info.used, 1000);
	assert_int_equal(info.capacity, 1000);
	assert_int_equal(info.evictions, 9010);
	assert_int_equal(lard_assigned(l, 1000), 0);		/* cold: dropped */
	assert_int_not_equal(lard_assigned(l, 10999), 0);
	lard_free(l);
}

static void the_least_recently_used_leaves_first(void **state)
{
	struct lard *l = cluster_new(LARD_REPLICATED, 2, 3);
	struct lard_decision d;

	(void)state;
	cluster_ask(l, 1, 0, &d);
	cluster_ask(l, 2, 0, &d);
	cluster_ask(l, 3, 0, &d);
	cluster_ask(l, 1, 0, &d);
	lard_explain(l, 2, 0, &d);		/* explaining is not using */
	cluster_ask(l, 4, 0, &d);
	assert_int_equal(lard_assigned(l, 2), 0);
	assert_int_not_equal(lard_assigned(l, 1), 0);
	cluster_ask(l, 5, 0, &d);
	assert_int_equal(lard_assigned(l, 3), 0);
	lard_free(l);
}

static void a_table_of_one_works(void **state)
{
	struct lard *l = cluster_new(LARD_BASIC, 2, 1);
	struct lard_decision d;
	uint64_t key;

	(void)state;
	for (key = 0; key < 100; key++) {
		cluster_ask(l, key, 0, &d);
		assert_int_equal(d.why, LARD_WHY_FIRST);
		cluster_ask(l, key, 0, &d);
		assert_int_equal(d.why, LARD_WHY_KEEP);
	}
	lard_free(l);
}

static void impossible_sizes_are_refused(void **state)
{
	struct lard_params params = LARD_PARAMS_DEFAULT;

	(void)state;
	assert_null(lard_new(&params, 0, 1));
	assert_null(lard_new(&params, UINT32_MAX, 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(table_is_bounded_and_keeps_hot_targets),
		cmocka_unit_test(the_least_recently_used_leaves_first),
		cmocka_unit_test(a_table_of_one_works),
		cmocka_unit_test(impossible_sizes_are_refused),
	};

	return cmocka_run_group_tests_name("lard_table", tests, NULL, NULL);
}
