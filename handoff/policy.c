// SPDX-License-Identifier: GPL-2.0
/* Policies: who offers them, who has them, and what they may ask. */

#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/rculist.h>
#include <linux/string.h>
#include <net/tcp.h>

#include "kmod/node.h"

#include "assign.h"
#include "policy.h"
#include "request.h"

/* Under hof_policy_lock. */
static LIST_HEAD(hof_policies);

/* An URL is not looked for beyond. */
#define HOF_PATH_MAX	2048

/* --- the registry --- */

struct hof_policy_ops *hof_policy_find(const char *name)
{
	struct hof_policy_ops *ops;

	lockdep_assert_held(&hof_policy_lock);
	list_for_each_entry(ops, &hof_policies, list)
		if (!strncmp(ops->name, name, HOF_POLICY_NAME_MAX))
			return ops;
	return NULL;
}

static bool hof_policy_is_sound(const struct hof_policy_ops *ops)
{
	return ops->request && ops->name[0] &&
	       strnlen(ops->name, HOF_POLICY_NAME_MAX) < HOF_POLICY_NAME_MAX;
}

int hof_policy_register(struct hof_policy_ops *ops)
{
	int err = 0;

	if (!hof_policy_is_sound(ops))
		return -EINVAL;
	mutex_lock(&hof_policy_lock);
	if (hof_policy_find(ops->name))
		err = -EEXIST;
	else
		list_add_tail(&ops->list, &hof_policies);
	mutex_unlock(&hof_policy_lock);
	return err;
}
EXPORT_SYMBOL_GPL(hof_policy_register);

/* At all services that have @old. */
static void hof_policy_swap(const struct hof_policy_ops *old, const struct hof_policy_ops *fresh)
{
	struct hof_policy_set *set;
	struct hof_assigned *s;

	lockdep_assert_held(&hof_policy_lock);
	list_for_each_entry(s, &hof_assigned_all, list) {
		set = hof_policy_set_of(s);
		if (set && rcu_access_pointer(set->ops) == old)
			rcu_assign_pointer(set->ops, fresh);
	}
}

void hof_policy_unregister(struct hof_policy_ops *ops)
{
	mutex_lock(&hof_policy_lock);
	list_del(&ops->list);
	hof_policy_swap(ops, NULL);
	mutex_unlock(&hof_policy_lock);
	synchronize_rcu();
}
EXPORT_SYMBOL_GPL(hof_policy_unregister);

int hof_policy_update(struct hof_policy_ops *old, struct hof_policy_ops *fresh)
{
	int err = 0;

	if (!hof_policy_is_sound(fresh) || fresh->owner != old->owner ||
	    strncmp(fresh->name, old->name, HOF_POLICY_NAME_MAX))
		return -EINVAL;
	mutex_lock(&hof_policy_lock);
	if (hof_policy_find(old->name) == old) {
		list_replace(&old->list, &fresh->list);
		hof_policy_swap(old, fresh);
	} else {
		err = -ENOENT;
	}
	mutex_unlock(&hof_policy_lock);
	if (!err)
		synchronize_rcu();
	return err;
}
EXPORT_SYMBOL_GPL(hof_policy_update);

int hof_policy_ask(const struct hof_policy_set *set, struct hof_policy_request *req)
{
	const struct hof_policy_ops *ops = rcu_dereference(set->ops);

	return ops ? ops->request(req) : HOF_POLICY_STAY;
}

void hof_policy_answered(const struct hof_policy_set *set, u64 key, u64 bytes)
{
	const struct hof_policy_ops *ops = rcu_dereference(set->ops);

	if (ops && ops->answered)
		ops->answered(key, bytes);
}

/* --- what a policy may ask --- */

u32 hof_policy_bytes(const struct hof_policy_request *req, u32 offset, void *buffer, u32 length)
{
	if (offset >= req->length)
		return 0;
	return hof_unread(req->sk, offset, buffer, min(length, req->length - offset));
}
EXPORT_SYMBOL_GPL(hof_policy_bytes);

/* Bytes of the request up to one of @stop, from @from on; -EAGAIN: there is none yet. */
static int hof_policy_until(const struct hof_policy_request *req, u32 from, const char *stop,
			    u32 *at)
{
	u32 got, end = min_t(u32, req->length, HOF_PATH_MAX);
	char text[64];
	u32 i;

	for (; from < end; from += got) {
		got = hof_policy_bytes(req, from, text, min_t(u32, sizeof(text), end - from));
		if (!got)
			break;
		for (i = 0; i < got; i++) {
			if (!text[i] || strchr(stop, text[i])) {
				*at = from + i;
				return text[i] == '\r' || text[i] == '\n' || !text[i] ? -EINVAL :
											0;
			}
		}
	}
	return end == HOF_PATH_MAX ? -EINVAL : -EAGAIN;
}

int hof_policy_path(const struct hof_policy_request *req, u32 *offset, u32 *length)
{
	u32 space, end;
	int err;

	err = hof_policy_until(req, 0, " \r\n", &space);
	if (err)
		return err;
	err = hof_policy_until(req, space + 1, " ?\r\n", &end);
	if (err)
		return err;
	*offset = space + 1;
	*length = end - *offset;
	return *length ? 0 : -EINVAL;
}
EXPORT_SYMBOL_GPL(hof_policy_path);

static int hof_policy_target_node(struct hof_policy_request *req, struct flt_node *node)
{
	int err = 0;

	if (!node)
		return -ENOENT;
	if (flt_node_is_up(node))
		req->target = node->id;
	else
		err = -EHOSTDOWN;
	req->down |= err;
	flt_node_put(node);
	return err;
}

static struct net *hof_policy_net(const struct hof_policy_request *req)
{
	return sock_net(req->sk);
}

int hof_policy_target(struct hof_policy_request *req, u32 node)
{
	return hof_policy_target_node(req, flt_node_by_id(hof_policy_net(req), node));
}
EXPORT_SYMBOL_GPL(hof_policy_target);

int hof_policy_target_name(struct hof_policy_request *req, const char *name)
{
	return hof_policy_target_node(req, flt_node_by_name(hof_policy_net(req), name));
}
EXPORT_SYMBOL_GPL(hof_policy_target_name);

/* 0: this node; a number that no node has: it is not in the table any more. */
static u32 hof_policy_node_named(struct net *net, const char *name)
{
	struct flt_node *node;
	u32 id = U32_MAX;

	if (!strcmp(name, HOF_POLICY_SELF))
		return 0;
	node = flt_node_by_name(net, name);
	if (!node)
		return id;
	id = node->id;
	flt_node_put(node);
	return id;
}

static bool hof_policy_node_fits(const struct flt_node *node)
{
	return flt_node_is_up(node) && READ_ONCE(node->admin) == FLT_ADMIN_ACTIVE &&
	       READ_ONCE(node->weight) && READ_ONCE(node->role) != FLT_ROLE_FRONTEND;
}

u32 hof_policy_nodes(const struct hof_policy_request *req, u32 *ids, u32 max)
{
	const struct hof_policy_set *set = req->set;
	struct net *net = hof_policy_net(req);
	struct flt_node *node;
	u32 n = 0, id = 0;

	if (set->nr_nodes) {
		for (; n < min(set->nr_nodes, max); n++)
			ids[n] = hof_policy_node_named(net, set->nodes[n]);
		return n;
	}
	while (n < max && (node = flt_node_walk(net, &id))) {
		if (hof_policy_node_fits(node))
			ids[n++] = node->id;
		flt_node_put(node);
	}
	return n;
}
EXPORT_SYMBOL_GPL(hof_policy_nodes);

int hof_policy_node_load(const struct hof_policy_request *req, u32 id)
{
	struct flt_node *node = flt_node_by_id(hof_policy_net(req), id);
	int load;

	if (!node)
		return -ENOENT;
	load = flt_node_is_up(node) ? max(atomic_read(&node->load), 0) : -EHOSTDOWN;
	flt_node_put(node);
	return load;
}
EXPORT_SYMBOL_GPL(hof_policy_node_load);

u32 hof_policy_turn(const struct hof_policy_request *req)
{
	return (u32)atomic_inc_return(&req->set->service->turn) - 1;
}
EXPORT_SYMBOL_GPL(hof_policy_turn);

u64 hof_policy_option(const struct hof_policy_request *req, const char *name, u64 otherwise)
{
	const struct hof_policy_set *set = req->set;
	unsigned int i;

	for (i = 0; i < set->nr_options; i++)
		if (!strcmp(set->options[i].name, name))
			return set->options[i].value;
	return otherwise;
}
EXPORT_SYMBOL_GPL(hof_policy_option);

/* --- the room's own --- */

static struct hof_policy_ops *const hof_policies_own[] = {
	&hof_policy_stay,
	&hof_policy_simple,
	&hof_policy_hash,
	&hof_policy_size,
	&hof_policy_turns,
	&hof_policy_load,
	&hof_policy_delayed,
};

int __init hof_policy_init(void)
{
	unsigned int i;
	int err = 0;

	for (i = 0; i < ARRAY_SIZE(hof_policies_own) && !err; i++)
		err = hof_policy_register(hof_policies_own[i]);
	return err;
}
