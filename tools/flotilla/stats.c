// SPDX-License-Identifier: GPL-2.0
/* flotilla stats: counters of all rooms. */
#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include "cli.h"
#include "counter.h"
#include "metric.h"
#include "metric_node.h"
#include "stats_http.h"

static const struct column columns[] = {
	{ "room", "ROOM", NULL },
	{ "name", "NAME", NULL },
	{ "value", "VALUE", NULL },
};

struct filter {
	const char *room, *name;
	bool nonzero, prometheus, http;
	struct table table;
	struct samples samples;
};

static bool is_left_out(const struct filter *f, const char *room, const char *name, uint64_t value)
{
	return (f->room && strcmp(f->room, room)) || (f->name && fnmatch(f->name, name, 0)) ||
	       (f->nonzero && !value);
}

static int show_stat(const char *room, const char *name, uint64_t value, void *arg)
{
	struct filter *f = arg;

	if (!is_left_out(f, room, name, value))
		table_row(&f->table, json_pack("{s:s, s:s, s:I}", "room", room, "name", name,
					       "value", (json_int_t)value));
	return 0;
}

static int keep_stat(const char *room, const char *name, uint64_t value, void *arg)
{
	struct filter *f = arg;

	return samples_add(&f->samples, room, name, value, is_left_out(f, room, name, value));
}

static int keep_node(const struct flt_node_info *node, void *arg)
{
	return node_list_add(arg, node);
}

static int write_metrics(struct cli *cli, struct filter *f, FILE *out)
{
	struct node_list nodes = { 0 };
	int status;

	status = counters_each(cli, keep_stat, f);
	if (!status && cli->client && !f->room && !f->name)
		status = cli_result(cli, flt_node_each(cli->client, keep_node, &nodes));
	if (!status) {
		metrics_write(out, &f->samples);
		node_metrics_write(out, &nodes);
	}
	samples_free(&f->samples);
	node_list_free(&nodes);
	return status;
}

/* The socket is standard input and output: who asked gets an answer, whatever becomes of it here. */
static int answer_http(struct cli *cli, struct filter *f)
{
	const char *status = stats_http_read();
	char *text = NULL;
	size_t len = 0;
	FILE *out;
	int result = CLI_OK;

	if (strcmp(status, STATS_HTTP_OK)) {
		stats_http_answer(status, NULL, 0);
		return CLI_OK;
	}
	out = open_memstream(&text, &len);
	if (!out)
		return cli_fail(cli, "no memory");
	result = write_metrics(cli, f, out);
	if (fclose(out) || result)
		stats_http_answer("503 Service Unavailable", NULL, 0);
	else
		stats_http_answer(status, text, len);
	free(text);
	return result;
}

static int take_filter(struct cli *cli, struct filter *f, int argc, char **argv)
{
	while (argc) {
		if (!strcmp(argv[0], "--prometheus") || !strcmp(argv[0], "prometheus")) {
			f->prometheus = true;
		} else if (!strcmp(argv[0], "--http")) {
			f->http = true;
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
	if (f->http && !f->prometheus)
		return cli_usage(cli, "--http is for --prometheus");
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
	if (f.http)
		return answer_http(cli, &f);
	if (f.prometheus)
		return write_metrics(cli, &f, stdout);
	table_begin(&f.table, cli, columns, ARRAY_SIZE(columns));
	status = counters_each(cli, show_stat, &f);
	table_end(&f.table);
	return status;
}

static const struct command commands[] = {
	{ "show", "list", stats_show, "[show] [room ROOM] [name GLOB] [nonzero] [--prometheus [--http]]",
	  "Show counters of this network namespace" },
	{ 0 }
};

const struct object stats_object = {
	"stats", "counters of every room that is loaded", commands, true, NULL,
};
