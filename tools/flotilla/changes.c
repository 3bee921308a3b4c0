// SPDX-License-Identifier: GPL-2.0
/* Differences become commands: run in their order, printed, told as JSON. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "config.h"

static int run_line(struct cli *cli, const char *line)
{
	char *words[CLI_WORDS], *copy = strdup(line);
	int status = CLI_FAILED, nr = copy ? cli_split(copy, words) : 0;

	cli->doing[0] = '\0';
	if (nr > 0)
		status = cli_run(cli, nr, words);
	else
		cli_fail(cli, "%s: %s", copy ? cli_split_why(nr) : "out of memory", line);
	cli->doing[0] = '\0';
	free(copy);
	return status;
}

static int run_setting(struct cli *cli, const struct change *change)
{
	int err = setting_write(change->setting, change->value);

	if (!err)
		return CLI_OK;
	cli_doing(cli, "set %s %s to %s", change->setting->kind, change->setting->name, change->value);
	return cli_fail(cli, "%s", err == -EACCES || err == -EPERM ? "only root may" : strerror(-err));
}

/* All commands of a change but the early one. */
static int run_change(struct cli *cli, const struct change *change)
{
	int status = CLI_OK;
	unsigned int i;

	if (change->setting)
		return run_setting(cli, change);
	for (i = 0; i < 2 && !status; i++)
		if (change->commands[i])
			status = run_line(cli, change->commands[i]);
	/* The first one was done, now or early. */
	if (status && i == 2 && change->undo)
		cli_fail(cli, run_line(cli, change->undo) ? "nor can it be put back: it is gone" :
			 "it was put back as it had been");
	return status;
}

static void print_change(const struct cli *cli, const struct change *change)
{
	if (change->sign && !cli->json)
		printf(cli->tabs ? "%c\t%s\n" : "%c %s\n", change->sign, change->text);
}

static void run_phase(struct cli *cli, const struct config *wanted, struct changes *changes, enum change_phase phase,
		      bool *failed)
{
	size_t i;

	for (i = 0; i < changes->nr; i++) {
		struct change *c = &changes->list[i];

		config_place(cli, wanted, c->place);
		if (phase == PHASE_EARLY && c->early && run_line(cli, c->early)) {
			c->status = CHANGE_FAILED;
			*failed = true;
		}
		if (c->phase != phase || c->status != CHANGE_PLANNED)
			continue;
		/* Who goes could be whom those that did not come were to replace. */
		if (phase == PHASE_REMOVE && *failed) {
			c->status = CHANGE_SKIPPED;
			continue;
		}
		c->status = run_change(cli, c) ? CHANGE_FAILED : CHANGE_DONE;
		*failed |= c->status == CHANGE_FAILED;
		if (c->status == CHANGE_DONE)
			print_change(cli, c);
		fflush(stdout);
	}
}

int changes_run(struct cli *cli, const struct config *wanted, struct changes *changes)
{
	size_t nr[CHANGE_SKIPPED + 1] = { 0 }, i;
	enum change_phase phase;
	bool failed = false;

	for (phase = 0; phase < NR_PHASES; phase++)
		run_phase(cli, wanted, changes, phase, &failed);
	cli->doing[0] = '\0';
	if (!failed)
		return CLI_OK;
	for (i = 0; i < changes->nr; i++)
		nr[changes->list[i].status]++;
	config_place(cli, wanted, "");
	return cli_fail(cli, "%zu changes done, %zu failed, %zu removals not tried for that; apply it again when it is mended",
			nr[CHANGE_DONE], nr[CHANGE_FAILED], nr[CHANGE_SKIPPED]);
}

json_t *changes_json(const struct changes *changes)
{
	static const char *const statuses[] = { "planned", "done", "failed", "skipped" };
	json_t *all = json_array();
	char sign[2] = "";
	size_t i;

	for (i = 0; i < changes->nr; i++) {
		const struct change *c = &changes->list[i];

		sign[0] = c->sign;
		if (c->sign)
			json_array_append_new(all, json_pack("{s:s, s:s, s:s}", "change", sign, "what", c->text,
							     "status", statuses[c->status]));
	}
	return all;
}

int changes_permitted(struct cli *cli)
{
	static const struct flt_local_info nothing;

	if (flt_local_set(cli->client, &nothing) != -EPERM)
		return CLI_OK;
	return cli_fail(cli, "this needs CAP_NET_ADMIN in the network namespace");
}

void changes_print(const struct cli *cli, const struct changes *changes)
{
	enum change_phase phase;
	size_t i;

	for (phase = 0; phase < NR_PHASES; phase++)
		for (i = 0; i < changes->nr; i++)
			if (changes->list[i].phase == phase)
				print_change(cli, &changes->list[i]);
}

bool changes_seen(const struct changes *changes)
{
	size_t i;

	for (i = 0; i < changes->nr; i++)
		if (changes->list[i].sign)
			return true;
	return false;
}
