/* SPDX-License-Identifier: GPL-2.0 */
/*
 * flotilla-follow(8): the node table stays equal to what a source says.
 *
 * A source is read whole, each time: what has been read is a struct config with nodes and nothing else. That something
 * may have changed is only a reason to read it again, so whatever comes from a watch is thrown away unread.
 */
#ifndef FLOTILLA_FOLLOW_H
#define FLOTILLA_FOLLOW_H

#include "tools/flotilla/config.h"
#include "tools/flotilla/owner.h"

#define WITHIN_MAX	16
/* No answer is longer; and how many nodes a source may name, unless --max says so. */
#define ANSWER_MAX	(1 << 20)
#define NODES_DEFAULT	256

/**
 * struct range - addresses that a source may name
 */
struct range {
	int family, bits;
	unsigned char bytes[16];
};

/**
 * struct rules - what a source may say
 * @set:    a node with what the source does not say of it; @set.info.given has the bits
 * @allow:  bits of what it may say besides address, port, weight and admin
 * @within: its addresses are in one of them, if there are any
 * @max:    nodes
 * @empty:  it may name none
 * @adopt:  nodes of its names that somebody else added are its own
 */
struct rules {
	struct config_node set;
	uint32_t allow;
	struct range within[WITHIN_MAX];
	unsigned int nr_within, max;
	bool empty, adopt;
};

/* "auth psk key flotilla" and the like into @rules. */
int rules_set(struct cli *cli, struct rules *rules, char *words);
int rules_allow(struct cli *cli, struct rules *rules, char *words);
int rules_within(struct cli *cli, struct rules *rules, const char *text);
/* Whether the answer is one that this source may give; fills in what --set gives. */
/* What neither the source nor --set says of a node is as it was. */
void rules_inherit(struct config_node *to, const struct config_node *from);
int rules_check(struct cli *cli, const struct rules *rules, struct config *answer);

/**
 * struct members - the nodes that are followed up
 * @dry:   only says what would be
 * @model: of a dry run: what there would be by now; @model.file is NULL: the kernel is asked
 * @told:  sentences about nodes that are not the source's, once each
 */
struct members {
	struct cli *cli;
	const struct rules *rules;
	struct owner owner;
	bool dry;
	struct config model;
	uint32_t next_id;
	char *told;
};

/* Makes it equal to @answer. An exit status. */
int members_follow(struct members *members, struct config *answer);
void members_free(struct members *members);

/* To standard error: a sentence, or an object of JSON a line. */
enum level { LEVEL_ERROR, LEVEL_WARN, LEVEL_INFO };
void log_start(const char *program, const char *source, bool json);
void log_say(enum level level, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* What has been done or would be: a line of a plan. */
void log_change(const char *sign, const char *what, const char *status);
/* As struct cli's @say: an error, which is not said again while it is the same. */
void log_error(const char *sentence);
/* All is well: the same error is news again. */
void log_forget(void);
/* What systemd shows of it. */
void log_status(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Of all capabilities CAP_NET_ADMIN stays, if @net_admin, and new ones cannot come. */
int privilege_drop(struct cli *cli, bool net_admin);

#endif
