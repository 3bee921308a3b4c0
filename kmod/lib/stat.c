// SPDX-License-Identifier: MIT
/* Counters of all rooms that are loaded. */
#include <errno.h>
#include "internal.h"

/* @room and @name point into the message. */
int flt_stat_parse(const struct nlmsghdr *nlh, const char **room, const char **name,
		   uint64_t *value)
{
	struct flt_attrs attrs;
	int err;

	err = flt_attrs_parse(nlh, &attrs);
	if (err)
		return err;
	if (!attrs.at[FLT_A_STAT_ROOM] || !attrs.at[FLT_A_STAT_NAME] ||
	    !attrs.at[FLT_A_STAT_VALUE])
		return -EPROTO;
	*room = mnl_attr_get_str(attrs.at[FLT_A_STAT_ROOM]);
	*name = mnl_attr_get_str(attrs.at[FLT_A_STAT_NAME]);
	*value = mnl_attr_get_u64(attrs.at[FLT_A_STAT_VALUE]);
	return 0;
}

struct stat_call {
	flt_stat_fn fn;
	void *arg;
};

static int stat_message(const struct nlmsghdr *nlh, void *arg)
{
	const struct stat_call *call = arg;
	const char *room, *name;
	uint64_t value;
	int err;

	err = flt_stat_parse(nlh, &room, &name, &value);
	return err ? err : call->fn(room, name, value, call->arg);
}

int flt_stats_each(struct flt_client *c, flt_stat_fn fn, void *arg)
{
	struct stat_call call = { fn, arg };

	return flt_transact(c, flt_request(c, FLT_CMD_STATS_GET, NLM_F_DUMP), stat_message, &call);
}
