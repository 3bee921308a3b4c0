// SPDX-License-Identifier: GPL-2.0
/* flotilla afpa: where the kernel answers HTTP requests, and how. */
#include <errno.h>
#include <string.h>
#include <unistd.h>
#include "cache.h"

static const struct words modes = { (const char *const[]){ "off", "softirq", "thread", "hybrid" }, 4 };

static const struct words policies = { (const char *const[]){ "clock", "lru" }, 2 };

static const struct words remotes = { (const char *const[]){ "off", "frontends", "nodes" }, 3 };

static const struct column info_columns[] = {
	{ "mode", "MODE", NULL },
	{ "sites", "SITES", NULL },
	{ "objects", "OBJECTS", NULL },
	{ "used", "USED", human_bytes },
	{ "budget", "BUDGET", human_bytes },
	{ "max_object", "MAX_OBJECT", human_bytes },
	{ "stall_ms", "STALL", human_duration },
	{ "policy", "POLICY", NULL },
	{ "remote", "REMOTE", NULL },
};

static int keep_counter(const char *room, const char *name, uint64_t value, void *arg)
{
	if (!strcmp(room, "afpa"))
		json_object_set_new(arg, name, json_integer(value));
	return 0;
}

/* Counters are what makes the difference between "on" and "at work"; people see those that count. */
static int show_counters(struct cli *cli, json_t *row)
{
	json_t *counters = json_object(), *value;
	const char *name;
	int status;

	status = cli_client(cli) ? cli_result(cli, flt_stats_each(cli->client, keep_counter, counters)) :
				   CLI_FAILED;
	json_object_set(row, "counters", counters);
	if (!status && !cli->json && !cli->tabs)
		json_object_foreach(counters, name, value)
			if (json_integer_value(value))
				printf("%-22s %lld\n", name, (long long)json_integer_value(value));
	json_decref(counters);
	return status;
}

static int afpa_show(struct cli *cli, int argc, char **argv)
{
	struct afpa_info info;
	struct table table;
	uint32_t policy, remote;
	int dev, status;
	json_t *row;

	cli_doing(cli, "show what the kernel answers");
	if (argc)
		return cli_unknown(cli, argv[0]);
	dev = cache_device(cli);
	if (dev < 0)
		return CLI_FAILED;
	status = cache_result(cli, afpa_info(dev, &info));
	/* A module that does not know it. */
	if (afpa_policy(dev, &policy))
		policy = AFPA_POLICY_CLOCK;
	if (afpa_remote(dev, &remote))
		remote = AFPA_REMOTE_NOBODY;
	close(dev);
	if (status)
		return status;
	row = json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:s, s:s}", "mode", afpa_mode_name(info.mode),
			"sites", (json_int_t)info.sites, "objects", (json_int_t)info.objects,
			"used", (json_int_t)info.used, "budget", (json_int_t)info.budget,
			"max_object", (json_int_t)info.max_object, "stall_ms", (json_int_t)info.stall_ms,
			"policy", afpa_policy_name(policy), "remote", afpa_remote_name(remote));
	if (cli->json) {
		status = show_counters(cli, row);
		json_print(cli, row);
		return status;
	}
	table_begin(&table, cli, info_columns, ARRAY_SIZE(info_columns));
	table_row(&table, json_incref(row));
	table_end(&table);
	status = cli->tabs ? CLI_OK : show_counters(cli, row);
	json_decref(row);
	return status;
}

/**
 * struct settings - what is to be set
 * @info:   settings of the first version, and which of them
 * @policy: negative: as it is
 * @remote: the same
 */
struct settings {
	struct afpa_info info;
	int policy, remote;
};

static int set_word(struct cli *cli, const char *key, const char *value, const struct words *words, int *to)
{
	uint8_t word;
	int status = value_word(cli, key, value, words, &word);

	if (!status)
		*to = word;
	return status;
}

static int set_argument(struct cli *cli, const char *key, const char *value, struct settings *set)
{
	struct afpa_info *info = &set->info;
	int status, mode = 0;

	if (!strcmp(key, "policy"))
		return set_word(cli, key, value, &policies, &set->policy);
	if (!strcmp(key, "remote"))
		return set_word(cli, key, value, &remotes, &set->remote);
	if (!strcmp(key, "mode")) {
		info->flags |= AFPA_SET_MODE;
		status = set_word(cli, key, value, &modes, &mode);
		info->mode = mode;
		return status;
	}
	if (!strcmp(key, "budget")) {
		info->flags |= AFPA_SET_BUDGET;
		return value_bytes(cli, key, value, (uint64_t *)&info->budget);
	}
	if (!strcmp(key, "max_object")) {
		info->flags |= AFPA_SET_MAX_OBJECT;
		return value_bytes(cli, key, value, (uint64_t *)&info->max_object);
	}
	if (!strcmp(key, "stall")) {
		info->flags |= AFPA_SET_STALL;
		return value_time(cli, key, value, &info->stall_ms);
	}
	return cli_unknown(cli, key);
}

/* Whatever the module may refuse it refuses first. */
static int set_all(int dev, struct settings *set)
{
	uint32_t old;
	int err = 0;

	if (set->policy >= 0)
		err = afpa_policy(dev, &old);
	if (!err && set->remote >= 0)
		err = afpa_remote(dev, &old);
	if (!err)
		err = afpa_set(dev, &set->info);
	if (!err && set->policy >= 0)
		err = afpa_set_policy(dev, set->policy);
	if (!err && set->remote >= 0)
		err = afpa_set_remote(dev, set->remote);
	return err;
}

static int afpa_set_command(struct cli *cli, int argc, char **argv)
{
	struct settings set = { .policy = -1, .remote = -1 };
	int status = CLI_OK, dev, err;

	cli_doing(cli, "set how the kernel answers");
	if (!argc)
		return cli_usage(cli, "nothing to set is given");
	for (; argc && !status; argc -= 2, argv += 2) {
		if (argc == 1)
			return cli_usage(cli, "%s needs a value", argv[0]);
		status = set_argument(cli, argv[0], argv[1], &set);
	}
	if (status)
		return status;
	dev = cache_device(cli);
	if (dev < 0)
		return CLI_FAILED;
	err = set_all(dev, &set);
	close(dev);
	if (err == -ENOTTY)
		return cli_fail(cli, "the module is older than this program, and knows no such setting");
	if (err == -EINVAL)
		return cli_fail(cli, "a value is out of the kernel's range; nothing has changed");
	return cache_result(cli, err);
}

static const struct column site_columns[] = {
	{ "site", "SITE", NULL },
	{ "listeners", "LISTENERS", NULL },
	{ "connections", "CONNECTIONS", NULL },
	{ "protocol", "PROTOCOL", NULL },
};

struct sites {
	int dev;
	struct table table;
};

static int show_site(const struct afpa_next_site *next, void *arg)
{
	char site[AFPA_SITE_TEXT], protocol[AFPA_PROTOCOL_NAME];
	struct sites *sites = arg;
	int err;

	err = afpa_site_protocol(sites->dev, &next->site, protocol);
	if (err == -ENOENT)	/* it has just gone */
		return 0;
	if (err)
		return err;
	table_row(&sites->table, json_pack("{s:s, s:I, s:I, s:s}",
					   "site", afpa_site_name(&next->site, site),
					   "listeners", (json_int_t)next->listeners,
					   "connections", (json_int_t)next->conns,
					   "protocol", protocol));
	return 0;
}

static int site_show(struct cli *cli)
{
	struct sites sites;
	int status;

	cli_doing(cli, "show the sites");
	sites.dev = cache_device(cli);
	if (sites.dev < 0)
		return CLI_FAILED;
	table_begin(&sites.table, cli, site_columns, ARRAY_SIZE(site_columns));
	status = cache_result(cli, afpa_site_each(sites.dev, show_site, &sites));
	table_end(&sites.table);
	close(sites.dev);
	return status;
}

static void warn_of_listeners(struct cli *cli, const char *name, const struct afpa_site_args *result)
{
	char sentence[256];

	if (result->refused)
		snprintf(sentence, sizeof(sentence), "%u listeners of %s are not answered for: %s",
			 result->refused, name,
			 result->error == EOPNOTSUPP ? "MPTCP, kTLS, or others' callbacks" :
			 strerror(result->error));
	else if (!result->listeners)
		snprintf(sentence, sizeof(sentence),
			 "nobody listens at %s yet: the address must be that of bind(2), 0.0.0.0 and [::] are two",
			 name);
	else
		return;
	cli_warn(cli, sentence);
}

/* With @protocol NULL a site that is there keeps the one that it has. */
static int site_add(struct cli *cli, int dev, const struct afpa_site *site, const char *protocol,
		    struct afpa_site_args *result)
{
	int err;

	if (!protocol)
		return afpa_site_add(dev, site, result);
	err = afpa_site_listen(dev, site, protocol, result);
	if (err == -EPROTONOSUPPORT)
		cli_fail(cli, "there is no protocol %s (modprobe afpa_%s)", protocol, protocol);
	else if (err == -EINVAL)
		cli_fail(cli, "there can be no protocol \"%s\"", protocol);
	else if (err == -EEXIST)
		cli_fail(cli, "the site has another protocol");
	return err;
}

static int site_change(struct cli *cli, int dev, const char *name, bool add, const char *protocol)
{
	struct afpa_site_args result;
	struct afpa_site site;
	int status, err;

	status = value_site(cli, name, &site);
	if (status)
		return status;
	err = add ? site_add(cli, dev, &site, protocol, &result) : afpa_site_del(dev, &site, NULL);
	if (protocol && (err == -EPROTONOSUPPORT || err == -EINVAL || err == -EEXIST))
		return CLI_FAILED;
	if (err == -ENOENT)
		return cli_fail(cli, "there is no such site");
	if (err == -ENOSPC)
		return cli_fail(cli, "there are too many sites");
	status = cache_result(cli, err);
	if (!status && add)
		warn_of_listeners(cli, name, &result);
	return status;
}

static int afpa_site(struct cli *cli, int argc, char **argv)
{
	const char *protocol = NULL;
	struct afpa_site site;
	int status = CLI_OK, dev, i;
	bool add;

	if (!argc || (argc == 1 && (!strcmp(argv[0], "show") || !strcmp(argv[0], "list"))))
		return site_show(cli);
	cli_doing(cli, "change the sites");
	add = !strcmp(argv[0], "add");
	if (!add && strcmp(argv[0], "del") && strcmp(argv[0], "delete"))
		return cli_unknown(cli, argv[0]);
	cli_doing(cli, "%s a site", add ? "add" : "delete");
	if (argc == 1)
		return cli_usage(cli, "its address is missing");
	if (add && argc > 2 && !strcmp(argv[argc - 2], "protocol")) {
		protocol = argv[argc - 1];
		argc -= 2;
	}
	if (argc == 1)
		return cli_usage(cli, "its address is missing");
	/* All are understood before one is changed. */
	for (i = 1; i < argc; i++) {
		cli_doing(cli, "%s site %s", add ? "add" : "delete", argv[i]);
		status = value_site(cli, argv[i], &site);
		if (status)
			return status;
	}
	dev = cache_device(cli);
	if (dev < 0)
		return CLI_FAILED;
	for (i = 1; i < argc && !status; i++) {
		cli_doing(cli, "%s site %s", add ? "add" : "delete", argv[i]);
		status = site_change(cli, dev, argv[i], add, protocol);
	}
	close(dev);
	return status;
}

static const struct command commands[] = {
	{ "show", "list", afpa_show, "show",
	  "Show the settings, what is in use, and the counters that are not 0" },
	{ "set", NULL, afpa_set_command,
	  "set [mode off|softirq|thread|hybrid] [budget BYTES] [max_object BYTES] [stall TIME] [policy clock|lru] [remote off|frontends|nodes]",
	  "Change settings of this network namespace: all that are given, or none" },
	{ "site", NULL, afpa_site, "site [show | add ADDRESS:PORT... [protocol NAME] | del ADDRESS:PORT...]",
	  "Show, add or delete the addresses of listeners whose requests the kernel may answer" },
	{ "log", NULL, afpa_log_command, "log [buffer BYTES] [count NUMBER]",
	  "Write the requests that are answered, as they come: in the Combined Log Format, or JSON with -j" },
	{ 0 }
};

const struct object afpa_object = {
	"afpa", "requests that the kernel answers by itself", commands, false,
	"A site is the address that a server is bound to: 0.0.0.0:80, [::]:80, 10.0.0.1:8080. What the kernel\n"
	"does not have goes to the server untouched. \"flotilla cache\" says what it has.\n"
	"  protocol what is spoken there: http, or memcached (afpa_memcached.ko); default http\n"
	"  mode     who answers: nobody, the softirq that brings the request (default), a work item, or hybrid: the\n"
	"           softirq what is in memory, and a thread what has to be read of a file\n"
	"  budget   memory of all answers, 64M or 2G; the least recently used ones make room\n"
	"  max_object  the largest answer\n"
	"  policy   which answers make room: clock, what was not used of late (default), or lru, what was not used for longest\n"
	"  remote   whose \"flotilla cache ... --remote\" this node carries out: nobody's (off, default), that of nodes with\n"
	"           role frontend, or of all nodes; over authenticated links only, unless insecure is on\n"
	"  stall    a client that takes nothing for so long is reset: 1s to 1h\n"
	"  buffer   memory for what has not been written yet, 64K to 64M, a power of two; default 1M\n"
	"  count    so many requests, then it ends\n",
};
