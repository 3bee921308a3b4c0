/* SPDX-License-Identifier: GPL-2.0 */
/* FLT_CMD_CONN_GET asks whoever keeps connections (handoff.ko) through this. */
#ifndef FLT_CONN_H
#define FLT_CONN_H

#include <linux/module.h>
#include <net/net_namespace.h>
#include <flotilla/flotilla.h>

/**
 * struct flt_conn - one row of the dump
 */
struct flt_conn {
	struct flt_tuple tuple;
	u32 node;
	const char *state;
	u64 packets;
	u64 bytes;
	u64 age_ms;
};

/**
 * struct flt_conn_source - who has the rows
 * @owner: module
 * @walk:  call @emit for each row from @cursor on; stop when it returns non-zero
 *	   and return that; keep in @cursor (zero at first) where to go on
 */
struct flt_conn_source {
	struct module *owner;
	int (*walk)(struct net *net, u64 *cursor,
		    int (*emit)(const struct flt_conn *conn, void *arg), void *arg);
};

int flt_conn_source_register(const struct flt_conn_source *source);
void flt_conn_source_unregister(const struct flt_conn_source *source);

#endif
