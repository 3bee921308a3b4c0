/* SPDX-License-Identifier: GPL-2.0 */
/* A node hands on what this front-end gave to it (flotilla/relocate.h). */
#ifndef FLOTILLA_RELOCATION_H
#define FLOTILLA_RELOCATION_H

#include <flotilla/relocate.h>
#include "cli.h"
#include "follow.h"

/**
 * struct relocation - one run
 * @cli:     it
 * @from:    the name of the node
 * @to:      of those that get them, @r.nr_to
 * @r:       the kernel's
 * @wait_ms: end after this, whatever is left
 * @begun_ms: since when
 * @named_ms: when connections were named last; 0: they have to be
 * @done_ms: since when none is left
 * @moved, @ended: of runs before: the node had not heard of us, and has begun anew
 * @others:  another command at the node has them
 * @unknown: how often in a row the node has named nothing but what it does not know
 * @device:  /dev/handoff
 */
struct relocation {
	struct cli *cli;
	char from[FLT_NAME_MAX];
	char to[HOF_MOVE_NODES][FLT_NAME_MAX];
	struct hof_relocate r;
	uint64_t wait_ms, begun_ms, named_ms, done_ms;
	uint64_t moved, ended;
	uint32_t others;
	unsigned int unknown;
	int device;
};

void relocation_begin(struct relocation *re, struct cli *cli);

/* These return an exit status, after saying why. */

/* NODE[,NODE]... */
int relocation_to(struct relocation *re, char *text);
/* --now, --idle MS, --wait SECONDS at argv[*at]. */
int relocation_option(struct relocation *re, int argc, char **argv, int *at);
/* Finds the nodes; without any of --to, all that get connections. */
int relocation_nodes(struct relocation *re);
/* Until none is left, the time is over, or it makes no sense. */
int relocation_run(struct relocation *re);

uint64_t relocation_moved(const struct relocation *re);
/* An errno of HOF_IOC_RELOCATE is said; an exit status. */
int relocation_failed(struct cli *cli, int err);
/* Why the node that has them does nothing: what does not pass by itself; NULL: it may. */
const char *relocation_hopeless(uint32_t refusal);
/* Why a node that should get them does not; NULL: there is no more to say than the refusal's name. */
const char *relocation_refused(uint32_t refusal);
/* As one word each. */
json_t *relocation_targets(const struct relocation *re);
json_t *relocation_json(const struct relocation *re);
/* Lines about those that are left. */
void relocation_print_left(const struct relocation *re);

#endif
