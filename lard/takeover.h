/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Graceful restart: listening sockets go from the old lardd to the new one, with their queues. In two
 * steps: the old one serves on until the new one has all it needs and says so. A new one that fails
 * on the way changes nothing.
 */
#ifndef LARD_TAKEOVER_H
#define LARD_TAKEOVER_H

#include <stddef.h>
#include "address.h"

#define TAKEOVER_MAX 253	/* sockets: the kernel's limit for one message */

struct takeover;

/* Old side: the answer (without newline) with the sockets beside it. 0 or -errno. */
int takeover_send(int fd, const char *answer, const int *fds, size_t count);

/* New side: ask the lardd behind @path, which must be root's or our own. NULL after a sentence in @error. */
struct takeover *takeover_ask(const char *path, char *error, size_t size);
/* A socket that listens on @address, now the caller's; -1: none. NULL is fine. */
int takeover_take(struct takeover *takeover, const union address *address);
/* The old one's sites of the kernel's cache, as kernel_cache_ours() names them. */
const char *takeover_sites(const struct takeover *takeover);
/*
 * All is well here: the old one may drain and end. 0, or -errno when it did not say that it does; -EPROTO: it says
 * that it does not.
 */
int takeover_done(struct takeover *takeover);
/* Closes what nobody took, and the connection. */
void takeover_free(struct takeover *takeover);

#endif
