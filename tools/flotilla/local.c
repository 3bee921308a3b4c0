// SPDX-License-Identifier: GPL-2.0
/* flotilla local: this node. */
#include <string.h>
#include "cli.h"

static const struct column columns[] = {
	{ "name", "NAME", NULL },
	{ "address", "ADDRESS", NULL },
	{ "port", "PORT", NULL },
	{ "insecure", "INSECURE", NULL },
};

static int local_show(struct cli *cli, int argc, char **argv)
{
	struct flt_local_info local;
	struct table table;
	char addr[64];
	int status;

	cli_doing(cli, "show this node");
	if (argc)
		return cli_unknown(cli, argv[0]);
	if (!cli_client(cli))
		return CLI_FAILED;
	status = cli_result(cli, flt_local_get(cli->client, &local));
	if (status)
		return status;
	if (!local.name[0] && !local.addr.ss_family && !cli->json)
		return cli_fail(cli, "it has no name and address yet; try \"flotilla local set help\"");
	table_begin(&table, cli, columns, ARRAY_SIZE(columns));
	table_row(&table, json_pack("{s:s, s:s, s:i, s:s}", "name", local.name,
				    "address", address_text(&local.addr, addr, sizeof(addr)),
				    "port", address_port(&local.addr),
				    "insecure", word_of(&switches, local.insecure)));
	table_end(&table);
	if (local.insecure)
		cli_warn(cli, INSECURE_IS_ON);
	return CLI_OK;
}

static int set_insecure(struct cli *cli, const char *value, struct flt_local_info *local)
{
	local->insecure_given = true;
	return value_word(cli, "insecure", value, &switches, &local->insecure);
}

static int local_set(struct cli *cli, int argc, char **argv)
{
	struct flt_local_info local = { 0 };
	int status = CLI_OK;

	cli_doing(cli, "set this node");
	if (!argc)
		return cli_usage(cli, "nothing to set is given");
	for (; argc && status == CLI_OK; argc -= 2, argv += 2) {
		if (argc == 1)
			return cli_usage(cli, "%s needs a value", argv[0]);
		if (!strcmp(argv[0], "name"))
			status = value_name(cli, argv[1], local.name);
		else if (!strcmp(argv[0], "address"))
			status = value_address(cli, argv[0], argv[1], &local.addr);
		else if (!strcmp(argv[0], "port"))
			status = value_port(cli, argv[1], &local.addr);
		else if (!strcmp(argv[0], "insecure"))
			status = set_insecure(cli, argv[1], &local);
		else
			status = cli_unknown(cli, argv[0]);
	}
	if (status)
		return status;
	if (!cli_client(cli))
		return CLI_FAILED;
	return cli_result(cli, flt_local_set(cli->client, &local));
}

static const struct command commands[] = {
	{ "show", "list", local_show, "show", "Show this node's name and link address" },
	{ "set", NULL, local_set, "set [name NAME] [address ADDRESS] [port PORT] [insecure on|off]",
	  "Give this node its name and the address that links use; links that are up stay" },
	{ 0 }
};

const struct object local_object = {
	"local", "this node's own name and link address", commands, false,
	"insecure on: connections are given and taken over links without authentication, too (node: auth\n"
	"none).\n"
	"Whoever can use a node's address and a privileged port then speaks for it: only for tests, and\n"
	"where nobody but the nodes is on the network and nobody but root on the nodes. Default off.\n",
};
