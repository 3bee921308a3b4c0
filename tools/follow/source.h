/* SPDX-License-Identifier: GPL-2.0 */
/* Where the nodes are said: a file, DNS, etcd, Kubernetes. */
#ifndef FLOTILLA_FOLLOW_SOURCE_H
#define FLOTILLA_FOLLOW_SOURCE_H

#include "follow.h"

/**
 * struct access - how a server is spoken to
 * @ca, @cert, @key, @token: files
 * @api: URL of Kubernetes, instead of what its environment says
 */
struct access {
	const char *ca, *cert, *key, *token, *api;
};

/**
 * struct source - one of them
 * @data: its own
 * @max:  nodes of an answer
 * @ttl:  seconds that the last answer is good for; 0: it does not say
 */
struct source {
	const struct source_kind *kind;
	struct cli *cli;
	const struct access *access;
	void *data;
	unsigned int ttl, max;
};

/**
 * struct source_kind - what it takes to follow one
 * @scheme: before the colon
 * @open:   @rest is what follows the colon; an exit status. Asks nobody yet.
 * @read:   the whole of it into @answer, within a bounded time. CLI_FAILED: nobody answers, CLI_USAGE: the answer is
 *          wrong; either has been said
 * @wait:   until it may have changed, or for @ms
 */
struct source_kind {
	const char *scheme;
	int (*open)(struct source *s, const char *rest);
	int (*read)(struct source *s, struct config *answer);
	void (*wait)(struct source *s, int ms);
	void (*close)(struct source *s);
};

extern const struct source_kind source_file, source_dns, source_etcd, source_kube;

int source_open(struct source *s, const char *text);

/* Where in the answer that is wrong of which is spoken from here on. */
void source_place(struct source *s, const struct config *answer, const char *place);
/* A node of the answer as words: "node NAME address ADDRESS ...". @place is where it was said. */
int answer_node(struct source *s, struct config *answer, const char *place, const char *name, const char *address,
		const char *port, const char *weight, const char *admin);
/* The first label of a name with dots, which may be longer than a node's may be. */
void first_label(const char *name, char *label, size_t size);

#endif
