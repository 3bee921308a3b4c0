// SPDX-License-Identifier: GPL-2.0
/* flotilla probe: what this kernel and these modules can do, and why not. */
#include <string.h>
#include "cli.h"
#include "probe.h"

static const struct column columns[] = {
	{ "name", "WHAT", NULL },
	{ "available", "THERE", NULL },
	{ "reason", "FOUND, OR WHY NOT", NULL },
};

static const char *const verdicts[] = { "no", "yes", "unknown" };

/* With arguments: how many of those named were found, and how many are there. */
struct wanted {
	char **names;
	int nr, found, there;
};

static bool is_wanted(struct wanted *w, const char *name)
{
	int i;

	for (i = 0; i < w->nr; i++) {
		if (!strcmp(w->names[i], name)) {
			w->found++;
			return true;
		}
	}
	return !w->nr;
}

static void answer_all(const struct probe *p, struct wanted *w, struct table *table)
{
	for (; p->name; p++) {
		char reason[256] = "";
		enum verdict verdict;

		if (!is_wanted(w, p->name))
			continue;
		verdict = p->answer(reason, sizeof(reason));
		w->there += verdict == PROBE_YES;
		table_row(table, json_pack("{s:s, s:s, s:s, s:s}", "name", p->name,
					   "available", verdicts[verdict], "reason", reason,
					   "about", p->about));
	}
}

static bool is_known(const struct probe *p, const char *name)
{
	for (; p->name; p++)
		if (!strcmp(p->name, name))
			return true;
	return false;
}

/* Named ones are a condition: the exit status says whether all are there. */
static int probe(struct cli *cli, int argc, char **argv)
{
	struct wanted w = { .names = argv, .nr = argc };
	struct table table;
	int i;

	cli_doing(cli, "probe");
	for (i = 0; i < argc; i++)
		if (!is_known(kernel_probes, argv[i]) && !is_known(room_probes, argv[i]))
			return cli_usage(cli, "there is no probe named %s", argv[i]);
	table_begin(&table, cli, columns, ARRAY_SIZE(columns));
	answer_all(room_probes, &w, &table);
	answer_all(kernel_probes, &w, &table);
	table_end(&table);
	return w.nr && w.there < w.found ? CLI_FAILED : CLI_OK;
}

static const struct command commands[] = {
	{ "", NULL, probe, "[NAME]...",
	  "Show what is there and why not; with names, exit status 1 when one is not there" },
	{ 0 }
};

const struct object probe_object = {
	"probe", "what this kernel and these modules can do, and why not", commands, true, NULL,
};
