// SPDX-License-Identifier: GPL-2.0
/* Policies of services: commands, and the room that they go to. */

#include <linux/module.h>
#include <linux/mutex.h>
#include <net/sock.h>
#include "migrate.h"
#include "netlink.h"
#include "node.h"

/* Guards the source; held during a call, so that it cannot go meanwhile. */
static DEFINE_MUTEX(flt_migrate_lock);
static const struct flt_migrate_source *flt_migrate_source;

int flt_migrate_source_register(const struct flt_migrate_source *source)
{
	int err = 0;

	mutex_lock(&flt_migrate_lock);
	if (flt_migrate_source)
		err = -EBUSY;
	else
		flt_migrate_source = source;
	mutex_unlock(&flt_migrate_lock);
	return err;
}
EXPORT_SYMBOL_GPL(flt_migrate_source_register);

void flt_migrate_source_unregister(const struct flt_migrate_source *source)
{
	mutex_lock(&flt_migrate_lock);
	if (!WARN_ON_ONCE(flt_migrate_source != source))
		flt_migrate_source = NULL;
	mutex_unlock(&flt_migrate_lock);
}
EXPORT_SYMBOL_GPL(flt_migrate_source_unregister);

/* The service that a command names: 0 or an errno with its sentence. */
int flt_service_at(struct genl_info *info, struct flt_tuple *at)
{
	struct nlattr *port = info->attrs[FLT_A_SERVICE_PORT];
	union flt_addr addr = {};
	int err;

	memset(at, 0, sizeof(*at));
	err = flt_get_addr(info, FLT_A_SERVICE_ADDR4, FLT_A_SERVICE_ADDR6, &addr);
	if (err < 0)
		return err;
	if (!err || !port) {
		NL_SET_ERR_MSG(info->extack, "which service: give its address and port");
		return -EINVAL;
	}
	at->family = addr.sa.sa_family;
	if (at->family == AF_INET)
		memcpy(at->server, &addr.v4.sin_addr, sizeof(addr.v4.sin_addr));
	else
		memcpy(at->server, &addr.v6.sin6_addr, sizeof(addr.v6.sin6_addr));
	at->server_port = htons(nla_get_u16(port));
	return 0;
}

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
	struct flt_tuple at;
	int err;

	err = flt_policy_may(skb, info) ?: flt_service_at(info, &at);
	if (err)
		return err;
	if (!name) {
		NL_SET_ERR_MSG(info->extack, "which policy: give its name");
		return -EINVAL;
	}
	mutex_lock(&flt_migrate_lock);
	if (flt_migrate_source)
		err = flt_migrate_source->set(genl_info_net(info), &at, nla_data(name),
					      args ? nla_data(args) : "");
	else
		err = flt_policy_no_source(info);
	mutex_unlock(&flt_migrate_lock);
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
	struct flt_tuple at;
	int err;

	err = flt_policy_may(skb, info) ?: flt_service_at(info, &at);
	if (err)
		return err;
	mutex_lock(&flt_migrate_lock);
	if (flt_migrate_source)
		err = flt_migrate_source->off(genl_info_net(info), &at);
	else
		err = flt_policy_no_source(info);
	mutex_unlock(&flt_migrate_lock);
	if (err == -ENOENT)
		NL_SET_ERR_MSG(info->extack, "that service has no policy");
	return err;
}

/* Where a row goes. */
struct flt_policy_dump {
	struct sk_buff *skb;
	struct netlink_callback *cb;
};

static int flt_policy_put(struct sk_buff *skb, const struct flt_migrate_row *row)
{
	struct in6_addr addr6;
	__be32 addr4;
	int err;

	if (row->at.family == AF_INET) {
		memcpy(&addr4, row->at.server, sizeof(addr4));
		err = nla_put_in_addr(skb, FLT_A_SERVICE_ADDR4, addr4);
	} else {
		memcpy(&addr6, row->at.server, sizeof(addr6));
		err = nla_put_in6_addr(skb, FLT_A_SERVICE_ADDR6, &addr6);
	}
	return err || nla_put_u16(skb, FLT_A_SERVICE_PORT, ntohs(row->at.server_port)) ||
	       nla_put_string(skb, FLT_A_POLICY_NAME, row->policy) ||
	       nla_put_string(skb, FLT_A_POLICY_ARGS, row->args) ||
	       nla_put_string(skb, FLT_A_STAT_NAME, row->what) ||
	       nla_put_u64_64bit(skb, FLT_A_STAT_VALUE, row->value, FLT_A_PAD);
}

static int flt_policy_emit(const struct flt_migrate_row *row, void *arg)
{
	struct flt_policy_dump *dump = arg;
	struct sk_buff *skb = dump->skb;
	void *head;

	head = genlmsg_put(skb, NETLINK_CB(dump->cb->skb).portid, dump->cb->nlh->nlmsg_seq,
			   &flt_family, NLM_F_MULTI, FLT_CMD_POLICY_GET);
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
	struct flt_policy_dump dump = { .skb = skb, .cb = cb };
	u64 cursor = *(u64 *)cb->ctx;
	int err = 0;

	mutex_lock(&flt_migrate_lock);
	if (flt_migrate_source)
		err = flt_migrate_source->walk(sock_net(skb->sk), &cursor, flt_policy_emit, &dump);
	mutex_unlock(&flt_migrate_lock);
	*(u64 *)cb->ctx = cursor;
	return err && !skb->len ? err : skb->len;
}
