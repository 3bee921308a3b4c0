// SPDX-License-Identifier: GPL-2.0
/* flotilla takeover: a standby front-end gets the connections of a service address (flotilla/takeover.h). */
#include <errno.h>
#include <flotilla/handoff.h>
#include <flotilla/takeover.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include "follow.h"
#include "handoff.h"

#define TIMEOUT_MS	10000

static const struct column columns[] = {
	{ "node", "NODE", NULL },
	{ "answer", "ANSWER", NULL },
	{ "reason", "REASON", NULL },
	{ "taken", "TAKEN", NULL },
	{ "kept", "KEPT", NULL },
};

static const char *const answers[] = {
	[HOF_TAKEOVER_DONE] = "done",
	[HOF_TAKEOVER_REFUSED] = "refused",
	[HOF_TAKEOVER_SILENT] = "silent",
	[HOF_TAKEOVER_DOWN] = "down",
};

/**
 * struct name - of a node that the kernel calls by its number
 * @id:   the number
 * @name: empty: it has left the table
 */
struct name {
	uint32_t id;
	char name[FLT_NAME_MAX];
};

static int find_name(const struct flt_node_info *node, void *arg)
{
	struct name *wanted = arg;

	if (node->id == wanted->id)
		snprintf(wanted->name, sizeof(wanted->name), "%s", node->name);
	return 0;
}

static const char *reason_of(const struct hof_takeover_node *node)
{
	switch (node->state) {
	case HOF_TAKEOVER_REFUSED:
		return handoff_refusal_name(node->refusal);
	case HOF_TAKEOVER_SILENT:
		return "no answer in time";
	case HOF_TAKEOVER_DOWN:
		return "no link";
	default:
		return "";
	}
}

/* One row; false: it has not told of all. */
static bool show_node(struct cli *cli, struct table *table, const struct hof_takeover_node *node)
{
	struct name name = { .id = node->node };

	flt_node_each(cli->client, find_name, &name);
	table_row(table, json_pack("{s:s, s:s, s:s, s:I, s:I}", "node", name.name, "answer", answers[node->state],
				   "reason", reason_of(node), "taken", (json_int_t)node->taken,
				   "kept", (json_int_t)node->kept));
	if (node->state != HOF_TAKEOVER_DONE)
		cli_fail(cli, "node %s: %s", name.name, reason_of(node));
	return node->state == HOF_TAKEOVER_DONE;
}

static int show(struct cli *cli, const struct hof_takeover *t)
{
	const struct hof_takeover_node *node = (const void *)(uintptr_t)t->nodes;
	struct table table;
	bool all = true;
	uint32_t i;

	table_begin(&table, cli, columns, ARRAY_SIZE(columns));
	for (i = 0; i < t->nr_nodes; i++)
		all &= show_node(cli, &table, &node[i]);
	table_end(&table);
	return all ? CLI_OK : CLI_FAILED;
}

static int refused(struct cli *cli, int err)
{
	switch (err) {
	case EPERM:
		return cli_fail(cli, "that needs CAP_NET_ADMIN");
	case ENOTTY:
		return cli_fail(cli, "the loaded handoff.ko is too old for this");
	case EBUSY:
		return cli_fail(cli, "another command asks for it, or for a part of it, just now");
	case ENOSPC:
		return cli_fail(cli, "%d services are prepared already", HOF_TAKEOVER_MAX);
	case ENOENT:
		return cli_fail(cli, "it is not prepared");
	default:
		return cli_fail(cli, "%s", strerror(err));
	}
}

static void fill(struct hof_takeover *t, const struct sockaddr_storage *service)
{
	t->size = sizeof(*t);
	t->family = service->ss_family;
	t->port = htons(address_port(service));
	if (service->ss_family == AF_INET)
		memcpy(t->address, &((const struct sockaddr_in *)service)->sin_addr, 4);
	else
		memcpy(t->address, &((const struct sockaddr_in6 *)service)->sin6_addr, 16);
}

static int call(struct cli *cli, struct hof_takeover *t)
{
	int device = follow_device(cli), err;

	if (device < 0)
		return CLI_FAILED;
	err = ioctl(device, HOF_IOC_TAKEOVER, t) ? errno : 0;
	close(device);
	return err ? refused(cli, err) : CLI_OK;
}

static int ask(struct cli *cli, struct hof_takeover *t)
{
	struct hof_takeover_node *nodes = calloc(HOF_TAKEOVER_NODES, sizeof(*nodes));
	int status;

	if (!nodes)
		return cli_fail(cli, "out of memory");
	t->nodes = (uintptr_t)nodes;
	t->nr_nodes = HOF_TAKEOVER_NODES;
	status = call(cli, t);
	if (!status)
		status = show(cli, t);
	free(nodes);
	return status;
}

static int parse(struct cli *cli, int argc, char **argv, struct hof_takeover *t)
{
	struct sockaddr_storage service = {};
	uint64_t seconds = 0;
	int status = CLI_OK, i;

	t->op = HOF_TAKEOVER_ASK;
	for (i = 0; i < argc && !status; i++) {
		if (!strcmp(argv[i], "--prepare"))
			t->op = HOF_TAKEOVER_PREPARE;
		else if (!strcmp(argv[i], "--release"))
			t->op = HOF_TAKEOVER_RELEASE;
		else if (!strcmp(argv[i], "--wait") && i + 1 < argc)
			status = value_number(cli, "--wait", argv[++i], 1, 60, &seconds);
		else if (!strcmp(argv[i], "--wait"))
			status = cli_usage(cli, "--wait needs a number");
		else if (argv[i][0] == '-' || service.ss_family)
			status = cli_unknown(cli, argv[i]);
		else
			status = value_service(cli, argv[i], &service);
	}
	if (!status && !service.ss_family)
		status = cli_usage(cli, "the address of the service is missing");
	if (!status && seconds && t->op != HOF_TAKEOVER_ASK)
		status = cli_usage(cli, "--wait is for asking");
	if (status)
		return status;
	cli_doing(cli, "take over %s", argv[0]);
	fill(t, &service);
	if (t->op == HOF_TAKEOVER_ASK)
		t->timeout_ms = seconds ? seconds * 1000 : TIMEOUT_MS;
	return CLI_OK;
}

static int takeover(struct cli *cli, int argc, char **argv)
{
	struct hof_takeover t = {};
	int status;

	cli_doing(cli, "take over a service");
	status = parse(cli, argc, argv, &t);
	if (status)
		return status;
	if (t.op != HOF_TAKEOVER_ASK)
		return call(cli, &t);
	return cli_client(cli) ? ask(cli, &t) : CLI_FAILED;
}

static const struct command commands[] = {
	{ "", NULL, takeover, "ADDRESS[:PORT] [--prepare | --release] [--wait SECONDS]",
	  "Ask the back-ends for their connections of a service address that this node has now" },
	{ 0 }
};

const struct object takeover_object = {
	"takeover", "a standby front-end gets the connections of a service address", commands, true,
	"--prepare, on a standby: once the address comes, packets of connections that are not known are dropped\n"
	"and not reset, for at most net.flotilla.takeover_hold_ms from the first one on. Without it the\n"
	"command holds them back itself, from its beginning until the back-ends have answered, for at most\n"
	"--wait seconds (10). --release ends what was prepared. The status is 1 when a back-end has not told\n"
	"of all its connections; it is named, and the rest goes on. For keepalived: notify_backup and notify_fault\n"
	"call it with --prepare, notify_master without.\n",
};
