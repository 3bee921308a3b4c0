// SPDX-License-Identifier: GPL-2.0
/* The same settings as JSON: each object becomes the words of a line, and the other way round. */
#include <stdlib.h>
#include <string.h>
#include "config.h"

/**
 * struct line - words that an object becomes
 * @words: each from the heap
 */
struct line {
	struct cli *cli;
	char *words[CLI_WORDS];
	int nr;
};

static int add_text(struct line *line, const char *word)
{
	if (line->nr == CLI_WORDS)
		return cli_usage(line->cli, "%s", cli_split_why(CLI_TOO_MANY));
	line->words[line->nr] = strdup(word);
	if (!line->words[line->nr])
		return cli_fail(line->cli, "out of memory");
	line->nr++;
	return CLI_OK;
}

static int add_word(struct line *line, const char *word)
{
	if (!word[0] || word[strcspn(word, " \t\r\n\v\f")])
		return cli_usage(line->cli, "\"%s\" is empty or has a blank", word);
	return add_text(line, word);
}

static void drop_words(struct line *line)
{
	while (line->nr)
		free(line->words[--line->nr]);
}

/* Words that stand alone on a line; "insecure" has a value there. */
static bool is_flag(const char *key)
{
	return !strcmp(key, "write") || !strcmp(key, "shared") || !strcmp(key, "unclaimed");
}

/* Files have any names; put_text() writes these. */
static bool is_path(const char *key)
{
	return !strcmp(key, "device") || !strcmp(key, "mount") || !strcmp(key, "key");
}

static int add_pair(struct line *line, const char *key, const char *value)
{
	int status = add_word(line, key);

	if (status)
		return status;
	return is_path(key) ? add_text(line, value) : add_word(line, value);
}

/* Nodes of an export are one word, several addresses several pairs. */
static int add_array(struct line *line, const char *key, const json_t *array)
{
	char joined[CARD_NODES_MAX * FLT_NAME_MAX] = "";
	bool join = !strcmp(key, "nodes");
	const json_t *each;
	int status = CLI_OK;
	size_t i, n = 0;

	json_array_foreach(array, i, each) {
		const char *text = json_string_value(each);

		if (!text)
			return cli_usage(line->cli, "%s has something that is not a string", key);
		if (!join)
			status = add_pair(line, key, text);
		else
			n += snprintf(joined + n, sizeof(joined) - n, "%s%s", i ? "," : "", text);
		if (status)
			return status;
		if (n >= sizeof(joined))
			return cli_usage(line->cli, "too many nodes");
	}
	return join ? add_pair(line, key, joined) : CLI_OK;
}

static int add_member(struct line *line, const char *key, const json_t *value)
{
	char number[24];

	/* As "node show" calls it. */
	if (!strcmp(key, "forward_address"))
		key = "forward-address";
	if (json_is_boolean(value) && is_flag(key))
		return json_is_true(value) ? add_word(line, key) : CLI_OK;
	if (json_is_string(value) && !is_flag(key))
		return add_pair(line, key, json_string_value(value));
	if (json_is_integer(value) && !is_flag(key)) {
		snprintf(number, sizeof(number), "%lld", (long long)json_integer_value(value));
		return add_pair(line, key, number);
	}
	if (json_is_array(value))
		return add_array(line, key, value);
	return cli_usage(line->cli, "%s has a value of the wrong kind", key);
}

/* @first: the member that has no word of its own before it, or NULL. */
static int take_object(struct cli *cli, struct config *config, const char *place, const char *kind,
		       const char *first, const json_t *object)
{
	struct line line = { .cli = cli };
	const char *key;
	json_t *value;
	int status;

	config_place(cli, config, place);
	cli->doing[0] = '\0';
	if (!json_is_object(object))
		return cli_usage(cli, "this is not an object");
	value = first ? json_object_get(object, first) : NULL;
	if (first && !json_is_string(value))
		return cli_usage(cli, "its name is missing (%s)", first);
	status = add_word(&line, kind);
	if (!status && first)
		status = add_word(&line, json_string_value(value));
	json_object_foreach((json_t *)object, key, value)
		if (!status && (!first || strcmp(key, first)))
			status = add_member(&line, key, value);
	if (!status)
		status = config_take(cli, config, place, line.nr, line.words);
	drop_words(&line);
	return status;
}

int config_json_node(struct cli *cli, struct config *config, const char *place, const json_t *object)
{
	return take_object(cli, config, place, "node", "name", object);
}

/* Its arguments are words of a line as they are. */
static int take_migrate(struct cli *cli, struct config *config, const char *place, const json_t *object)
{
	const json_t *service = json_object_get(object, "service"), *policy = json_object_get(object, "policy");
	const json_t *args = json_object_get(object, "arguments"), *each;
	struct line line = { .cli = cli };
	const char *key;
	json_t *value;
	int status;
	size_t i;

	config_place(cli, config, place);
	cli->doing[0] = '\0';
	if (!json_is_object(object))
		return cli_usage(cli, "this is not an object");
	if (!json_is_string(service) || !json_is_string(policy))
		return cli_usage(cli, "service and policy are strings");
	if (args && !json_is_array(args))
		return cli_usage(cli, "arguments is not an array");
	json_object_foreach((json_t *)object, key, value)
		if (value != service && value != policy && value != args)
			return cli_usage(cli, "%s is not something that a policy of a service has", key);
	status = add_text(&line, "migrate");
	if (!status)
		status = add_word(&line, json_string_value(service));
	if (!status)
		status = add_text(&line, json_string_value(policy));
	json_array_foreach(args, i, each) {
		if (!status && !json_is_string(each))
			status = cli_usage(cli, "arguments has something that is not a string");
		if (!status)
			status = add_text(&line, json_string_value(each));
	}
	if (!status)
		status = config_take(cli, config, place, line.nr, line.words);
	drop_words(&line);
	return status;
}

static int take_service(struct cli *cli, struct config *config, const char *place, const json_t *value)
{
	struct line line = { .cli = cli };
	int status;

	config_place(cli, config, place);
	if (!json_is_string(value))
		return cli_usage(cli, "a service is a string");
	status = add_pair(&line, "service", json_string_value(value));
	if (!status)
		status = config_take(cli, config, place, line.nr, line.words);
	drop_words(&line);
	return status;
}

static int take_list(struct cli *cli, struct config *config, const char *key, const json_t *list)
{
	char place[PLACE_SIZE];
	const json_t *each;
	int status = CLI_OK;
	size_t i;

	if (!json_is_array(list))
		return cli_usage(cli, "%s is not an array", key);
	json_array_foreach(list, i, each) {
		snprintf(place, sizeof(place), ": %s[%zu]: ", key, i);
		if (!strcmp(key, "nodes"))
			status = config_json_node(cli, config, place, each);
		else if (!strcmp(key, "exports"))
			status = take_object(cli, config, place, "export", "export", each);
		else if (!strcmp(key, "migrate"))
			status = take_migrate(cli, config, place, each);
		else if (!strcmp(key, "redirect"))
			status = take_object(cli, config, place, "redirect", "service", each);
		else
			status = take_service(cli, config, place, each);
		if (status)
			break;
	}
	return status;
}

int config_json(struct cli *cli, struct config *config, const char *text)
{
	char place[PLACE_SIZE];
	json_error_t error;
	const char *key;
	json_t *all, *value;
	int status = CLI_OK;

	all = json_loads(text, JSON_REJECT_DUPLICATES, &error);
	if (!all) {
		snprintf(place, sizeof(place), ":%d: ", error.line);
		config_place(cli, config, place);
		return cli_usage(cli, "not JSON: %s", error.text);
	}
	json_object_foreach(all, key, value) {
		snprintf(place, sizeof(place), ": %.40s: ", key);
		config_place(cli, config, place);
		cli->doing[0] = '\0';
		if (!strcmp(key, "local") || !strcmp(key, "policy") || !strcmp(key, "links") ||
		    !strcmp(key, "sysctl"))
			status = take_object(cli, config, place, key, NULL, value);
		else if (!strcmp(key, "nodes") || !strcmp(key, "services") || !strcmp(key, "migrate") ||
			 !strcmp(key, "redirect") || !strcmp(key, "exports"))
			status = take_list(cli, config, key, value);
		else
			status = cli_usage(cli, "members are local, nodes, services, policy, links, sysctl, migrate, "
					   "redirect and exports");
		if (status)
			break;
	}
	json_decref(all);
	return status;
}

static json_t *names_of(char *list)
{
	json_t *names = json_array();
	char *each, *save = NULL;

	for (each = strtok_r(list, ",", &save); each; each = strtok_r(NULL, ",", &save))
		json_array_append_new(names, json_string(each));
	return names;
}

static json_t *value_of(const char *key, char *value)
{
	if (!strcmp(key, "nodes"))
		return names_of(value);
	if (value[strspn(value, "0123456789")])
		return json_string(value);
	return json_integer(strtoll(value, NULL, 10));
}

/* The way back; @words is freed. */
static json_t *object_of(const char *first, char *words)
{
	json_t *object = json_object(), *before;
	char *word[CLI_WORDS];
	int nr, i = 0;

	nr = words ? cli_split(words, word) : 0;
	if (first && nr)
		json_object_set_new(object, first, json_string(word[i++]));
	while (i < nr) {
		const char *key = !strcmp(word[i], "forward-address") ? "forward_address" : word[i];

		if (is_flag(key)) {
			json_object_set_new(object, key, json_true());
			i++;
			continue;
		}
		/* A second address. */
		before = json_object_get(object, key);
		if (before)
			json_object_set_new(object, key, json_pack("[O, s]", before, word[i + 1]));
		else if (!strcmp(key, "name"))
			json_object_set_new(object, key, json_string(word[i + 1]));
		else
			json_object_set_new(object, key, value_of(key, word[i + 1]));
		i += 2;
	}
	free(words);
	return object;
}

json_t *config_print_node(const struct config_node *node)
{
	return object_of("name", node_words(node));
}

static json_t *print_migrate(const struct config_migrate *migrate)
{
	char *words = migrate_words(migrate), *word[CLI_WORDS];
	int nr = words ? cli_split(words, word) : 0, i;
	json_t *object = json_object(), *args = json_array();

	if (nr > 1) {
		json_object_set_new(object, "service", json_string(word[0]));
		json_object_set_new(object, "policy", json_string(word[1]));
	}
	for (i = 2; i < nr; i++)
		json_array_append_new(args, json_string(word[i]));
	json_object_set_new(object, "arguments", args);
	free(words);
	return object;
}

json_t *config_print_json(const struct config *config)
{
	json_t *all = json_object(), *list, *kind;
	char *words;
	size_t i;

	json_object_set_new(all, "local", object_of(NULL, local_words(&config->local)));
	list = json_array();
	for (i = 0; i < config->nr_nodes; i++)
		json_array_append_new(list, config_print_node(&config->nodes[i]));
	json_object_set_new(all, "nodes", list);
	list = json_array();
	for (i = 0; i < config->nr_services; i++) {
		words = service_words(&config->services[i].addr);
		json_array_append_new(list, json_string(words ? words : ""));
		free(words);
	}
	json_object_set_new(all, "services", list);
	for (i = 0; i < config->nr_settings; i++) {
		const struct config_setting *s = &config->settings[i];

		kind = json_object_get(all, s->setting->kind);
		if (!kind) {
			kind = json_object();
			json_object_set_new(all, s->setting->kind, kind);
		}
		json_object_set_new(kind, s->setting->name, value_of(s->setting->name, (char *)s->value));
	}
	list = json_array();
	for (i = 0; i < config->nr_migrates; i++)
		json_array_append_new(list, print_migrate(&config->migrates[i]));
	json_object_set_new(all, "migrate", list);
	list = json_array();
	for (i = 0; i < config->nr_redirects; i++)
		json_array_append_new(list, object_of("service", redirect_words(&config->redirects[i])));
	json_object_set_new(all, "redirect", list);
	list = json_array();
	for (i = 0; i < config->nr_exports; i++)
		json_array_append_new(list, object_of("export", export_words(&config->exports[i])));
	json_object_set_new(all, "exports", list);
	return all;
}
