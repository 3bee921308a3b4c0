// SPDX-License-Identifier: MIT
/* Services whose requests a policy decides on. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "internal.h"

static void get_text(const struct nlattr *attr, char *text, size_t size)
{
	snprintf(text, size, "%s", attr ? mnl_attr_get_str(attr) : "");
}

static int policy_parse(const struct nlmsghdr *nlh, struct flt_policy_info *policy)
{
	struct flt_attrs attrs;
	uint16_t port = 0;
	int err;

	memset(policy, 0, sizeof(*policy));
	err = flt_attrs_parse(nlh, &attrs);
	if (err)
		return err;
	if (!attrs.at[FLT_A_POLICY_NAME] || !attrs.at[FLT_A_STAT_NAME] || !attrs.at[FLT_A_STAT_VALUE])
		return -EPROTO;
	if (attrs.at[FLT_A_SERVICE_PORT])
		port = mnl_attr_get_u16(attrs.at[FLT_A_SERVICE_PORT]);
	flt_attrs_addr(attrs.at[FLT_A_SERVICE_ADDR4], attrs.at[FLT_A_SERVICE_ADDR6], port,
		       &policy->service);
	get_text(attrs.at[FLT_A_POLICY_NAME], policy->name, sizeof(policy->name));
	get_text(attrs.at[FLT_A_POLICY_ARGS], policy->args, sizeof(policy->args));
	get_text(attrs.at[FLT_A_STAT_NAME], policy->what, sizeof(policy->what));
	policy->value = mnl_attr_get_u64(attrs.at[FLT_A_STAT_VALUE]);
	return policy->service.ss_family ? 0 : -EPROTO;
}

struct policy_call {
	flt_policy_fn fn;
	void *arg;
};

static int policy_message(const struct nlmsghdr *nlh, void *arg)
{
	const struct policy_call *call = arg;
	struct flt_policy_info policy;
	int err;

	err = policy_parse(nlh, &policy);
	return err ? err : call->fn(&policy, call->arg);
}

int flt_policy_each(struct flt_client *c, flt_policy_fn fn, void *arg)
{
	struct policy_call call = { fn, arg };

	return flt_transact(c, flt_request(c, FLT_CMD_POLICY_GET, NLM_F_DUMP), policy_message,
			    &call);
}

static struct nlmsghdr *policy_request(struct flt_client *c, uint8_t cmd,
				       const struct sockaddr_storage *service)
{
	struct nlmsghdr *nlh = flt_request(c, cmd, NLM_F_ACK);

	flt_attrs_put_addr(nlh, FLT_A_SERVICE_ADDR4, FLT_A_SERVICE_ADDR6, service);
	mnl_attr_put_u16(nlh, FLT_A_SERVICE_PORT, flt_addr_port(service));
	return nlh;
}

int flt_policy_set(struct flt_client *c, const struct sockaddr_storage *service, const char *name,
		   const char *args)
{
	struct nlmsghdr *nlh = policy_request(c, FLT_CMD_POLICY_SET, service);

	mnl_attr_put_strz(nlh, FLT_A_POLICY_NAME, name);
	mnl_attr_put_strz(nlh, FLT_A_POLICY_ARGS, args);
	return flt_transact(c, nlh, NULL, NULL);
}

int flt_policy_off(struct flt_client *c, const struct sockaddr_storage *service)
{
	return flt_transact(c, policy_request(c, FLT_CMD_POLICY_DEL, service), NULL, NULL);
}
