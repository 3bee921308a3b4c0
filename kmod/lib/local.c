// SPDX-License-Identifier: MIT
/* This node: its name and the address its links use. */
#include <errno.h>
#include <string.h>
#include "internal.h"

int flt_local_parse(const struct nlmsghdr *nlh, struct flt_local_info *local)
{
	struct flt_attrs attrs;
	uint16_t port = 0;
	int err;

	memset(local, 0, sizeof(*local));
	err = flt_attrs_parse(nlh, &attrs);
	if (err)
		return err;
	flt_attrs_name(attrs.at[FLT_A_LOCAL_NAME], local->name);
	if (attrs.at[FLT_A_LOCAL_PORT])
		port = mnl_attr_get_u16(attrs.at[FLT_A_LOCAL_PORT]);
	flt_attrs_addr(attrs.at[FLT_A_LOCAL_ADDR4], attrs.at[FLT_A_LOCAL_ADDR6], port,
		       &local->addr);
	if (attrs.at[FLT_A_LOCAL_INSECURE])
		local->insecure = mnl_attr_get_u8(attrs.at[FLT_A_LOCAL_INSECURE]);
	return 0;
}

static int local_message(const struct nlmsghdr *nlh, void *arg)
{
	return flt_local_parse(nlh, arg);
}

/* An unset local node has an empty name and ss_family 0. */
int flt_local_get(struct flt_client *c, struct flt_local_info *local)
{
	memset(local, 0, sizeof(*local));
	return flt_transact(c, flt_request(c, FLT_CMD_LOCAL_GET, NLM_F_ACK), local_message, local);
}

int flt_local_set(struct flt_client *c, const struct flt_local_info *local)
{
	uint16_t port = flt_addr_port(&local->addr);
	struct nlmsghdr *nlh;

	if (strnlen(local->name, FLT_NAME_MAX) == FLT_NAME_MAX)
		return flt_fail(c, -EINVAL, "a node's name has 1 to 31 characters");
	nlh = flt_request(c, FLT_CMD_LOCAL_SET, NLM_F_ACK);
	if (local->name[0])
		mnl_attr_put_strz(nlh, FLT_A_LOCAL_NAME, local->name);
	flt_attrs_put_addr(nlh, FLT_A_LOCAL_ADDR4, FLT_A_LOCAL_ADDR6, &local->addr);
	if (port)
		mnl_attr_put_u16(nlh, FLT_A_LOCAL_PORT, port);
	if (local->insecure_given)
		mnl_attr_put_u8(nlh, FLT_A_LOCAL_INSECURE, local->insecure);
	return flt_transact(c, nlh, NULL, NULL);
}

int flt_report_set(struct flt_client *c, uint32_t faults, uint32_t warnings, const char *wrong)
{
	struct nlmsghdr *nlh;

	if (strnlen(wrong, FLT_WRONG_MAX) == FLT_WRONG_MAX)
		return flt_fail(c, -EINVAL, "the names of what is wrong have up to 191 characters");
	nlh = flt_request(c, FLT_CMD_REPORT_SET, NLM_F_ACK);
	mnl_attr_put_u32(nlh, FLT_A_REPORT_FAULTS, faults);
	mnl_attr_put_u32(nlh, FLT_A_REPORT_WARNINGS, warnings);
	mnl_attr_put_strz(nlh, FLT_A_REPORT_WRONG, wrong);
	return flt_transact(c, nlh, NULL, NULL);
}
