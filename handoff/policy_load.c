// SPDX-License-Identifier: GPL-2.0
/* By load: the node that serves the fewest connections for this one; of several in turns. */

#include <linux/module.h>

#include "assign.h"
#include "policy.h"

static int hof_load_request(struct hof_policy_request *req)
{
	u32 ids[HOF_POLICY_NODES_MAX], nr = hof_policy_nodes(req, ids, ARRAY_SIZE(ids)), i, at;
	u32 turn = hof_policy_turn(req), best = 0;
	int load, least = 0;

	for (i = 0; i < nr; i++) {
		at = ids[(turn % nr + i) % nr];
		/* Of this node it is not known, by that measure. */
		load = at ? hof_policy_node_load(req, at) : -ENOENT;
		if (load >= 0 && (!best || load < least)) {
			best = at;
			least = load;
		}
	}
	/* Of those that are down one is named, so that it is known why the request stays. */
	for (i = 0; i < nr && !best; i++)
		best = ids[i];
	return best && !hof_policy_target(req, best) ? HOF_POLICY_MOVE : HOF_POLICY_STAY;
}

struct hof_policy_ops hof_policy_load = {
	.name = "load",
	.request = hof_load_request,
	.owner = THIS_MODULE,
};
