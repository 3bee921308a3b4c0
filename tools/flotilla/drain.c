// SPDX-License-Identifier: GPL-2.0
/* flotilla node drain, flotilla conn move: connections leave a node, as the front-end wants it. */
#include <netinet/in.h>
#include <string.h>
#include "drain.h"
#include "relocation.h"

/* Of one connection: not for ever. */
#define CONN_WAIT_MS	30000

/**
 * struct drain - flotilla node drain
 */
struct drain {
	struct relocation re;
	bool moves, dry_run, options;
};

/* It gets nothing new. */
static int set_drained(const struct relocation *re)
{
	struct flt_node_info node = { .admin = FLT_ADMIN_DRAIN, .given = FLT_GIVEN(FLT_A_NODE_ADMIN) };

	snprintf(node.name, sizeof(node.name), "%s", re->from);
	if (!cli_client(re->cli))
		return CLI_FAILED;
	return cli_result(re->cli, flt_node_set(re->cli->client, &node));
}

/**
 * struct count - the connections that are forwarded to a node
 */
struct count {
	const char *node;
	uint64_t nr;
};

static int see_conn(const struct flt_conn_info *conn, void *arg)
{
	struct count *count = arg;

	count->nr += !strcmp(conn->state, "FORWARD") && !strcmp(conn->node, count->node);
	return 0;
}

static void print_targets(const struct relocation *re)
{
	unsigned int i;

	for (i = 0; i < re->r.nr_to; i++)
		printf("%s%s", i ? "," : "", re->to[i]);
}

static int count_only(const struct relocation *re)
{
	struct count count = { .node = re->from };
	int status = cli_result(re->cli, flt_conn_each(re->cli->client, see_conn, &count));

	if (status)
		return status;
	if (re->cli->json) {
		json_print(re->cli, json_pack("{s:s, s:o, s:I}", "node", re->from, "to", relocation_targets(re),
					      "connections", (json_int_t)count.nr));
		return CLI_OK;
	}
	printf("%s has %llu connection%s of this front-end, which would move to ", re->from,
	       (unsigned long long)count.nr, count.nr == 1 ? "" : "s");
	print_targets(re);
	printf("\n");
	return CLI_OK;
}

static void print_drained(const struct relocation *re)
{
	unsigned long long moved = relocation_moved(re), ended = re->ended + re->r.ended;

	if (re->cli->json) {
		json_print(re->cli, relocation_json(re));
		return;
	}
	printf("moved %llu connection%s from %s to ", moved, moved == 1 ? "" : "s", re->from);
	print_targets(re);
	if (ended)
		printf(", %llu ended", ended);
	printf(", %u left\n", re->r.left);
	if (re->r.left)
		relocation_print_left(re);
}

static int parse_drain(struct drain *d, int argc, char **argv)
{
	struct cli *cli = d->re.cli;
	int i, status = CLI_OK;

	for (i = 0; i < argc && !status; i++) {
		d->options |= argv[i][0] == '-' && strcmp(argv[i], "--move");
		if (!strcmp(argv[i], "--move"))
			d->moves = true;
		else if (!strcmp(argv[i], "--dry-run"))
			d->dry_run = true;
		else if (!strcmp(argv[i], "--to") && i + 1 < argc)
			status = relocation_to(&d->re, argv[++i]);
		else if (!strcmp(argv[i], "--to"))
			status = cli_usage(cli, "--to needs names of nodes");
		else if (!d->re.from[0] && argv[i][0] != '-')
			status = value_name(cli, argv[i], d->re.from);
		else
			status = relocation_option(&d->re, argc, argv, &i);
	}
	if (!status && !d->re.from[0])
		status = cli_usage(cli, "the name of the node is missing");
	if (!status && d->options && !d->moves)
		status = cli_usage(cli, "that goes with --move");
	return status;
}

int node_drain(struct cli *cli, int argc, char **argv)
{
	struct drain d = { 0 };
	int status;

	cli_doing(cli, "drain a node");
	relocation_begin(&d.re, cli);
	status = parse_drain(&d, argc, argv);
	if (status)
		return status;
	cli_doing(cli, "drain node %s", d.re.from);
	if (!d.moves)
		return set_drained(&d.re);
	status = relocation_nodes(&d.re);
	if (!status && d.dry_run)
		return count_only(&d.re);
	if (!status)
		status = set_drained(&d.re);
	if (status)
		return status;
	status = relocation_run(&d.re);
	if (d.re.r.answered)
		print_drained(&d.re);
	return status;
}

/**
 * struct wanted - a connection of conn show
 * @client, @server: as typed; @server may be none
 * @found: how many there are
 * @conn:  the last of them
 */
struct wanted {
	struct sockaddr_storage client, server;
	unsigned int found;
	struct flt_conn_info conn;
};

static bool is_end(const struct sockaddr_storage *end, uint16_t family, const uint8_t *addr, uint16_t port)
{
	if (!end->ss_family)
		return true;
	if (end->ss_family != family || htons(address_port(end)) != port)
		return false;
	if (family == AF_INET)
		return !memcmp(&((const struct sockaddr_in *)end)->sin_addr, addr, 4);
	return !memcmp(&((const struct sockaddr_in6 *)end)->sin6_addr, addr, 16);
}

static int see_wanted(const struct flt_conn_info *conn, void *arg)
{
	const struct flt_tuple *tuple = &conn->tuple;
	struct wanted *w = arg;

	if (!strcmp(conn->state, "LINGER") ||
	    !is_end(&w->client, tuple->family, tuple->client, tuple->client_port) ||
	    !is_end(&w->server, tuple->family, tuple->server, tuple->server_port))
		return 0;
	w->found++;
	w->conn = *conn;
	return 0;
}

static int find_wanted(struct relocation *re, struct wanted *w)
{
	int status;

	if (!cli_client(re->cli))
		return CLI_FAILED;
	status = cli_result(re->cli, flt_conn_each(re->cli->client, see_wanted, w));
	if (status)
		return status;
	if (!w->found)
		return cli_fail(re->cli, "there is no such connection (flotilla conn show)");
	if (w->found > 1)
		return cli_fail(re->cli, "there are %u of that client, name the server, too", w->found);
	if (!strcmp(w->conn.node, re->to[0]))
		return cli_fail(re->cli, "%s has it already", re->to[0]);
	snprintf(re->from, sizeof(re->from), "%s", w->conn.node);
	re->r.tuple = w->conn.tuple;
	return CLI_OK;
}

static int parse_move(struct relocation *re, struct wanted *w, int argc, char **argv)
{
	struct cli *cli = re->cli;
	int i, status = CLI_OK;

	for (i = 0; i < argc && !status; i++) {
		bool more = i + 1 < argc;

		if (!strcmp(argv[i], "node") && more && !re->r.nr_to)
			status = value_name(cli, argv[++i], re->to[re->r.nr_to++]);
		else if (!strcmp(argv[i], "server") && more)
			status = value_service(cli, argv[++i], &w->server);
		else if (argv[i][0] == '-')
			status = relocation_option(re, argc, argv, &i);
		else if (!w->client.ss_family)
			status = value_service(cli, argv[i], &w->client);
		else
			status = cli_unknown(cli, argv[i]);
	}
	if (!status && (!w->client.ss_family || !address_port(&w->client)))
		status = cli_usage(cli, "the connection is missing: its client's ADDRESS:PORT");
	if (!status && !re->r.nr_to)
		status = cli_usage(cli, "the node that gets it is missing");
	return status;
}

/* Why it has not moved. */
static int say_stays(const struct relocation *re)
{
	const struct hof_relocate *r = &re->r;

	cli_fail(re->cli, "it stays with %s%s", re->from,
		 r->waiting ? ": no request has come that it could move with (--now moves it without)" :
		 r->busy ? ": a request or an answer is under way" :
		 r->absent ? ", which has no such connection of this front-end" :
		 r->queued ? ": no server there has accepted it" :
		 r->fixed ? ": it cannot move (kTLS, a sockmap, another user in the kernel)" :
		 re->others ? ": another command there moves it" : "");
	if (!re->cli->json)
		relocation_print_left(re);
	return CLI_FAILED;
}

int conn_move(struct cli *cli, int argc, char **argv)
{
	struct relocation re;
	struct wanted w = { 0 };
	int status;

	cli_doing(cli, "move a connection");
	relocation_begin(&re, cli);
	re.wait_ms = CONN_WAIT_MS;
	status = parse_move(&re, &w, argc, argv);
	if (!status)
		cli_doing(cli, "move %s", argv[0]);
	if (!status)
		status = find_wanted(&re, &w);
	if (!status)
		status = relocation_nodes(&re);
	if (status)
		return status;
	status = relocation_run(&re);
	if (cli->json && re.r.answered)
		json_print(cli, relocation_json(&re));
	if (!status && !relocation_moved(&re))
		return cli_fail(cli, "it has ended");
	if (status && re.r.answered && !re.r.refusal)
		return say_stays(&re);
	if (!status && !cli->json)
		printf("moved from %s to %s\n", re.from, re.to[0]);
	return status;
}
