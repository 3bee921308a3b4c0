// SPDX-License-Identifier: GPL-2.0
/* Generic netlink family "flotilla_card"; uapi/flotilla/card.h says what it does. */

#include <linux/module.h>
#include <net/genetlink.h>
#include <net/sock.h>

#include "attach.h"
#include "disk.h"
#include "explain.h"
#include "export.h"
#include "netlink.h"
#include "seat.h"

#define CARD_POLICY_NAME	{ .type = NLA_NUL_STRING, .len = CARD_NAME_MAX - 1 }
#define CARD_POLICY_NODE	{ .type = NLA_NUL_STRING, .len = FLT_NAME_MAX - 1 }
#define CARD_POLICY_PATH	{ .type = NLA_NUL_STRING, .len = CARD_PATH_MAX - 1 }

static const struct netlink_range_validation card_timeout_range = { .min = 100, .max = 600000 };
static const struct netlink_range_validation card_retries_range = { .max = 1000 };
static const struct netlink_range_validation card_fail_fast_range = { .max = 86400 };
static const struct netlink_range_validation card_readahead_range = { .max = 16384 };
static const struct netlink_range_validation card_host_range = { .max = S32_MAX };

static const struct nla_policy card_export_new_policy[CARD_A_MAX + 1] = {
	[CARD_A_EXPORT_NAME]	= CARD_POLICY_NAME,
	[CARD_A_EXPORT_PATH]	= CARD_POLICY_PATH,
	[CARD_A_EXPORT_MOUNT]	= CARD_POLICY_PATH,
	[CARD_A_EXPORT_NODE]	= CARD_POLICY_NODE,
	[CARD_A_EXPORT_FLAGS]	= { .type = NLA_U32 },
	[CARD_A_EXPORT_SERVE]	= NLA_POLICY_MAX(NLA_U8, CARD_SERVE_THREAD),
	[CARD_A_EXPORT_DELIVER]	= NLA_POLICY_MAX(NLA_U8, CARD_DELIVER_SYNC),
	[CARD_A_EXPORT_POLICY]	= CARD_POLICY_NAME,
	[CARD_A_EXPORT_HOST]	= NLA_POLICY_FULL_RANGE(NLA_U32, &card_host_range),
	[CARD_A_EXPORT_HOME_SHIFT] = NLA_POLICY_MAX(NLA_U8, CARD_HOME_SHIFT_MAX),
	[CARD_A_EXPORT_CLAIM]	= { .type = NLA_U32 },
	[CARD_A_EXPORT_UUID]	= NLA_POLICY_EXACT_LEN(CARD_UUID_LEN),
	[CARD_A_EXPORT_ORIGIN]	= NLA_POLICY_RANGE(NLA_U8, CARD_ORIGIN_DISK, CARD_ORIGIN_NAMED),
};

static const struct nla_policy card_export_set_policy[CARD_A_MAX + 1] = {
	[CARD_A_EXPORT_NAME]	= CARD_POLICY_NAME,
	[CARD_A_EXPORT_SERVE]	= NLA_POLICY_MAX(NLA_U8, CARD_SERVE_THREAD),
	[CARD_A_EXPORT_DELIVER]	= NLA_POLICY_MAX(NLA_U8, CARD_DELIVER_SYNC),
};

static const struct nla_policy card_export_name_policy[CARD_A_MAX + 1] = {
	[CARD_A_EXPORT_NAME]	= CARD_POLICY_NAME,
};

static const struct nla_policy card_disk_new_policy[CARD_A_MAX + 1] = {
	[CARD_A_DISK_NODE]	= CARD_POLICY_NODE,
	[CARD_A_DISK_EXPORT]	= CARD_POLICY_NAME,
	[CARD_A_DISK_FLAGS]	= { .type = NLA_U32 },
	[CARD_A_DISK_MODE]	= NLA_POLICY_MAX(NLA_U8, CARD_MODE_PAGE),
	[CARD_A_DISK_DEPTH]	= NLA_POLICY_RANGE(NLA_U32, 1, 1024),
	[CARD_A_DISK_TIMEOUT_MS] = NLA_POLICY_FULL_RANGE(NLA_U32, &card_timeout_range),
	[CARD_A_DISK_RETRIES]	= NLA_POLICY_FULL_RANGE(NLA_U32, &card_retries_range),
	[CARD_A_DISK_READAHEAD]	= NLA_POLICY_FULL_RANGE(NLA_U32, &card_readahead_range),
	[CARD_A_DISK_HOST]	= NLA_POLICY_FULL_RANGE(NLA_U32, &card_host_range),
	[CARD_A_DISK_UUID]	= NLA_POLICY_EXACT_LEN(CARD_UUID_LEN),
	[CARD_A_DISK_FAIL_FAST]	= NLA_POLICY_FULL_RANGE(NLA_U32, &card_fail_fast_range),
};

static const struct nla_policy card_explain_policy[CARD_A_MAX + 1] = {
	[CARD_A_EXPLAIN_NAME]	= CARD_POLICY_NAME,
	[CARD_A_EXPLAIN_BLOCK]	= { .type = NLA_U64 },
};

static const struct nla_policy card_disk_del_policy[CARD_A_MAX + 1] = {
	[CARD_A_DISK_NAME]	= CARD_POLICY_NAME,
	[CARD_A_DISK_NODE]	= CARD_POLICY_NODE,
	[CARD_A_DISK_EXPORT]	= CARD_POLICY_NAME,
	[CARD_A_DISK_FORCE]	= { .type = NLA_FLAG },
};

static struct genl_family card_genl_family;

/* 0 or an errno with its sentence. All commands of this family but the dumps begin so. */
static int card_may(struct sk_buff *skb, struct genl_info *info)
{
	if (netlink_capable(skb, CAP_SYS_ADMIN))
		return 0;
	NL_SET_ERR_MSG(info->extack, "this needs CAP_SYS_ADMIN");
	return -EPERM;
}

static bool card_name_good(const char *name)
{
	const char *c;

	for (c = name; *c; c++)
		if (!(isascii(*c) && isalnum(*c)) && !strchr("._-", *c))
			return false;
	return name[0] && name[0] != '.' && name[0] != '-';
}

/* A mandatory name into @name. */
static int card_get_name(struct genl_info *info, enum card_attr attr, char *name, size_t size)
{
	if (GENL_REQ_ATTR_CHECK(info, attr)) {
		NL_SET_ERR_MSG(info->extack, "a name is missing");
		return -EINVAL;
	}
	if (nla_strscpy(name, info->attrs[attr], size) < 0 || !card_name_good(name)) {
		NL_SET_ERR_MSG_ATTR(info->extack, info->attrs[attr],
				    "a name is 1 to 31 of A-Z a-z 0-9 . _ -");
		return -EINVAL;
	}
	return 0;
}

static int card_get_flags(struct genl_info *info, enum card_attr attr, u32 known, u32 *flags)
{
	*flags = info->attrs[attr] ? nla_get_u32(info->attrs[attr]) : 0;
	if (*flags & (CARD_FLAG_SHARED | CARD_FLAG_STEAL) && !(*flags & CARD_FLAG_WRITE)) {
		NL_SET_ERR_MSG(info->extack, "shared and steal are for who writes: say write, too");
		return -EINVAL;
	}
	if (!(*flags & ~known))
		return 0;
	NL_SET_ERR_MSG_ATTR(info->extack, info->attrs[attr], "unknown flags");
	return -EOPNOTSUPP;
}

/* An identity, if it is given: then it is one. */
static int card_get_uuid(struct genl_info *info, enum card_attr attr, uuid_t *uuid)
{
	if (!info->attrs[attr])
		return 0;
	import_uuid(uuid, nla_data(info->attrs[attr]));
	if (!uuid_is_null(uuid))
		return 0;
	NL_SET_ERR_MSG_ATTR(info->extack, info->attrs[attr], "zeros identify no disk");
	return -EINVAL;
}

/* The nodes that may attach: each an attribute of its own. */
static int card_get_nodes(struct genl_info *info, struct card_export_spec *spec)
{
	struct nlattr *attr;
	int left;

	nlmsg_for_each_attr(attr, info->nlhdr, GENL_HDRLEN, left) {
		unsigned int i = spec->nr_nodes, j;

		if (nla_type(attr) != CARD_A_EXPORT_NODE)
			continue;
		if (i == CARD_NODES_MAX) {
			NL_SET_ERR_MSG(info->extack, "too many nodes");
			return -EINVAL;
		}
		if (nla_strscpy(spec->nodes[i], attr, FLT_NAME_MAX) < 0 ||
		    !card_name_good(spec->nodes[i])) {
			NL_SET_ERR_MSG_ATTR(info->extack, attr, "that is not a node's name");
			return -EINVAL;
		}
		for (j = 0; j < i; j++) {
			if (!strcmp(spec->nodes[i], spec->nodes[j])) {
				NL_SET_ERR_MSG_ATTR(info->extack, attr, "a node is listed twice");
				return -EINVAL;
			}
		}
		spec->nr_nodes++;
	}
	if (spec->nr_nodes)
		return 0;
	NL_SET_ERR_MSG(info->extack, "say which nodes may use it");
	return -EINVAL;
}

/* Other devices of the same storage: each an attribute of its own. */
static int card_get_claims(struct genl_info *info, struct card_export_spec *spec)
{
	struct nlattr *attr;
	int left;
	u32 dev;

	nlmsg_for_each_attr(attr, info->nlhdr, GENL_HDRLEN, left) {
		if (nla_type(attr) != CARD_A_EXPORT_CLAIM)
			continue;
		if (spec->nr_claims == CARD_CLAIMS_MAX) {
			NL_SET_ERR_MSG(info->extack, "too many devices to claim");
			return -EINVAL;
		}
		dev = nla_get_u32(attr);
		spec->claims[spec->nr_claims++] = MKDEV(dev >> 20, dev & 0xfffff);
	}
	return 0;
}

static int card_get_export(struct genl_info *info, struct card_export_spec *spec)
{
	int err;

	err = card_get_name(info, CARD_A_EXPORT_NAME, spec->name, sizeof(spec->name));
	if (!err)
		err = card_get_flags(info, CARD_A_EXPORT_FLAGS, CARD_FLAG_WRITE | CARD_FLAG_SHARED |
				     CARD_FLAG_UNCLAIMED, &spec->flags);
	if (!err && spec->flags & CARD_FLAG_WRITE && spec->flags & CARD_FLAG_UNCLAIMED) {
		NL_SET_ERR_MSG(info->extack, "who writes has to claim the disk");
		err = -EINVAL;
	}
	if (!err)
		err = card_get_uuid(info, CARD_A_EXPORT_UUID, &spec->uuid);
	if (!err)
		err = card_get_claims(info, spec);
	if (!err)
		err = card_get_nodes(info, spec);
	if (err)
		return err;
	spec->origin = CARD_ORIGIN_NAMED;
	if (info->attrs[CARD_A_EXPORT_ORIGIN])
		spec->origin = nla_get_u8(info->attrs[CARD_A_EXPORT_ORIGIN]);
	if (GENL_REQ_ATTR_CHECK(info, CARD_A_EXPORT_PATH)) {
		NL_SET_ERR_MSG(info->extack, "the block device's path is missing");
		return -EINVAL;
	}
	nla_strscpy(spec->path, info->attrs[CARD_A_EXPORT_PATH], sizeof(spec->path));
	if (info->attrs[CARD_A_EXPORT_MOUNT])
		nla_strscpy(spec->mount, info->attrs[CARD_A_EXPORT_MOUNT], sizeof(spec->mount));
	if (info->attrs[CARD_A_EXPORT_SERVE])
		spec->serve = nla_get_u8(info->attrs[CARD_A_EXPORT_SERVE]);
	if (info->attrs[CARD_A_EXPORT_DELIVER])
		spec->deliver = nla_get_u8(info->attrs[CARD_A_EXPORT_DELIVER]);
	spec->host = -1;
	if (info->attrs[CARD_A_EXPORT_HOST])
		spec->host = nla_get_u32(info->attrs[CARD_A_EXPORT_HOST]);
	if (info->attrs[CARD_A_EXPORT_HOME_SHIFT])
		spec->home_shift = nla_get_u8(info->attrs[CARD_A_EXPORT_HOME_SHIFT]);
	strscpy(spec->policy, "none", sizeof(spec->policy));
	if (info->attrs[CARD_A_EXPORT_POLICY])
		err = card_get_name(info, CARD_A_EXPORT_POLICY, spec->policy,
				    sizeof(spec->policy));
	if (!err && spec->flags & CARD_FLAG_WRITE && strcmp(spec->policy, "none")) {
		NL_SET_ERR_MSG(info->extack,
			       "no writing with a policy: others have copies that would stay");
		err = -EOPNOTSUPP;
	}
	return err;
}

static int card_nl_export_new(struct sk_buff *skb, struct genl_info *info)
{
	struct card_export_spec *spec;
	int err;

	err = card_may(skb, info);
	if (err)
		return err;
	spec = kzalloc(sizeof(*spec), GFP_KERNEL);
	if (!spec)
		return -ENOMEM;
	err = card_get_export(info, spec);
	if (!err)
		err = card_export_add(card_net(genl_info_net(info)), spec, info->extack);
	kfree(spec);
	return err;
}

static int card_nl_export_del(struct sk_buff *skb, struct genl_info *info)
{
	char name[CARD_NAME_MAX];
	int err;

	err = card_may(skb, info);
	if (!err)
		err = card_get_name(info, CARD_A_EXPORT_NAME, name, sizeof(name));
	if (err)
		return err;
	err = card_export_del(card_net(genl_info_net(info)), name);
	if (err == -ENOENT)
		NL_SET_ERR_MSG(info->extack, "there is no such export");
	return err;
}

static int card_nl_export_set(struct sk_buff *skb, struct genl_info *info)
{
	struct nlattr *serve = info->attrs[CARD_A_EXPORT_SERVE];
	struct nlattr *deliver = info->attrs[CARD_A_EXPORT_DELIVER];
	char name[CARD_NAME_MAX];
	int err;

	err = card_may(skb, info);
	if (!err)
		err = card_get_name(info, CARD_A_EXPORT_NAME, name, sizeof(name));
	if (err)
		return err;
	err = card_export_set(card_net(genl_info_net(info)), name,
			      serve ? nla_get_u8(serve) : -1,
			      deliver ? nla_get_u8(deliver) : -1);
	if (err == -ENOENT)
		NL_SET_ERR_MSG(info->extack, "there is no such export");
	return err;
}

static int card_put_export(struct sk_buff *skb, struct card_export *export)
{
	const struct card_export_spec *spec = &export->spec;
	char writer[FLT_NAME_MAX];
	unsigned int i;

	card_seat_holder(export->cn, export->seat, writer);
	for (i = 0; i < spec->nr_nodes; i++)
		if (nla_put_string(skb, CARD_A_EXPORT_NODE, spec->nodes[i]))
			return -EMSGSIZE;
	if (nla_put_string(skb, CARD_A_EXPORT_NAME, spec->name) ||
	    nla_put_string(skb, CARD_A_EXPORT_PATH, spec->path) ||
	    (spec->mount[0] && nla_put_string(skb, CARD_A_EXPORT_MOUNT, spec->mount)) ||
	    nla_put_u32(skb, CARD_A_EXPORT_FLAGS, spec->flags) ||
	    nla_put_u8(skb, CARD_A_EXPORT_SERVE, READ_ONCE(spec->serve)) ||
	    nla_put_u8(skb, CARD_A_EXPORT_DELIVER, READ_ONCE(spec->deliver)) ||
	    nla_put_string(skb, CARD_A_EXPORT_POLICY, spec->policy) ||
	    nla_put_u64_64bit(skb, CARD_A_EXPORT_SIZE, export->sectors << SECTOR_SHIFT,
			      CARD_A_PAD) ||
	    nla_put(skb, CARD_A_EXPORT_UUID, CARD_UUID_LEN, &spec->uuid) ||
	    nla_put_u8(skb, CARD_A_EXPORT_ORIGIN, spec->origin) ||
	    nla_put_string(skb, CARD_A_EXPORT_WRITER, writer) ||
	    nla_put_u32(skb, CARD_A_EXPORT_SESSIONS, card_export_sessions(export)))
		return -EMSGSIZE;
	return 0;
}

static int card_put_disk(struct sk_buff *skb, struct card_disk *disk)
{
	const struct card_disk_spec *spec = &disk->spec;
	u8 state = READ_ONCE(disk->state);
	int why = READ_ONCE(disk->why);

	if (nla_put_string(skb, CARD_A_DISK_NAME, disk->gendisk->disk_name) ||
	    nla_put_string(skb, CARD_A_DISK_NODE, spec->node) ||
	    nla_put_string(skb, CARD_A_DISK_EXPORT, spec->export) ||
	    nla_put_u32(skb, CARD_A_DISK_FLAGS, spec->flags) ||
	    nla_put_u8(skb, CARD_A_DISK_MODE, spec->mode) ||
	    nla_put_u32(skb, CARD_A_DISK_DEPTH, spec->depth) ||
	    nla_put_u32(skb, CARD_A_DISK_TIMEOUT_MS, spec->timeout_ms) ||
	    (spec->retries != CARD_RETRIES_ALWAYS &&
	     nla_put_u32(skb, CARD_A_DISK_RETRIES, spec->retries)) ||
	    nla_put_u32(skb, CARD_A_DISK_FAIL_FAST, spec->fail_fast) ||
	    nla_put_u32(skb, CARD_A_DISK_READAHEAD, disk->gendisk->bdi->ra_pages) ||
	    nla_put_u64_64bit(skb, CARD_A_DISK_SIZE,
			      READ_ONCE(disk->geo.sectors) << SECTOR_SHIFT, CARD_A_PAD) ||
	    nla_put_u8(skb, CARD_A_DISK_STATE, state) ||
	    nla_put_string(skb, CARD_A_DISK_POLICY, disk->geo.policy) ||
	    nla_put(skb, CARD_A_DISK_UUID, CARD_UUID_LEN, &disk->geo.uuid) ||
	    nla_put_u32(skb, CARD_A_DISK_OPENERS, disk_openers(disk->gendisk)) ||
	    nla_put_u32(skb, CARD_A_DISK_INFLIGHT, card_disk_inflight(disk)))
		return -EMSGSIZE;
	if (state == CARD_STATE_LIVE && !READ_ONCE(disk->unflushed.lost))
		return 0;
	return nla_put_string(skb, CARD_A_DISK_REASON, card_attach_reason(disk, state, why));
}

/* Dumps go by number; what is being made or ended meanwhile may be missing. */
static int card_nl_export_dump(struct sk_buff *skb, struct netlink_callback *cb)
{
	struct card_net *cn = card_net(sock_net(skb->sk));
	struct card_export *export;
	unsigned long id;
	void *head;
	int err = 0;

	mutex_lock(&cn->lock);
	xa_for_each_start(&cn->exports, id, export, cb->args[0]) {
		head = genlmsg_put(skb, NETLINK_CB(cb->skb).portid, cb->nlh->nlmsg_seq,
				   &card_genl_family, NLM_F_MULTI, CARD_CMD_EXPORT_GET);
		err = head ? card_put_export(skb, export) : -EMSGSIZE;
		if (err) {
			genlmsg_cancel(skb, head);
			break;
		}
		genlmsg_end(skb, head);
		cb->args[0] = id + 1;
	}
	mutex_unlock(&cn->lock);
	return err && !skb->len ? err : skb->len;
}

static int card_nl_disk_dump(struct sk_buff *skb, struct netlink_callback *cb)
{
	struct card_net *cn = card_net(sock_net(skb->sk));
	struct card_disk *disk;
	unsigned long id;
	void *head;
	int err = 0;

	mutex_lock(&cn->lock);
	xa_for_each_start(&cn->disks, id, disk, cb->args[0]) {
		if (!disk->ready)
			continue;
		head = genlmsg_put(skb, NETLINK_CB(cb->skb).portid, cb->nlh->nlmsg_seq,
				   &card_genl_family, NLM_F_MULTI, CARD_CMD_DISK_GET);
		err = head ? card_put_disk(skb, disk) : -EMSGSIZE;
		if (err) {
			genlmsg_cancel(skb, head);
			break;
		}
		genlmsg_end(skb, head);
		cb->args[0] = id + 1;
	}
	mutex_unlock(&cn->lock);
	return err && !skb->len ? err : skb->len;
}

static u32 card_get_number(struct genl_info *info, enum card_attr attr, u32 usual)
{
	return info->attrs[attr] ? nla_get_u32(info->attrs[attr]) : usual;
}

static int card_get_disk(struct genl_info *info, struct card_disk_spec *spec)
{
	int err;

	err = card_get_name(info, CARD_A_DISK_NODE, spec->node, sizeof(spec->node));
	if (!err)
		err = card_get_name(info, CARD_A_DISK_EXPORT, spec->export, sizeof(spec->export));
	if (!err)
		err = card_get_flags(info, CARD_A_DISK_FLAGS, CARD_FLAG_WRITE | CARD_FLAG_KEEP |
				     CARD_FLAG_NOLOOKUP | CARD_FLAG_SHARED | CARD_FLAG_STEAL,
				     &spec->flags);
	if (!err && spec->flags & CARD_FLAG_SHARED && spec->flags & CARD_FLAG_STEAL) {
		NL_SET_ERR_MSG(info->extack, "who writes with others takes nobody's place");
		err = -EINVAL;
	}
	if (!err)
		err = card_get_uuid(info, CARD_A_DISK_UUID, &spec->uuid);
	if (err)
		return err;
	if (info->attrs[CARD_A_DISK_MODE])
		spec->mode = nla_get_u8(info->attrs[CARD_A_DISK_MODE]);
	spec->depth = card_get_number(info, CARD_A_DISK_DEPTH, 128);
	spec->timeout_ms = card_get_number(info, CARD_A_DISK_TIMEOUT_MS, 1000);
	spec->retries = card_get_number(info, CARD_A_DISK_RETRIES, CARD_RETRIES_ALWAYS);
	spec->fail_fast = card_get_number(info, CARD_A_DISK_FAIL_FAST, 0);
	spec->host = -1;
	if (info->attrs[CARD_A_DISK_HOST])
		spec->host = nla_get_u32(info->attrs[CARD_A_DISK_HOST]);
	spec->readahead = -1;
	if (info->attrs[CARD_A_DISK_READAHEAD])
		spec->readahead = nla_get_u32(info->attrs[CARD_A_DISK_READAHEAD]);
	return 0;
}

static int card_nl_disk_new(struct sk_buff *skb, struct genl_info *info)
{
	struct card_disk_spec spec = {};
	char name[CARD_NAME_MAX];
	struct sk_buff *answer;
	void *head;
	int err;

	err = card_may(skb, info);
	if (!err)
		err = card_get_disk(info, &spec);
	if (err)
		return err;
	answer = genlmsg_new(nla_total_size(CARD_NAME_MAX), GFP_KERNEL);
	if (!answer)
		return -ENOMEM;
	err = card_disk_add(card_net(genl_info_net(info)), &spec, name, info->extack);
	if (err) {
		nlmsg_free(answer);
		return err;
	}
	/* There is room for this. */
	head = genlmsg_put_reply(answer, info, &card_genl_family, 0, CARD_CMD_DISK_NEW);
	nla_put_string(answer, CARD_A_DISK_NAME, name);
	genlmsg_end(answer, head);
	return genlmsg_reply(answer, info);
}

static int card_nl_disk_del(struct sk_buff *skb, struct genl_info *info)
{
	char name[CARD_NAME_MAX], node[FLT_NAME_MAX], export[CARD_NAME_MAX];
	bool by_name = info->attrs[CARD_A_DISK_NAME];
	int err;

	err = card_may(skb, info);
	if (err)
		return err;
	if (by_name) {
		err = card_get_name(info, CARD_A_DISK_NAME, name, sizeof(name));
	} else {
		err = card_get_name(info, CARD_A_DISK_NODE, node, sizeof(node));
		if (!err)
			err = card_get_name(info, CARD_A_DISK_EXPORT, export, sizeof(export));
	}
	if (err)
		return err;
	err = card_disk_del(card_net(genl_info_net(info)), by_name ? name : NULL, node, export,
			    info->attrs[CARD_A_DISK_FORCE], info->extack);
	if (err == -ENOENT)
		NL_SET_ERR_MSG(info->extack, "there is no such disk");
	return err;
}

static int card_put_explained(struct sk_buff *skb, const struct card_explained *out, u64 block)
{
	if (nla_put_string(skb, CARD_A_EXPLAIN_NAME, out->name) ||
	    nla_put_u64_64bit(skb, CARD_A_EXPLAIN_BLOCK, block, CARD_A_PAD) ||
	    nla_put_string(skb, CARD_A_EXPLAIN_POLICY, out->policy) ||
	    nla_put_u8(skb, CARD_A_EXPLAIN_HELD, out->held) ||
	    nla_put_u8(skb, CARD_A_EXPLAIN_COPY, out->copy) ||
	    nla_put_string(skb, CARD_A_EXPLAIN_HOME, out->home) ||
	    nla_put_string(skb, CARD_A_EXPLAIN_PREVIOUS, out->previous) ||
	    nla_put_string(skb, CARD_A_EXPLAIN_NEXT, out->next) ||
	    nla_put_string(skb, CARD_A_EXPLAIN_ASK, out->ask) ||
	    nla_put_u32(skb, CARD_A_EXPLAIN_HOSTED, out->nr_hosted) ||
	    nla_put_u32(skb, CARD_A_EXPLAIN_HOST, out->host_max))
		return -EMSGSIZE;
	return 0;
}

static int card_nl_explain(struct sk_buff *skb, struct genl_info *info)
{
	char name[CARD_NAME_MAX], *given = NULL;
	struct card_explained out;
	struct sk_buff *answer;
	void *head;
	u64 block;
	int err;

	err = card_may(skb, info);
	if (!err && info->attrs[CARD_A_EXPLAIN_NAME]) {
		err = card_get_name(info, CARD_A_EXPLAIN_NAME, name, sizeof(name));
		given = name;
	}
	if (err)
		return err;
	if (GENL_REQ_ATTR_CHECK(info, CARD_A_EXPLAIN_BLOCK)) {
		NL_SET_ERR_MSG(info->extack, "the block's number is missing");
		return -EINVAL;
	}
	block = nla_get_u64(info->attrs[CARD_A_EXPLAIN_BLOCK]);
	err = card_explain(card_net(genl_info_net(info)), given, block, &out, info->extack);
	if (err)
		return err;
	answer = genlmsg_new(NLMSG_DEFAULT_SIZE, GFP_KERNEL);
	if (!answer)
		return -ENOMEM;
	/* There is room for this. */
	head = genlmsg_put_reply(answer, info, &card_genl_family, 0, CARD_CMD_EXPLAIN);
	card_put_explained(answer, &out, block);
	genlmsg_end(answer, head);
	return genlmsg_reply(answer, info);
}

/* In the order of the commands' numbers. */
static const struct genl_split_ops card_genl_ops[] = {
	{
		.cmd = CARD_CMD_EXPORT_NEW,
		.doit = card_nl_export_new,
		.policy = card_export_new_policy,
		.maxattr = CARD_A_MAX,
		.flags = GENL_CMD_CAP_DO,
	}, {
		.cmd = CARD_CMD_EXPORT_DEL,
		.doit = card_nl_export_del,
		.policy = card_export_name_policy,
		.maxattr = CARD_A_MAX,
		.flags = GENL_CMD_CAP_DO,
	}, {
		.cmd = CARD_CMD_EXPORT_GET,
		.dumpit = card_nl_export_dump,
		.flags = GENL_CMD_CAP_DUMP,
	}, {
		.cmd = CARD_CMD_EXPORT_SET,
		.doit = card_nl_export_set,
		.policy = card_export_set_policy,
		.maxattr = CARD_A_MAX,
		.flags = GENL_CMD_CAP_DO,
	}, {
		.cmd = CARD_CMD_DISK_NEW,
		.doit = card_nl_disk_new,
		.policy = card_disk_new_policy,
		.maxattr = CARD_A_MAX,
		.flags = GENL_CMD_CAP_DO,
	}, {
		.cmd = CARD_CMD_DISK_DEL,
		.doit = card_nl_disk_del,
		.policy = card_disk_del_policy,
		.maxattr = CARD_A_MAX,
		.flags = GENL_CMD_CAP_DO,
	}, {
		.cmd = CARD_CMD_DISK_GET,
		.dumpit = card_nl_disk_dump,
		.flags = GENL_CMD_CAP_DUMP,
	}, {
		.cmd = CARD_CMD_EXPLAIN,
		.doit = card_nl_explain,
		.policy = card_explain_policy,
		.maxattr = CARD_A_MAX,
		.flags = GENL_CMD_CAP_DO,
	},
};

static struct genl_family card_genl_family __ro_after_init = {
	.name = CARD_GENL_NAME,
	.version = CARD_GENL_VERSION,
	.netnsok = true,
	.parallel_ops = true,
	.module = THIS_MODULE,
	.split_ops = card_genl_ops,
	.n_split_ops = ARRAY_SIZE(card_genl_ops),
};

int card_netlink_register(void)
{
	return genl_register_family(&card_genl_family);
}

void card_netlink_unregister(void)
{
	genl_unregister_family(&card_genl_family);
}
