// SPDX-License-Identifier: GPL-2.0
/* Policies of services: commands, and the room that they go to. */

#include <linux/module.h>
#include <net/sock.h>
#include "migrate.h"
#include "netlink.h"
#include "service.h"
#include "source.h"

static struct flt_source flt_migrate_source = FLT_SOURCE_INIT(flt_migrate_source);

int flt_migrate_source_register(const struct flt_migrate_source *source)
{
	return flt_source_set(&flt_migrate_source, source);
}
EXPORT_SYMBOL_GPL(flt_migrate_source_register);

void flt_migrate_source_unregister(const struct flt_migrate_source *source)
{
	flt_source_clear(&flt_migrate_source, source);
}
EXPORT_SYMBOL_GPL(flt_migrate_source_unregister);

/*
 * All services of the machine share the looking after listeners and the modules of policies, so
 * that root of a user namespace has no say in them.
 */
static int flt_policy_may(const struct sk_buff *skb, struct genl_info *info)
{
	if (netlink_capable(skb, CAP_NET_ADMIN))
		return 0;
	NL_SET_ERR_MSG(info->extack, "policies are set by an administrator of the machine");
	return -EPERM;
}

static int flt_policy_no_source(struct genl_info *info)
{
	NL_SET_ERR_MSG(info->extack, "handoff.ko is not loaded");
	return -EOPNOTSUPP;
}

int flt_policy_set(struct sk_buff *skb, struct genl_info *info)
{
	struct nlattr *name = info->attrs[FLT_A_POLICY_NAME];
	struct nlattr *args = info->attrs[FLT_A_POLICY_ARGS];
	const struct flt_migrate_source *source;
	struct flt_tuple at;
	int err;

	err = flt_policy_may(skb, info) ?: flt_service_get_at(info, &at);
	if (err)
		return err;
	if (!name) {
		NL_SET_ERR_MSG(info->extack, "which policy: give its name");
		return -EINVAL;
	}
	mutex_lock(&flt_migrate_source.lock);
	source = flt_migrate_source.ops;
	if (source)
		err = source->set(genl_info_net(info), &at, nla_data(name),
				  args ? nla_data(args) : "");
	else
		err = flt_policy_no_source(info);
	mutex_unlock(&flt_migrate_source.lock);
	if (err == -ENOENT)
		NL_SET_ERR_MSG(info->extack, "there is no such policy");
	else if (err == -EINVAL)
		NL_SET_ERR_MSG(info->extack, "neither a node's name nor NAME=NUMBER");
	else if (err == -ERANGE)
		NL_SET_ERR_MSG(info->extack, "admit= with admit_base=, admit_again=, _quota=1");
	else if (err == -ENOSPC)
		NL_SET_ERR_MSG(info->extack, "too many nodes, options or services");
	return err;
}

int flt_policy_del(struct sk_buff *skb, struct genl_info *info)
{
	const struct flt_migrate_source *source;
	struct flt_tuple at;
	int err;

	err = flt_policy_may(skb, info) ?: flt_service_get_at(info, &at);
	if (err)
		return err;
	mutex_lock(&flt_migrate_source.lock);
	source = flt_migrate_source.ops;
	if (source)
		err = source->off(genl_info_net(info), &at);
	else
		err = flt_policy_no_source(info);
	mutex_unlock(&flt_migrate_source.lock);
	if (err == -ENOENT)
		NL_SET_ERR_MSG(info->extack, "that service has no policy");
	return err;
}

static int flt_policy_put(struct sk_buff *skb, const struct flt_migrate_row *row)
{
	return flt_service_put_addr(skb, row->at.family, row->at.server) ||
	       nla_put_u16(skb, FLT_A_SERVICE_PORT, ntohs(row->at.server_port)) ||
	       nla_put_string(skb, FLT_A_POLICY_NAME, row->policy) ||
	       nla_put_string(skb, FLT_A_POLICY_ARGS, row->args) ||
	       nla_put_string(skb, FLT_A_STAT_NAME, row->what) ||
	       nla_put_u64_64bit(skb, FLT_A_STAT_VALUE, row->value, FLT_A_PAD);
}

static int flt_policy_emit(const struct flt_migrate_row *row, void *arg)
{
	struct flt_dump *dump = arg;
	struct sk_buff *skb = dump->skb;
	void *head;

	head = flt_dump_row(dump, FLT_CMD_POLICY_GET);
	if (!head)
		return -EMSGSIZE;
	if (flt_policy_put(skb, row)) {
		genlmsg_cancel(skb, head);
		return -EMSGSIZE;
	}
	genlmsg_end(skb, head);
	return 0;
}

int flt_policy_dump(struct sk_buff *skb, struct netlink_callback *cb)
{
	struct flt_dump dump = { .skb = skb, .cb = cb };
	const struct flt_migrate_source *source;
	int err = 0;

	mutex_lock(&flt_migrate_source.lock);
	source = flt_migrate_source.ops;
	if (source)
		err = source->walk(sock_net(skb->sk), flt_dump_cursor(cb), flt_policy_emit, &dump);
	mutex_unlock(&flt_migrate_source.lock);
	return err && !skb->len ? err : skb->len;
}
