/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Whom lardd becomes when it is started as root: the configuration's user; where it names none, the
 * user "flotilla", or "nobody". What it keeps are the capabilities that it needs to the end:
 *
 *	CAP_NET_BIND_SERVICE	a reload may bring a port below 1024
 *	CAP_NET_ADMIN		handing off; sksplice.ko, whose limits per user are not for a proxy; filling afpa.ko
 */
#ifndef LARD_PRIVILEGE_H
#define LARD_PRIVILEGE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct config;

/* Finds the user; nothing is changed yet. 0, or -errno after a sentence in @error. */
int privilege_find(const struct config *config, char *error, size_t size);
/*
 * A listening socket is made the user's before it is bound: sockets share a port (SO_REUSEPORT) only
 * if their owners are one, and those of a later reload will be the user's.
 */
void privilege_mark(int fd);
/* Until privilege_again(), files are opened with the user's rights. 0, or -errno after a sentence. */
int privilege_as_user(char *error, size_t size);
void privilege_again(void);
/*
 * As open(2), before privilege_drop() and after it. Root of a unit may lack the right to pass by modes
 * (CAP_DAC_OVERRIDE): then what is the user's alone is opened as he.
 */
int privilege_open(const char *path, int flags);
/*
 * For good. Before there are threads. Without the rights to it lardd stays root, with a warning, if
 * the configuration names no user. 0, or -errno after a sentence in @error.
 */
int privilege_drop(const struct config *config, char *error, size_t size);
/* Was something given up that @config needs? */
bool privilege_lacks(const struct config *config);
/* Is it whom root becomes? */
bool privilege_is_user(uid_t uid);
/* Its name, or NULL: root becomes nobody else. */
const char *privilege_name(void);
/* Makes a file for the user, if there is none. 0 or -errno. */
int privilege_make(const char *path, mode_t mode);

#endif
