// SPDX-License-Identifier: GPL-2.0
/* flotilla service: what connections of other nodes are taken for. */
#include <string.h>
#include "cli.h"

static const struct column columns[] = {
	{ "address", "ADDRESS", NULL },
	{ "port", "PORT", NULL },
};

/* Port 0 in JSON is "every port" for people. */
static int show_service(const struct sockaddr_storage *service, void *arg)
{
	struct table *table = arg;
	uint16_t port = address_port(service);
	char addr[64];

	table_row(table, json_pack("{s:s, s:o}", "address", address_text(service, addr, sizeof(addr)),
				   "port", port ? json_integer(port) : json_string("any")));
	return 0;
}

static int service_show(struct cli *cli, int argc, char **argv)
{
	struct table table;
	int status;

	cli_doing(cli, "show the services");
	if (argc)
		return cli_unknown(cli, argv[0]);
	if (!cli_client(cli))
		return CLI_FAILED;
	table_begin(&table, cli, columns, ARRAY_SIZE(columns));
	status = cli_result(cli, flt_service_each(cli->client, show_service, &table));
	table_end(&table);
	return status;
}

/* ADDRESS, ADDRESS:PORT, [ADDRESS6]:PORT. */
int value_service(struct cli *cli, const char *text, struct sockaddr_storage *service)
{
	const char *colon = strrchr(text, ':');
	char addr[64];
	int status;

	memset(service, 0, sizeof(*service));
	if (strlen(text) >= sizeof(addr))
		return cli_usage(cli, "service %s is not ADDRESS[:PORT]", text);
	snprintf(addr, sizeof(addr), "%s", text);
	if (text[0] == '[') {
		char *end = strchr(addr, ']');

		if (!end || (end[1] && end[1] != ':'))
			return cli_usage(cli, "service %s is not [ADDRESS]:PORT", text);
		colon = end[1] ? text + (end + 1 - addr) : NULL;
		*end = '\0';
		memmove(addr, addr + 1, strlen(addr));
	} else if (colon && strchr(text, ':') != colon) {
		colon = NULL;	/* an IPv6 address without a port */
	} else if (colon) {
		addr[colon - text] = '\0';
	}
	status = value_address(cli, "address", addr, service);
	if (!status && colon)
		status = value_port(cli, colon + 1, service);
	return status;
}

int value_service_port(struct cli *cli, const char *text, struct sockaddr_storage *service)
{
	int status = value_service(cli, text, service);

	if (!status && !address_port(service))
		status = cli_usage(cli, "service %s has no port", text);
	return status;
}

static int each_service(struct cli *cli, const char *verb, int argc, char **argv,
			int (*change)(struct flt_client *c, const struct sockaddr_storage *service))
{
	struct sockaddr_storage service;
	int status = CLI_OK, i;

	cli_doing(cli, "%s a service", verb);
	if (!argc)
		return cli_usage(cli, "its address is missing");
	for (i = 0; i < argc && status == CLI_OK; i++) {
		cli_doing(cli, "%s service %s", verb, argv[i]);
		status = value_service(cli, argv[i], &service);
		if (status)
			break;
		if (!cli_client(cli))
			return CLI_FAILED;
		status = cli_result(cli, change(cli->client, &service));
	}
	return status;
}

static int service_add(struct cli *cli, int argc, char **argv)
{
	return each_service(cli, "add", argc, argv, flt_service_new);
}

static int service_del(struct cli *cli, int argc, char **argv)
{
	return each_service(cli, "delete", argc, argv, flt_service_del);
}

static const struct command commands[] = {
	{ "show", "list", service_show, "show",
	  "Show the services that this node takes connections of other nodes for" },
	{ "add", NULL, service_add, "add ADDRESS[:PORT]...",
	  "Take connections for a service; without a port, for all of that address" },
	{ "del", "delete", service_del, "del ADDRESS[:PORT]...",
	  "Take no more, named as it was added; connections that were taken go on" },
	{ 0 }
};

const struct object service_object = {
	"service", "services that this node takes connections of other nodes for", commands, false,
	"A connection that a node gives is taken only if its local address and port are listed; with an\n"
	"empty list none is. Back-ends list the service that they answer for; a front-end lists it, too,\n"
	"where servers give connections back. An IPv6 address with a port is written [ADDRESS]:PORT.\n",
};
