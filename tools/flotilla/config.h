/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What save prints and apply reads: all that this program sets and a boot forgets.
 *
 * The same struct config holds what a file wants and what the kernel has. Reading either changes nothing; comparing the
 * two gives the commands that make the second the first.
 */
#ifndef FLOTILLA_CLI_CONFIG_H
#define FLOTILLA_CLI_CONFIG_H

#include <flotilla/card.h>
#include "cli.h"

/* ":12: " or ": nodes[3]: ", what follows the file's name in messages. */
#define PLACE_SIZE	64
#define VALUE_SIZE	32
/* As in struct flt_policy_info. */
#define POLICY_NAME_SIZE	16
#define POLICY_ARGS_SIZE	512

/**
 * struct setting - a value that has a file of its own
 * @kind:     first word of its line
 * @name:     second word, and name of the file in @directory
 * @min, @max: what the kernel takes
 * @words:    or one of these; NULL for numbers
 */
struct setting {
	const char *kind, *name, *directory;
	uint64_t min, max;
	const struct words *words;
};

extern const struct setting settings[];
extern const unsigned int nr_settings;

/* By kind and name, or NULL. */
const struct setting *setting_find(const char *kind, const char *name);
int setting_check(struct cli *cli, const struct setting *s, const char *value);
/* 0 or a negative errno; -ENOENT: the module that has it is not loaded. */
int setting_read(const struct setting *s, char *value, size_t size);
int setting_write(const struct setting *s, const char *value);

struct config_setting {
	const struct setting *setting;
	char value[VALUE_SIZE];
	char place[PLACE_SIZE];
};

/**
 * struct config_local - this node
 * @given: it has a name
 */
struct config_local {
	bool given;
	char name[FLT_NAME_MAX];
	struct sockaddr_storage addr4, addr6;
	uint16_t port;
	uint8_t insecure;
	char place[PLACE_SIZE];
};

/**
 * struct config_node - a peer
 * @info: what may be set of it, defaults filled in; no forward address that is its own address
 * @key:  reference as value_key() takes it, or ""
 */
struct config_node {
	struct flt_node_info info;
	char key[CARD_PATH_MAX];
	char place[PLACE_SIZE];
};

struct config_service {
	struct sockaddr_storage addr;
	char place[PLACE_SIZE];
};

/**
 * struct config_export - a disk that is offered
 * @nodes: as written, between commas; their order counts
 * @uuid:  "" unless somebody gave it
 * @host, @home_shift: "" unless the file gives them; the kernel does not tell them
 */
struct config_export {
	char name[FLT_NAME_MAX], device[CARD_PATH_MAX], mount[CARD_PATH_MAX], policy[CARD_NAME_MAX];
	char nodes[CARD_NODES_MAX * FLT_NAME_MAX];
	uint32_t flags;
	uint8_t serve, deliver;
	char uuid[40], host[16], home_shift[4];
	char place[PLACE_SIZE];
};

/**
 * struct config_migrate - a policy of a service
 * @args: nodes and NAME=NUMBER, with blanks between
 */
struct config_migrate {
	struct sockaddr_storage service;
	char policy[POLICY_NAME_SIZE], args[POLICY_ARGS_SIZE];
	char place[PLACE_SIZE];
};

/**
 * struct config_redirect - a rule for the SYNs of a service
 * @above, @queue, @hysteresis, @take: UINT32_MAX: off
 * @hint: UINT32_MAX: auto
 */
struct config_redirect {
	struct sockaddr_storage service;
	uint32_t above, queue, hysteresis, take, hint;
	char place[PLACE_SIZE];
};

/**
 * struct config - all of it
 * @file:    for messages
 * @max_nodes: there may be no more of them; 0: any number
 * @auto_limit: of the kernel's: max_outstanding looks like the computed one
 * @no_card: of the kernel's: card.ko is not loaded
 * @no_handoff: the same, handoff.ko
 */
struct config {
	const char *file;
	struct config_local local;
	struct config_node *nodes;
	struct config_service *services;
	struct config_export *exports;
	struct config_setting *settings;
	struct config_migrate *migrates;
	struct config_redirect *redirects;
	size_t nr_nodes, nr_services, nr_exports, nr_settings, nr_migrates, nr_redirects, max_nodes;
	bool auto_limit, no_card, no_handoff;
};

/* An exit status; 0: @config is whole and makes sense. "-" is standard input. */
int config_read(struct cli *cli, const char *file, struct config *config);
/* What the kernel has; @exports: there will be some, so card.ko may be loaded by asking. */
int config_live(struct cli *cli, bool exports, struct config *config);
/* Policies and redirection of services alone. */
int config_live_rules(struct cli *cli, struct config *config);
/* This node and the nodes alone. */
int config_live_nodes(struct cli *cli, struct config *config);
void config_free(struct config *config);

/* One line, as words; and what only all lines together show. */
int config_take(struct cli *cli, struct config *config, const char *place, int argc, char **argv);
int config_take_migrate(struct cli *cli, struct config *config, const char *place, int argc, char **argv);
int config_take_redirect(struct cli *cli, struct config *config, const char *place, int argc, char **argv);
/* An address as the kernel judges it, before anything is changed; @service: not a loopback one. */
int config_address(struct cli *cli, const struct sockaddr_storage *ss, bool service);
int config_check(struct cli *cli, const struct config *config);
int config_text(struct cli *cli, struct config *config, char *text);
int config_json(struct cli *cli, struct config *config, const char *text);
/* A node as save prints it in JSON; @place as for config_take(). */
int config_json_node(struct cli *cli, struct config *config, const char *place, const json_t *object);
void config_place(struct cli *cli, const struct config *config, const char *place);

/* A new zeroed element at the end of an array, or NULL after saying why. */
void *config_grow(struct cli *cli, void *array, size_t *nr, size_t size);
const struct config_node *config_node_find(const struct config *config, const char *name);
const struct config_export *config_export_find(const struct config *config, const char *name);
const struct config_setting *config_setting_find(const struct config *config, const struct setting *s);
bool config_service_has(const struct config *config, const struct sockaddr_storage *service);

/* An element as the words of its line behind the first, to be freed; NULL: no memory. */
char *local_words(const struct config_local *local);
char *node_words(const struct config_node *node);
char *service_words(const struct sockaddr_storage *service);
char *migrate_words(const struct config_migrate *migrate);
char *redirect_words(const struct config_redirect *redirect);
char *export_words(const struct config_export *export);
void config_print_text(const struct config *config, FILE *to);
json_t *config_print_json(const struct config *config);
json_t *config_print_node(const struct config_node *node);

bool address_equal(const struct sockaddr_storage *a, const struct sockaddr_storage *b);	/* without the port */

enum change_status { CHANGE_PLANNED, CHANGE_DONE, CHANGE_FAILED, CHANGE_SKIPPED };

/* In this order; the last one only when all before it went well. */
enum change_phase {
	PHASE_SETTING,
	PHASE_EARLY,
	PHASE_LOCAL,
	PHASE_SERVICE,
	PHASE_NODE,
	PHASE_RULE,
	PHASE_EXPORT,
	PHASE_REMOVE,
	NR_PHASES
};

/**
 * struct change - one difference and what makes it go
 * @sign:     '+', '-', '~', or 0: made without a word
 * @phase:    when
 * @place:    of the line that wants it, or ""
 * @text:     for people
 * @early:    command of PHASE_EARLY, or NULL
 * @commands: command lines, run until one fails
 * @undo:     run when the first one was done and the second one fails, or NULL
 * @setting:  instead of commands: gets @value
 */
struct change {
	char sign;
	enum change_phase phase;
	enum change_status status;
	const char *place;
	char *text, *early, *commands[2], *undo;
	const struct setting *setting;
	const char *value;
};

struct changes {
	struct change *list;
	size_t nr;
};

/* What makes @live what @wanted says; @keep: what is not in it stays. An exit status. */
int config_compare(struct cli *cli, const struct config *live, const struct config *wanted, bool keep,
		   struct changes *changes);
void changes_free(struct changes *changes);
/* CLI_OK, or a sentence; asked before the first change, so that it is one and not one for each. */
int changes_permitted(struct cli *cli);
/* An exit status; says how it ended. */
int changes_run(struct cli *cli, const struct config *wanted, struct changes *changes);
void changes_print(const struct cli *cli, const struct changes *changes);
json_t *changes_json(const struct changes *changes);
bool changes_seen(const struct changes *changes);

#endif
