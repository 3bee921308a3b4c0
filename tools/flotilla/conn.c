// SPDX-License-Identifier: GPL-2.0
/* flotilla conn: connections this node has handed off. */
#include <arpa/inet.h>
#include <string.h>
#include "drain.h"

static const struct column columns[] = {
	{ "client", "CLIENT", NULL },
	{ "client_port", "PORT", NULL },
	{ "server", "SERVER", NULL },
	{ "server_port", "PORT", NULL },
	{ "node", "NODE", NULL },
	{ "state", "STATE", NULL },
	{ "packets", "PACKETS", NULL },
	{ "bytes", "BYTES", NULL },
	{ "age_ms", "AGE", human_duration },
};

/**
 * struct filter - what is to be shown
 * @node: @state: NULL: any
 * @client: ss_family 0: any
 * @count: only the number
 */
struct filter {
	const char *node, *state;
	struct sockaddr_storage client;
	bool count;
	uint64_t found;
	struct table table;
};

static bool is_client(const struct flt_tuple *tuple, const struct sockaddr_storage *client)
{
	if (!client->ss_family)
		return true;
	if (client->ss_family != tuple->family)
		return false;
	if (tuple->family == AF_INET)
		return !memcmp(tuple->client, &((struct sockaddr_in *)client)->sin_addr, 4);
	return !memcmp(tuple->client, &((struct sockaddr_in6 *)client)->sin6_addr, 16);
}

static const char *tuple_address(uint16_t family, const uint8_t *addr, char *text, size_t size)
{
	return inet_ntop(family, addr, text, size) ? text : "";
}

static int show_conn(const struct flt_conn_info *conn, void *arg)
{
	const struct flt_tuple *tuple = &conn->tuple;
	char client[64], server[64];
	struct filter *f = arg;

	if ((f->node && strcmp(f->node, conn->node)) ||
	    (f->state && strcasecmp(f->state, conn->state)) || !is_client(tuple, &f->client))
		return 0;
	f->found++;
	if (f->count)
		return 0;
	table_row(&f->table,
		  json_pack("{s:s, s:i, s:s, s:i, s:s, s:s, s:I, s:I, s:I}",
			    "client", tuple_address(tuple->family, tuple->client, client,
						    sizeof(client)),
			    "client_port", ntohs(tuple->client_port),
			    "server", tuple_address(tuple->family, tuple->server, server,
						    sizeof(server)),
			    "server_port", ntohs(tuple->server_port),
			    "node", conn->node, "state", conn->state,
			    "packets", (json_int_t)conn->packets,
			    "bytes", (json_int_t)conn->bytes,
			    "age_ms", (json_int_t)conn->age_ms));
	return 0;
}

static int take_filter(struct cli *cli, struct filter *f, int argc, char **argv)
{
	int status = CLI_OK;

	while (argc && status == CLI_OK) {
		if (!strcmp(argv[0], "count")) {
			f->count = true;
			argc--, argv++;
			continue;
		}
		if (argc == 1)
			return cli_unknown(cli, argv[0]);
		if (!strcmp(argv[0], "node"))
			f->node = argv[1];
		else if (!strcmp(argv[0], "state"))
			f->state = argv[1];
		else if (!strcmp(argv[0], "client"))
			status = value_address(cli, argv[0], argv[1], &f->client);
		else
			status = cli_unknown(cli, argv[0]);
		argc -= 2, argv += 2;
	}
	return status;
}

static int conn_show(struct cli *cli, int argc, char **argv)
{
	struct filter f = { 0 };
	int status;

	cli_doing(cli, "show the connections");
	status = take_filter(cli, &f, argc, argv);
	if (status)
		return status;
	if (!cli_client(cli))
		return CLI_FAILED;
	if (!f.count)
		table_begin(&f.table, cli, columns, ARRAY_SIZE(columns));
	status = cli_result(cli, flt_conn_each(cli->client, show_conn, &f));
	if (!f.count)
		table_end(&f.table);
	else if (!status && cli->json)
		printf("{\"count\":%llu}\n", (unsigned long long)f.found);
	else if (!status)
		printf("%llu\n", (unsigned long long)f.found);
	return status;
}

static const struct command commands[] = {
	{ "show", "list", conn_show,
	  "[show] [node NAME] [state hold|forward|redirect|linger] [client ADDRESS] [count]",
	  "Show the connections that were handed off from here" },
	{ "move", NULL, conn_move,
	  "move CLIENT:PORT [server ADDRESS:PORT] node NODE [--now | --idle MS] [--wait SECONDS]",
	  "Have one of them go to another node, with its next request" },
	{ 0 }
};

const struct object conn_object = {
	"conn", "connections this node has handed off and forwards", commands, true, NULL,
};
