// SPDX-License-Identifier: GPL-2.0
/* flotilla process move: established connections change their process. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include "process_job.h"

/* Which of the new process's listeners get connections. */
static int give_new(struct job *job)
{
	unsigned int i;

	for (i = 0; i < job->news.nr; i++) {
		if (job_has(&job->olds, job->news.of[i].inode))
			job->shared++;
		else if (ioctl(job->move, HOF_MOVE_TO, job->news.of[i].fd) && errno != EOPNOTSUPP)
			return job_refused(job, "a listener of the new process");
	}
	return CLI_OK;
}

static int find_listeners(struct job *job)
{
	int status;

	status = job_listeners(job, &job->old, &job->olds);
	if (!status)
		status = job_listeners(job, &job->new, &job->news);
	if (status)
		return status;
	if (!job->news.nr)
		return cli_fail(job->cli, "process %d listens on no TCP address", job->new.pid);
	return give_new(job);
}

static void print(const struct job *job)
{
	const struct hof_move_status *s = &job->status;
	json_t *row;

	if (job->cli->json) {
		row = json_pack("{s:i, s:i}", "old", job->old.pid, "new", job->new.pid);
		job_json(job, row);
		json_print(job->cli, row);
		return;
	}
	printf("moved %llu connection%s from process %d to %d", (unsigned long long)s->moved,
	       s->moved == 1 ? "" : "s", job->old.pid, job->new.pid);
	job_print_left(job);
}

static void print_counted(const struct job *job)
{
	if (job->cli->json)
		json_print(job->cli, json_pack("{s:i, s:i, s:i}", "old", job->old.pid,
					       "new", job->new.pid, "connections", job->conns));
	else
		printf("process %d has %u connection%s, of which those that process %d listens for would move\n",
		       job->old.pid, job->conns, job->conns == 1 ? "" : "s", job->new.pid);
}

static int nothing_common(struct job *job)
{
	if (job->shared)
		return cli_fail(job->cli, "both processes have the same listening socket: the new one needs one of its own (SO_REUSEPORT; nginx: listen ... reuseport)");
	return cli_fail(job->cli, "process %d listens on no address of process %d (both need SO_REUSEPORT; nginx: listen ... reuseport)",
			job->new.pid, job->old.pid);
}

static bool same_service(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
	char x[64], y[64];

	return a->ss_family == b->ss_family && address_port(a) == address_port(b) &&
	       !strcmp(address_text(a, x, sizeof(x)), address_text(b, y, sizeof(y)));
}

static bool have_common(const struct job *job)
{
	unsigned int i, k;

	for (i = 0; i < job->olds.nr; i++)
		for (k = 0; k < job->news.nr; k++)
			if (!job_has(&job->olds, job->news.of[k].inode) &&
			    same_service(&job->olds.of[i].local, &job->news.of[k].local))
				return true;
	return false;
}

/* The old process may have closed its listeners: then its connections say whether there is a service. */
static int run(struct job *job)
{
	int status, err;

	status = job_open(job);
	if (!status)
		status = find_listeners(job);
	if (status)
		return status;
	if (!have_common(job) && (job->shared || job->olds.nr))
		return nothing_common(job);
	if (job->dry_run)
		return job_count(job, print_counted);
	/* Clients find the new one only, from here on. */
	status = job_hide(job);
	if (status)
		return status;
	job_let_go(&job->olds);
	job_let_go(&job->news);
	err = job_follow(job);
	if (err && err != -ECONNREFUSED)
		return job_no_rights(job, &job->old, err);
	if (!job_left(job) && err != -ECONNREFUSED)
		ioctl(job->move, HOF_MOVE_KEEP);
	print(job);
	if (err == -ECONNREFUSED)
		return cli_fail(job->cli, "process %d does not listen any more; the rest stays with process %d",
				job->new.pid, job->old.pid);
	return job_left(job) ? CLI_FAILED : CLI_OK;
}

static int parse(struct job *job, int argc, char **argv, uint64_t pids[2])
{
	struct cli *cli = job->cli;
	int i, nr = 0, status = 0;

	for (i = 0; i < argc && !status; i++)
		if (nr < 2 && argv[i][0] != '-')
			status = value_number(cli, "process", argv[i], 1, INT32_MAX, &pids[nr++]);
		else
			status = job_option(job, argc, argv, &i);
	if (!status && nr < 2)
		status = cli_usage(cli, "the numbers of the old and the new process are missing");
	if (!status && pids[0] == pids[1])
		status = cli_usage(cli, "the old and the new process are the same");
	return status;
}

static int process_move(struct cli *cli, int argc, char **argv)
{
	struct job *job;
	uint64_t pids[2];
	int status;

	cli_doing(cli, "move connections");
	job = job_begin(cli);
	if (!job)
		return CLI_FAILED;
	status = parse(job, argc, argv, pids);
	if (status)
		goto out;
	if (process_open(&job->old, pids[0], job->tree) || process_open(&job->new, pids[1], job->tree)) {
		status = cli_fail(cli, "there is no process %d",
				  job->old.pidfd < 0 ? job->old.pid : job->new.pid);
		goto out;
	}
	/* A server that starts its successor itself. */
	job->old.but = job->new.pid;
	job->new.but = job->old.pid;
	status = job_run(job, run);
out:
	job_end(job);
	return status;
}

static const struct command commands[] = {
	{ "move", NULL, process_move,
	  "move OLDPID NEWPID [--idle MS] [--wait SECONDS] [--dry-run] [--no-tree]",
	  "Move the established connections of a server to its successor, while clients use them" },
	{ "drain", NULL, process_drain,
	  "drain PID --to NODE[,NODE]... [--idle MS] [--wait SECONDS] [--dry-run] [--no-tree]",
	  "Hand the established connections of a server to other nodes, while clients use them" },
	{ 0 }
};

const struct object process_object = {
	"process", "servers of this machine that are replaced or emptied", commands, false,
	"move: both processes listen on the same address (SO_REUSEPORT; nginx: listen ... reuseport). New clients come\n"
	"to the new one from here on. A connection moves before its first request, or with the next one after an\n"
	"answer; an answer under way is ended by the old process first. --idle MS moves those, too, on which\n"
	"nothing has happened for so long after an answer: also WebSockets, and answers that pause.\n"
	"drain: the same, to nodes whose servers have the address and that know this one as a front-end. What\n"
	"nodes would give us for the server's addresses is refused; clients that come here are handed on.\n"
	"It ends when the old process has none left, or --wait SECONDS are over; then those that are left stay\n"
	"where they are, and the exit status is 1. Descendants of both processes count unless --no-tree.\n",
};
