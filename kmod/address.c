// SPDX-License-Identifier: GPL-2.0
/*
 * Which addresses are nodes': asked for each packet that comes in a tunnel, by whoever sent it, so
 * the answer costs the same for any number of nodes.
 */

#include <linux/slab.h>
#include "address.h"
#include "netns.h"

/**
 * struct flt_address - one that nodes have
 * @hash:  in flt_net.addresses
 * @where: the key
 * @users: how many have it; under flt_net.lock
 * @rcu:   for freeing
 */
struct flt_address {
	struct rhash_head hash;
	struct flt_where where;
	unsigned int users;
	struct rcu_head rcu;
};

static const struct rhashtable_params flt_address_params = {
	.key_len = sizeof(struct flt_where),
	.key_offset = offsetof(struct flt_address, where),
	.head_offset = offsetof(struct flt_address, hash),
	.automatic_shrinking = true,
};

void flt_where_fill(struct flt_where *where, const union flt_addr *addr)
{
	memset(where, 0, sizeof(*where));
	where->family = addr->sa.sa_family;
	if (addr->sa.sa_family == AF_INET)
		memcpy(where->bytes, &addr->v4.sin_addr, 4);
	else
		memcpy(where->bytes, &addr->v6.sin6_addr, 16);
}

bool flt_node_has_addr(struct net *net, u8 family, const void *addr)
{
	struct flt_where where = { .family = family };

	memcpy(where.bytes, addr, family == AF_INET ? 4 : 16);
	return rhashtable_lookup_fast(&flt_net(net)->addresses, &where, flt_address_params);
}
EXPORT_SYMBOL_GPL(flt_node_has_addr);

int flt_address_add(struct flt_net *fn, const union flt_addr *addr)
{
	struct flt_address *address;
	struct flt_where where;
	int err;

	lockdep_assert_held(&fn->lock);
	if (!addr->sa.sa_family)
		return 0;
	flt_where_fill(&where, addr);
	address = rhashtable_lookup_fast(&fn->addresses, &where, flt_address_params);
	if (address) {
		address->users++;
		return 0;
	}
	address = kzalloc(sizeof(*address), FLT_GFP);
	if (!address)
		return -ENOMEM;
	address->where = where;
	address->users = 1;
	err = rhashtable_insert_fast(&fn->addresses, &address->hash, flt_address_params);
	if (!err)
		return 0;
	kfree(address);
	return -ENOMEM;
}

void flt_address_del(struct flt_net *fn, const union flt_addr *addr)
{
	struct flt_address *address;
	struct flt_where where;

	lockdep_assert_held(&fn->lock);
	if (!addr->sa.sa_family)
		return;
	flt_where_fill(&where, addr);
	address = rhashtable_lookup_fast(&fn->addresses, &where, flt_address_params);
	if (WARN_ON_ONCE(!address) || --address->users)
		return;
	rhashtable_remove_fast(&fn->addresses, &address->hash, flt_address_params);
	kfree_rcu(address, rcu);
}

int flt_address_init(struct flt_net *fn)
{
	return rhashtable_init(&fn->addresses, &flt_address_params);
}

/* No node is left, so no address is. */
void flt_address_exit(struct flt_net *fn)
{
	WARN_ON_ONCE(atomic_read(&fn->addresses.nelems));
	rhashtable_destroy(&fn->addresses);
}
