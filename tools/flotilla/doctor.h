/* SPDX-License-Identifier: GPL-2.0 */
/* flotilla doctor: what its checks share. */
#ifndef FLOTILLA_DOCTOR_H
#define FLOTILLA_DOCTOR_H

#include "cli.h"

/**
 * enum finding - how bad it is
 * @FINE:    as it should be
 * @WARNING: works, but not as most want it
 * @FAULT:   connections do not move, or clients get no answer
 */
enum finding { FINE, WARNING, FAULT, FINDINGS };

/**
 * struct own - what is wrong with this node itself: its peers hear it
 * @count: of one kind of finding
 * @names: what it is about, each once
 */
struct own {
	unsigned int count;
	char names[FLT_WRONG_MAX];
};

/**
 * struct doctor - one examination
 * @cli:      whose
 * @table:    rows on their way out
 * @problems: print only what is not fine
 * @count:    findings of each kind
 * @own:      those of them that are this node's
 * @version:  of flotilla.ko; "": not known
 * @local:    this node
 * @nodes:    its table
 * @services: what it takes connections for
 */
struct doctor {
	struct cli *cli;
	struct table table;
	bool problems;
	unsigned int count[FINDINGS];
	struct own own[FINDINGS];
	char version[FLT_VERSION_MAX];
	struct flt_local_info local;
	struct flt_node_info *nodes;
	size_t nr_nodes;
	struct sockaddr_storage *services;
	size_t nr_services;
};

/**
 * struct about - what is said of one thing
 * @found: a sentence
 * @mend:  the command that mends it, or a sentence that begins with "#"; "" when there is nothing to mend
 */
struct about {
	char found[256], mend[256];
};

void doctor_found(struct about *about, const char *format, ...) __attribute__((format(printf, 2, 3)));
void doctor_mend(struct about *about, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* One row: @subject is a word for scripts and people ("node be1"). */
void doctor_say(struct doctor *d, enum finding finding, const char *subject, const struct about *about);
/* The same of what another node says of itself: no node passes on what it has heard. */
void doctor_elsewhere(struct doctor *d, enum finding finding, const char *subject, const struct about *about);

/* The checks; each says what it finds. */
void doctor_local(struct doctor *d);
void doctor_nodes(struct doctor *d);
void doctor_services(struct doctor *d);
void doctor_machine(struct doctor *d);
void doctor_peers(struct doctor *d);
void doctor_paths(struct doctor *d);
void doctor_filter(struct doctor *d);

/* Whether other nodes give connections to this one, and whether it gives some away. */
bool doctor_is_backend(const struct doctor *d);
bool doctor_is_frontend(const struct doctor *d);

#endif
