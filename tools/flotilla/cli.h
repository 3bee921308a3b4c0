/* SPDX-License-Identifier: GPL-2.0 */
/* flotilla(8): what the files of the command line share. */
#ifndef FLOTILLA_CLI_H
#define FLOTILLA_CLI_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include "kmod/lib/flotilla.h"

/* Exit statuses. */
enum {
	CLI_OK		= 0,
	CLI_FAILED	= 1,	/* asked, and refused */
	CLI_USAGE	= 2,	/* not asked: the command line makes no sense */
};

/**
 * struct cli - one run of the program
 * @json:   print JSON
 * @pretty: indent it
 * @tabs:   print rows with tabs between fields, without a heading
 * @quiet:  say nothing of what is wrong
 * @place:  "FILE:LINE: " in a batch, else ""
 * @doing:  what the present command tries, after "cannot"
 * @client: opened by the first command that needs it
 * @remote: node whose cache the present command is for; NULL: this one's
 * @say:    gets each sentence that says what is wrong, plain; NULL: standard error does
 */
struct cli {
	bool json, pretty, tabs, quiet;
	char place[300];
	char doing[160];
	struct flt_client *client;
	const char *remote;
	void (*say)(const char *sentence);
};

/**
 * struct command - a verb of an object
 * @name:  as typed; "" when the noun says it all
 * @alias: another name or NULL
 * @run:   gets what follows the verb; returns an exit status
 * @usage: what follows "flotilla OBJECT"
 * @about: one line
 */
struct command {
	const char *name, *alias;
	int (*run)(struct cli *cli, int argc, char **argv);
	const char *usage, *about;
};

/**
 * struct object - a noun
 * @name:     as typed
 * @about:    one line
 * @commands: ends with an empty one; the first runs when no verb is given
 * @verbless: what follows the noun may be the first command's arguments (stats, explain, ...)
 * @more:     further text of its help, or NULL
 */
struct object {
	const char *name, *about;
	const struct command *commands;
	bool verbless;
	const char *more;
};

extern const struct object migrate_object, redirect_object, rebalance_object;
extern const struct object node_object, local_object, service_object, auth_object, conn_object, stats_object,
	policy_object, explain_object, doctor_object, probe_object, monitor_object, card_object, save_object, apply_object,
	process_object, takeover_object, afpa_object, cache_object,
	top_object;

/* Says what is being tried; messages begin with "cannot" and this. */
void cli_doing(struct cli *cli, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Print one sentence on stderr; return CLI_FAILED and CLI_USAGE. */
int cli_fail(struct cli *cli, const char *format, ...) __attribute__((format(printf, 2, 3)));
int cli_usage(struct cli *cli, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* What prints, and \x1b for what does not. */
void cli_plain(FILE *to, const char *text);
/* The same, as much of it as @size has room for. */
void cli_plain_text(const char *text, char *to, size_t size);
/* What a word that is not a known argument of a command earns. */
int cli_unknown(struct cli *cli, const char *word);
/* The client, or NULL after saying why there is none. */
struct flt_client *cli_client(struct cli *cli);
/* CLI_OK, or CLI_FAILED after passing on the client's sentence. */
int cli_result(struct cli *cli, int err);
/* One line on stderr that a person must see; not with -j and -t, whose rows say it. */
void cli_warn(const struct cli *cli, const char *sentence);

/* Runs a command of "cache" here, or at the nodes that "--remote" names. */
int cache_around(struct cli *cli, const struct command *command, int argc, char **argv);

/* One command line, without the program's name and its options. */
int cli_run(struct cli *cli, int argc, char **argv);
int cli_batch(struct cli *cli, const char *file);
#define CLI_WORDS	64
#define CLI_TOO_MANY	-1
#define CLI_OPEN_QUOTE	-2
/*
 * Words of a line, which it changes. Blanks are between them; within quotation marks they are part of a word, and
 * there a backslash goes before a quotation mark, before another and before the n of a newline. A word that begins
 * with # begins a comment. Return: how many, or what is wrong.
 */
int cli_split(char *line, char *words[CLI_WORDS]);
const char *cli_split_why(int nr);
/* So that cli_split() gives it again. */
void cli_put_word(FILE *to, const char *word);
void help_program(FILE *to);
void help_object(FILE *to, const struct object *object);
void help_command(FILE *to, const struct object *object, const struct command *command);
extern const struct object *const cli_objects[];

/**
 * struct words - names of an enum's values, in their order
 */
struct words {
	const char *const *name;
	unsigned int nr;
};

/* What local show, node show and probe say of it. */
#define INSECURE_IS_ON	"INSECURE is on: this node gives and takes connections over links that nobody has authenticated"

/**
 * struct feature - a bit of what a node says that it knows, and its name; the last one has no bit
 */
struct feature {
	uint64_t bit;
	const char *name;
};

extern const struct feature node_features[];
extern const struct words node_states, node_admins, node_roles, forwards, auths, switches;

const char *word_of(const struct words *words, unsigned int value);
/* Each says what is wrong with @text and returns CLI_USAGE, or 0. @what names the argument. */
int value_word(struct cli *cli, const char *what, const char *text, const struct words *words,
	       uint8_t *out);
int value_number(struct cli *cli, const char *what, const char *text, uint64_t min, uint64_t max,
		 uint64_t *out);
int value_address(struct cli *cli, const char *what, const char *text,
		  struct sockaddr_storage *out);
int value_port(struct cli *cli, const char *text, struct sockaddr_storage *addr);
int value_name(struct cli *cli, const char *text, char out[FLT_NAME_MAX]);
/* ADDRESS, ADDRESS:PORT or [ADDRESS6]:PORT; port 0: every one. */
int value_service(struct cli *cli, const char *text, struct sockaddr_storage *out);
/* The same, but the port has to be there. */
int value_service_port(struct cli *cli, const char *text, struct sockaddr_storage *out);
/* The value of one argument of node add and node set, and its bit into @node->given. */
int node_argument(struct cli *cli, struct flt_node_info *node, const char *key, const char *value);
/* The value of one argument of redirect set; UINT32_MAX: off, or auto. */
int redirect_argument(struct cli *cli, const char *key, const char *value, uint32_t *out);
/* "10.0.0.3", or "" for none. */
const char *address_text(const struct sockaddr_storage *ss, char *text, size_t size);
uint16_t address_port(const struct sockaddr_storage *ss);

/**
 * struct column - of a table for people and of a row with tabs
 * @key:   member of the row's JSON object
 * @title: heading
 * @human: NULL, or writes the member for people; rows with tabs have it as in JSON
 */
struct column {
	const char *key, *title;
	void (*human)(const json_t *value, char *text, size_t size);
};

/**
 * struct table - rows on their way out
 * @kept: for people: held until the widths are known. Otherwise rows go out at once.
 */
struct table {
	const struct cli *cli;
	const struct column *columns;
	unsigned int nr_columns;
	size_t rows;
	json_t *kept;
};

void table_begin(struct table *t, const struct cli *cli, const struct column *columns,
		 unsigned int nr);
void table_row(struct table *t, json_t *row);	/* takes over the reference */
void table_end(struct table *t);
/* A JSON document of its own, with the newline; takes over the reference. */
void json_print(const struct cli *cli, json_t *value);
void human_duration(const json_t *value, char *text, size_t size);	/* from milliseconds */

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

#endif
