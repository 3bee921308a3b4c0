/* SPDX-License-Identifier: GPL-2.0 */
/* Services whose SYNs go to lighter nodes: what an operator says goes to the room that does it. */
#ifndef FLT_REDIRECT_H
#define FLT_REDIRECT_H

#include <net/net_namespace.h>
#include <flotilla/flotilla.h>

struct genl_info;
struct module;
struct netlink_callback;
struct sk_buff;

/**
 * struct flt_redirect_row - a number of a service with a rule
 * @at:    the service: @at.server and @at.server_port
 * @node:  NULL; or a node: @value is its load and @what whether it gets SYNs
 * @what:  name of a setting or a counter
 * @value: of it; U32_MAX of a setting: off, auto
 */
struct flt_redirect_row {
	struct flt_tuple at;
	const char *node;
	const char *what;
	u64 value;
};

/**
 * struct flt_redirect_source - who redirects
 * @owner: module
 * @set:   a service gets a rule, or what is given of it is changed: 0; -EINVAL, -ERANGE: an
 *	   argument; -ENOSPC: too many services; -ENOMEM
 * @off:   and has none: 0; -ENOENT
 * @walk:  as flt_conn_source.walk
 */
struct flt_redirect_source {
	struct module *owner;
	int (*set)(struct net *net, const struct flt_tuple *at, const char *args);
	int (*off)(struct net *net, const struct flt_tuple *at);
	int (*walk)(struct net *net, u64 *cursor,
		    int (*emit)(const struct flt_redirect_row *row, void *arg), void *arg);
};

/* 0, or -EBUSY: there is one. */
int flt_redirect_source_register(const struct flt_redirect_source *source);
/* No call of it runs on return. */
void flt_redirect_source_unregister(const struct flt_redirect_source *source);

/* FLT_CMD_REDIRECT_*, for the table of operations. */
int flt_redirect_set(struct sk_buff *skb, struct genl_info *info);
int flt_redirect_del(struct sk_buff *skb, struct genl_info *info);
int flt_redirect_dump(struct sk_buff *skb, struct netlink_callback *cb);

#endif
