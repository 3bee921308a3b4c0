/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Listening sockets. The master owns them all and keeps them over a reload and a change of the
 * binary, so that no connection in an accept queue is lost; workers use what they inherited.
 */
#ifndef FLASH_LISTENER_H
#define FLASH_LISTENER_H

#include "config.h"

struct listener {
	struct listen_address *address;
	unsigned int nr_fds;	/* 1, or one a worker with SO_REUSEPORT */
	int *fds;
};

struct listeners {
	unsigned int n;
	struct listener *l;
};

int listen_address_add(struct conf *conf, const char *text);

/*
 * Opens all sockets of @conf. Those already open in @old (may be NULL) are taken over, those
 * inherited from systemd or a former binary are used first. @old is emptied of what is reused.
 */
int listeners_open(struct listeners *ls, const struct conf *conf, struct listeners *old);
void listeners_close(struct listeners *ls);

/* Puts all into the environment for exec, and keeps them open over it. */
int listeners_export(const struct listeners *ls);

/* Takes what LISTEN_FDS or FLASH_LISTEN hold; call once at start. */
void listeners_inherit(void);

/* The descriptor worker @index accepts on. */
int listener_fd(const struct listener *l, unsigned int index);

#endif
