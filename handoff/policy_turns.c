// SPDX-License-Identifier: GPL-2.0
/* To compare with: nodes take turns; every request waits (Olaru, 6.9.4 and 6.10). */

#include <linux/module.h>

#include "assign.h"
#include "policy.h"

static int hof_turns_request(struct hof_policy_request *req)
{
	u32 ids[HOF_POLICY_NODES_MAX], nr = hof_policy_nodes(req, ids, ARRAY_SIZE(ids)), i, at;

	for (i = 0; i < nr; i++) {
		at = hof_policy_turn(req) % nr;
		if (!ids[at])
			return HOF_POLICY_STAY;
		if (!hof_policy_target(req, ids[at]))
			return HOF_POLICY_MOVE;
	}
	return HOF_POLICY_STAY;
}

struct hof_policy_ops hof_policy_turns = {
	.name = "round-robin",
	.request = hof_turns_request,
	.owner = THIS_MODULE,
};

/* net.flotilla.migrate_wait_ms. */
static int hof_delayed_request(struct hof_policy_request *req)
{
	return HOF_POLICY_MORE;
}

struct hof_policy_ops hof_policy_delayed = {
	.name = "delayed",
	.request = hof_delayed_request,
	.owner = THIS_MODULE,
};
