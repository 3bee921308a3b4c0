// SPDX-License-Identifier: GPL-2.0
/*
 * A policy as a module of its own, to copy: what changes something is served by one node, whatever
 * else there is. flotilla migrate policy set 10.9.0.200:80 posts be2
 */

#include <linux/module.h>
#include <linux/string.h>

#include "handoff/policy.h"

static int posts_request(struct hof_policy_request *req)
{
	static const char post[] = "POST ";
	char begins[sizeof(post) - 1];
	u32 got = hof_policy_bytes(req, 0, begins, sizeof(begins));
	u32 node;

	if (memcmp(begins, post, got))
		return HOF_POLICY_STAY;
	if (got < sizeof(begins))
		return HOF_POLICY_MORE;
	if (!hof_policy_nodes(req, &node, 1) || hof_policy_target(req, node))
		return HOF_POLICY_STAY;
	return HOF_POLICY_MOVE;
}

static struct hof_policy_ops posts_policy = {
	.name = "posts",
	.request = posts_request,
	.owner = THIS_MODULE,
};

static int __init posts_init(void)
{
	return hof_policy_register(&posts_policy);
}

static void __exit posts_exit(void)
{
	hof_policy_unregister(&posts_policy);
}

module_init(posts_init);
module_exit(posts_exit);

MODULE_DESCRIPTION("Flotilla: a policy of requests, as an example");
MODULE_LICENSE("GPL");
