// SPDX-License-Identifier: GPL-2.0
/* flotilla cache ... --remote NODE: a command for the cache of other nodes. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "cache_job.h"

#define NODES_MAX	64

/**
 * struct remote - where a command is carried out
 * @cli:   whose
 * @names: of the nodes
 * @nr:    of these
 * @full:  there were more
 */
struct remote {
	struct cli *cli;
	char names[NODES_MAX][FLT_NAME_MAX];
	unsigned int nr;
	bool full;
};

static int keep(struct remote *remote, const char *name)
{
	unsigned int i;

	for (i = 0; i < remote->nr; i++)
		if (!strcmp(remote->names[i], name))
			return CLI_OK;
	if (remote->nr == NODES_MAX)
		return cli_usage(remote->cli, "more than %d nodes", NODES_MAX);
	strcpy(remote->names[remote->nr++], name);
	return CLI_OK;
}

static int keep_node(const struct flt_node_info *node, void *arg)
{
	return keep(arg, node->name);
}

/* "*" is every node of the table, whatever its state: those that it does not reach are to be known. */
static int keep_all(struct remote *remote)
{
	struct cli *cli = remote->cli;
	int err;

	if (!cli_client(cli))
		return CLI_FAILED;
	err = flt_node_each(cli->client, keep_node, remote);
	if (err > 0)
		return err;
	if (err)
		return cli_result(cli, err);
	return remote->nr ? CLI_OK : cli_fail(cli, "there is no other node (flotilla node add)");
}

/* Takes "--remote NODE" out of the arguments. */
static int take(struct remote *remote, int *argc, char **argv)
{
	struct cli *cli = remote->cli;
	char name[FLT_NAME_MAX];
	int status = CLI_OK, i, left = 0;

	for (i = 0; i < *argc && !status; i++) {
		if (strcmp(argv[i], "--remote")) {
			argv[left++] = argv[i];
			continue;
		}
		if (++i == *argc)
			return cli_usage(cli, "--remote needs the name of a node, or *");
		status = strcmp(argv[i], "*") ? value_name(cli, argv[i], name) : keep_all(remote);
		if (!status && strcmp(argv[i], "*"))
			status = keep(remote, name);
	}
	*argc = left;
	return status;
}

/* What it has said of itself comes before every sentence of the command. */
static int run_at(struct cli *cli, const char *name, const struct command *command, int argc, char **argv)
{
	char **words = malloc((argc + 1) * sizeof(*words)), place[sizeof(cli->place)];
	int status;

	if (!words)
		return cli_fail(cli, "out of memory");
	/* Some commands change them. */
	memcpy(words, argv, argc * sizeof(*words));
	memcpy(place, cli->place, sizeof(place));
	snprintf(cli->place + strlen(cli->place), sizeof(cli->place) - strlen(cli->place), "node %s: ", name);
	cli->doing[0] = '\0';
	cli->remote = name;
	status = command->run(cli, argc, words);
	cli->remote = NULL;
	memcpy(cli->place, place, sizeof(place));
	free(words);
	return status;
}

static bool reads_input(int argc, char **argv)
{
	return argc > 1 && !strcmp(argv[1], "-");
}

int cache_around(struct cli *cli, const struct command *command, int argc, char **argv)
{
	struct remote remote = { .cli = cli };
	int status, one;
	unsigned int i;

	cli_doing(cli, "reach other nodes");
	status = take(&remote, &argc, argv);
	cli->doing[0] = '\0';
	if (status)
		return status;
	if (!remote.nr)
		return command->run(cli, argc, argv);
	if (remote.nr > 1 && reads_input(argc, argv))
		return cli_usage(cli, "standard input can be put at one node only");
	/* That one does not do it keeps it from none of the others. */
	for (i = 0; i < remote.nr && status != CLI_USAGE; i++) {
		one = run_at(cli, remote.names[i], command, argc, argv);
		status = one > status ? one : status;
	}
	return status;
}

int cache_remote_device(struct cli *cli)
{
	int dev = afpa_open_node(cli->remote, 0);

	if (dev == -ENOENT || dev == -ENXIO)
		cli_fail(cli, "afpa.ko is not loaded here (modprobe afpa)");
	else if (dev == -ENODEV)
		cli_fail(cli, "there is no such node (flotilla node show)");
	else if (dev == -ENOTTY)
		cli_fail(cli, "the module is older than this program, and reaches no other node");
	else if (dev < 0)
		cache_result(cli, dev);
	return dev;
}

const char *cache_remote_error(int err)
{
	switch (err) {
	case -ENODEV:
		return "it is no node any more";
	case -ENOTCONN:
		return "its link is not up, or has ended meanwhile (flotilla node show)";
	case -EPROTONOSUPPORT:
		return "its version of Flotilla takes no such commands";
	case -ENXIO:
		return "afpa.ko is not loaded there";
	case -ENOKEY:
		return "the link is not authenticated, and one of the two nodes insists on that";
	case -EACCES:
		return "it takes no commands of this node (there: flotilla afpa set remote)";
	case -EMSGSIZE:
		return "it is larger than 4M, the most that goes over a link";
	case -EBUSY:
		return "too much is being asked at the same time; try again";
	case -ENOBUFS:
		return "its link does not take what waits already";
	case -ETIMEDOUT:
		return "it has not answered; it may have been done";
	case -EINTR:
		return "interrupted; it may have been done";
	case -EPROTO:
	case -EREMOTEIO:
		return "its answer makes no sense";
	case -EOPNOTSUPP:
		return "that cannot be done from another node";
	default:
		return NULL;
	}
}
