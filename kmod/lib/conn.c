// SPDX-License-Identifier: MIT
/* Connections that have been handed off. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "internal.h"

static uint64_t get_u64(const struct nlattr *attr)
{
	return attr ? mnl_attr_get_u64(attr) : 0;
}

int flt_conn_parse(const struct nlmsghdr *nlh, struct flt_conn_info *conn)
{
	struct flt_attrs attrs;
	int err;

	memset(conn, 0, sizeof(*conn));
	err = flt_attrs_parse(nlh, &attrs);
	if (err)
		return err;
	if (!attrs.at[FLT_A_CONN_TUPLE])
		return -EPROTO;
	memcpy(&conn->tuple, mnl_attr_get_payload(attrs.at[FLT_A_CONN_TUPLE]), sizeof(conn->tuple));
	flt_attrs_name(attrs.at[FLT_A_CONN_NODE], conn->node);
	if (attrs.at[FLT_A_CONN_STATE])
		snprintf(conn->state, sizeof(conn->state), "%s",
			 mnl_attr_get_str(attrs.at[FLT_A_CONN_STATE]));
	conn->packets = get_u64(attrs.at[FLT_A_CONN_PACKETS]);
	conn->bytes = get_u64(attrs.at[FLT_A_CONN_BYTES]);
	conn->age_ms = get_u64(attrs.at[FLT_A_CONN_AGE_MS]);
	return 0;
}

struct conn_call {
	flt_conn_fn fn;
	void *arg;
};

static int conn_message(const struct nlmsghdr *nlh, void *arg)
{
	const struct conn_call *call = arg;
	struct flt_conn_info conn;
	int err;

	err = flt_conn_parse(nlh, &conn);
	return err ? err : call->fn(&conn, call->arg);
}

/* The table may hold a million rows: they are passed on as they come. */
int flt_conn_each(struct flt_client *c, flt_conn_fn fn, void *arg)
{
	struct conn_call call = { fn, arg };

	return flt_transact(c, flt_request(c, FLT_CMD_CONN_GET, NLM_F_DUMP), conn_message, &call);
}
