// SPDX-License-Identifier: GPL-2.0
/* flotilla policy: how requests are dispatched (sysfs). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "cli.h"

#define VALUE_SIZE	64

/*
 * In the order of writing: the policy first; what reads as its effective value
 * and so could not be put back, last.
 */
static const struct attribute {
	const char *name, *values, *about;
} attributes[] = {
	{ "policy", "wrr|lb|lard|lard/r|lc|chbl", "who gets a request" },
	{ "t_low", "CONNECTIONS", "below it a node has idle resources" },
	{ "t_high", "CONNECTIONS", "above it requests on a node are delayed" },
	{ "replication_seconds", "SECONDS", "lard/r: how long a set stays before it shrinks" },
	{ "max_outstanding", "CONNECTIONS|auto", "admission limit; shown is the one in effect" },
};

static const struct column columns[] = {
	{ "name", "ATTRIBUTE", NULL },
	{ "value", "VALUE", NULL },
	{ "about", "MEANING", NULL },
};

enum { POLICY, T_LOW, T_HIGH, REPLICATION, OUTSTANDING, NR_ATTRIBUTES };

static int find_attribute(const char *name)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(attributes); i++)
		if (!strcmp(attributes[i].name, name))
			return i;
	return -1;
}

static int explain_errno(struct cli *cli, unsigned int i, const char *value, int err)
{
	switch (-err) {
	case ENOENT:
		return cli_fail(cli, "flotilla.ko is not loaded, or /sys shows another network namespace");
	case EACCES:
	case EPERM:
		return cli_fail(cli, "%s may only be written with CAP_NET_ADMIN", attributes[i].name);
	case EINVAL:
		if (i == T_LOW || i == T_HIGH)
			return cli_fail(cli, "%s %s is refused: t_low must be at least 2, t_high above it",
					attributes[i].name, value);
		return cli_fail(cli, "%s %s is not one of %s", attributes[i].name, value,
				attributes[i].values);
	default:
		return cli_fail(cli, "%s: %s", attributes[i].name, strerror(-err));
	}
}

static int show_json(struct cli *cli, const char *const values[])
{
	json_t *all = json_object();
	unsigned int i;
	char *end;

	for (i = 0; i < NR_ATTRIBUTES; i++) {
		long long number;

		if (!values[i])
			continue;
		number = strtoll(values[i], &end, 10);
		json_object_set_new(all, attributes[i].name, values[i][0] && !*end ?
				    json_integer(number) : json_string(values[i]));
	}
	json_print(cli, all);
	return CLI_OK;
}

static int policy_show(struct cli *cli, int argc, char **argv)
{
	const char *values[NR_ATTRIBUTES] = { 0 };
	char text[NR_ATTRIBUTES][VALUE_SIZE];
	bool wanted[NR_ATTRIBUTES] = { 0 };
	struct table table;
	int i, err;

	cli_doing(cli, "show the policy");
	for (i = 0; i < argc; i++) {
		int which = find_attribute(argv[i]);

		if (which < 0)
			return cli_usage(cli, "%s is not an attribute", argv[i]);
		wanted[which] = true;
	}
	for (i = 0; i < NR_ATTRIBUTES; i++) {
		if (argc && !wanted[i])
			continue;
		err = flt_dispatch_get(attributes[i].name, text[i], VALUE_SIZE);
		if (err)
			return explain_errno(cli, i, "", err);
		values[i] = text[i];
	}
	if (cli->json)
		return show_json(cli, values);
	table_begin(&table, cli, columns, cli->tabs ? 2 : ARRAY_SIZE(columns));
	for (i = 0; i < NR_ATTRIBUTES; i++)
		if (values[i])
			table_row(&table, json_pack("{s:s, s:s, s:s}", "name", attributes[i].name,
						    "value", values[i],
						    "about", attributes[i].about));
	table_end(&table);
	return CLI_OK;
}

/*
 * Writes all that is given. Raising both limits must begin with the upper one.
 * What was written is put back when a later one is refused.
 */
static int write_values(struct cli *cli, const char *const values[])
{
	unsigned int order[NR_ATTRIBUTES] = { POLICY, T_LOW, T_HIGH, REPLICATION, OUTSTANDING };
	char before[NR_ATTRIBUTES][VALUE_SIZE];
	int i, err;

	for (i = 0; i < NR_ATTRIBUTES; i++) {
		err = flt_dispatch_get(attributes[i].name, before[i], VALUE_SIZE);
		if (err)
			return explain_errno(cli, i, "", err);
	}
	if (values[T_LOW] && values[T_HIGH] && atoi(values[T_LOW]) >= atoi(before[T_HIGH])) {
		order[1] = T_HIGH;
		order[2] = T_LOW;
	}
	for (i = 0; i < NR_ATTRIBUTES; i++) {
		if (!values[order[i]])
			continue;
		err = flt_dispatch_set(attributes[order[i]].name, values[order[i]]);
		if (err)
			break;
	}
	if (i == NR_ATTRIBUTES)
		return CLI_OK;
	err = explain_errno(cli, order[i], values[order[i]], err);
	while (i--)
		if (values[order[i]])
			flt_dispatch_set(attributes[order[i]].name, before[order[i]]);
	return err;
}

static int policy_set(struct cli *cli, int argc, char **argv)
{
	const char *values[NR_ATTRIBUTES] = { 0 };
	uint64_t number;
	int status, i;

	cli_doing(cli, "set the policy");
	if (!argc)
		return cli_usage(cli, "nothing to set is given");
	if (find_attribute(argv[0]) < 0) {
		values[POLICY] = argv[0];
		argc--, argv++;
	}
	for (; argc; argc -= 2, argv += 2) {
		i = find_attribute(argv[0]);
		if (i < 0)
			return cli_unknown(cli, argv[0]);
		if (argc == 1)
			return cli_usage(cli, "%s needs a value", argv[0]);
		if (values[i])
			return cli_usage(cli, "%s is given twice", argv[0]);
		if (i != POLICY && !(i == OUTSTANDING && !strcmp(argv[1], "auto"))) {
			status = value_number(cli, argv[0], argv[1], 0, INT32_MAX, &number);
			if (status)
				return status;
		}
		values[i] = argv[1];
	}
	return write_values(cli, values);
}

static const struct command commands[] = {
	{ "show", "list", policy_show, "show [ATTRIBUTE]...", "Show how requests are dispatched" },
	{ "set", NULL, policy_set, "set [POLICY] [ATTRIBUTE VALUE]...",
	  "Change it, effective at once; all that is given or nothing" },
	{ 0 }
};

const struct object policy_object = {
	"policy", "how requests are dispatched to nodes", commands, false,
	"Policies:   wrr lb lard lard/r lc chbl\n"
	"Attributes: policy t_low t_high replication_seconds max_outstanding\n"
	"They are files in /sys/class/flotilla/dispatch/ as well.\n",
};
