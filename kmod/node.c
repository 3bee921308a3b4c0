// SPDX-License-Identifier: GPL-2.0
/* The node table of a network namespace: lookup, change, announcement. */

#include <linux/slab.h>
#include <net/ipv6.h>
#include "address.h"
#include "counter.h"
#include "event.h"
#include "dispatch.h"
#include "linkwork.h"
#include "service.h"
#include "table.h"
#include "trace.h"

#define FLT_WEIGHT_DEFAULT	100

/**
 * struct flt_slot - a node in the table
 * @node:    what others see of it
 * @by_name: in flt_net.by_name
 * @by_addr: in flt_net.by_addr
 * @where:   its address without the port: the key of @by_addr
 * @key:     reference that keeps node.key usable; under flt_net.lock
 */
struct flt_slot {
	struct flt_node node;
	struct rhash_head by_name;
	struct rhash_head by_addr;
	struct flt_where where;
	struct key *key;
};

#define to_slot(n)	container_of(n, struct flt_slot, node)

static const struct rhashtable_params flt_by_name_params = {
	.key_len = FLT_NAME_MAX,
	.key_offset = offsetof(struct flt_slot, node.name),
	.head_offset = offsetof(struct flt_slot, by_name),
	.automatic_shrinking = true,
};

static const struct rhashtable_params flt_by_addr_params = {
	.key_len = sizeof(struct flt_where),
	.key_offset = offsetof(struct flt_slot, where),
	.head_offset = offsetof(struct flt_slot, by_addr),
	.automatic_shrinking = true,
};

static BLOCKING_NOTIFIER_HEAD(flt_node_chain);

int flt_node_notifier_register(struct notifier_block *nb)
{
	return blocking_notifier_chain_register(&flt_node_chain, nb);
}
EXPORT_SYMBOL_GPL(flt_node_notifier_register);

int flt_node_notifier_unregister(struct notifier_block *nb)
{
	return blocking_notifier_chain_unregister(&flt_node_chain, nb);
}
EXPORT_SYMBOL_GPL(flt_node_notifier_unregister);

void flt_node_announce(struct flt_node *node, enum flt_event event)
{
	struct flt_net *fn = flt_net(node->net);

	might_sleep();
	trace_flt_node(node, event);
	if (event == FLT_EVENT_NODE_UP || event == FLT_EVENT_NODE_DOWN ||
	    event == FLT_EVENT_NODE_REMOVED)
		blocking_notifier_call_chain(&flt_node_chain, event, node);
	flt_event_node(fn, node, event);
	flt_dispatch_refresh(fn);
}

static void flt_node_release(struct kref *ref)
{
	struct flt_slot *slot = container_of(ref, struct flt_slot, node.ref);

	key_put(slot->key);
	flt_link_free(slot->node.link);
	kfree_rcu(slot, node.rcu);
}

struct flt_node *flt_node_get(struct flt_node *node)
{
	kref_get(&node->ref);
	return node;
}
EXPORT_SYMBOL_GPL(flt_node_get);

void flt_node_put(struct flt_node *node)
{
	if (node)
		kref_put(&node->ref, flt_node_release);
}
EXPORT_SYMBOL_GPL(flt_node_put);

struct flt_node *flt_node_by_id(struct net *net, u32 id)
{
	struct flt_net *fn = flt_net(net);
	struct flt_node *node;

	rcu_read_lock();
	node = xa_load(&fn->nodes, id);
	if (node && !kref_get_unless_zero(&node->ref))
		node = NULL;
	rcu_read_unlock();
	return node;
}
EXPORT_SYMBOL_GPL(flt_node_by_id);

struct flt_node *flt_node_by_name(struct net *net, const char *name)
{
	struct flt_net *fn = flt_net(net);
	char key[FLT_NAME_MAX] = {};
	struct flt_slot *slot;

	if (strscpy(key, name, sizeof(key)) < 0)
		return NULL;
	rcu_read_lock();
	slot = rhashtable_lookup(&fn->by_name, key, flt_by_name_params);
	if (slot && !kref_get_unless_zero(&slot->node.ref))
		slot = NULL;
	rcu_read_unlock();
	return slot ? &slot->node : NULL;
}
EXPORT_SYMBOL_GPL(flt_node_by_name);

struct flt_node *flt_node_by_addr(struct flt_net *fn, const union flt_addr *addr)
{
	struct flt_where where;
	struct flt_slot *slot;

	flt_where_fill(&where, addr);
	rcu_read_lock();
	slot = rhashtable_lookup(&fn->by_addr, &where, flt_by_addr_params);
	if (slot && !kref_get_unless_zero(&slot->node.ref))
		slot = NULL;
	rcu_read_unlock();
	return slot ? &slot->node : NULL;
}

struct flt_node *flt_node_next(struct flt_net *fn, u32 *id)
{
	unsigned long index = *id;
	struct flt_node *node;

	rcu_read_lock();
	node = xa_find(&fn->nodes, &index, U32_MAX, XA_PRESENT);
	while (node && !kref_get_unless_zero(&node->ref))
		node = xa_find_after(&fn->nodes, &index, U32_MAX, XA_PRESENT);
	rcu_read_unlock();
	*id = index;
	return node;
}

struct flt_node *flt_node_walk(struct net *net, u32 *id)
{
	struct flt_node *node = flt_node_next(flt_net(net), id);

	if (node)
		++*id;
	return node;
}
EXPORT_SYMBOL_GPL(flt_node_walk);

unsigned int flt_node_count_ready(struct flt_net *fn)
{
	struct flt_node *node;
	unsigned long id;
	unsigned int n = 0;

	rcu_read_lock();
	xa_for_each(&fn->nodes, id, node)
		if (flt_node_is_up(node) && READ_ONCE(node->role) == FLT_ROLE_BACKEND &&
		    READ_ONCE(node->admin) == FLT_ADMIN_ACTIVE)
			n++;
	rcu_read_unlock();
	return n;
}

const char *flt_name_check(const char *name)
{
	const char *c;

	if (!*name)
		return "a node's name must not be empty";
	for (c = name; *c; c++)
		if (!(isascii(*c) && isalnum(*c)) && *c != '.' && *c != '_' && *c != '-')
			return "a node's name is made of letters, digits, '.', '_' and '-'";
	if (!strcmp(name, ".") || !strcmp(name, ".."))
		return "'.' and '..' are no node names";
	return NULL;
}

const char *flt_addr_check(const union flt_addr *addr)
{
	if (addr->sa.sa_family == AF_INET) {
		__be32 a = addr->v4.sin_addr.s_addr;

		if (ipv4_is_zeronet(a) || ipv4_is_multicast(a) || ipv4_is_lbcast(a))
			return "not the address of one host";
		return NULL;
	}
	if (ipv6_addr_any(&addr->v6.sin6_addr) || ipv6_addr_is_multicast(&addr->v6.sin6_addr))
		return "not the address of one host";
	if (ipv6_addr_v4mapped(&addr->v6.sin6_addr))
		return "give an IPv4 address as such";
	if (ipv6_addr_type(&addr->v6.sin6_addr) & IPV6_ADDR_LINKLOCAL)
		return "a link-local address does not say on which interface";
	return NULL;
}

static bool flt_given(const struct flt_node_spec *spec, enum flt_attr attr)
{
	return spec->given & FLT_GIVEN(attr);
}

static bool flt_given_fwd_addr(const struct flt_node_spec *spec)
{
	return flt_given(spec, FLT_A_NODE_FWD_ADDR4) || flt_given(spec, FLT_A_NODE_FWD_ADDR6);
}

/* Takes a reference on the key: the setter must be able to read it. */
static int flt_auth_check(const struct flt_node_spec *spec, u8 auth, bool had_key,
			  struct key **key, struct netlink_ext_ack *extack)
{
	bool key_given = flt_given(spec, FLT_A_NODE_KEY);
	key_ref_t ref;

	*key = NULL;
	if (auth != FLT_AUTH_NONE && !IS_ENABLED(CONFIG_NET_HANDSHAKE)) {
		NL_SET_ERR_MSG(extack, "this kernel has no TLS handshake service");
		return -EOPNOTSUPP;
	}
	if (auth != FLT_AUTH_PSK) {
		if (!key_given)
			return 0;
		NL_SET_ERR_MSG(extack, "a key goes only with authentication by pre-shared key");
		return -EINVAL;
	}
	if (!key_given) {
		if (had_key)
			return 0;
		NL_SET_ERR_MSG(extack, "authentication by pre-shared key needs a key");
		return -EINVAL;
	}
	ref = lookup_user_key(spec->key, 0, KEY_NEED_READ);
	if (IS_ERR(ref)) {
		NL_SET_ERR_MSG(extack, "no such key, or you may not read it");
		return PTR_ERR(ref);
	}
	*key = key_ref_to_ptr(ref);
	return 0;
}

static void flt_slot_apply(struct flt_slot *slot, const struct flt_node_spec *spec)
{
	struct flt_node *node = &slot->node;

	if (flt_given(spec, FLT_A_NODE_WEIGHT))
		WRITE_ONCE(node->weight, spec->weight);
	if (flt_given(spec, FLT_A_NODE_ADMIN))
		WRITE_ONCE(node->admin, spec->admin);
	if (flt_given(spec, FLT_A_NODE_ROLE))
		WRITE_ONCE(node->role, spec->role);
	if (flt_given(spec, FLT_A_NODE_FORWARD))
		WRITE_ONCE(node->forward, spec->forward);
	if (flt_given_fwd_addr(spec)) {
		spin_lock_bh(&node->lock);
		node->fwd_addr = spec->fwd_addr;
		spin_unlock_bh(&node->lock);
	}
}

/* Is the name or the address this node's own, or another node's. */
static int flt_table_clash(struct flt_net *fn, const struct flt_slot *slot,
			   struct netlink_ext_ack *extack)
{
	const struct flt_node *node = &slot->node;
	const struct flt_local *local;

	lockdep_assert_held(&fn->lock);
	if (rhashtable_lookup_fast(&fn->by_name, node->name, flt_by_name_params)) {
		NL_SET_ERR_MSG(extack, "a node of that name exists");
		return -EEXIST;
	}
	if (rhashtable_lookup_fast(&fn->by_addr, &slot->where, flt_by_addr_params)) {
		NL_SET_ERR_MSG(extack, "a node of that address exists");
		return -EEXIST;
	}
	local = rcu_dereference_protected(fn->local, lockdep_is_held(&fn->lock));
	if (!local)
		return 0;
	if (!strcmp(local->name, node->name)) {
		NL_SET_ERR_MSG(extack, "that is the name of this node itself");
		return -EEXIST;
	}
	if ((node->addr.sa.sa_family == AF_INET && local->v4.sin_family &&
	     node->addr.v4.sin_addr.s_addr == local->v4.sin_addr.s_addr) ||
	    (node->addr.sa.sa_family == AF_INET6 && local->v6.sin6_family &&
	     ipv6_addr_equal(&node->addr.v6.sin6_addr, &local->v6.sin6_addr))) {
		NL_SET_ERR_MSG(extack, "that is the address of this node itself");
		return -EEXIST;
	}
	return 0;
}

static int flt_table_insert(struct flt_net *fn, struct flt_slot *slot,
			    struct netlink_ext_ack *extack)
{
	struct flt_node *node = &slot->node;
	int err;

	lockdep_assert_held(&fn->lock);
	err = flt_table_clash(fn, slot, extack);
	if (err)
		return err;
	err = xa_alloc_cyclic(&fn->nodes, &node->id, NULL, XA_LIMIT(1, S32_MAX), &fn->next_id,
			      FLT_GFP);
	if (err < 0)
		return err;
	err = rhashtable_insert_fast(&fn->by_name, &slot->by_name, flt_by_name_params);
	if (err)
		goto undo_id;
	err = rhashtable_insert_fast(&fn->by_addr, &slot->by_addr, flt_by_addr_params);
	if (err)
		goto undo_name;
	err = flt_address_add(fn, &node->addr);
	if (err)
		goto undo_by_addr;
	err = flt_address_add(fn, &node->fwd_addr);
	if (err)
		goto undo_addr;
	/* Cannot fail: the id is reserved. */
	xa_store(&fn->nodes, node->id, node, FLT_GFP);
	WRITE_ONCE(fn->nr_nodes, fn->nr_nodes + 1);
	WRITE_ONCE(fn->change, fn->change + 1);
	return 0;

undo_addr:
	flt_address_del(fn, &node->addr);
undo_by_addr:
	rhashtable_remove_fast(&fn->by_addr, &slot->by_addr, flt_by_addr_params);
undo_name:
	rhashtable_remove_fast(&fn->by_name, &slot->by_name, flt_by_name_params);
undo_id:
	xa_release(&fn->nodes, node->id);
	return err;
}

int flt_table_add(struct flt_net *fn, const struct flt_node_spec *spec,
		  struct netlink_ext_ack *extack)
{
	struct flt_slot *slot;
	struct flt_node *node;
	int err;

	slot = kzalloc(sizeof(*slot), FLT_GFP);
	if (!slot)
		return -ENOMEM;
	node = &slot->node;
	kref_init(&node->ref);
	spin_lock_init(&node->lock);
	node->net = fn->net;
	node->weight = FLT_WEIGHT_DEFAULT;
	node->addr = spec->addr;
	strscpy(node->name, spec->name, sizeof(node->name));
	flt_where_fill(&slot->where, &spec->addr);

	err = flt_auth_check(spec, spec->auth, false, &slot->key, extack);
	if (err)
		goto undo_slot;
	node->auth = spec->auth;
	node->key = slot->key ? key_serial(slot->key) : 0;
	flt_slot_apply(slot, spec);
	err = -ENOMEM;
	node->link = flt_link_new(fn, node);
	if (!node->link)
		goto undo_slot;

	mutex_lock(&fn->lock);
	err = flt_table_insert(fn, slot, extack);
	if (!err)
		flt_node_get(node);
	mutex_unlock(&fn->lock);
	if (err)
		goto undo_slot;

	/* Added before it can come up: whoever listens hears it in this order. */
	flt_node_announce(node, FLT_EVENT_NODE_ADDED);
	flt_link_start(node->link);
	flt_node_put(node);
	return 0;

undo_slot:
	flt_node_put(node);
	return err;
}

int flt_table_set(struct flt_net *fn, struct flt_node *node, const struct flt_node_spec *spec,
		  struct netlink_ext_ack *extack)
{
	struct flt_slot *slot = to_slot(node);
	struct key *key;
	bool rekey = false, reauth = false;
	union flt_addr old;
	u8 auth;
	int err;

	mutex_lock(&fn->lock);
	if (xa_load(&fn->nodes, node->id) != node) {
		NL_SET_ERR_MSG(extack, "the node has just been removed");
		err = -ENOENT;
		goto out;
	}
	auth = flt_given(spec, FLT_A_NODE_AUTH) ? spec->auth : node->auth;
	err = flt_auth_check(spec, auth, !!slot->key, &key, extack);
	if (err)
		goto out;
	/* Before the old one goes: what comes meanwhile is a node's. */
	err = flt_address_add(fn, &spec->fwd_addr);
	if (err) {
		key_put(key);
		goto out;
	}
	old = node->fwd_addr;
	reauth = auth != node->auth;
	rekey = reauth || key;
	if (rekey) {
		WRITE_ONCE(node->auth, auth);
		if (key || auth != FLT_AUTH_PSK) {
			swap(slot->key, key);
			WRITE_ONCE(node->key, slot->key ? key_serial(slot->key) : 0);
			key_put(key);
		}
	}
	flt_slot_apply(slot, spec);
	if (flt_given_fwd_addr(spec))
		flt_address_del(fn, &old);
	WRITE_ONCE(fn->change, fn->change + 1);
out:
	mutex_unlock(&fn->lock);
	if (err)
		return err;
	/* Another key is for the next link; another way to prove who one is, for this one. */
	if (reauth)
		flt_link_restart(node->link);
	else if (rekey)
		flt_link_renew(node->link);
	flt_node_announce(node, FLT_EVENT_NODE_CHANGED);
	return 0;
}

int flt_table_del(struct flt_net *fn, struct flt_node *node)
{
	struct flt_slot *slot = to_slot(node);
	bool mine;

	mutex_lock(&fn->lock);
	mine = xa_load(&fn->nodes, node->id) == node;
	if (mine) {
		xa_erase(&fn->nodes, node->id);
		rhashtable_remove_fast(&fn->by_name, &slot->by_name, flt_by_name_params);
		rhashtable_remove_fast(&fn->by_addr, &slot->by_addr, flt_by_addr_params);
		flt_address_del(fn, &node->addr);
		flt_address_del(fn, &node->fwd_addr);
		WRITE_ONCE(fn->nr_nodes, fn->nr_nodes - 1);
		WRITE_ONCE(fn->change, fn->change + 1);
	}
	mutex_unlock(&fn->lock);
	if (!mine)
		return -ENOENT;

	flt_link_stop(node->link);
	flt_node_announce(node, FLT_EVENT_NODE_REMOVED);
	flt_node_put(node);	/* the table's */
	return 0;
}

void flt_table_clear(struct flt_net *fn)
{
	struct flt_node *node;
	u32 id = 0;

	while ((node = flt_node_next(fn, &id))) {
		flt_table_del(fn, node);
		flt_node_put(node);
	}
}

void flt_table_wake(struct flt_net *fn)
{
	struct flt_node *node;
	unsigned long id;

	rcu_read_lock();
	xa_for_each(&fn->nodes, id, node)
		flt_link_renew(node->link);
	rcu_read_unlock();
}

int flt_table_init(struct flt_net *fn)
{
	int err;

	mutex_init(&fn->lock);
	xa_init_flags(&fn->nodes, XA_FLAGS_ALLOC1 | XA_FLAGS_ACCOUNT);
	err = rhashtable_init(&fn->by_name, &flt_by_name_params);
	if (err)
		return err;
	err = rhashtable_init(&fn->by_addr, &flt_by_addr_params);
	if (err)
		goto undo_name;
	err = flt_address_init(fn);
	if (err)
		goto undo_addr;
	return 0;

undo_addr:
	rhashtable_destroy(&fn->by_addr);
undo_name:
	rhashtable_destroy(&fn->by_name);
	return err;
}

void flt_table_exit(struct flt_net *fn)
{
	WARN_ON_ONCE(fn->nr_nodes);
	flt_address_exit(fn);
	rhashtable_destroy(&fn->by_addr);
	rhashtable_destroy(&fn->by_name);
	xa_destroy(&fn->nodes);
	flt_service_clear(fn);
	kfree_rcu(rcu_dereference_protected(fn->local, true), rcu);
	RCU_INIT_POINTER(fn->local, NULL);
}
