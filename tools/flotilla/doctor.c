// SPDX-License-Identifier: GPL-2.0
/* flotilla doctor: what keeps connections from moving here, and the command that mends it. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include "doctor.h"

static const struct column columns[] = {
	{ "finding", "FINDING", NULL },
	{ "subject", "ABOUT", NULL },
	{ "found", "FOUND", NULL },
	{ "mend", "MEND", NULL },
};

static const char *const findings[FINDINGS] = { "fine", "warning", "fault" };

/* Interfaces, chains and tables may have any name: neither a terminal nor JSON is to have all of it as it is. */
static void write_plain(char *to, size_t size, const char *format, va_list ap)
{
	char text[256];

	vsnprintf(text, sizeof(text), format, ap);
	cli_plain_text(text, to, size);
}

void doctor_found(struct about *about, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	write_plain(about->found, sizeof(about->found), format, ap);
	va_end(ap);
}

void doctor_mend(struct about *about, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	write_plain(about->mend, sizeof(about->mend), format, ap);
	va_end(ap);
	/* What a shell would read in a name is nothing to copy, nor what stands for a character. */
	if (about->mend[0] != '#' && about->mend[strcspn(about->mend, "$`\\\"'|&;<>(){}[]*?!~")])
		about->mend[0] = '\0';
}

void doctor_elsewhere(struct doctor *d, enum finding finding, const char *subject, const struct about *about)
{
	d->count[finding]++;
	if (d->problems && finding == FINE)
		return;
	if (d->cli->json || d->cli->tabs) {
		table_row(&d->table, json_pack("{s:s, s:s, s:s, s:s}", "finding", findings[finding], "subject",
					       subject, "found", about->found, "mend", about->mend));
		return;
	}
	/* A row would be too wide for a terminal; a command has root's prompt before it, a sentence has not. */
	printf("%-8s %s: %s\n", findings[finding], subject, about->found);
	if (about->mend[0] == '#')
		printf("         %s\n", about->mend + 2);
	else if (about->mend[0])
		printf("         # %s\n", about->mend);
}

/* Each name once, and "..." for those that have no room. */
static void add_name(char names[FLT_WRONG_MAX], const char *name)
{
	static const char more[] = ", ...";
	size_t len = strlen(names), size = strlen(name);
	const char *at = names;

	while ((at = strstr(at, name)) && (at[size] && at[size] != ','))
		at++;
	if (at || (len >= strlen(more) && !strcmp(names + len - strlen(more), more)))
		return;
	if (len + 2 + size + sizeof(more) > FLT_WRONG_MAX)
		strcat(names, more);
	else
		sprintf(names + len, "%s%s", len ? ", " : "", name);
}

void doctor_say(struct doctor *d, enum finding finding, const char *subject, const struct about *about)
{
	d->own[finding].count++;
	add_name(d->own[finding].names, subject);
	doctor_elsewhere(d, finding, subject, about);
}

/* For the doctors of other nodes; whoever may not say it has looked for himself only. */
static void tell_peers(struct doctor *d)
{
	char wrong[FLT_WRONG_MAX], *name, *rest = d->own[WARNING].names;

	strcpy(wrong, d->own[FAULT].names);
	while ((name = strsep(&rest, ",")))
		add_name(wrong, name + strspn(name, " "));
	flt_report_set(d->cli->client, d->own[FAULT].count, d->own[WARNING].count, wrong);
}

bool doctor_is_backend(const struct doctor *d)
{
	size_t i;

	for (i = 0; i < d->nr_nodes; i++)
		if (d->nodes[i].role == FLT_ROLE_FRONTEND)
			return true;
	return false;
}

bool doctor_is_frontend(const struct doctor *d)
{
	size_t i;

	for (i = 0; i < d->nr_nodes; i++)
		if (d->nodes[i].role != FLT_ROLE_FRONTEND)
			return true;
	return false;
}

static int keep_node(const struct flt_node_info *node, void *arg)
{
	struct doctor *d = arg;
	struct flt_node_info *nodes = realloc(d->nodes, (d->nr_nodes + 1) * sizeof(*nodes));

	if (!nodes)
		return -1;
	d->nodes = nodes;
	d->nodes[d->nr_nodes++] = *node;
	return 0;
}

static int keep_service(const struct sockaddr_storage *service, void *arg)
{
	struct doctor *d = arg;
	struct sockaddr_storage *services = realloc(d->services, (d->nr_services + 1) * sizeof(*services));

	if (!services)
		return -1;
	d->services = services;
	d->services[d->nr_services++] = *service;
	return 0;
}

static int ask_kernel(struct doctor *d)
{
	int status;

	if (!cli_client(d->cli))
		return CLI_FAILED;
	/* A node without a name is a finding. */
	if (flt_local_get(d->cli->client, &d->local))
		d->local = (struct flt_local_info){ 0 };
	status = cli_result(d->cli, flt_node_each(d->cli->client, keep_node, d));
	return status ? status : cli_result(d->cli, flt_service_each(d->cli->client, keep_service, d));
}

static int doctor(struct cli *cli, int argc, char **argv)
{
	struct doctor d = { .cli = cli };
	int status;

	cli_doing(cli, "examine this node");
	if (argc > 1 || (argc && strcmp(argv[0], "problems")))
		return cli_unknown(cli, argv[argc > 1]);
	d.problems = argc;
	status = ask_kernel(&d);
	if (status == CLI_OK) {
		table_begin(&d.table, cli, columns, ARRAY_SIZE(columns));
		doctor_local(&d);
		doctor_nodes(&d);
		doctor_services(&d);
		doctor_machine(&d);
		doctor_filter(&d);
		doctor_paths(&d);
		doctor_peers(&d);
		tell_peers(&d);
		if (cli->json || cli->tabs)
			table_end(&d.table);
		else
			printf("%u faults, %u warnings, %u fine\n", d.count[FAULT], d.count[WARNING], d.count[FINE]);
		status = d.count[FAULT] ? CLI_FAILED : CLI_OK;
	}
	free(d.nodes);
	free(d.services);
	return status;
}

static const struct command commands[] = {
	{ "", NULL, doctor, "[problems]",
	  "Examine this node, or say only what is wrong; exit status 1 when there is a fault" },
	{ 0 }
};

const struct object doctor_object = {
	"doctor", "why connections do not move here, and the command that mends it", commands, true,
	"Looks at this node's name, links and services, at addresses, ARP, routes, reverse path filters,\n"
	"listeners, connection tracking and the packet filter, at the MTU of the ways to other nodes, and at\n"
	"what these say of themselves over their links: version, clock, and what their own doctor found when\n"
	"root last ran it there. It changes nothing, but other nodes hear what root finds. What needs root,\n"
	"the MTU and the packet filter, is not looked at for others.\n",
};
