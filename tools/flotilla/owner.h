/* SPDX-License-Identifier: GPL-2.0 */
/* Nodes that flotilla-follow(8) has added for a source: they are the source's own, and go when it says so. */
#ifndef FLOTILLA_CLI_OWNER_H
#define FLOTILLA_CLI_OWNER_H

#include "config.h"

/* A file of each source, and its lock of the same name with OWNER_LOCK behind it. */
#define OWNER_FILES	"/run/flotilla/follow-"
#define OWNER_LOCK	".lock"

/**
 * struct owned - a node that was added for the source
 * @id: the kernel's; 0: about to be added
 */
struct owned {
	char name[FLT_NAME_MAX];
	uint32_t id;
	struct sockaddr_storage addr;
};

/**
 * struct owner - whose nodes are the source's
 * @path: where it outlives this program; NULL: nowhere
 * @fd:   locked while it is followed
 */
struct owner {
	const char *path;
	int fd;
	struct owned *list;
	size_t nr;
};

int owner_open(struct cli *cli, struct owner *owner, const char *path, bool dry);
bool owner_has(const struct owner *owner, const struct config_node *node);
/* Exactly these from here on. */
int owner_set(struct cli *cli, struct owner *owner, const struct owned *list, size_t nr);
void owner_close(struct owner *owner);
/*
 * What flotilla-follow has added and @wanted does not speak of is wanted, too: a file need not have the nodes of a source.
 * Which are a source's is asked of the files of all sources.
 */
int owner_keep(struct cli *cli, const struct config *live, struct config *wanted);

#endif
