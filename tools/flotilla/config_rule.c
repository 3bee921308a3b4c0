// SPDX-License-Identifier: GPL-2.0
/* Rules of services: policies that move requests (migrate), and SYNs that go to lighter nodes (redirect). */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "config_diff.h"

/* The kernel's limits, so that a whole file is judged before the first rule is set. */
#define MIGRATES_MAX	256
#define REDIRECTS_MAX	64
#define NODES_MAX	32
#define OPTIONS_MAX	8

/**
 * struct number - one of a rule of redirection
 * @none:   the word for UINT32_MAX; NULL: there is none
 * @offset: in struct config_redirect
 * @usual:  what it is unless somebody says it
 */
static const struct number {
	const char *name, *none;
	size_t offset;
	uint32_t usual;
} numbers[] = {
	{ "above", "off", offsetof(struct config_redirect, above), UINT32_MAX },
	{ "queue", "off", offsetof(struct config_redirect, queue), UINT32_MAX },
	{ "hysteresis", NULL, offsetof(struct config_redirect, hysteresis), 1 },
	{ "take", NULL, offsetof(struct config_redirect, take), 1 },
	{ "hint", "auto", offsetof(struct config_redirect, hint), UINT32_MAX },
};

static uint32_t number_get(const struct config_redirect *redirect, const struct number *n)
{
	uint32_t value;

	memcpy(&value, (const char *)redirect + n->offset, sizeof(value));
	return value;
}

/* Nothing when it has none of that name. */
static void set_number(struct config_redirect *redirect, const char *name, uint32_t value)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(numbers); i++)
		if (!strcmp(numbers[i].name, name))
			memcpy((char *)redirect + numbers[i].offset, &value, sizeof(value));
}

static void set_usual(struct config_redirect *redirect)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(numbers); i++)
		set_number(redirect, numbers[i].name, numbers[i].usual);
}

static const char *number_text(const struct number *n, uint32_t value, char *text, size_t size)
{
	if (n->none && value == UINT32_MAX)
		return n->none;
	if (!strcmp(n->name, "take"))
		return word_of(&switches, value);
	snprintf(text, size, "%u", value);
	return text;
}

static bool service_equal(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
	return address_equal(a, b) && address_port(a) == address_port(b);
}

static struct config_migrate *migrate_find(const struct config *config, const struct sockaddr_storage *service)
{
	size_t i;

	for (i = 0; i < config->nr_migrates; i++)
		if (service_equal(&config->migrates[i].service, service))
			return &config->migrates[i];
	return NULL;
}

static struct config_redirect *redirect_find(const struct config *config, const struct sockaddr_storage *service)
{
	size_t i;

	for (i = 0; i < config->nr_redirects; i++)
		if (service_equal(&config->redirects[i].service, service))
			return &config->redirects[i];
	return NULL;
}

/* The service that both kinds of lines begin with. */
static int take_service(struct cli *cli, const char *kind, int argc, char **argv, struct sockaddr_storage *service)
{
	int status;

	cli_doing(cli, "use a %s line", kind);
	if (!argc)
		return cli_usage(cli, "its service is missing");
	cli_doing(cli, "use %s %s", kind, argv[0]);
	status = value_service(cli, argv[0], service);
	if (!status && !address_port(service))
		status = cli_usage(cli, "its port is missing");
	return status ? status : config_address(cli, service, false);
}

/* A node's name, or NAME=NUMBER; the kernel would see two where there is a blank. */
static int check_argument(struct cli *cli, const char *arg, unsigned int *nodes, unsigned int *options)
{
	const char *value = strchr(arg, '=');
	char *end;

	if (!arg[0] || strchr(arg, ' '))
		return cli_usage(cli, "argument \"%s\" is empty or has a blank", arg);
	if (!value) {
		if (strlen(arg) >= FLT_NAME_MAX)
			return cli_usage(cli, "%s is too long for the name of a node", arg);
		return ++*nodes > NODES_MAX ? cli_usage(cli, "more than %d nodes", NODES_MAX) : CLI_OK;
	}
	errno = 0;
	strtoull(value + 1, &end, 0);
	if (value == arg || value - arg >= POLICY_NAME_SIZE || value[1] < '0' || value[1] > '9' || *end || errno)
		return cli_usage(cli, "%s is neither a node's name nor NAME=NUMBER", arg);
	return ++*options > OPTIONS_MAX ? cli_usage(cli, "more than %d options", OPTIONS_MAX) : CLI_OK;
}

int config_take_migrate(struct cli *cli, struct config *config, const char *place, int argc, char **argv)
{
	unsigned int nodes = 0, options = 0;
	struct sockaddr_storage service;
	struct config_migrate *migrate;
	size_t len = 0;
	int status, i;

	status = take_service(cli, "migrate", argc, argv, &service);
	if (status)
		return status;
	if (migrate_find(config, &service))
		return cli_usage(cli, "that service has a policy already");
	if (config->nr_migrates == MIGRATES_MAX)
		return cli_usage(cli, "there are more than %d of them", MIGRATES_MAX);
	if (argc == 1)
		return cli_usage(cli, "its policy is missing");
	migrate = config_grow(cli, &config->migrates, &config->nr_migrates, sizeof(*migrate));
	if (!migrate)
		return CLI_FAILED;
	migrate->service = service;
	snprintf(migrate->place, PLACE_SIZE, "%s", place);
	if (!argv[1][0] || strlen(argv[1]) >= POLICY_NAME_SIZE)
		return cli_usage(cli, "policy \"%s\" does not have 1 to %d characters", argv[1], POLICY_NAME_SIZE - 1);
	strcpy(migrate->policy, argv[1]);
	for (i = 2; i < argc && !status; i++) {
		status = check_argument(cli, argv[i], &nodes, &options);
		/* As the command has it. */
		if (!status && len + strlen(argv[i]) + 2 > POLICY_ARGS_SIZE)
			status = cli_usage(cli, "the arguments are too long");
		if (!status)
			len += sprintf(migrate->args + len, "%s%s", len ? " " : "", argv[i]);
	}
	return status;
}

int config_take_redirect(struct cli *cli, struct config *config, const char *place, int argc, char **argv)
{
	struct config_redirect *redirect;
	struct sockaddr_storage service;
	int status, i, j;
	uint32_t value;

	status = take_service(cli, "redirect", argc, argv, &service);
	if (status)
		return status;
	if (redirect_find(config, &service))
		return cli_usage(cli, "that service has a rule already");
	if (config->nr_redirects == REDIRECTS_MAX)
		return cli_usage(cli, "there are more than %d of them", REDIRECTS_MAX);
	redirect = config_grow(cli, &config->redirects, &config->nr_redirects, sizeof(*redirect));
	if (!redirect)
		return CLI_FAILED;
	redirect->service = service;
	snprintf(redirect->place, PLACE_SIZE, "%s", place);
	set_usual(redirect);
	for (i = 1; i < argc && !status; i += 2) {
		if (i + 1 == argc)
			return cli_usage(cli, "%s needs a value", argv[i]);
		status = redirect_argument(cli, argv[i], argv[i + 1], &value);
		for (j = 1; j < i && !status; j += 2)
			if (!strcmp(argv[j], argv[i]))
				status = cli_usage(cli, "%s is given twice", argv[i]);
		if (!status)
			set_number(redirect, argv[i], value);
	}
	return status;
}

struct live {
	struct cli *cli;
	struct config *config;
};

/* A row for each number of a service: the first one brings it. */
static int live_migrate(const struct flt_policy_info *policy, void *arg)
{
	struct live *live = arg;
	struct config *config = live->config;
	struct config_migrate *migrate;

	if (migrate_find(config, &policy->service))
		return 0;
	migrate = config_grow(live->cli, &config->migrates, &config->nr_migrates, sizeof(*migrate));
	if (!migrate)
		return -ENOMEM;
	migrate->service = policy->service;
	snprintf(migrate->policy, POLICY_NAME_SIZE, "%s", policy->name);
	snprintf(migrate->args, POLICY_ARGS_SIZE, "%s", policy->args);
	return 0;
}

static int live_redirect(const struct flt_redirect_info *info, void *arg)
{
	struct live *live = arg;
	struct config *config = live->config;
	struct config_redirect *redirect = redirect_find(config, &info->service);

	if (info->node[0])
		return 0;
	if (!redirect) {
		redirect = config_grow(live->cli, &config->redirects, &config->nr_redirects, sizeof(*redirect));
		if (!redirect)
			return -ENOMEM;
		redirect->service = info->service;
		set_usual(redirect);
	}
	/* What has been counted comes in rows like these. */
	set_number(redirect, info->what, info->value);
	return 0;
}

/* Asking loads no module. A flotilla.ko that is older than these rules has none. */
int config_live_rules(struct cli *cli, struct config *config)
{
	struct live live = { cli, config };
	int err = flt_policy_each(cli->client, live_migrate, &live);

	if (!err)
		err = flt_redirect_each(cli->client, live_redirect, &live);
	if (err && err != -EOPNOTSUPP)
		return cli_result(cli, err);
	config->no_handoff = !config->nr_migrates && !config->nr_redirects && access("/sys/module/handoff", F_OK);
	return CLI_OK;
}

/* The policy and its arguments, each as a word. */
static char *policy_words(const struct config_migrate *migrate)
{
	char args[POLICY_ARGS_SIZE], *text = NULL, *each, *save = NULL;
	size_t size;
	FILE *to = open_memstream(&text, &size);

	if (!to)
		return NULL;
	cli_put_word(to, migrate->policy);
	strcpy(args, migrate->args);
	for (each = strtok_r(args, " ", &save); each; each = strtok_r(NULL, " ", &save)) {
		putc(' ', to);
		cli_put_word(to, each);
	}
	if (fclose(to)) {
		free(text);
		return NULL;
	}
	return text;
}

static char *number_words(const struct config_redirect *redirect)
{
	char *text = NULL, number[16];
	size_t size, i;
	FILE *to = open_memstream(&text, &size);

	if (!to)
		return NULL;
	for (i = 0; i < ARRAY_SIZE(numbers); i++) {
		uint32_t value = number_get(redirect, &numbers[i]);

		if (value != numbers[i].usual)
			fprintf(to, " %s %s", numbers[i].name, number_text(&numbers[i], value, number, sizeof(number)));
	}
	if (fclose(to)) {
		free(text);
		return NULL;
	}
	return text;
}

/* Both are freed; either may be NULL. */
static char *joined(char *service, const char *between, char *rest)
{
	char *words = NULL;

	if (service && rest && asprintf(&words, "%s%s%s", service, between, rest) < 0)
		words = NULL;
	free(service);
	free(rest);
	return words;
}

char *migrate_words(const struct config_migrate *migrate)
{
	return joined(service_words(&migrate->service), " ", policy_words(migrate));
}

char *redirect_words(const struct config_redirect *redirect)
{
	return joined(service_words(&redirect->service), "", number_words(redirect));
}

static void compare_migrate(struct compare *c, const struct config_migrate *is)
{
	const struct config_migrate *was = migrate_find(c->live, &is->service);
	char *words = have(migrate_words(is)), *before;
	struct change *change;

	before = was ? have(migrate_words(was)) : NULL;
	if (!before || strcmp(before, words)) {
		change = add_change(c, was ? '~' : '+', PHASE_RULE, is->place);
		/* The service is said once. */
		change->text = was ? text_of("migrate %s -> %s", before, strchr(words, ' ') + 1) :
				     text_of("migrate %s", words);
		change->commands[0] = text_of("migrate policy set %s", words);
	}
	free(before);
	free(words);
}

static void compare_redirect(struct compare *c, const struct config_redirect *is)
{
	const struct config_redirect *was = redirect_find(c->live, &is->service);
	struct change *change;
	char a[16], b[16], *service;
	struct diff d;
	size_t i;

	if (!was) {
		change = add_change(c, '+', PHASE_RULE, is->place);
		change->text = with_words("redirect", redirect_words(is));
		change->commands[0] = with_words("redirect set", redirect_words(is));
		return;
	}
	diff_begin(&d);
	for (i = 0; i < ARRAY_SIZE(numbers); i++)
		diff_text(&d, numbers[i].name, number_text(&numbers[i], number_get(was, &numbers[i]), a, sizeof(a)),
			  number_text(&numbers[i], number_get(is, &numbers[i]), b, sizeof(b)));
	diff_end(&d);
	if (d.nr) {
		service = have(service_words(&is->service));
		change = add_change(c, '~', PHASE_RULE, is->place);
		change->text = text_of("redirect %s %s", service, d.text);
		change->commands[0] = text_of("redirect set %s%s", service, d.words);
		free(service);
	}
	diff_free(&d);
}

/* A policy looks its nodes' names up at each request: while one of them is gone, what would go there stays. */
int compare_rules(struct compare *c)
{
	const struct config *wanted = c->wanted;
	size_t i;

	if (c->live->no_handoff && (wanted->nr_migrates || wanted->nr_redirects)) {
		config_place(c->cli, wanted, wanted->nr_migrates ? wanted->migrates[0].place :
								   wanted->redirects[0].place);
		return cli_fail(c->cli, "handoff.ko is not loaded: modprobe handoff");
	}
	for (i = 0; i < wanted->nr_migrates; i++)
		compare_migrate(c, &wanted->migrates[i]);
	for (i = 0; i < wanted->nr_redirects; i++)
		compare_redirect(c, &wanted->redirects[i]);
	return CLI_OK;
}

/* Last, as all that goes; but there is no room for more than @max beside those that come. */
static enum change_phase gone_when(size_t live, size_t come, size_t max)
{
	return live + come > max ? PHASE_EARLY : PHASE_REMOVE;
}

static void migrates_gone(struct compare *c)
{
	const struct config *live = c->live, *wanted = c->wanted;
	struct change *change;
	size_t i, come = 0;

	for (i = 0; i < wanted->nr_migrates; i++)
		come += !migrate_find(live, &wanted->migrates[i].service);
	for (i = 0; i < live->nr_migrates; i++) {
		const struct config_migrate *was = &live->migrates[i];

		if (migrate_find(wanted, &was->service))
			continue;
		change = add_change(c, '-', gone_when(live->nr_migrates, come, MIGRATES_MAX), "");
		change->text = with_words("migrate", migrate_words(was));
		change->commands[0] = with_words("migrate policy off", service_words(&was->service));
	}
}

static void redirects_gone(struct compare *c)
{
	const struct config *live = c->live, *wanted = c->wanted;
	struct change *change;
	size_t i, come = 0;

	for (i = 0; i < wanted->nr_redirects; i++)
		come += !redirect_find(live, &wanted->redirects[i].service);
	for (i = 0; i < live->nr_redirects; i++) {
		const struct config_redirect *was = &live->redirects[i];

		if (redirect_find(wanted, &was->service))
			continue;
		change = add_change(c, '-', gone_when(live->nr_redirects, come, REDIRECTS_MAX), "");
		change->text = with_words("redirect", redirect_words(was));
		change->commands[0] = with_words("redirect off", service_words(&was->service));
	}
}

void compare_rules_gone(struct compare *c)
{
	if (c->keep)
		return;
	migrates_gone(c);
	redirects_gone(c);
}
