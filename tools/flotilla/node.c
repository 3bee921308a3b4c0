// SPDX-License-Identifier: GPL-2.0
/* flotilla node: the table of peers. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "drain.h"
#include "key.h"

static const struct column columns[] = {
	{ "id", "ID", NULL },
	{ "name", "NAME", NULL },
	{ "address", "ADDRESS", NULL },
	{ "port", "PORT", NULL },
	{ "state", "STATE", NULL },
	{ "admin", "ADMIN", NULL },
	{ "role", "ROLE", NULL },
	{ "weight", "WEIGHT", NULL },
	{ "load", "LOAD", NULL },
	{ "forward", "FORWARD", NULL },
	{ "forward_address", "FWD-ADDR", NULL },
	{ "auth", "AUTH", NULL },
	{ "rtt_us", "RTT-US", NULL },
	{ "uptime_ms", "UPTIME", human_duration },
	{ "reconnects", "RECONN", NULL },
	{ "reason", "REASON", NULL },
	{ "trust", "TRUST", NULL },
	{ "features", "FEATURES", NULL },
};

/* What becomes of connections that this node gives or is given. */
static const char *trust_of(const struct flt_node_info *node, bool insecure)
{
	if (node->proven)
		return "proven";
	if (node->auth != FLT_AUTH_NONE)
		return "none-yet";
	return insecure ? "INSECURE" : "refused";
}

const struct feature node_features[] = {
	{ FLT_FEATURE_SECTIONS, "sections" },
	{ FLT_FEATURE_SENDQUEUE, "sendqueue" },
	{ FLT_FEATURE_CLAIM, "claim" },
	{ FLT_FEATURE_TLS, "tls" },
	{ FLT_FEATURE_TAKEOVER, "takeover" },
	{ FLT_FEATURE_RELOCATE, "relocate" },
	{ FLT_FEATURE_NOTIFY, "notify" },
	{ FLT_FEATURE_REDIRECT, "redirect" },
	{ FLT_FEATURE_REPORT, "report" },
	{ FLT_FEATURE_LARGE, "large" },
	{ FLT_FEATURE_CACHE, "cache" },
	{ FLT_FEATURE_HALFCLOSED, "halfclosed" },
	{ FLT_FEATURE_OOO, "ooo" },
	{ 0 }
};

/* What it said that it knows, what is not known here as a number; empty when it said nothing. */
static const char *features_of(const struct flt_node_info *node, char *text, size_t size)
{
	uint64_t later = node->features;
	const struct feature *f;
	size_t len = 0;

	text[0] = '\0';
	for (f = node_features; f->bit; f++) {
		if (node->features & f->bit)
			snprintf(text + len, size - len, "%s%s", len ? "," : "", f->name);
		/* snprintf() counts what had no room, too. */
		len = strlen(text);
		later &= ~f->bit;
	}
	if (later)
		snprintf(text + len, size - len, "%s0x%" PRIx64, len ? "," : "", later);
	return text;
}

static json_t *row_of(const struct flt_node_info *node, bool insecure)
{
	char addr[64], fwd[64], features[128];
	json_t *row;

	row = json_pack("{s:I, s:s, s:s, s:i, s:s, s:s, s:s, s:I, s:I, s:s, s:s*, s:s}",
			"id", (json_int_t)node->id, "name", node->name,
			"address", address_text(&node->addr, addr, sizeof(addr)),
			"port", address_port(&node->addr),
			"state", word_of(&node_states, node->state),
			"admin", word_of(&node_admins, node->admin),
			"role", word_of(&node_roles, node->role),
			"weight", (json_int_t)node->weight, "load", (json_int_t)node->load,
			"forward", word_of(&forwards, node->forward),
			"forward_address", node->fwd_addr.ss_family ?
				address_text(&node->fwd_addr, fwd, sizeof(fwd)) : NULL,
			"auth", word_of(&auths, node->auth));
	if (node->auth == FLT_AUTH_PSK)
		json_object_set_new(row, "key", json_integer(node->key));
	json_object_set_new(row, "trust", json_string(trust_of(node, insecure)));
	json_object_set_new(row, "rtt_us", json_integer(node->rtt_us));
	json_object_set_new(row, "uptime_ms", json_integer(node->uptime_ms));
	json_object_set_new(row, "reconnects", json_integer(node->reconnects));
	if (features_of(node, features, sizeof(features))[0])
		json_object_set_new(row, "features", json_string(features));
	if (node->reason[0])
		json_object_set_new(row, "reason", json_string(node->reason));
	return row;
}

/* Which nodes are wanted: all, or those named; @seen has a bit for each name; @insecure: this node is. */
struct selection {
	struct table table;
	char **names;
	int nr;
	uint64_t seen;
	bool insecure;
};

static int show_node(const struct flt_node_info *node, void *arg)
{
	struct selection *s = arg;
	bool wanted = !s->nr;
	int i;

	for (i = 0; i < s->nr; i++) {
		if (strcmp(s->names[i], node->name))
			continue;
		wanted = true;
		s->seen |= 1ULL << i;
	}
	if (wanted)
		table_row(&s->table, row_of(node, s->insecure));
	return 0;
}

static int node_show(struct cli *cli, int argc, char **argv)
{
	struct selection s = { .names = argv, .nr = argc };
	struct flt_local_info local;
	int status, i;

	cli_doing(cli, "show the nodes");
	if (argc > 64)
		return cli_usage(cli, "more than 64 names");
	if (!cli_client(cli))
		return CLI_FAILED;
	status = cli_result(cli, flt_local_get(cli->client, &local));
	if (status)
		return status;
	s.insecure = local.insecure;
	table_begin(&s.table, cli, columns, ARRAY_SIZE(columns));
	status = cli_result(cli, flt_node_each(cli->client, show_node, &s));
	table_end(&s.table);
	for (i = 0; i < argc && status == CLI_OK; i++) {
		cli_doing(cli, "show node %s", argv[i]);
		if (!(s.seen & 1ULL << i))
			status = cli_fail(cli, "there is no such node");
	}
	if (s.insecure)
		cli_warn(cli, INSECURE_IS_ON);
	return status;
}

int node_argument(struct cli *cli, struct flt_node_info *node, const char *key, const char *value)
{
	uint64_t number = 0;
	int status;

	if (!strcmp(key, "weight")) {
		status = value_number(cli, key, value, 0, 65535, &number);
		node->weight = number;
		node->given |= FLT_GIVEN(FLT_A_NODE_WEIGHT);
	} else if (!strcmp(key, "role")) {
		status = value_word(cli, key, value, &node_roles, &node->role);
		node->given |= FLT_GIVEN(FLT_A_NODE_ROLE);
	} else if (!strcmp(key, "admin")) {
		status = value_word(cli, key, value, &node_admins, &node->admin);
		node->given |= FLT_GIVEN(FLT_A_NODE_ADMIN);
	} else if (!strcmp(key, "forward")) {
		status = value_word(cli, key, value, &forwards, &node->forward);
		node->given |= FLT_GIVEN(FLT_A_NODE_FORWARD);
	} else if (!strcmp(key, "forward-address")) {
		status = value_address(cli, key, value, &node->fwd_addr);
		node->given |= FLT_GIVEN(FLT_A_NODE_FWD_ADDR4);
	} else if (!strcmp(key, "auth")) {
		status = value_word(cli, key, value, &auths, &node->auth);
		node->given |= FLT_GIVEN(FLT_A_NODE_AUTH);
	} else if (!strcmp(key, "key")) {
		status = value_key(cli, value, true, &node->key);
		node->given |= FLT_GIVEN(FLT_A_NODE_KEY);
	} else {
		status = cli_unknown(cli, key);
	}
	return status;
}

static int take_arguments(struct cli *cli, struct flt_node_info *node, int argc, char **argv,
			  bool address)
{
	int status = CLI_OK;

	for (; argc && status == CLI_OK; argc -= 2, argv += 2) {
		if (argc == 1)
			return cli_usage(cli, "%s needs a value", argv[0]);
		if (address && !strcmp(argv[0], "address"))
			status = value_address(cli, argv[0], argv[1], &node->addr);
		else if (address && !strcmp(argv[0], "port"))
			status = value_port(cli, argv[1], &node->addr);
		else
			status = node_argument(cli, node, argv[0], argv[1]);
	}
	return status;
}

static int node_add(struct cli *cli, int argc, char **argv)
{
	struct flt_node_info node = { 0 };
	int status;

	cli_doing(cli, "add a node");
	if (!argc)
		return cli_usage(cli, "its name is missing");
	cli_doing(cli, "add node %s", argv[0]);
	status = value_name(cli, argv[0], node.name);
	if (!status)
		status = take_arguments(cli, &node, argc - 1, argv + 1, true);
	if (!status && !node.addr.ss_family)
		status = cli_usage(cli, "its address is missing");
	if (!status && node.auth == FLT_AUTH_PSK && !node.key)
		status = cli_usage(cli, "auth psk needs a key");
	if (!status && node.key && node.auth != FLT_AUTH_PSK)
		status = cli_usage(cli, "a key goes only with auth psk");
	if (status)
		return status;
	if (!cli_client(cli))
		return CLI_FAILED;
	return cli_result(cli, flt_node_new(cli->client, &node));
}

static int node_set(struct cli *cli, int argc, char **argv)
{
	struct flt_node_info node = { 0 };
	int status;

	cli_doing(cli, "change a node");
	if (!argc)
		return cli_usage(cli, "its name is missing");
	cli_doing(cli, "change node %s", argv[0]);
	status = value_name(cli, argv[0], node.name);
	if (!status)
		status = take_arguments(cli, &node, argc - 1, argv + 1, false);
	if (!status && !node.given)
		status = cli_usage(cli, "nothing to change is given");
	if (status)
		return status;
	if (!cli_client(cli))
		return CLI_FAILED;
	return cli_result(cli, flt_node_set(cli->client, &node));
}

static int node_del(struct cli *cli, int argc, char **argv)
{
	char name[FLT_NAME_MAX];
	int status = CLI_OK, i;

	cli_doing(cli, "delete a node");
	if (!argc)
		return cli_usage(cli, "its name is missing");
	for (i = 0; i < argc && status == CLI_OK; i++) {
		cli_doing(cli, "delete node %s", argv[i]);
		status = value_name(cli, argv[i], name);
		if (status)
			break;
		if (!cli_client(cli))
			return CLI_FAILED;
		status = cli_result(cli, flt_node_del(cli->client, name));
	}
	return status;
}

static const struct command commands[] = {
	{ "show", "list", node_show, "show [NAME]...", "Show all nodes, or those named" },
	{ "add", NULL, node_add, "add NAME address ADDRESS [port PORT] [ARGUMENT VALUE]...",
	  "Make a peer known; its link is set up at once" },
	{ "set", "change", node_set, "set NAME ARGUMENT VALUE...",
	  "Change a node; all that is given changes together or not at all" },
	{ "drain", NULL, node_drain,
	  "drain NAME [--move [--to NODE[,NODE]...] [--now | --idle MS] [--wait SECONDS] [--dry-run]]",
	  "Nothing new for a node; with --move its connections leave for others, while clients use them" },
	{ "del", "delete", node_del, "del NAME...",
	  "Forget nodes; their links close and their connections are reset" },
	{ 0 }
};

const struct object node_object = {
	"node", "peers of this node: back-ends to give connections to, front-ends to take them from",
	commands, false,
	"Arguments:\n"
	"  weight 0..65535                  share of the load, default 100; 0: nothing new\n"
	"  role backend|frontend            default backend\n"
	"  admin active|drain|maintenance   drain: keeps what it has, gets nothing new\n"
	"  forward direct|ipip|udp          how clients' packets reach it; default direct\n"
	"  forward-address ADDRESS          where they are sent; default its address\n"
	"  auth none|psk|x509               how its link proves who it is; default none\n"
	"  key SERIAL|NAME|FILE             with auth psk: the kernel's key, or a file (flotilla auth help)\n"
	"\nTRUST says what becomes of connections that a node gives or is given: proven (its link is\n"
	"authenticated), refused (it is not, flotilla local set insecure is off), INSECURE (given and taken\n"
	"all the same). FEATURES is what it said that it knows; an older one says nothing.\n"
	"\ndrain --move, typed at the front-end: each connection that it gave to the node leaves with its next\n"
	"request, for the back-ends of --to, or for all that are active. --now: one that has been still for a\n"
	"second after an answer leaves without a request (--idle MS: for so long); an answer under way is ended\n"
	"first. It ends when none is left, or after --wait seconds; the status is then 1, and the rest stays.\n",
};
