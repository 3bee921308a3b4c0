// SPDX-License-Identifier: GPL-2.0
/* flotilla process drain: established connections go to other nodes. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include "process_job.h"

/**
 * struct targets - the nodes of --to
 * @name: as typed
 * @id:   in the kernel's table, 0: it is not there
 */
struct targets {
	char name[HOF_MOVE_NODES][FLT_NAME_MAX];
	uint32_t id[HOF_MOVE_NODES];
	unsigned int nr;
};

/* The command has one. */
static struct targets targets;

static int see_node(const struct flt_node_info *node, void *arg)
{
	unsigned int i;

	(void)arg;
	for (i = 0; i < targets.nr; i++)
		if (!strcmp(targets.name[i], node->name))
			targets.id[i] = node->id;
	return 0;
}

static int find_nodes(struct job *job)
{
	struct flt_client *client = cli_client(job->cli);
	unsigned int i;
	int status;

	if (!client)
		return CLI_FAILED;
	status = cli_result(job->cli, flt_node_each(client, see_node, NULL));
	for (i = 0; !status && i < targets.nr; i++)
		if (!targets.id[i])
			status = cli_fail(job->cli, "there is no node %s", targets.name[i]);
	return status;
}

static int give_nodes(struct job *job)
{
	unsigned int i;

	for (i = 0; i < targets.nr; i++) {
		if (!ioctl(job->move, HOF_MOVE_NODE, (unsigned long)targets.id[i]))
			continue;
		if (errno == ENOTTY)
			return cli_fail(job->cli, "the loaded handoff.ko is too old for this");
		return cli_fail(job->cli, "node %s: %s", targets.name[i],
				errno == EEXIST ? "named twice" : strerror(errno));
	}
	return CLI_OK;
}

static json_t *names(void)
{
	json_t *all = json_array();
	unsigned int i;

	for (i = 0; i < targets.nr; i++)
		json_array_append_new(all, json_string(targets.name[i]));
	return all;
}

static void print_counted(const struct job *job)
{
	if (job->cli->json)
		json_print(job->cli, json_pack("{s:i, s:o, s:i}", "process", job->old.pid,
					       "to", names(), "connections", job->conns));
	else
		printf("process %d has %u connection%s, of which those that clients opened would move\n",
		       job->old.pid, job->conns, job->conns == 1 ? "" : "s");
}

static void print(const struct job *job)
{
	unsigned int i;

	if (job->cli->json) {
		json_t *row = json_pack("{s:i, s:o, s:i, s:i}", "process", job->old.pid, "to", names(),
					"through", job->passed.through, "forwarded", job->passed.here);

		job_json(job, row);
		json_print(job->cli, row);
		return;
	}
	printf("moved %llu connection%s from process %d to ", (unsigned long long)job->status.moved,
	       job->status.moved == 1 ? "" : "s", job->old.pid);
	for (i = 0; i < targets.nr; i++)
		printf("%s%s", i ? "," : "", targets.name[i]);
	job_print_left(job);
	follow_print(job->passed.through,
			 "moved; their packets come by this node still, whose node of entry has not answered");
	follow_print(job->passed.here, "moved; their clients send to this node, which forwards until they end");
}

static int run(struct job *job)
{
	int status, err;

	status = find_nodes(job);
	if (!status)
		status = job_open(job);
	if (!status)
		status = give_nodes(job);
	if (!status)
		status = job_listeners(job, &job->old, &job->olds);
	if (status)
		return status;
	if (job->dry_run)
		return job_count(job, print_counted);
	/* Nothing is given to it by other nodes from here on. */
	status = job_hide(job);
	if (status)
		return status;
	job_let_go(&job->olds);
	err = job_follow(job);
	if (err)
		return job_no_rights(job, &job->old, err);
	print(job);
	return job_left(job) || job->passed.through ? CLI_FAILED : CLI_OK;
}

/* NODE[,NODE]... */
static int parse_nodes(struct cli *cli, char *text)
{
	char *name, *rest = NULL;
	int status = CLI_OK;

	for (name = strtok_r(text, ",", &rest); name && !status; name = strtok_r(NULL, ",", &rest)) {
		if (targets.nr == HOF_MOVE_NODES)
			return cli_usage(cli, "more than %u nodes", HOF_MOVE_NODES);
		status = value_name(cli, name, targets.name[targets.nr++]);
	}
	return status;
}

static int parse(struct job *job, int argc, char **argv, uint64_t *pid)
{
	struct cli *cli = job->cli;
	int i, status = CLI_OK;

	for (i = 0; i < argc && !status; i++)
		if (!strcmp(argv[i], "--to") && i + 1 < argc)
			status = parse_nodes(cli, argv[++i]);
		else if (!strcmp(argv[i], "--to"))
			status = cli_usage(cli, "--to needs names of nodes");
		else if (!*pid && argv[i][0] != '-')
			status = value_number(cli, "process", argv[i], 1, INT32_MAX, pid);
		else
			status = job_option(job, argc, argv, &i);
	if (!status && !*pid)
		status = cli_usage(cli, "the number of the process is missing");
	if (!status && !targets.nr)
		status = cli_usage(cli, "the nodes that get them are missing (--to)");
	return status;
}

int process_drain(struct cli *cli, int argc, char **argv)
{
	struct job *job;
	uint64_t pid = 0;
	int status;

	cli_doing(cli, "hand connections on");
	targets = (struct targets){ 0 };
	job = job_begin(cli);
	if (!job)
		return CLI_FAILED;
	job->drains = true;
	status = parse(job, argc, argv, &pid);
	if (!status && process_open(&job->old, pid, job->tree))
		status = cli_fail(cli, "there is no process %d", job->old.pid);
	if (!status)
		status = job_run(job, run);
	job_end(job);
	return status;
}
