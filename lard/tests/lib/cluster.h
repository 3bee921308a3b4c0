/* SPDX-License-Identifier: GPL-2.0 */
/* Engines ready to be asked, for the unit tests. */
#ifndef LARD_TESTS_CLUSTER_H
#define LARD_TESTS_CLUSTER_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <cmocka.h>
#include "lard/policy.h"

#define SECOND 1000000ULL

/* @count nodes "be0", "be1", ... of weight 100 in slots 0, 1, ..., all up. */
static inline struct lard *cluster_new(enum lard_policy policy, int count, uint32_t targets)
{
	struct lard_params params = LARD_PARAMS_DEFAULT;
	struct lard *l;
	char name[16];
	int i;

	params.policy = policy;
	l = lard_new(&params, targets, 42);
	assert_non_null(l);
	for (i = 0; i < count; i++) {
		snprintf(name, sizeof(name), "be%d", i);
		assert_int_equal(lard_node_add(l, name, 100, 0), i);
		lard_node_state(l, i, LARD_UP, 0);
	}
	return l;
}

/* Bring a node's load to @load, without a decision. */
static inline void cluster_load(struct lard *l, int node, uint32_t load)
{
	while (lard_load(l, node) < load)
		lard_charge(l, node);
	while (lard_load(l, node) > load)
		lard_release(l, node);
}

/* Dispatch and end at once: where does it go? */
static inline int cluster_ask(struct lard *l, uint64_t key, uint64_t now, struct lard_decision *d)
{
	int node = lard_dispatch(l, key, now, d);

	if (node >= 0)
		lard_release(l, node);
	return node;
}

#endif
