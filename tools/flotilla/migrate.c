// SPDX-License-Identifier: GPL-2.0
/* flotilla migrate: policies decide which node serves a request. */
#include <string.h>
#include "cli.h"

static const struct column columns[] = {
	{ "address", "ADDRESS", NULL },
	{ "port", "PORT", NULL },
	{ "policy", "POLICY", NULL },
	{ "arguments", "ARGUMENTS", NULL },
};

static const struct column reasons[] = {
	{ "address", "ADDRESS", NULL },
	{ "port", "PORT", NULL },
	{ "policy", "POLICY", NULL },
	{ "requests", "REQUESTS", NULL },
	{ "outcome", "OUTCOME", NULL },
	{ "why", "WHY", NULL },
};

static const struct reason {
	const char *what, *outcome, *why;
} known[] = {
	{ "moved", "moved", "the policy named a node, and that took the connection" },
	{ "stayed", "stayed", "the policy said so" },
	{ "more", "stayed", "the policy wanted more bytes than came in time" },
	{ "came", "stayed", "a policy had just moved it here" },
	{ "hops", "stayed", "its connection was moved too often (net.flotilla.migrate_max_hops)" },
	{ "unsure", "stayed", "it may not have been the beginning of a request" },
	{ "ended", "stayed", "the client had ended its side" },
	{ "target", "stayed", "the policy named no node, or one that is not up" },
	{ "refused", "stayed", "the move failed (flotilla stats name HandoffRefused)" },
	{ "plain", "stayed", "its connection was no surplus (flotilla migrate admission)" },
};

static const struct column admissions[] = {
	{ "address", "ADDRESS", NULL },
	{ "port", "PORT", NULL },
	{ "base", "BASE", NULL },
	{ "admit", "ADMIT", NULL },
	{ "by", "BY", NULL },
	{ "window", "WINDOW", NULL },
	{ "waiting", "WAITING", NULL },
	{ "tagged", "TAGGED", NULL },
	{ "moved", "MOVED", NULL },
	{ "rejected", "REJECTED", NULL },
	{ "kept", "KEPT", NULL },
	{ "dropped", "DROPPED", NULL },
	{ "closed", "CLOSED", NULL },
	{ "notified", "NOTIFIED", NULL },
	{ "reopened", "REOPENED", NULL },
};

/* The rows of a service come one after the other, "admit" the first and "admit-reopened" the last. */
struct admission {
	struct table table;
	json_t *row;
};

static int show_admission(const struct flt_policy_info *policy, void *arg)
{
	struct admission *a = arg;
	const char *what = policy->what;
	char addr[64];

	if (!strcmp(what, "admit")) {
		json_decref(a->row);
		a->row = json_pack("{s:s, s:i}", "address",
				   address_text(&policy->service, addr, sizeof(addr)),
				   "port", address_port(&policy->service));
	} else if (strncmp(what, "admit-", strlen("admit-"))) {
		return 0;
	} else {
		what += strlen("admit-");
	}
	if (!a->row)
		return 0;
	if (!strcmp(what, "quota"))
		json_object_set_new(a->row, "by", json_string(policy->value ? "quota" : "place"));
	else if (!strcmp(what, "base") && !policy->value)
		json_object_set_new(a->row, what, json_string("listen"));
	else
		json_object_set_new(a->row, what, json_integer(policy->value));
	if (!strcmp(what, "reopened")) {
		table_row(&a->table, a->row);
		a->row = NULL;
	}
	return 0;
}

static int show_policy(const struct flt_policy_info *policy, void *arg)
{
	struct table *table = arg;
	char addr[64];

	/* One row of each service. */
	if (strcmp(policy->what, "asked"))
		return 0;
	table_row(table, json_pack("{s:s, s:i, s:s, s:s}",
				   "address", address_text(&policy->service, addr, sizeof(addr)),
				   "port", address_port(&policy->service),
				   "policy", policy->name, "arguments", policy->args));
	return 0;
}

static int explain_policy(const struct flt_policy_info *policy, void *arg)
{
	struct table *table = arg;
	char addr[64];
	size_t i;

	for (i = 0; i < ARRAY_SIZE(known); i++) {
		if (!policy->value || strcmp(policy->what, known[i].what))
			continue;
		table_row(table, json_pack("{s:s, s:i, s:s, s:I, s:s, s:s, s:s}",
					   "address", address_text(&policy->service, addr,
								   sizeof(addr)),
					   "port", address_port(&policy->service),
					   "policy", policy->name,
					   "requests", (json_int_t)policy->value,
					   "outcome", known[i].outcome, "why", known[i].why,
					   "reason", policy->what));
	}
	return 0;
}

static int show_table(struct cli *cli, const struct column *of, size_t nr, flt_policy_fn show)
{
	struct table table;
	int status;

	if (!cli_client(cli))
		return CLI_FAILED;
	table_begin(&table, cli, of, nr);
	status = cli_result(cli, flt_policy_each(cli->client, show, &table));
	table_end(&table);
	return status;
}

/* The service that all of these begin with. */
static int take_service(struct cli *cli, const char *verb, int argc, char **argv,
			struct sockaddr_storage *service)
{
	cli_doing(cli, "%s a policy", verb);
	if (!argc)
		return cli_usage(cli, "the service's ADDRESS:PORT is missing");
	cli_doing(cli, "%s the policy of %s", verb, argv[0]);
	return value_service_port(cli, argv[0], service);
}

static int policy_set(struct cli *cli, int argc, char **argv)
{
	struct sockaddr_storage service;
	char args[512] = "";
	size_t len = 0;
	int status, i;

	status = take_service(cli, "set", argc, argv, &service);
	if (status)
		return status;
	if (argc == 1)
		return cli_usage(cli, "the policy is missing");
	for (i = 2; i < argc; i++) {
		if (len + strlen(argv[i]) + 2 > sizeof(args))
			return cli_usage(cli, "the arguments are too long");
		len += snprintf(args + len, sizeof(args) - len, "%s%s", len ? " " : "", argv[i]);
	}
	if (!cli_client(cli))
		return CLI_FAILED;
	return cli_result(cli, flt_policy_set(cli->client, &service, argv[1], args));
}

static int policy_off(struct cli *cli, int argc, char **argv)
{
	struct sockaddr_storage service;
	int status;

	status = take_service(cli, "switch off", argc, argv, &service);
	if (!status && argc > 1)
		status = cli_unknown(cli, argv[1]);
	if (status)
		return status;
	if (!cli_client(cli))
		return CLI_FAILED;
	return cli_result(cli, flt_policy_off(cli->client, &service));
}

static int migrate_policy(struct cli *cli, int argc, char **argv)
{
	const char *verb = argc ? argv[0] : "show";

	if (!strcmp(verb, "set"))
		return policy_set(cli, argc - 1, argv + 1);
	if (!strcmp(verb, "off"))
		return policy_off(cli, argc - 1, argv + 1);
	cli_doing(cli, "show the policies");
	if (strcmp(verb, "show") || argc > 1)
		return cli_unknown(cli, argv[strcmp(verb, "show") ? 0 : 1]);
	return show_table(cli, columns, ARRAY_SIZE(columns), show_policy);
}

static int migrate_explain(struct cli *cli, int argc, char **argv)
{
	cli_doing(cli, "explain the policies");
	if (argc)
		return cli_unknown(cli, argv[0]);
	return show_table(cli, reasons, ARRAY_SIZE(reasons), explain_policy);
}

static int migrate_admission(struct cli *cli, int argc, char **argv)
{
	struct admission a = { 0 };
	int status;

	cli_doing(cli, "show the admission");
	if (argc && (argc > 1 || strcmp(argv[0], "show")))
		return cli_unknown(cli, argv[argc > 1 && !strcmp(argv[0], "show")]);
	if (!cli_client(cli))
		return CLI_FAILED;
	table_begin(&a.table, cli, admissions, ARRAY_SIZE(admissions));
	status = cli_result(cli, flt_policy_each(cli->client, show_admission, &a));
	table_end(&a.table);
	json_decref(a.row);
	return status;
}

static const struct command commands[] = {
	{ "policy", NULL, migrate_policy,
	  "policy [show | set ADDRESS:PORT POLICY [NODE|NAME=NUMBER]... | off ADDRESS:PORT]",
	  "Show, switch on or replace, switch off the policies of services" },
	{ "explain", NULL, migrate_explain, "explain",
	  "Show how many requests of each service moved, and why the others stayed" },
	{ "admission", NULL, migrate_admission, "admission [show]",
	  "Show the services that take more connections than they have places for, and what became of them" },
	{ 0 }
};

const struct object migrate_object = {
	"migrate", "policies that move requests to other nodes", commands, false,
	"A policy sees a request before the server does, and leaves it or gives its connection to another\n"
	"node. Policies: stay; simple NODE...: all go to the first of them that is up; others are modules.\n"
	"NODE is a name of the node table, or self. A policy is replaced under load.\n"
	"With admit=NUMBER listeners take so many more connections, and only these are asked about:\n"
	"admit_base=NUMBER instead of what the server said to listen(), admit_quota=1 by turns and not by place\n"
	"in the queue, admit_again=NUMBER requests until it is tried again when no node had room.\n",
};
