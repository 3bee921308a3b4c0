/* SPDX-License-Identifier: GPL-2.0 */
/* Hash parameters, inlined where the lookup must be short. */
#ifndef HOF_TABLE_H
#define HOF_TABLE_H

#include <linux/rhashtable.h>
#include <net/ipv6.h>

#include "entry.h"
#include "net.h"

static inline int hof_key4_differs(struct rhashtable_compare_arg *arg, const void *obj)
{
	const struct hof_key4 *a = arg->key, *b = &((const struct hof_entry *)obj)->key.v4;

	return ((__force u32)a->client ^ (__force u32)b->client) |
	       ((__force u32)a->server ^ (__force u32)b->server) |
	       (((__force u16)a->client_port ^ (__force u16)b->client_port)) |
	       (((__force u16)a->server_port ^ (__force u16)b->server_port));
}

static inline int hof_key6_differs(struct rhashtable_compare_arg *arg, const void *obj)
{
	const struct hof_key6 *a = arg->key, *b = &((const struct hof_entry *)obj)->key.v6;

	return a->client_port != b->client_port || a->server_port != b->server_port ||
	       !ipv6_addr_equal(&a->client, &b->client) ||
	       !ipv6_addr_equal(&a->server, &b->server);
}

static const struct rhashtable_params hof_table4 = {
	.head_offset = offsetof(struct hof_entry, hash),
	.key_offset = offsetof(struct hof_entry, key),
	.key_len = sizeof(struct hof_key4),
	.obj_cmpfn = hof_key4_differs,
	.automatic_shrinking = true,
};

static const struct rhashtable_params hof_table6 = {
	.head_offset = offsetof(struct hof_entry, hash),
	.key_offset = offsetof(struct hof_entry, key),
	.key_len = sizeof(struct hof_key6),
	.obj_cmpfn = hof_key6_differs,
	.automatic_shrinking = true,
};

static inline struct hof_entry *hof_entry_find4(struct hof_net *hn, const struct hof_key4 *key)
{
	return rhashtable_lookup(&hn->entries4, key, hof_table4);
}

static inline struct hof_entry *hof_entry_find6(struct hof_net *hn, const struct hof_key6 *key)
{
	return rhashtable_lookup(&hn->entries6, key, hof_table6);
}

#endif
