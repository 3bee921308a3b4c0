// SPDX-License-Identifier: GPL-2.0
/* flotilla save and flotilla apply: settings that outlive a boot. */
#include <stdlib.h>
#include <string.h>
#include "config.h"
#include "hold.h"
#include "key.h"
#include "lock.h"
#include "owner.h"

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

static int apply_file(struct cli *cli, const char *file, bool dry, bool keep)
{
	struct config live = { 0 }, wanted;
	struct changes changes = { 0 };
	int status, lock = -1;

	status = config_read(cli, file, &wanted);
	if (!status) {
		cli_doing(cli, "apply %s", wanted.file);
		lock = dry ? -1 : apply_lock(cli);
		if (lock >= 0)
			hold_begin();
		status = !dry && lock < 0 ? CLI_FAILED : config_live(cli, wanted.nr_exports, &live);
	}
	if (!status)
		status = owner_keep(cli, &live, &wanted);
	if (!status)
		status = config_compare(cli, &live, &wanted, keep, &changes);
	if (!status && !dry && changes.nr) {
		cli_doing(cli, "apply %s", wanted.file);
		status = changes_permitted(cli);
		if (!status)
			status = changes_run(cli, &wanted, &changes);
	} else if (!status) {
		changes_print(cli, &changes);
	}
	if (lock >= 0) {
		apply_unlock(lock);
		hold_end();
	}
	if (cli->json && (changes.nr || !status))
		json_print(cli, changes_json(&changes));
	else if (!status && !changes_seen(&changes) && !cli->tabs)
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
	"save", "print this node, nodes, services and their rules, policy and exports for apply", save_commands, true,
	"With -j as JSON. Keys are named and not shown; \"man flotilla\" has the form of the file.\n",
};

static const struct command apply_commands[] = {
	{ "", NULL, apply, "[--dry-run] [--keep] FILE", "Make all as FILE says, and nothing that is so already" },
	{ 0 }
};

const struct object apply_object = {
	"apply", "make this node, nodes, services and their rules, policy and exports as a file says", apply_commands,
	true,
	"--dry-run  print what would change: + added, - removed, ~ changed\n"
	"--keep     nodes, services, their rules and exports that FILE does not name stay\n"
	"\nFILE is text or JSON as save prints it, or - for standard input. If a line of it is wrong, nothing is\n"
	"changed. What is equal is not touched: its link and its connections stay. For example:\n"
	"  local name fe address 10.0.0.1\n"
	"  node be1 address 10.0.0.11\n"
	"  node be2 address 10.0.0.12 weight 200\n"
	"  policy lard/r t_low 25 t_high 65\n"
	"  migrate 10.0.0.80:80 hash self be1     # as migrate policy set has it\n"
	"  redirect 10.0.0.80:80 above 500        # as redirect set has it\n"
	"What a node's or a redirect line does not give has its default. What is not given of policy, links and\n"
	"sysctl stays.\n",
};
