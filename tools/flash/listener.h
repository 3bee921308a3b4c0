/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Listening sockets. The master owns them all and keeps them over a reload and a change of the
 * binary, so that no connection in an accept queue is lost; workers use what they inherited.
 */
#ifndef FLASH_LISTENER_H
#define FLASH_LISTENER_H

#include "config.h"

/**
 * struct listener - an address
 * @fds: one, or one a worker with SO_REUSEPORT; or more, after a reload with fewer workers: the
 *	 kernel goes on to give each its share of the connections, so each keeps a worker
 * @own: of each, whether it is closed with this; otherwise a former generation's
 */
struct listener {
	struct listen_address *address;
	unsigned int nr_fds;
	int *fds;
	bool *own;
};

struct listeners {
	unsigned int n;
	struct listener *l;
};

int listen_address_add(struct conf *conf, const char *text);
bool listen_port_is_valid(const char *text);

/*
 * Opens all sockets of @conf. Those already open in @old (may be NULL) are used again, but stay
 * @old's until listeners_commit(); those inherited from systemd or a former binary come next.
 */
int listeners_open(struct listeners *ls, const struct conf *conf, struct listeners *old);

/*
 * Options that connections inherit. For @ls's former configuration again, when a reload fails.
 * @shared: workers of a former generation still accept on them.
 */
void listeners_tune(const struct listeners *ls, const struct conf *conf, bool shared);

/*
 * @ls is in service: all in it is its own, and what is left in @old (may be NULL) or was inherited
 * for nothing is shut, so that nobody connects to where nobody accepts.
 */
void listeners_commit(struct listeners *ls, struct listeners *old);

/* In a worker of @ls: what only @old has is not its business. */
void listeners_forget(const struct listeners *ls, struct listeners *old);
void listeners_close(struct listeners *ls);

/* Puts all into the environment for exec, and keeps them open over it. */
int listeners_export(const struct listeners *ls);

/* Takes what LISTEN_FDS or FLASH_LISTEN hold; call once at start. */
void listeners_inherit(void);

/* Does worker @index of @workers accept on @l->fds[@j]? Each has at least one worker. */
bool listener_is_mine(const struct listener *l, unsigned int j, unsigned int index,
		      unsigned int workers);

#endif
