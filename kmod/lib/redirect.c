// SPDX-License-Identifier: MIT
/* Services whose SYNs go to lighter nodes. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "internal.h"

static void get_text(const struct nlattr *attr, char *text, size_t size)
{
	snprintf(text, size, "%s", attr ? mnl_attr_get_str(attr) : "");
}

static int redirect_parse(const struct nlmsghdr *nlh, struct flt_redirect_info *info)
{
	struct flt_attrs attrs;
	uint16_t port = 0;
	int err;

	memset(info, 0, sizeof(*info));
	err = flt_attrs_parse(nlh, &attrs);
	if (err)
		return err;
	if (!attrs.at[FLT_A_STAT_NAME] || !attrs.at[FLT_A_STAT_VALUE])
		return -EPROTO;
	if (attrs.at[FLT_A_SERVICE_PORT])
		port = mnl_attr_get_u16(attrs.at[FLT_A_SERVICE_PORT]);
	flt_attrs_addr(attrs.at[FLT_A_SERVICE_ADDR4], attrs.at[FLT_A_SERVICE_ADDR6], port,
		       &info->service);
	get_text(attrs.at[FLT_A_NODE_NAME], info->node, sizeof(info->node));
	get_text(attrs.at[FLT_A_STAT_NAME], info->what, sizeof(info->what));
	info->value = mnl_attr_get_u64(attrs.at[FLT_A_STAT_VALUE]);
	return info->service.ss_family ? 0 : -EPROTO;
}

struct redirect_call {
	flt_redirect_fn fn;
	void *arg;
};

static int redirect_message(const struct nlmsghdr *nlh, void *arg)
{
	const struct redirect_call *call = arg;
	struct flt_redirect_info info;
	int err;

	err = redirect_parse(nlh, &info);
	return err ? err : call->fn(&info, call->arg);
}

int flt_redirect_each(struct flt_client *c, flt_redirect_fn fn, void *arg)
{
	struct redirect_call call = { fn, arg };

	return flt_transact(c, flt_request(c, FLT_CMD_REDIRECT_GET, NLM_F_DUMP), redirect_message,
			    &call);
}

static struct nlmsghdr *redirect_request(struct flt_client *c, uint8_t cmd,
					 const struct sockaddr_storage *service)
{
	struct nlmsghdr *nlh = flt_request(c, cmd, NLM_F_ACK);

	flt_attrs_put_addr(nlh, FLT_A_SERVICE_ADDR4, FLT_A_SERVICE_ADDR6, service);
	mnl_attr_put_u16(nlh, FLT_A_SERVICE_PORT, flt_addr_port(service));
	return nlh;
}

int flt_redirect_set(struct flt_client *c, const struct sockaddr_storage *service,
		     const char *args)
{
	struct nlmsghdr *nlh = redirect_request(c, FLT_CMD_REDIRECT_SET, service);

	mnl_attr_put_strz(nlh, FLT_A_POLICY_ARGS, args);
	return flt_transact(c, nlh, NULL, NULL);
}

int flt_redirect_off(struct flt_client *c, const struct sockaddr_storage *service)
{
	return flt_transact(c, redirect_request(c, FLT_CMD_REDIRECT_DEL, service), NULL, NULL);
}
