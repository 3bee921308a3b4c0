// SPDX-License-Identifier: GPL-2.0
/* Rules of services: commands, and the room that they go to. */

#include <linux/module.h>
#include <net/sock.h>
#include "netlink.h"
#include "redirect.h"
#include "service.h"
#include "source.h"

static struct flt_source flt_redirect_source = FLT_SOURCE_INIT(flt_redirect_source);

int flt_redirect_source_register(const struct flt_redirect_source *source)
{
	return flt_source_set(&flt_redirect_source, source);
}
EXPORT_SYMBOL_GPL(flt_redirect_source_register);

void flt_redirect_source_unregister(const struct flt_redirect_source *source)
{
	flt_source_clear(&flt_redirect_source, source);
}
EXPORT_SYMBOL_GPL(flt_redirect_source_unregister);

/*
 * To count a service's connections, those of the whole machine are looked through, so that root of
 * a user namespace has no say in it.
 */
static int flt_redirect_may(const struct sk_buff *skb, struct genl_info *info)
{
	if (netlink_capable(skb, CAP_NET_ADMIN))
		return 0;
	NL_SET_ERR_MSG(info->extack, "redirection is set by an administrator of the machine");
	return -EPERM;
}

static int flt_redirect_no_source(struct genl_info *info)
{
	NL_SET_ERR_MSG(info->extack, "handoff.ko is not loaded");
	return -EOPNOTSUPP;
}

int flt_redirect_set(struct sk_buff *skb, struct genl_info *info)
{
	struct nlattr *args = info->attrs[FLT_A_POLICY_ARGS];
	const struct flt_redirect_source *source;
	struct flt_tuple at;
	int err;

	err = flt_redirect_may(skb, info) ?: flt_service_get_at(info, &at);
	if (err)
		return err;
	mutex_lock(&flt_redirect_source.lock);
	source = flt_redirect_source.ops;
	if (source)
		err = source->set(genl_info_net(info), &at, args ? nla_data(args) : "");
	else
		err = flt_redirect_no_source(info);
	mutex_unlock(&flt_redirect_source.lock);
	if (err == -EINVAL)
		NL_SET_ERR_MSG(info->extack, "an argument is not one that redirection knows");
	else if (err == -ERANGE)
		NL_SET_ERR_MSG(info->extack, "a number is too large");
	else if (err == -ENOSPC)
		NL_SET_ERR_MSG(info->extack, "64 services are redirected already");
	else if (err == -EBUSY)
		NL_SET_ERR_MSG(info->extack,
			       "a program has the connections of this service opened early");
	return err;
}

int flt_redirect_del(struct sk_buff *skb, struct genl_info *info)
{
	const struct flt_redirect_source *source;
	struct flt_tuple at;
	int err;

	err = flt_redirect_may(skb, info) ?: flt_service_get_at(info, &at);
	if (err)
		return err;
	mutex_lock(&flt_redirect_source.lock);
	source = flt_redirect_source.ops;
	if (source)
		err = source->off(genl_info_net(info), &at);
	else
		err = flt_redirect_no_source(info);
	mutex_unlock(&flt_redirect_source.lock);
	if (err == -ENOENT)
		NL_SET_ERR_MSG(info->extack, "that service is not redirected");
	return err;
}

static int flt_redirect_put(struct sk_buff *skb, const struct flt_redirect_row *row)
{
	return flt_service_put_addr(skb, row->at.family, row->at.server) ||
	       nla_put_u16(skb, FLT_A_SERVICE_PORT, ntohs(row->at.server_port)) ||
	       (row->node && nla_put_string(skb, FLT_A_NODE_NAME, row->node)) ||
	       nla_put_string(skb, FLT_A_STAT_NAME, row->what) ||
	       nla_put_u64_64bit(skb, FLT_A_STAT_VALUE, row->value, FLT_A_PAD);
}

static int flt_redirect_emit(const struct flt_redirect_row *row, void *arg)
{
	struct flt_dump *dump = arg;
	struct sk_buff *skb = dump->skb;
	void *head;

	head = flt_dump_row(dump, FLT_CMD_REDIRECT_GET);
	if (!head)
		return -EMSGSIZE;
	if (flt_redirect_put(skb, row)) {
		genlmsg_cancel(skb, head);
		return -EMSGSIZE;
	}
	genlmsg_end(skb, head);
	return 0;
}

int flt_redirect_dump(struct sk_buff *skb, struct netlink_callback *cb)
{
	struct flt_dump dump = { .skb = skb, .cb = cb };
	const struct flt_redirect_source *source;
	int err = 0;

	mutex_lock(&flt_redirect_source.lock);
	source = flt_redirect_source.ops;
	if (source)
		err = source->walk(sock_net(skb->sk), flt_dump_cursor(cb), flt_redirect_emit,
				   &dump);
	mutex_unlock(&flt_redirect_source.lock);
	return err && !skb->len ? err : skb->len;
}
