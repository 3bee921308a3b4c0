// SPDX-License-Identifier: GPL-2.0
/* By name: a path is served at the node that its hash falls on (Olaru, 6.8.2). */

#include <linux/jhash.h>
#include <linux/kernel.h>
#include <linux/module.h>

#include "assign.h"
#include "policy.h"

/* Of a longer path the rest is not looked at. */
#define HOF_HASH_BYTES	256

int hof_policy_hash_path(const struct hof_policy_request *req, u32 *hash, u32 *end)
{
	u8 path[HOF_HASH_BYTES];
	u32 offset, length;
	int err;

	err = hof_policy_path(req, &offset, &length);
	if (err)
		return err;
	*end = offset + length;
	length = hof_policy_bytes(req, offset, path, min_t(u32, length, sizeof(path)));
	*hash = jhash(path, length, 0);
	return 0;
}

int hof_policy_hash_target(struct hof_policy_request *req, u32 hash)
{
	u32 ids[HOF_POLICY_NODES_MAX], nr, i, at;

	nr = hof_policy_nodes(req, ids, ARRAY_SIZE(ids));
	at = reciprocal_scale(hash, nr);
	for (i = 0; i < nr; i++) {
		at = (at + !!i) % nr;
		if (!ids[at])
			return HOF_POLICY_STAY;
		if (!hof_policy_target(req, ids[at]))
			return HOF_POLICY_MOVE;
	}
	return HOF_POLICY_STAY;
}

static int hof_hash_request(struct hof_policy_request *req)
{
	u32 hash, end;
	int err;

	err = hof_policy_hash_path(req, &hash, &end);
	if (err)
		return err == -EAGAIN ? HOF_POLICY_MORE : HOF_POLICY_STAY;
	return hof_policy_hash_target(req, hash);
}

struct hof_policy_ops hof_policy_hash = {
	.name = "hash",
	.request = hof_hash_request,
	.owner = THIS_MODULE,
};
