// SPDX-License-Identifier: GPL-2.0
/* flotilla save and flotilla apply: settings that outlive a boot. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "config.h"
#include "key.h"

static int save(struct cli *cli, int argc, char **argv)
{
	struct config live;
	int status;
	size_t i;

	cli_doing(cli, "save");
	if (argc)
		return cli_unknown(cli, argv[0]);
	status = config_live(cli, false, &live);
	if (!status && !live.local.given)
		status = cli_fail(cli, "this node has no name and address yet; try \"flotilla local set help\"");
	for (i = 0; i < live.nr_nodes; i++)
		if (live.nodes[i].info.auth == FLT_AUTH_PSK)
			key_reference(live.nodes[i].info.key, live.nodes[i].key, sizeof(live.nodes[i].key));
	for (i = 0; i < live.nr_settings; i++)
		if (live.auto_limit && !strcmp(live.settings[i].setting->name, "max_outstanding"))
			strcpy(live.settings[i].value, "auto");
	if (!status && cli->json)
		json_print(cli, config_print_json(&live));
	else if (!status)
		config_print_text(&live, stdout);
	config_free(&live);
	return status;
}

static int run_line(struct cli *cli, const char *line)
{
	char *words[CLI_WORDS], *copy = strdup(line);
	int status = CLI_FAILED, nr = copy ? cli_split(copy, words) : 0;

	cli->doing[0] = '\0';
	if (nr > 0)
		status = cli_run(cli, nr, words);
	else
		cli_fail(cli, "out of memory, or too many words: %s", line);
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

/* An exit status; says how it ended. */
static int run_changes(struct cli *cli, const struct config *wanted, struct changes *changes)
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

static void print_json(const struct cli *cli, const struct changes *changes)
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
	json_print(cli, all);
}

/* Asked before the first change, so that the answer is one sentence and not one for each. */
static int check_permission(struct cli *cli)
{
	static const struct flt_local_info nothing;

	if (flt_local_set(cli->client, &nothing) != -EPERM)
		return CLI_OK;
	return cli_fail(cli, "this needs CAP_NET_ADMIN in the network namespace");
}

static void print_plan(const struct cli *cli, const struct changes *changes)
{
	enum change_phase phase;
	size_t i;

	for (phase = 0; phase < NR_PHASES; phase++)
		for (i = 0; i < changes->nr; i++)
			if (changes->list[i].phase == phase)
				print_change(cli, &changes->list[i]);
}

static bool is_change(const struct changes *changes)
{
	size_t i;

	for (i = 0; i < changes->nr; i++)
		if (changes->list[i].sign)
			return true;
	return false;
}

static int apply_file(struct cli *cli, const char *file, bool dry, bool keep)
{
	struct config live = { 0 }, wanted;
	struct changes changes = { 0 };
	int status;

	status = config_read(cli, file, &wanted);
	if (!status) {
		cli_doing(cli, "apply %s", wanted.file);
		status = config_live(cli, wanted.nr_exports, &live);
	}
	if (!status)
		status = config_compare(cli, &live, &wanted, keep, &changes);
	if (!status && !dry && changes.nr) {
		cli_doing(cli, "apply %s", wanted.file);
		status = check_permission(cli);
		if (!status)
			status = run_changes(cli, &wanted, &changes);
	} else if (!status) {
		print_plan(cli, &changes);
	}
	if (cli->json && (changes.nr || !status))
		print_json(cli, &changes);
	else if (!status && !is_change(&changes) && !cli->tabs)
		puts("nothing to change");
	changes_free(&changes);
	config_free(&live);
	config_free(&wanted);
	return status;
}

static int apply(struct cli *cli, int argc, char **argv)
{
	bool dry = false, keep = false;
	const char *file = NULL;
	char place[sizeof(cli->place)];
	int status, i;

	cli_doing(cli, "apply");
	for (i = 0; i < argc; i++) {
		if (!strcmp(argv[i], "--dry-run"))
			dry = true;
		else if (!strcmp(argv[i], "--keep"))
			keep = true;
		else if (file || (argv[i][0] == '-' && argv[i][1]))
			return cli_unknown(cli, argv[i]);
		else
			file = argv[i];
	}
	if (!file)
		return cli_usage(cli, "a file is missing");
	strcpy(place, cli->place);
	status = apply_file(cli, file, dry, keep);
	strcpy(cli->place, place);
	return status;
}

static const struct command save_commands[] = {
	{ "", NULL, save, "", "Print all that a boot forgets, for apply" },
	{ 0 }
};

const struct object save_object = {
	"save", "print this node, nodes, services, policy and exports for apply", save_commands, true,
	"With -j as JSON. Keys are named and not shown; \"man flotilla\" has the form of the file.\n",
};

static const struct command apply_commands[] = {
	{ "", NULL, apply, "[--dry-run] [--keep] FILE", "Make all as FILE says, and nothing that is so already" },
	{ 0 }
};

const struct object apply_object = {
	"apply", "make this node, nodes, services, policy and exports as a file says", apply_commands, true,
	"--dry-run  print what would change: + added, - removed, ~ changed\n"
	"--keep     nodes, services and exports that FILE does not name stay\n"
	"\nFILE is text or JSON as save prints it, or - for standard input. If a line of it is wrong, nothing is\n"
	"changed. What is equal is not touched: its link and its connections stay. For example:\n"
	"  local name fe address 10.0.0.1\n"
	"  node be1 address 10.0.0.11\n"
	"  node be2 address 10.0.0.12 weight 200\n"
	"  policy lard/r t_low 25 t_high 65\n"
	"What a node's line does not give has its default. What is not given of policy, links and sysctl stays.\n",
};
