// SPDX-License-Identifier: MIT
/* Attributes of the family: sizes checked in one place, addresses both ways. */
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include "internal.h"

struct attr_rule {
	enum mnl_attr_data_type type;
	uint16_t len;			/* exact, for MNL_TYPE_BINARY; longest, for strings */
};

static const struct attr_rule rules[__FLT_A_MAX] = {
	[FLT_A_LOCAL_NAME]	= { MNL_TYPE_NUL_STRING, FLT_NAME_MAX },
	[FLT_A_LOCAL_ADDR4]	= { MNL_TYPE_U32, 0 },
	[FLT_A_LOCAL_ADDR6]	= { MNL_TYPE_BINARY, sizeof(struct in6_addr) },
	[FLT_A_LOCAL_PORT]	= { MNL_TYPE_U16, 0 },
	[FLT_A_NODE_ID]		= { MNL_TYPE_U32, 0 },
	[FLT_A_NODE_NAME]	= { MNL_TYPE_NUL_STRING, FLT_NAME_MAX },
	[FLT_A_NODE_ADDR4]	= { MNL_TYPE_U32, 0 },
	[FLT_A_NODE_ADDR6]	= { MNL_TYPE_BINARY, sizeof(struct in6_addr) },
	[FLT_A_NODE_PORT]	= { MNL_TYPE_U16, 0 },
	[FLT_A_NODE_WEIGHT]	= { MNL_TYPE_U32, 0 },
	[FLT_A_NODE_STATE]	= { MNL_TYPE_U8, 0 },
	[FLT_A_NODE_ADMIN]	= { MNL_TYPE_U8, 0 },
	[FLT_A_NODE_ROLE]	= { MNL_TYPE_U8, 0 },
	[FLT_A_NODE_FORWARD]	= { MNL_TYPE_U8, 0 },
	[FLT_A_NODE_FWD_ADDR4]	= { MNL_TYPE_U32, 0 },
	[FLT_A_NODE_FWD_ADDR6]	= { MNL_TYPE_BINARY, sizeof(struct in6_addr) },
	[FLT_A_NODE_AUTH]	= { MNL_TYPE_U8, 0 },
	[FLT_A_NODE_KEY]	= { MNL_TYPE_U32, 0 },
	[FLT_A_NODE_LOAD]	= { MNL_TYPE_U32, 0 },
	[FLT_A_NODE_RTT_US]	= { MNL_TYPE_U32, 0 },
	[FLT_A_NODE_UPTIME_MS]	= { MNL_TYPE_U64, 0 },
	[FLT_A_NODE_RECONNECTS]	= { MNL_TYPE_U32, 0 },
	[FLT_A_CONN_TUPLE]	= { MNL_TYPE_BINARY, sizeof(struct flt_tuple) },
	[FLT_A_CONN_NODE]	= { MNL_TYPE_NUL_STRING, FLT_NAME_MAX },
	[FLT_A_CONN_STATE]	= { MNL_TYPE_NUL_STRING, 0 },
	[FLT_A_CONN_PACKETS]	= { MNL_TYPE_U64, 0 },
	[FLT_A_CONN_BYTES]	= { MNL_TYPE_U64, 0 },
	[FLT_A_CONN_AGE_MS]	= { MNL_TYPE_U64, 0 },
	[FLT_A_STAT_ROOM]	= { MNL_TYPE_NUL_STRING, 0 },
	[FLT_A_STAT_NAME]	= { MNL_TYPE_NUL_STRING, 0 },
	[FLT_A_STAT_VALUE]	= { MNL_TYPE_U64, 0 },
	[FLT_A_NODE_REASON]	= { MNL_TYPE_NUL_STRING, 0 },
	[FLT_A_EVENT_TYPE]	= { MNL_TYPE_U8, 0 },
	[FLT_A_LOCAL_INSECURE]	= { MNL_TYPE_U8, 0 },
	[FLT_A_NODE_PROVEN]	= { MNL_TYPE_U8, 0 },
	[FLT_A_NODE_FEATURES]	= { MNL_TYPE_U64, 0 },
	[FLT_A_SERVICE_ADDR4]	= { MNL_TYPE_U32, 0 },
	[FLT_A_SERVICE_ADDR6]	= { MNL_TYPE_BINARY, sizeof(struct in6_addr) },
	[FLT_A_SERVICE_PORT]	= { MNL_TYPE_U16, 0 },
	[FLT_A_POLICY_NAME]	= { MNL_TYPE_NUL_STRING, 0 },
	[FLT_A_POLICY_ARGS]	= { MNL_TYPE_NUL_STRING, 0 },
	[FLT_A_NODE_VERSION]	= { MNL_TYPE_NUL_STRING, FLT_VERSION_MAX },
	[FLT_A_NODE_CLOCK_US]	= { MNL_TYPE_U64, 0 },
	[FLT_A_NODE_CLOCK_ERROR_US] = { MNL_TYPE_U32, 0 },
	[FLT_A_REPORT_FAULTS]	= { MNL_TYPE_U32, 0 },
	[FLT_A_REPORT_WARNINGS]	= { MNL_TYPE_U32, 0 },
	[FLT_A_REPORT_WRONG]	= { MNL_TYPE_NUL_STRING, FLT_WRONG_MAX },
	[FLT_A_REPORT_AGE_S]	= { MNL_TYPE_U32, 0 },
};

static bool attr_is_valid(const struct nlattr *attr, const struct attr_rule *rule)
{
	if (mnl_attr_validate(attr, rule->type) < 0)
		return false;
	if (!rule->len)
		return true;
	if (rule->type == MNL_TYPE_BINARY)
		return mnl_attr_get_payload_len(attr) == rule->len;
	return mnl_attr_get_payload_len(attr) <= rule->len;
}

/* Attributes newer than this library are passed over. */
int flt_attrs_parse(const struct nlmsghdr *nlh, struct flt_attrs *attrs)
{
	const struct nlattr *attr;

	memset(attrs, 0, sizeof(*attrs));
	if (mnl_nlmsg_get_payload_len(nlh) < sizeof(struct genlmsghdr))
		return -EPROTO;
	mnl_attr_for_each(attr, nlh, sizeof(struct genlmsghdr)) {
		uint16_t type = mnl_attr_get_type(attr);

		if (type > FLT_A_MAX || !rules[type].type)
			continue;
		if (!attr_is_valid(attr, &rules[type]))
			return -EPROTO;
		attrs->at[type] = attr;
	}
	return 0;
}

void flt_attrs_name(const struct nlattr *attr, char name[FLT_NAME_MAX])
{
	if (attr)
		memcpy(name, mnl_attr_get_payload(attr), mnl_attr_get_payload_len(attr));
	else
		name[0] = '\0';
}

void flt_attrs_addr(const struct nlattr *addr4, const struct nlattr *addr6, uint16_t port,
		    struct sockaddr_storage *ss)
{
	struct sockaddr_in6 *v6 = (void *)ss;
	struct sockaddr_in *v4 = (void *)ss;

	memset(ss, 0, sizeof(*ss));
	if (addr4) {
		v4->sin_family = AF_INET;
		v4->sin_addr.s_addr = mnl_attr_get_u32(addr4);
		v4->sin_port = htons(port);
	} else if (addr6) {
		v6->sin6_family = AF_INET6;
		memcpy(&v6->sin6_addr, mnl_attr_get_payload(addr6), sizeof(v6->sin6_addr));
		v6->sin6_port = htons(port);
	}
}

void flt_attrs_put_addr(struct nlmsghdr *nlh, uint16_t attr4, uint16_t attr6,
			const struct sockaddr_storage *ss)
{
	const struct sockaddr_in6 *v6 = (const void *)ss;
	const struct sockaddr_in *v4 = (const void *)ss;

	if (ss->ss_family == AF_INET)
		mnl_attr_put_u32(nlh, attr4, v4->sin_addr.s_addr);
	else if (ss->ss_family == AF_INET6)
		mnl_attr_put(nlh, attr6, sizeof(v6->sin6_addr), &v6->sin6_addr);
}

/* Host order; 0 when none is given. */
uint16_t flt_addr_port(const struct sockaddr_storage *ss)
{
	if (ss->ss_family == AF_INET)
		return ntohs(((const struct sockaddr_in *)ss)->sin_port);
	if (ss->ss_family == AF_INET6)
		return ntohs(((const struct sockaddr_in6 *)ss)->sin6_port);
	return 0;
}
