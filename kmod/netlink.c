// SPDX-License-Identifier: GPL-2.0
/*
 * Generic netlink family "flotilla"; uapi/flotilla/flotilla.h says what it does.
 *
 * Operations run in parallel: what they change is guarded by the namespace's own
 * mutex, so a slow command in one namespace holds up no other, and dumps walk
 * the table under RCU by ascending id.
 */

#include <linux/module.h>
#include <net/genetlink.h>
#include <net/ipv6.h>
#include "connwalk.h"
#include "event.h"
#include "linkwork.h"
#include "listen.h"
#include "migrate.h"
#include "redirect.h"
#include "netlink.h"
#include "report.h"
#include "service.h"
#include "statsdump.h"
#include "table.h"

static const struct netlink_range_validation flt_weight_range = { .max = U16_MAX };

#define FLT_POLICY_NAME		{ .type = NLA_NUL_STRING, .len = FLT_NAME_MAX - 1 }
#define FLT_POLICY_ADDR6	NLA_POLICY_EXACT_LEN(sizeof(struct in6_addr))
#define FLT_POLICY_SETTINGS							\
	[FLT_A_NODE_WEIGHT]	= NLA_POLICY_FULL_RANGE(NLA_U32, &flt_weight_range), \
	[FLT_A_NODE_ADMIN]	= NLA_POLICY_MAX(NLA_U8, FLT_ADMIN_MAINTENANCE), \
	[FLT_A_NODE_ROLE]	= NLA_POLICY_MAX(NLA_U8, FLT_ROLE_FRONTEND),	\
	[FLT_A_NODE_FORWARD]	= NLA_POLICY_MAX(NLA_U8, FLT_FORWARD_UDP),	\
	[FLT_A_NODE_FWD_ADDR4]	= { .type = NLA_BE32 },				\
	[FLT_A_NODE_FWD_ADDR6]	= FLT_POLICY_ADDR6,				\
	[FLT_A_NODE_AUTH]	= NLA_POLICY_MAX(NLA_U8, FLT_AUTH_X509),	\
	[FLT_A_NODE_KEY]	= { .type = NLA_S32 }

static const struct nla_policy flt_local_set_policy[FLT_A_MAX + 1] = {
	[FLT_A_LOCAL_NAME]	= FLT_POLICY_NAME,
	[FLT_A_LOCAL_ADDR4]	= { .type = NLA_BE32 },
	[FLT_A_LOCAL_ADDR6]	= FLT_POLICY_ADDR6,
	[FLT_A_LOCAL_PORT]	= NLA_POLICY_MIN(NLA_U16, 1),
	[FLT_A_LOCAL_INSECURE]	= NLA_POLICY_MAX(NLA_U8, 1),
};

static const struct nla_policy flt_service_policy[FLT_A_MAX + 1] = {
	[FLT_A_SERVICE_ADDR4]	= { .type = NLA_BE32 },
	[FLT_A_SERVICE_ADDR6]	= FLT_POLICY_ADDR6,
	[FLT_A_SERVICE_PORT]	= NLA_POLICY_MIN(NLA_U16, 1),
};

static const struct nla_policy flt_policy_policy[FLT_A_MAX + 1] = {
	[FLT_A_SERVICE_ADDR4]	= { .type = NLA_BE32 },
	[FLT_A_SERVICE_ADDR6]	= FLT_POLICY_ADDR6,
	[FLT_A_SERVICE_PORT]	= NLA_POLICY_MIN(NLA_U16, 1),
	[FLT_A_POLICY_NAME]	= { .type = NLA_NUL_STRING, .len = FLT_POLICY_NAME_MAX - 1 },
	[FLT_A_POLICY_ARGS]	= { .type = NLA_NUL_STRING, .len = FLT_POLICY_ARGS_MAX - 1 },
};

static const struct nla_policy flt_redirect_policy[FLT_A_MAX + 1] = {
	[FLT_A_SERVICE_ADDR4]	= { .type = NLA_BE32 },
	[FLT_A_SERVICE_ADDR6]	= FLT_POLICY_ADDR6,
	[FLT_A_SERVICE_PORT]	= NLA_POLICY_MIN(NLA_U16, 1),
	[FLT_A_POLICY_ARGS]	= { .type = NLA_NUL_STRING, .len = FLT_POLICY_ARGS_MAX - 1 },
};

static const struct nla_policy flt_report_policy[FLT_A_MAX + 1] = {
	[FLT_A_REPORT_FAULTS]	= { .type = NLA_U32 },
	[FLT_A_REPORT_WARNINGS]	= { .type = NLA_U32 },
	[FLT_A_REPORT_WRONG]	= { .type = NLA_NUL_STRING, .len = FLT_WRONG_MAX - 1 },
};

static const struct nla_policy flt_node_name_policy[FLT_A_MAX + 1] = {
	[FLT_A_NODE_ID]		= NLA_POLICY_MIN(NLA_U32, 1),
	[FLT_A_NODE_NAME]	= FLT_POLICY_NAME,
};

static const struct nla_policy flt_node_new_policy[FLT_A_MAX + 1] = {
	[FLT_A_NODE_NAME]	= FLT_POLICY_NAME,
	[FLT_A_NODE_ADDR4]	= { .type = NLA_BE32 },
	[FLT_A_NODE_ADDR6]	= FLT_POLICY_ADDR6,
	[FLT_A_NODE_PORT]	= NLA_POLICY_MIN(NLA_U16, 1),
	FLT_POLICY_SETTINGS,
};

static const struct nla_policy flt_node_set_policy[FLT_A_MAX + 1] = {
	[FLT_A_NODE_ID]		= NLA_POLICY_MIN(NLA_U32, 1),
	[FLT_A_NODE_NAME]	= FLT_POLICY_NAME,
	FLT_POLICY_SETTINGS,
};

static const struct nla_policy flt_none_policy[FLT_A_MAX + 1] = {};

int flt_get_addr(struct genl_info *info, enum flt_attr attr4, enum flt_attr attr6,
		 union flt_addr *addr)
{
	struct nlattr *a4 = info->attrs[attr4], *a6 = info->attrs[attr6];
	const char *wrong;

	if (!a4 && !a6)
		return 0;
	if (a4 && a6) {
		NL_SET_ERR_MSG_ATTR(info->extack, a6, "one address only: IPv4 or IPv6");
		return -EINVAL;
	}
	memset(addr, 0, sizeof(*addr));
	if (a4) {
		addr->v4.sin_family = AF_INET;
		addr->v4.sin_addr.s_addr = nla_get_in_addr(a4);
	} else {
		addr->v6.sin6_family = AF_INET6;
		addr->v6.sin6_addr = nla_get_in6_addr(a6);
	}
	wrong = flt_addr_check(addr);
	if (!wrong)
		return 1;
	NL_SET_BAD_ATTR(info->extack, a4 ?: a6);
	NL_SET_ERR_MSG_FMT(info->extack, "%s", wrong);
	return -EINVAL;
}

static int flt_get_name(struct genl_info *info, enum flt_attr attr, char *name)
{
	const char *wrong;

	if (nla_strscpy(name, info->attrs[attr], FLT_NAME_MAX) < 0)
		wrong = "the name is too long";
	else
		wrong = flt_name_check(name);
	if (!wrong)
		return 0;
	NL_SET_BAD_ATTR(info->extack, info->attrs[attr]);
	NL_SET_ERR_MSG_FMT(info->extack, "%s", wrong);
	return -EINVAL;
}

static struct flt_node *flt_find_node(struct genl_info *info)
{
	struct net *net = genl_info_net(info);
	struct nlattr *by_id = info->attrs[FLT_A_NODE_ID];
	struct nlattr *by_name = info->attrs[FLT_A_NODE_NAME];
	struct flt_node *node;

	if (!by_id && !by_name) {
		NL_SET_ERR_MSG(info->extack, "which node: give its name or id");
		return ERR_PTR(-EINVAL);
	}
	node = by_id ? flt_node_by_id(net, nla_get_u32(by_id)) :
	       flt_node_by_name(net, nla_data(by_name));
	if (node && by_id && by_name && strcmp(node->name, nla_data(by_name))) {
		flt_node_put(node);
		node = NULL;
	}
	if (!node) {
		NL_SET_ERR_MSG(info->extack, "no such node");
		return ERR_PTR(-ENOENT);
	}
	return node;
}

static int flt_put_addr(struct sk_buff *skb, const union flt_addr *addr, int attr4, int attr6)
{
	if (addr->sa.sa_family == AF_INET)
		return nla_put_in_addr(skb, attr4, addr->v4.sin_addr.s_addr);
	if (addr->sa.sa_family == AF_INET6)
		return nla_put_in6_addr(skb, attr6, &addr->v6.sin6_addr);
	return 0;
}

static int flt_put_link_attrs(struct sk_buff *skb, const struct flt_node *node)
{
	const struct flt_link *link = node->link;
	u64 since = READ_ONCE(link->up_since), now = ktime_to_ms(ktime_get());
	u32 ups = READ_ONCE(link->ups);
	u8 why = READ_ONCE(link->why);

	if (nla_put_u8(skb, FLT_A_NODE_STATE, READ_ONCE(node->state)) ||
	    nla_put_u32(skb, FLT_A_NODE_RTT_US, READ_ONCE(link->rtt_us)) ||
	    nla_put_u64_64bit(skb, FLT_A_NODE_UPTIME_MS, since ? now - since : 0,
			      FLT_A_PAD) ||
	    nla_put_u32(skb, FLT_A_NODE_RECONNECTS, ups ? ups - 1 : 0))
		return -EMSGSIZE;
	return why ? nla_put_string(skb, FLT_A_NODE_REASON, flt_why_name(why)) : 0;
}

int flt_node_put_attrs(struct sk_buff *skb, struct flt_node *node)
{
	union flt_addr fwd;

	spin_lock_bh(&node->lock);
	fwd = node->fwd_addr;
	spin_unlock_bh(&node->lock);

	if (nla_put_u32(skb, FLT_A_NODE_ID, node->id) ||
	    nla_put_string(skb, FLT_A_NODE_NAME, node->name) ||
	    flt_put_addr(skb, &node->addr, FLT_A_NODE_ADDR4, FLT_A_NODE_ADDR6) ||
	    nla_put_u16(skb, FLT_A_NODE_PORT, ntohs(node->addr.v4.sin_port)) ||
	    nla_put_u32(skb, FLT_A_NODE_WEIGHT, READ_ONCE(node->weight)) ||
	    nla_put_u8(skb, FLT_A_NODE_ADMIN, READ_ONCE(node->admin)) ||
	    nla_put_u8(skb, FLT_A_NODE_ROLE, READ_ONCE(node->role)) ||
	    nla_put_u8(skb, FLT_A_NODE_FORWARD, READ_ONCE(node->forward)) ||
	    flt_put_addr(skb, &fwd, FLT_A_NODE_FWD_ADDR4, FLT_A_NODE_FWD_ADDR6) ||
	    nla_put_u8(skb, FLT_A_NODE_AUTH, READ_ONCE(node->auth)) ||
	    nla_put_u8(skb, FLT_A_NODE_PROVEN, flt_node_is_proven(node)) ||
	    nla_put_u64_64bit(skb, FLT_A_NODE_FEATURES, READ_ONCE(node->features), FLT_A_PAD) ||
	    nla_put_u32(skb, FLT_A_NODE_LOAD, max(atomic_read(&node->load), 0)))
		return -EMSGSIZE;
	if (READ_ONCE(node->auth) == FLT_AUTH_PSK &&
	    nla_put_s32(skb, FLT_A_NODE_KEY, READ_ONCE(node->key)))
		return -EMSGSIZE;
	return flt_put_link_attrs(skb, node) ?: flt_report_put_attrs(skb, node->link);
}

static int flt_local_get(struct sk_buff *req, struct genl_info *info)
{
	struct flt_net *fn = flt_net(genl_info_net(info));
	struct flt_local local = {};
	struct sk_buff *skb;
	void *head;

	flt_local_copy(fn, &local);
	skb = genlmsg_new(NLMSG_GOODSIZE, GFP_KERNEL);
	if (!skb)
		return -ENOMEM;
	head = genlmsg_put_reply(skb, info, &flt_family, 0, FLT_CMD_LOCAL_GET);
	if (!head)
		goto too_small;
	if (nla_put_u8(skb, FLT_A_LOCAL_INSECURE, READ_ONCE(fn->insecure)))
		goto too_small;
	/* Before LOCAL_SET there is nothing else. */
	if (*local.name &&
	    (nla_put_string(skb, FLT_A_LOCAL_NAME, local.name) ||
	     nla_put_u16(skb, FLT_A_LOCAL_PORT, local.port)))
		goto too_small;
	if (local.v4.sin_family &&
	    nla_put_in_addr(skb, FLT_A_LOCAL_ADDR4, local.v4.sin_addr.s_addr))
		goto too_small;
	if (local.v6.sin6_family &&
	    nla_put_in6_addr(skb, FLT_A_LOCAL_ADDR6, &local.v6.sin6_addr))
		goto too_small;
	genlmsg_end(skb, head);
	return genlmsg_reply(skb, info);

too_small:
	nlmsg_free(skb);
	return -EMSGSIZE;
}

/* Something besides FLT_A_LOCAL_INSECURE. */
static bool flt_local_is_given(struct genl_info *info)
{
	return info->attrs[FLT_A_LOCAL_NAME] || info->attrs[FLT_A_LOCAL_ADDR4] ||
	       info->attrs[FLT_A_LOCAL_ADDR6] || info->attrs[FLT_A_LOCAL_PORT];
}

static int flt_local_set(struct sk_buff *skb, struct genl_info *info)
{
	struct flt_net *fn = flt_net(genl_info_net(info));
	struct nlattr *insecure = info->attrs[FLT_A_LOCAL_INSECURE];
	struct flt_local local = { .port = FLT_LINK_PORT };
	union flt_addr addr;
	int err = 0;

	/* What is not given stays as it is. */
	flt_local_copy(fn, &local);
	if (info->attrs[FLT_A_LOCAL_NAME]) {
		memset(local.name, 0, sizeof(local.name));
		err = flt_get_name(info, FLT_A_LOCAL_NAME, local.name);
		if (err)
			return err;
	}
	err = flt_get_addr(info, FLT_A_LOCAL_ADDR4, FLT_A_UNSPEC, &addr);
	if (err < 0)
		return err;
	if (err)
		local.v4 = addr.v4;
	err = flt_get_addr(info, FLT_A_UNSPEC, FLT_A_LOCAL_ADDR6, &addr);
	if (err < 0)
		return err;
	if (err)
		local.v6 = addr.v6;
	if (info->attrs[FLT_A_LOCAL_PORT])
		local.port = nla_get_u16(info->attrs[FLT_A_LOCAL_PORT]);
	/* May be said before the node has a name, so that a link never is there before it. */
	if (!insecure || flt_local_is_given(info)) {
		if (!*local.name || (!local.v4.sin_family && !local.v6.sin6_family)) {
			NL_SET_ERR_MSG(info->extack, "this node needs a name and an address");
			return -EINVAL;
		}
		err = flt_listen_set(fn, &local, info->extack);
	}
	if (!err && insecure)
		flt_service_set_insecure(fn, nla_get_u8(insecure));
	return err;
}

static int flt_node_get_one(struct sk_buff *req, struct genl_info *info)
{
	struct flt_node *node = flt_find_node(info);
	struct sk_buff *skb;
	int err = -ENOMEM;
	void *head;

	if (IS_ERR(node))
		return PTR_ERR(node);
	skb = genlmsg_new(NLMSG_GOODSIZE, GFP_KERNEL);
	if (!skb)
		goto out;
	err = -EMSGSIZE;
	head = genlmsg_put_reply(skb, info, &flt_family, 0, FLT_CMD_NODE_GET);
	if (!head || flt_node_put_attrs(skb, node)) {
		nlmsg_free(skb);
		goto out;
	}
	genlmsg_end(skb, head);
	err = genlmsg_reply(skb, info);
out:
	flt_node_put(node);
	return err;
}

static int flt_node_dump(struct sk_buff *skb, struct netlink_callback *cb)
{
	struct flt_net *fn = flt_net(sock_net(skb->sk));
	struct flt_node *node;
	u32 id = cb->args[0];
	int err = 0;
	void *head;

	cb->seq = READ_ONCE(fn->change);
	while (!err && (node = flt_node_next(fn, &id))) {
		err = -EMSGSIZE;
		head = genlmsg_put(skb, NETLINK_CB(cb->skb).portid, cb->nlh->nlmsg_seq,
				   &flt_family, NLM_F_MULTI, FLT_CMD_NODE_GET);
		if (head) {
			genl_dump_check_consistent(cb, head);
			err = flt_node_put_attrs(skb, node);
			if (err)
				genlmsg_cancel(skb, head);
			else
				genlmsg_end(skb, head);
		}
		flt_node_put(node);
		if (!err)
			id++;
	}
	cb->args[0] = id;
	return err && !skb->len ? err : skb->len;
}

/* What NEW and SET have in common. */
static int flt_node_spec_fill(struct genl_info *info, struct flt_node_spec *spec)
{
	struct nlattr **attrs = info->attrs;
	int i, err;

	for (i = FLT_A_NODE_ID; i <= FLT_A_NODE_RECONNECTS; i++)
		if (attrs[i])
			spec->given |= FLT_GIVEN(i);
	if (attrs[FLT_A_NODE_WEIGHT])
		spec->weight = nla_get_u32(attrs[FLT_A_NODE_WEIGHT]);
	if (attrs[FLT_A_NODE_ADMIN])
		spec->admin = nla_get_u8(attrs[FLT_A_NODE_ADMIN]);
	if (attrs[FLT_A_NODE_ROLE])
		spec->role = nla_get_u8(attrs[FLT_A_NODE_ROLE]);
	if (attrs[FLT_A_NODE_FORWARD])
		spec->forward = nla_get_u8(attrs[FLT_A_NODE_FORWARD]);
	if (attrs[FLT_A_NODE_AUTH])
		spec->auth = nla_get_u8(attrs[FLT_A_NODE_AUTH]);
	if (attrs[FLT_A_NODE_KEY])
		spec->key = nla_get_s32(attrs[FLT_A_NODE_KEY]);
	err = flt_get_addr(info, FLT_A_NODE_FWD_ADDR4, FLT_A_NODE_FWD_ADDR6, &spec->fwd_addr);
	return min(err, 0);
}

static int flt_node_new(struct sk_buff *skb, struct genl_info *info)
{
	struct flt_node_spec spec = {};
	u16 port = FLT_LINK_PORT;
	int err;

	if (GENL_REQ_ATTR_CHECK(info, FLT_A_NODE_NAME)) {
		NL_SET_ERR_MSG(info->extack, "a new node needs a name");
		return -EINVAL;
	}
	err = flt_get_name(info, FLT_A_NODE_NAME, spec.name);
	if (err)
		return err;
	err = flt_get_addr(info, FLT_A_NODE_ADDR4, FLT_A_NODE_ADDR6, &spec.addr);
	if (!err)
		NL_SET_ERR_MSG(info->extack, "a new node needs an address");
	if (err <= 0)
		return err ?: -EINVAL;
	if (info->attrs[FLT_A_NODE_PORT])
		port = nla_get_u16(info->attrs[FLT_A_NODE_PORT]);
	/* sin_port and sin6_port are in the same place. */
	spec.addr.v4.sin_port = htons(port);
	err = flt_node_spec_fill(info, &spec);
	if (err)
		return err;
	return flt_table_add(flt_net(genl_info_net(info)), &spec, info->extack);
}

static int flt_node_set(struct sk_buff *skb, struct genl_info *info)
{
	struct flt_node_spec spec = {};
	struct flt_node *node;
	int err;

	err = flt_node_spec_fill(info, &spec);
	if (err)
		return err;
	node = flt_find_node(info);
	if (IS_ERR(node))
		return PTR_ERR(node);
	err = flt_table_set(flt_net(genl_info_net(info)), node, &spec, info->extack);
	flt_node_put(node);
	return err;
}

static int flt_node_del(struct sk_buff *skb, struct genl_info *info)
{
	struct flt_node *node = flt_find_node(info);
	int err;

	if (IS_ERR(node))
		return PTR_ERR(node);
	err = flt_table_del(flt_net(genl_info_net(info)), node);
	if (err)
		NL_SET_ERR_MSG(info->extack, "the node has just been removed");
	flt_node_put(node);
	return err;
}

static int flt_conn_emit(const struct flt_conn *conn, void *arg)
{
	struct flt_dump *dump = arg;
	struct sk_buff *skb = dump->skb;
	struct flt_node *node;
	void *head;
	int err;

	head = flt_dump_row(dump, FLT_CMD_CONN_GET);
	if (!head)
		return -EMSGSIZE;
	node = flt_node_by_id(sock_net(skb->sk), conn->node);
	err = node ? nla_put_string(skb, FLT_A_CONN_NODE, node->name) : 0;
	flt_node_put(node);
	if (err || nla_put(skb, FLT_A_CONN_TUPLE, sizeof(conn->tuple), &conn->tuple) ||
	    nla_put_string(skb, FLT_A_CONN_STATE, conn->state) ||
	    nla_put_u64_64bit(skb, FLT_A_CONN_PACKETS, conn->packets, FLT_A_PAD) ||
	    nla_put_u64_64bit(skb, FLT_A_CONN_BYTES, conn->bytes, FLT_A_PAD) ||
	    nla_put_u64_64bit(skb, FLT_A_CONN_AGE_MS, conn->age_ms, FLT_A_PAD)) {
		genlmsg_cancel(skb, head);
		return -EMSGSIZE;
	}
	genlmsg_end(skb, head);
	return 0;
}

static int flt_conn_dump(struct sk_buff *skb, struct netlink_callback *cb)
{
	struct flt_dump dump = { .skb = skb, .cb = cb };
	int err = flt_conn_walk(sock_net(skb->sk), flt_dump_cursor(cb), flt_conn_emit, &dump);

	return err && !skb->len ? err : skb->len;
}

static int flt_stats_emit(const char *room, const char *name, u64 value, void *arg)
{
	struct flt_dump *dump = arg;
	struct sk_buff *skb = dump->skb;
	void *head;

	head = flt_dump_row(dump, FLT_CMD_STATS_GET);
	if (!head)
		return -EMSGSIZE;
	if (nla_put_string(skb, FLT_A_STAT_ROOM, room) ||
	    nla_put_string(skb, FLT_A_STAT_NAME, name) ||
	    nla_put_u64_64bit(skb, FLT_A_STAT_VALUE, value, FLT_A_PAD)) {
		genlmsg_cancel(skb, head);
		return -EMSGSIZE;
	}
	genl_dump_check_consistent(dump->cb, head);
	genlmsg_end(skb, head);
	return 0;
}

static int flt_stats_dump(struct sk_buff *skb, struct netlink_callback *cb)
{
	struct flt_dump dump = { .skb = skb, .cb = cb };
	unsigned long skip = cb->args[0];
	int err;

	err = flt_stats_walk(sock_net(skb->sk), &skip, &cb->seq, flt_stats_emit, &dump);
	cb->args[0] = skip;
	return err && !skb->len ? err : skb->len;
}

#define FLT_DO(_cmd, _doit, _policy, _flags) {					\
	.cmd = (_cmd), .doit = (_doit), .policy = (_policy),			\
	.maxattr = FLT_A_MAX, .flags = GENL_CMD_CAP_DO | (_flags) }
#define FLT_DUMP(_cmd, _dumpit, _flags) {					\
	.cmd = (_cmd), .dumpit = (_dumpit), .policy = flt_none_policy,		\
	.maxattr = FLT_A_MAX, .flags = GENL_CMD_CAP_DUMP | (_flags) }

static const struct genl_split_ops flt_ops[] = {
	FLT_DO(FLT_CMD_LOCAL_GET, flt_local_get, flt_none_policy, 0),
	FLT_DO(FLT_CMD_LOCAL_SET, flt_local_set, flt_local_set_policy, GENL_UNS_ADMIN_PERM),
	FLT_DO(FLT_CMD_NODE_GET, flt_node_get_one, flt_node_name_policy, 0),
	FLT_DUMP(FLT_CMD_NODE_GET, flt_node_dump, 0),
	FLT_DO(FLT_CMD_NODE_NEW, flt_node_new, flt_node_new_policy, GENL_UNS_ADMIN_PERM),
	FLT_DO(FLT_CMD_NODE_SET, flt_node_set, flt_node_set_policy, GENL_UNS_ADMIN_PERM),
	FLT_DO(FLT_CMD_NODE_DEL, flt_node_del, flt_node_name_policy, GENL_UNS_ADMIN_PERM),
	FLT_DUMP(FLT_CMD_CONN_GET, flt_conn_dump, GENL_UNS_ADMIN_PERM),
	FLT_DUMP(FLT_CMD_STATS_GET, flt_stats_dump, 0),
	FLT_DUMP(FLT_CMD_SERVICE_GET, flt_service_dump, 0),
	FLT_DO(FLT_CMD_SERVICE_NEW, flt_service_new, flt_service_policy, GENL_UNS_ADMIN_PERM),
	FLT_DO(FLT_CMD_SERVICE_DEL, flt_service_del, flt_service_policy, GENL_UNS_ADMIN_PERM),
	FLT_DUMP(FLT_CMD_POLICY_GET, flt_policy_dump, 0),
	FLT_DO(FLT_CMD_POLICY_SET, flt_policy_set, flt_policy_policy, GENL_UNS_ADMIN_PERM),
	FLT_DO(FLT_CMD_POLICY_DEL, flt_policy_del, flt_policy_policy, GENL_UNS_ADMIN_PERM),
	FLT_DUMP(FLT_CMD_REDIRECT_GET, flt_redirect_dump, 0),
	FLT_DO(FLT_CMD_REDIRECT_SET, flt_redirect_set, flt_redirect_policy, GENL_UNS_ADMIN_PERM),
	FLT_DO(FLT_CMD_REDIRECT_DEL, flt_redirect_del, flt_redirect_policy, GENL_UNS_ADMIN_PERM),
	FLT_DO(FLT_CMD_REPORT_SET, flt_report_set, flt_report_policy, GENL_UNS_ADMIN_PERM),
};

static const struct genl_multicast_group flt_groups[] = {
	{ .name = FLT_GENL_MCGRP_EVENTS },
};

struct genl_family flt_family __ro_after_init = {
	.name		= FLT_GENL_NAME,
	.version	= FLT_GENL_VERSION,
	.maxattr	= FLT_A_MAX,
	.netnsok	= true,
	.parallel_ops	= true,
	.module		= THIS_MODULE,
	.split_ops	= flt_ops,
	.n_split_ops	= ARRAY_SIZE(flt_ops),
	.mcgrps		= flt_groups,
	.n_mcgrps	= ARRAY_SIZE(flt_groups),
};

int __init flt_netlink_init(void)
{
	int err = genl_register_family(&flt_family);

	if (!err)
		flt_event_enable(true);
	return err;
}

void flt_netlink_exit(void)
{
	flt_event_enable(false);
	genl_unregister_family(&flt_family);
}
