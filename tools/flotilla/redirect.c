// SPDX-License-Identifier: GPL-2.0
/* flotilla redirect: a loaded service's new connections are accepted by lighter nodes. */
#include <string.h>
#include "cli.h"

static void human_number(const json_t *value, char *text, size_t size)
{
	if (json_is_null(value))
		snprintf(text, size, "-");
	else
		snprintf(text, size, "%lld", (long long)json_integer_value(value));
}

static const struct column columns[] = {
	{ "address", "ADDRESS", NULL },
	{ "port", "PORT", NULL },
	{ "above", "ABOVE", human_number },
	{ "queue", "QUEUE", human_number },
	{ "hysteresis", "HYSTERESIS", NULL },
	{ "take", "TAKE", NULL },
	{ "load", "LOAD", NULL },
	{ "load_is", "LOAD-IS", NULL },
	{ "share", "QUEUED", NULL },
	{ "redirects", "REDIRECTS", NULL },
};

static const struct column reasons[] = {
	{ "address", "ADDRESS", NULL },
	{ "port", "PORT", NULL },
	{ "node", "NODE", NULL },
	{ "load", "LOAD", human_number },
	{ "syns", "SYNS", human_number },
	{ "why", "WHY", NULL },
};

/**
 * struct word - what the kernel says in one word
 * @what: the word
 * @why:  the sentence
 */
struct word {
	const char *what, *why;
};

static const struct word node_words[] = {
	{ "lighter", "it gets SYNs, if no other one is lighter" },
	{ "heavy", "it is not lighter by more than the hysteresis" },
	{ "busy", "it is above its own threshold" },
	{ "mute", "it has not answered the last clients, and gets none for 30 seconds" },
	{ "noroute", "there is no way to it for packets (flotilla node show)" },
	{ "down", "its link is not up" },
	{ "drained", "it is drained, under maintenance, or of weight 0" },
	{ "insecure", "its link is not authenticated" },
	{ "silent", "it takes the service no more, or has not said so lately" },
};

static const struct word syn_words[] = {
	{ "sent", "went to a lighter node" },
	{ "again", "were sent again by their clients, and went to the same node" },
	{ "silent", "were sent again and accepted here: the node had not answered" },
	{ "none", "stayed: no node takes them" },
	{ "heavy", "stayed: no node is lighter" },
	{ "full", "stayed: too many are redirected (net.flotilla.redirect_max, redirect_syn_max)" },
	{ "noroute", "stayed: no way to the node" },
	{ "taken", "came from other nodes and were accepted" },
	{ "refused", "came from other nodes and were dropped: it is not taken, or nobody listens" },
};

static const char *why_of(const struct word *words, size_t nr, const char *what)
{
	size_t i;

	for (i = 0; i < nr; i++)
		if (!strcmp(words[i].what, what))
			return words[i].why;
	return NULL;
}

/* off and auto are null. */
static json_t *number_of(uint64_t value)
{
	return value == UINT32_MAX ? json_null() : json_integer((json_int_t)value);
}

/**
 * struct rules - what redirect show is about to say
 * @table: of the rows that are whole
 * @row:   of the service whose numbers come; NULL: none
 */
struct rules {
	struct table table;
	json_t *row;
};

static void end_rule(struct rules *rules)
{
	if (rules->row)
		table_row(&rules->table, rules->row);
	rules->row = NULL;
}

static int show_rule(const struct flt_redirect_info *info, void *arg)
{
	struct rules *rules = arg;
	char addr[64];

	if (info->node[0] || why_of(syn_words, ARRAY_SIZE(syn_words), info->what))
		return 0;
	if (!strcmp(info->what, "above")) {
		end_rule(rules);
		rules->row = json_pack("{s:s, s:i, s:s}", "address",
				       address_text(&info->service, addr, sizeof(addr)), "port",
				       address_port(&info->service), "load_is", "counted");
	}
	if (!rules->row)
		return 0;
	if (!strcmp(info->what, "hint") && info->value != UINT32_MAX)
		json_object_set_new(rules->row, "load_is", json_string("set"));
	else if (!strcmp(info->what, "told") && info->value != UINT32_MAX &&
		 strcmp(json_string_value(json_object_get(rules->row, "load_is")), "set"))
		json_object_set_new(rules->row, "load_is", json_string("told"));
	else if (!strcmp(info->what, "active"))
		json_object_set_new(rules->row, "redirects", json_boolean(info->value));
	else if (!strcmp(info->what, "take"))
		json_object_set_new(rules->row, "take", json_boolean(info->value));
	else if (strcmp(info->what, "hint") && strcmp(info->what, "told"))
		json_object_set_new(rules->row, info->what, number_of(info->value));
	return 0;
}

static int redirect_show(struct cli *cli, int argc, char **argv)
{
	struct rules rules = { .row = NULL };
	int status;

	cli_doing(cli, "show the services that are redirected");
	if (argc)
		return cli_unknown(cli, argv[0]);
	if (!cli_client(cli))
		return CLI_FAILED;
	table_begin(&rules.table, cli, columns, ARRAY_SIZE(columns));
	status = cli_result(cli, flt_redirect_each(cli->client, show_rule, &rules));
	end_rule(&rules);
	table_end(&rules.table);
	return status;
}

static int explain_row(const struct flt_redirect_info *info, void *arg)
{
	const char *node = info->node[0] ? info->node : NULL, *why;
	struct table *table = arg;
	char addr[64];

	why = node ? why_of(node_words, ARRAY_SIZE(node_words), info->what) :
		     why_of(syn_words, ARRAY_SIZE(syn_words), info->what);
	if (!why || (!node && !info->value))
		return 0;
	table_row(table, json_pack("{s:s, s:i, s:s?, s:o, s:o, s:s, s:s}", "address",
				   address_text(&info->service, addr, sizeof(addr)), "port",
				   address_port(&info->service), "node", node, "load",
				   node ? json_integer((json_int_t)info->value) : json_null(),
				   "syns", node ? json_null() :
						  json_integer((json_int_t)info->value),
				   "why", why, "reason", info->what));
	return 0;
}

static int redirect_explain(struct cli *cli, int argc, char **argv)
{
	struct table table;
	int status;

	cli_doing(cli, "explain what is redirected");
	if (argc)
		return cli_unknown(cli, argv[0]);
	if (!cli_client(cli))
		return CLI_FAILED;
	table_begin(&table, cli, reasons, ARRAY_SIZE(reasons));
	status = cli_result(cli, flt_redirect_each(cli->client, explain_row, &table));
	table_end(&table);
	return status;
}

/* The service that the others begin with. */
static int take_service(struct cli *cli, const char *verb, int argc, char **argv,
			struct sockaddr_storage *service)
{
	cli_doing(cli, "%s a service", verb);
	if (!argc)
		return cli_usage(cli, "the service's ADDRESS:PORT is missing");
	cli_doing(cli, "%s %s", verb, argv[0]);
	return value_service_port(cli, argv[0], service);
}

static int change(struct cli *cli, const struct sockaddr_storage *service, const char *args)
{
	if (!cli_client(cli))
		return CLI_FAILED;
	return cli_result(cli, flt_redirect_set(cli->client, service, args));
}

int redirect_argument(struct cli *cli, const char *key, const char *value, uint32_t *out)
{
	const char *none = NULL;
	uint64_t number = 0, max = INT32_MAX;
	int status;
	uint8_t on;

	if (!strcmp(key, "take")) {
		status = value_word(cli, key, value, &switches, &on);
		if (!status)
			*out = on;
		return status;
	}
	if (!strcmp(key, "above") || !strcmp(key, "queue"))
		none = "off";
	else if (!strcmp(key, "hint"))
		none = "auto";
	else if (strcmp(key, "hysteresis"))
		return cli_unknown(cli, key);
	if (none && !strcmp(value, none)) {
		*out = UINT32_MAX;
		return CLI_OK;
	}
	if (!strcmp(key, "queue"))
		max = 100;
	status = value_number(cli, key, value, 0, max, &number);
	if (!status)
		*out = number;
	return status;
}

/* "above=20" for above 20. */
static int take_setting(struct cli *cli, const char *key, const char *value, char *text,
			size_t size)
{
	uint32_t number;
	int status = redirect_argument(cli, key, value, &number);

	if (!status && number == UINT32_MAX)
		snprintf(text, size, "%s=%s", key, value);
	else if (!status)
		snprintf(text, size, "%s=%u", key, number);
	return status;
}

static int redirect_set(struct cli *cli, int argc, char **argv)
{
	struct sockaddr_storage service;
	char args[256] = "", text[64];
	size_t len = 0;
	int status, i;

	status = take_service(cli, "redirect", argc, argv, &service);
	for (i = 1; !status && i < argc; i += 2) {
		if (i + 1 == argc)
			return cli_usage(cli, "%s needs a value", argv[i]);
		status = take_setting(cli, argv[i], argv[i + 1], text, sizeof(text));
		if (!status && len + strlen(text) + 2 > sizeof(args))
			status = cli_usage(cli, "the arguments are too long");
		if (!status)
			len += snprintf(args + len, sizeof(args) - len, "%s%s", len ? " " : "",
					text);
	}
	return status ? status : change(cli, &service, args);
}

static int redirect_hint(struct cli *cli, int argc, char **argv)
{
	struct sockaddr_storage service;
	uint64_t number;
	char text[64];
	int status;

	status = take_service(cli, "set the load of", argc, argv, &service);
	if (status)
		return status;
	if (argc == 1)
		return cli_usage(cli, "the load is missing");
	if (argc > 2)
		return cli_unknown(cli, argv[2]);
	if (!strcmp(argv[1], "auto"))
		return change(cli, &service, "hint=auto");
	status = value_number(cli, "load", argv[1], 0, INT32_MAX, &number);
	if (status)
		return status;
	snprintf(text, sizeof(text), "hint=%llu", (unsigned long long)number);
	return change(cli, &service, text);
}

static int redirect_off(struct cli *cli, int argc, char **argv)
{
	struct sockaddr_storage service;
	int status;

	status = take_service(cli, "stop redirecting", argc, argv, &service);
	if (!status && argc > 1)
		status = cli_unknown(cli, argv[1]);
	if (status)
		return status;
	if (!cli_client(cli))
		return CLI_FAILED;
	return cli_result(cli, flt_redirect_off(cli->client, &service));
}

static const struct command commands[] = {
	{ "show", "list", redirect_show, "show", "Show the rules of services, and their loads" },
	{ "set", NULL, redirect_set,
	  "set ADDRESS:PORT [above LOAD|off] [queue PERCENT|off] [hysteresis LOAD] [take on|off] [hint LOAD|auto]",
	  "Give a service a rule, or change what is given of it" },
	{ "hint", NULL, redirect_hint, "hint ADDRESS:PORT LOAD|auto",
	  "Say how loaded a service is here, instead of counting its connections" },
	{ "off", NULL, redirect_off, "off ADDRESS:PORT",
	  "Redirect and take none of its connections any more; those that were go on" },
	{ "explain", NULL, redirect_explain, "explain",
	  "Show which nodes get new connections, and what became of SYNs" },
	{ 0 }
};

const struct object redirect_object = {
	"redirect", "new connections of a loaded service go to lighter nodes", commands, false,
	"A service whose load is above LOAD, or whose accept queue is fuller than PERCENT, has its new\n"
	"connections accepted by the node with the least load that has a rule for it, too, with take on. The\n"
	"load is the number of connections, or what flotilla redirect hint says. Both nodes list the service.\n",
};
