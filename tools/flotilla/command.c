// SPDX-License-Identifier: GPL-2.0
/* From words to a command: objects, verbs, batches, help and error sentences. */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include "cli.h"

const struct object *const cli_objects[] = {
	&node_object, &local_object, &service_object, &auth_object,
	&conn_object, &stats_object, &top_object, &policy_object,
	&explain_object, &doctor_object, &probe_object, &monitor_object, &card_object, &afpa_object, &cache_object,
	&save_object, &apply_object, &process_object, &migrate_object, &redirect_object, &takeover_object, &rebalance_object, NULL
};

void cli_doing(struct cli *cli, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(cli->doing, sizeof(cli->doing), format, args);
	va_end(args);
}

#define PLAIN_SIZE	5	/* "\\x1b", or the longest character */

/* The bytes of the character of UTF-8 at @text if it prints, and turns no others round; else 0. */
static size_t printing(const unsigned char *text)
{
	static const uint32_t least[] = { 0, ' ', 0xa0, 0x800, 0x10000 };
	size_t len = *text < 0x80 ? 1 : *text < 0xc0 || *text >= 0xf8 ? 0 : 2, i;
	uint32_t code;

	if (len > 1)
		len += (*text >= 0xe0) + (*text >= 0xf0);
	code = len > 1 ? *text & (0x7f >> len) : *text;
	for (i = 1; i < len; i++) {
		if ((text[i] & 0xc0) != 0x80)
			return 0;
		code = code << 6 | (text[i] & 0x3f);
	}
	if (code < least[len] || code == 0x7f || code > 0x10ffff ||
	    (code >= 0xd800 && code <= 0xdfff) || (code >= 0x2028 && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069))
		return 0;
	return len;
}

/* What stands for the character at *@text, which is moved on. */
static void next_plain(const char **text, char plain[PLAIN_SIZE])
{
	size_t len = printing((const unsigned char *)*text);

	if (len)
		snprintf(plain, PLAIN_SIZE, "%.*s", (int)len, *text);
	else
		snprintf(plain, PLAIN_SIZE, "\\x%02x", (unsigned char)**text);
	*text += len ? len : 1;
}

void cli_plain(FILE *to, const char *text)
{
	char plain[PLAIN_SIZE];

	while (*text) {
		next_plain(&text, plain);
		fputs(plain, to);
	}
}

void cli_plain_text(const char *text, char *to, size_t size)
{
	char plain[PLAIN_SIZE];
	size_t n = 0;

	while (*text && n + PLAIN_SIZE <= size) {
		next_plain(&text, plain);
		n += strlen(strcpy(to + n, plain));
	}
	to[n] = '\0';
}

static void say_to(FILE *to, const struct cli *cli, const char *format, va_list args)
{
	char *sentence;

	cli_plain(to, cli->place);
	if (cli->doing[0]) {
		fputs("cannot ", to);
		cli_plain(to, cli->doing);
		fputs(": ", to);
	}
	if (vasprintf(&sentence, format, args) < 0)
		sentence = NULL;
	cli_plain(to, sentence ? sentence : "out of memory");
	free(sentence);
}

static void say(const struct cli *cli, const char *format, va_list args)
{
	char *text = NULL;
	size_t size;
	FILE *to;

	if (cli->quiet)
		return;
	fflush(stdout);
	if (!cli->say) {
		fputs("flotilla: ", stderr);
		say_to(stderr, cli, format, args);
		fputc('\n', stderr);
		return;
	}
	to = open_memstream(&text, &size);
	if (to) {
		say_to(to, cli, format, args);
		fclose(to);
	}
	cli->say(text ? text : "out of memory");
	free(text);
}

int cli_fail(struct cli *cli, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	say(cli, format, args);
	va_end(args);
	return CLI_FAILED;
}

int cli_usage(struct cli *cli, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	say(cli, format, args);
	va_end(args);
	return CLI_USAGE;
}

int cli_unknown(struct cli *cli, const char *word)
{
	return cli_usage(cli, "%s is not an argument of this command; try \"help\" in its place",
			 word);
}

struct flt_client *cli_client(struct cli *cli)
{
	int err;

	if (cli->client)
		return cli->client;
	err = flt_client_open(&cli->client);
	if (err == -ENOENT)
		cli_fail(cli, "flotilla.ko is not loaded (modprobe flotilla)");
	else if (err)
		cli_fail(cli, "no netlink socket: %s", strerror(-err));
	return cli->client;
}

int cli_result(struct cli *cli, int err)
{
	return err ? cli_fail(cli, "%s", flt_client_error(cli->client)) : CLI_OK;
}

void cli_warn(const struct cli *cli, const char *sentence)
{
	if (cli->json || cli->tabs)
		return;
	fflush(stdout);
	fprintf(stderr, "flotilla: WARNING: %s\n", sentence);
}

void help_command(FILE *to, const struct object *object, const struct command *command)
{
	fprintf(to, "Usage: flotilla %s %s\n       %s.\n", object->name, command->usage,
		command->about);
	if (object->more)
		fprintf(to, "\n%s", object->more);
}

void help_object(FILE *to, const struct object *object)
{
	const struct command *c;

	fprintf(to, "%s: %s.\n", object->name, object->about);
	for (c = object->commands; c->name; c++)
		fprintf(to, "%s flotilla %s%s%s\n", c == object->commands ? "Usage:" : "      ",
			object->name, *c->usage ? " " : "", c->usage);
	if (object->more)
		fprintf(to, "\n%s", object->more);
}

void help_program(FILE *to)
{
	const struct object *const *o;

	fputs("Usage: flotilla [OPTIONS] OBJECT [COMMAND [ARGUMENTS]]\n"
	      "       flotilla [OPTIONS] -b FILE\n\nObjects:\n", to);
	for (o = cli_objects; *o; o++)
		fprintf(to, "  %-8s %s\n", (*o)->name, (*o)->about);
	fputs("\nOptions:\n"
	      "  -j, --json        print JSON\n"
	      "  -p, --pretty      print indented JSON\n"
	      "  -t, --tabs        print rows with tabs between fields, for scripts\n"
	      "  -b, --batch FILE  run the commands in FILE, one a line (-: standard input)\n"
	      "  -V, --version     print the version\n"
	      "  -h, --help        print this\n"
	      "\n\"flotilla OBJECT help\" and \"flotilla OBJECT COMMAND help\" say more.\n", to);
}

static bool is_help(const char *word)
{
	return !strcmp(word, "help") || !strcmp(word, "--help") || !strcmp(word, "-h");
}

static const struct object *find_object(const char *name)
{
	const struct object *const *o;

	for (o = cli_objects; *o; o++)
		if (!strcmp((*o)->name, name))
			return *o;
	return NULL;
}

static const struct command *find_command(const struct object *object, const char *name)
{
	const struct command *c;

	for (c = object->commands; c->name; c++)
		if (!strcmp(c->name, name) || (c->alias && !strcmp(c->alias, name)))
			return c;
	return NULL;
}

static int run(struct cli *cli, const struct object *object, const struct command *command, int argc, char **argv)
{
	return object == &cache_object ? cache_around(cli, command, argc, argv) : command->run(cli, argc, argv);
}

int cli_run(struct cli *cli, int argc, char **argv)
{
	const struct command *command;
	const struct object *object;

	cli->doing[0] = '\0';
	if (is_help(argv[0])) {
		object = argc > 1 ? find_object(argv[1]) : NULL;
		if (object)
			help_object(stdout, object);
		else
			help_program(stdout);
		return CLI_OK;
	}
	object = find_object(argv[0]);
	if (!object)
		return cli_usage(cli, "there is no object %s; try \"flotilla help\"", argv[0]);
	argc--, argv++;
	if (argc && is_help(argv[0])) {
		help_object(stdout, object);
		return CLI_OK;
	}
	if (!argc)
		return run(cli, object, object->commands, 0, argv);
	command = find_command(object, argv[0]);
	if (!command && object->verbless)
		return run(cli, object, object->commands, argc, argv);
	if (!command)
		return cli_usage(cli, "%s has no command %s; try \"flotilla %s help\"", object->name,
				 argv[0], object->name);
	if (argc > 1 && is_help(argv[1])) {
		help_command(stdout, object, command);
		return CLI_OK;
	}
	return run(cli, object, command, argc - 1, argv + 1);
}

static int batch_lines(struct cli *cli, const char *file, FILE *f)
{
	char *line = NULL, *words[CLI_WORDS];
	unsigned int number = 0;
	int status = CLI_OK, nr;
	size_t room = 0;

	while (status == CLI_OK && getline(&line, &room, f) >= 0) {
		snprintf(cli->place, sizeof(cli->place), "%s:%u: ", file, ++number);
		cli->doing[0] = '\0';
		nr = cli_split(line, words);
		if (nr < 0)
			status = cli_usage(cli, "%s", cli_split_why(nr));
		else if (nr)
			status = cli_run(cli, nr, words);
	}
	cli->place[0] = '\0';
	cli->doing[0] = '\0';
	if (ferror(f))
		status = cli_fail(cli, "cannot read %s", file);
	free(line);
	return status;
}

/* Ends at the first command that fails, and with its status. */
int cli_batch(struct cli *cli, const char *file)
{
	FILE *f;
	int status;

	if (!strcmp(file, "-"))
		return batch_lines(cli, "standard input", stdin);
	f = fopen(file, "re");
	if (!f)
		return cli_fail(cli, "cannot read %s: %s", file, strerror(errno));
	status = batch_lines(cli, file, f);
	fclose(f);
	return status;
}
