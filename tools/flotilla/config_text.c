// SPDX-License-Identifier: GPL-2.0
/* A file of settings, read and written: one thing a line, in the words of the command line. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "card.h"
#include "config.h"

/* Far beyond what nodes and services may be; a device or a pipe without end is none. */
#define FILE_MAX	(1 << 20)

static char *read_whole(struct cli *cli, const char *name, FILE *f, size_t *len)
{
	char *text = malloc(FILE_MAX + 2);

	if (!text) {
		cli_fail(cli, "out of memory");
		return NULL;
	}
	*len = fread(text, 1, FILE_MAX + 1, f);
	if (ferror(f) || *len > FILE_MAX) {
		if (ferror(f))
			cli_fail(cli, "cannot read %s: %s", name, strerror(errno));
		else
			cli_fail(cli, "cannot read %s: it is longer than %d bytes", name, FILE_MAX);
		free(text);
		return NULL;
	}
	text[*len] = '\0';
	return text;
}

static char *open_and_read(struct cli *cli, const char *file, const char *name, size_t *len)
{
	FILE *f = file == name ? fopen(file, "re") : stdin;
	char *text;

	if (!f) {
		cli_fail(cli, "cannot read %s: %s", name, strerror(errno));
		return NULL;
	}
	text = read_whole(cli, name, f, len);
	if (f != stdin)
		fclose(f);
	return text;
}

int config_text(struct cli *cli, struct config *config, char *text)
{
	char place[PLACE_SIZE], *words[CLI_WORDS], *end;
	unsigned int line = 0;
	int status = CLI_OK, nr;

	for (; *text && !status; text = end + 1) {
		snprintf(place, sizeof(place), ":%u: ", ++line);
		config_place(cli, config, place);
		cli->doing[0] = '\0';
		end = strchr(text, '\n');
		/* Half of "10.0.0.12" is an address, too. */
		if (!end)
			return cli_usage(cli, "the last line has no end: is the file whole?");
		*end = '\0';
		nr = cli_split(text, words);
		if (nr < 0)
			status = cli_usage(cli, "%s", cli_split_why(nr));
		else if (nr)
			status = config_take(cli, config, place, nr, words);
	}
	return status;
}

int config_read(struct cli *cli, const char *file, struct config *config)
{
	const char *name = strcmp(file, "-") ? file : "standard input";
	size_t len = 0;
	char *text;
	int status;

	*config = (struct config){ .file = name };
	cli->doing[0] = '\0';
	text = open_and_read(cli, file, name, &len);
	if (!text)
		return CLI_FAILED;
	config_place(cli, config, "");
	if (strlen(text) != len)
		status = cli_usage(cli, "a byte of it is zero");
	else if (text[strspn(text, " \t\r\n")] == '{')
		status = config_json(cli, config, text);
	else
		status = config_text(cli, config, text);
	if (!status)
		status = config_check(cli, config);
	cli->place[0] = '\0';
	cli->doing[0] = '\0';
	free(text);
	return status;
}

/* Ends a stream that was opened on @text. */
static char *finish(FILE *to, char **text)
{
	if (fclose(to)) {
		free(*text);
		return NULL;
	}
	return *text;
}

static void put_address(FILE *to, const char *key, const struct sockaddr_storage *addr)
{
	char text[64];

	if (addr->ss_family)
		fprintf(to, " %s %s", key, address_text(addr, text, sizeof(text)));
}

static void put_text(FILE *to, const char *key, const char *text)
{
	if (!text[0])
		return;
	fprintf(to, " %s ", key);
	cli_put_word(to, text);
}

char *local_words(const struct config_local *local)
{
	char *text = NULL;
	size_t size;
	FILE *to = open_memstream(&text, &size);

	if (!to)
		return NULL;
	fprintf(to, "name %s", local->name);
	put_address(to, "address", &local->addr4);
	put_address(to, "address", &local->addr6);
	if (local->port != FLT_LINK_PORT)
		fprintf(to, " port %u", local->port);
	if (local->insecure)
		fprintf(to, " insecure on");
	return finish(to, &text);
}

char *node_words(const struct config_node *node)
{
	const struct flt_node_info *info = &node->info;
	char *text = NULL;
	size_t size;
	FILE *to = open_memstream(&text, &size);

	if (!to)
		return NULL;
	fprintf(to, "%s", info->name);
	put_address(to, "address", &info->addr);
	if (address_port(&info->addr) != FLT_LINK_PORT)
		fprintf(to, " port %u", address_port(&info->addr));
	if (info->weight != 100)
		fprintf(to, " weight %u", info->weight);
	if (info->role)
		fprintf(to, " role %s", word_of(&node_roles, info->role));
	if (info->admin)
		fprintf(to, " admin %s", word_of(&node_admins, info->admin));
	if (info->forward)
		fprintf(to, " forward %s", word_of(&forwards, info->forward));
	put_address(to, "forward-address", &info->fwd_addr);
	if (info->auth)
		fprintf(to, " auth %s", word_of(&auths, info->auth));
	put_text(to, "key", node->key);
	return finish(to, &text);
}

char *service_words(const struct sockaddr_storage *service)
{
	char text[64], *words = NULL;
	uint16_t port = address_port(service);

	address_text(service, text, sizeof(text));
	if (!port)
		return strdup(text);
	if (asprintf(&words, service->ss_family == AF_INET6 ? "[%s]:%u" : "%s:%u", text, port) < 0)
		return NULL;
	return words;
}

char *export_words(const struct config_export *export)
{
	char *text = NULL;
	size_t size;
	FILE *to = open_memstream(&text, &size);

	if (!to)
		return NULL;
	fprintf(to, "%s", export->name);
	put_text(to, "device", export->device);
	fprintf(to, " nodes %s", export->nodes);
	if (export->flags & CARD_FLAG_WRITE)
		fprintf(to, " write");
	if (export->flags & CARD_FLAG_SHARED)
		fprintf(to, " shared");
	if (export->flags & CARD_FLAG_UNCLAIMED)
		fprintf(to, " unclaimed");
	put_text(to, "mount", export->mount);
	if (export->serve)
		fprintf(to, " serve %s", word_of(&card_serves, export->serve));
	if (export->deliver)
		fprintf(to, " deliver %s", word_of(&card_delivers, export->deliver));
	if (strcmp(export->policy, "none"))
		fprintf(to, " policy %s", export->policy);
	if (export->host[0])
		fprintf(to, " host %s", export->host);
	if (export->home_shift[0])
		fprintf(to, " home_shift %s", export->home_shift);
	if (export->uuid[0])
		fprintf(to, " uuid %s", export->uuid);
	return finish(to, &text);
}

/* @words is freed. */
static void print_line(FILE *to, const char *kind, char *words)
{
	fprintf(to, "%s %s\n", kind, words ? words : "# out of memory");
	free(words);
}

void config_print_text(const struct config *config, FILE *to)
{
	const char *kind = "";
	size_t i;

	print_line(to, "local", local_words(&config->local));
	for (i = 0; i < config->nr_nodes; i++)
		print_line(to, "node", node_words(&config->nodes[i]));
	for (i = 0; i < config->nr_services; i++)
		print_line(to, "service", service_words(&config->services[i].addr));
	for (i = 0; i < config->nr_settings; i++) {
		const struct config_setting *s = &config->settings[i];

		if (strcmp(kind, s->setting->kind))
			fprintf(to, "%s%s", i ? "\n" : "", s->setting->kind);
		kind = s->setting->kind;
		if (strcmp(kind, s->setting->name))
			fprintf(to, " %s", s->setting->name);
		fprintf(to, " %s", s->value);
	}
	if (i)
		fputc('\n', to);
	for (i = 0; i < config->nr_migrates; i++)
		print_line(to, "migrate", migrate_words(&config->migrates[i]));
	for (i = 0; i < config->nr_redirects; i++)
		print_line(to, "redirect", redirect_words(&config->redirects[i]));
	for (i = 0; i < config->nr_exports; i++)
		print_line(to, "export", export_words(&config->exports[i]));
}
