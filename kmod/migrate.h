/* SPDX-License-Identifier: GPL-2.0 */
/* Policies of services: what an operator says goes to the room that has them. */
#ifndef FLT_MIGRATE_H
#define FLT_MIGRATE_H

#include <net/net_namespace.h>
#include <flotilla/flotilla.h>

struct genl_info;
struct module;
struct netlink_callback;
struct sk_buff;

/* Lengths of FLT_A_POLICY_NAME and _ARGS, with the zero. */
#define FLT_POLICY_NAME_MAX	16
#define FLT_POLICY_ARGS_MAX	512

/**
 * struct flt_migrate_row - a counter of a service with a policy
 * @at:    the service: @at.server and @at.server_port
 * @policy: its name
 * @args:  as they were given
 * @what:  name of the counter
 * @value: of it
 */
struct flt_migrate_row {
	struct flt_tuple at;
	const char *policy;
	const char *args;
	const char *what;
	u64 value;
};

/**
 * struct flt_migrate_source - who has policies
 * @owner: module
 * @set:   a service gets a policy, or another one: 0; -ENOENT: no such policy;
 *	   -EINVAL, -ENOSPC, -ERANGE: its arguments; -ENOMEM
 * @off:   and has none: 0; -ENOENT
 * @walk:  as flt_conn_source.walk
 */
struct flt_migrate_source {
	struct module *owner;
	int (*set)(struct net *net, const struct flt_tuple *at, const char *name, const char *args);
	int (*off)(struct net *net, const struct flt_tuple *at);
	int (*walk)(struct net *net, u64 *cursor,
		    int (*emit)(const struct flt_migrate_row *row, void *arg), void *arg);
};

/* 0, or -EBUSY: there is one. */
int flt_migrate_source_register(const struct flt_migrate_source *source);
/* No call of it runs on return. */
void flt_migrate_source_unregister(const struct flt_migrate_source *source);

/* FLT_CMD_POLICY_*, for the table of operations. */
int flt_policy_set(struct sk_buff *skb, struct genl_info *info);
int flt_policy_del(struct sk_buff *skb, struct genl_info *info);
int flt_policy_dump(struct sk_buff *skb, struct netlink_callback *cb);

#endif
