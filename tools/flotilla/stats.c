// SPDX-License-Identifier: GPL-2.0
/* flotilla stats: counters of all rooms. */
#include <ctype.h>
#include <fnmatch.h>
#include <string.h>
#include "cli.h"

static const struct column columns[] = {
	{ "room", "ROOM", NULL },
	{ "name", "NAME", NULL },
	{ "value", "VALUE", NULL },
};

struct filter {
	const char *room, *name;
	bool nonzero, prometheus;
	struct table table;
};

/* HandoffRefusedOOO -> handoff_refused_ooo, the way Prometheus names are written. */
static void snake_case(const char *camel, char *snake, size_t size)
{
	size_t i, n = 0;

	for (i = 0; camel[i] && n + 2 < size; i++) {
		bool upper = isupper(camel[i]);
		bool starts = i && upper && (!isupper(camel[i - 1]) ||
					     (islower(camel[i + 1]) && camel[i + 1]));

		if (starts && snake[n - 1] != '_')
			snake[n++] = '_';
		snake[n++] = isalnum(camel[i]) ? tolower(camel[i]) : '_';
	}
	snake[n] = '\0';
}

static void print_metric(const char *room, const char *name, uint64_t value)
{
	char metric[128];

	snake_case(name, metric, sizeof(metric));
	printf("# TYPE flotilla_%s untyped\nflotilla_%s{room=\"%s\"} %llu\n", metric, metric, room,
	       (unsigned long long)value);
}

static int show_stat(const char *room, const char *name, uint64_t value, void *arg)
{
	struct filter *f = arg;

	if ((f->room && strcmp(f->room, room)) || (f->name && fnmatch(f->name, name, 0)) ||
	    (f->nonzero && !value))
		return 0;
	if (f->prometheus)
		print_metric(room, name, value);
	else
		table_row(&f->table, json_pack("{s:s, s:s, s:I}", "room", room, "name", name,
					       "value", (json_int_t)value));
	return 0;
}

static int node_metrics(const struct flt_node_info *node, void *arg)
{
	(void)arg;
	printf("flotilla_node_up{node=\"%s\"} %d\n", node->name, node->state == FLT_NODE_UP);
	printf("flotilla_node_load{node=\"%s\"} %u\n", node->name, node->load);
	printf("flotilla_node_weight{node=\"%s\"} %u\n", node->name, node->weight);
	printf("flotilla_node_reconnects{node=\"%s\"} %u\n", node->name, node->reconnects);
	return 0;
}

static int take_filter(struct cli *cli, struct filter *f, int argc, char **argv)
{
	while (argc) {
		if (!strcmp(argv[0], "--prometheus") || !strcmp(argv[0], "prometheus")) {
			f->prometheus = true;
		} else if (!strcmp(argv[0], "nonzero")) {
			f->nonzero = true;
		} else if (strcmp(argv[0], "room") && strcmp(argv[0], "name")) {
			return cli_unknown(cli, argv[0]);
		} else if (argc == 1) {
			return cli_usage(cli, "%s needs a value", argv[0]);
		} else {
			*(argv[0][0] == 'r' ? &f->room : &f->name) = argv[1];
			argc--, argv++;
		}
		argc--, argv++;
	}
	if (f->prometheus && cli->json)
		return cli_usage(cli, "Prometheus text is not JSON");
	return CLI_OK;
}

static int stats_show(struct cli *cli, int argc, char **argv)
{
	struct filter f = { 0 };
	int status;

	cli_doing(cli, "show the counters");
	status = take_filter(cli, &f, argc, argv);
	if (status)
		return status;
	if (!cli_client(cli))
		return CLI_FAILED;
	if (!f.prometheus)
		table_begin(&f.table, cli, columns, ARRAY_SIZE(columns));
	status = cli_result(cli, flt_stats_each(cli->client, show_stat, &f));
	if (!f.prometheus)
		table_end(&f.table);
	else if (!status && !f.room && !f.name)
		status = cli_result(cli, flt_node_each(cli->client, node_metrics, NULL));
	return status;
}

static const struct command commands[] = {
	{ "show", "list", stats_show, "[show] [room ROOM] [name GLOB] [nonzero] [--prometheus]",
	  "Show counters of this network namespace" },
	{ 0 }
};

const struct object stats_object = {
	"stats", "counters of every room that is loaded", commands, true, NULL,
};
