// SPDX-License-Identifier: GPL-2.0
/* The plainest: nothing moves; everything moves to the first node that is up (Olaru, 6.8.1). */

#include <linux/module.h>

#include "assign.h"
#include "policy.h"

static int hof_stay_request(struct hof_policy_request *req)
{
	return HOF_POLICY_STAY;
}

struct hof_policy_ops hof_policy_stay = {
	.name = "stay",
	.request = hof_stay_request,
	.owner = THIS_MODULE,
};

static int hof_simple_request(struct hof_policy_request *req)
{
	u32 ids[HOF_POLICY_NODES_MAX], nr = hof_policy_nodes(req, ids, ARRAY_SIZE(ids)), i;

	for (i = 0; i < nr && ids[i]; i++)
		if (!hof_policy_target(req, ids[i]))
			return HOF_POLICY_MOVE;
	return HOF_POLICY_STAY;
}

struct hof_policy_ops hof_policy_simple = {
	.name = "simple",
	.request = hof_simple_request,
	.owner = THIS_MODULE,
};
