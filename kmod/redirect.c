// SPDX-License-Identifier: GPL-2.0
/* Rules of services: commands, and the room that they go to. */

#include <linux/module.h>
#include <linux/mutex.h>
#include <net/sock.h>
#include "migrate.h"
#include "netlink.h"
#include "redirect.h"

/* Guards the source; held during a call, so that it cannot go meanwhile. */
static DEFINE_MUTEX(flt_redirect_lock);
static const struct flt_redirect_source *flt_redirect_source;

int flt_redirect_source_register(const struct flt_redirect_source *source)
{
	int err = 0;

	mutex_lock(&flt_redirect_lock);
	if (flt_redirect_source)
		err = -EBUSY;
	else
		flt_redirect_source = source;
	mutex_unlock(&flt_redirect_lock);
	return err;
}
EXPORT_SYMBOL_GPL(flt_redirect_source_register);

void flt_redirect_source_unregister(const struct flt_redirect_source *source)
{
	mutex_lock(&flt_redirect_lock);
	if (!WARN_ON_ONCE(flt_redirect_source != source))
		flt_redirect_source = NULL;
	mutex_unlock(&flt_redirect_lock);
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
	struct flt_tuple at;
	int err;

	err = flt_redirect_may(skb, info) ?: flt_service_at(info, &at);
	if (err)
		return err;
	mutex_lock(&flt_redirect_lock);
	if (flt_redirect_source)
		err = flt_redirect_source->set(genl_info_net(info), &at,
					       args ? nla_data(args) : "");
	else
		err = flt_redirect_no_source(info);
	mutex_unlock(&flt_redirect_lock);
	if (err == -EINVAL)
		NL_SET_ERR_MSG(info->extack, "an argument is not one that redirection knows");
	else if (err == -ERANGE)
		NL_SET_ERR_MSG(info->extack, "a number is too large");
	else if (err == -ENOSPC)
		NL_SET_ERR_MSG(info->extack, "64 services are redirected already");
	return err;
}

int flt_redirect_del(struct sk_buff *skb, struct genl_info *info)
{
	struct flt_tuple at;
	int err;

	err = flt_redirect_may(skb, info) ?: flt_service_at(info, &at);
	if (err)
		return err;
	mutex_lock(&flt_redirect_lock);
	if (flt_redirect_source)
		err = flt_redirect_source->off(genl_info_net(info), &at);
	else
		err = flt_redirect_no_source(info);
	mutex_unlock(&flt_redirect_lock);
	if (err == -ENOENT)
		NL_SET_ERR_MSG(info->extack, "that service is not redirected");
	return err;
}

/* Where a row goes. */
struct flt_redirect_dump {
	struct sk_buff *skb;
	struct netlink_callback *cb;
};

static int flt_redirect_put(struct sk_buff *skb, const struct flt_redirect_row *row)
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
	       (row->node && nla_put_string(skb, FLT_A_NODE_NAME, row->node)) ||
	       nla_put_string(skb, FLT_A_STAT_NAME, row->what) ||
	       nla_put_u64_64bit(skb, FLT_A_STAT_VALUE, row->value, FLT_A_PAD);
}

static int flt_redirect_emit(const struct flt_redirect_row *row, void *arg)
{
	struct flt_redirect_dump *dump = arg;
	struct sk_buff *skb = dump->skb;
	void *head;

	head = genlmsg_put(skb, NETLINK_CB(dump->cb->skb).portid, dump->cb->nlh->nlmsg_seq,
			   &flt_family, NLM_F_MULTI, FLT_CMD_REDIRECT_GET);
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
	struct flt_redirect_dump dump = { .skb = skb, .cb = cb };
	u64 cursor = *(u64 *)cb->ctx;
	int err = 0;

	mutex_lock(&flt_redirect_lock);
	if (flt_redirect_source)
		err = flt_redirect_source->walk(sock_net(skb->sk), &cursor, flt_redirect_emit,
						&dump);
	mutex_unlock(&flt_redirect_lock);
	*(u64 *)cb->ctx = cursor;
	return err && !skb->len ? err : skb->len;
}
