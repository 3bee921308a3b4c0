/* SPDX-License-Identifier: GPL-2.0 */
/* libuselect-preload: under the names of the C library, for programs that know nothing of us. */
#ifndef USELECT_PRELOAD_H
#define USELECT_PRELOAD_H

#include <stdbool.h>

/*
 * The process is registered, if need be from now on. @now: whatever it did before; else
 * only once it has waited so often that it looks like a server.
 */
bool usl_preload_register(bool now);

/* Somebody waits for an epoll by another's means. */
void usl_preload_nested(int fd);
/* The program closes a number that may be an epoll. */
void usl_preload_closing(int fd);
void usl_preload_closing_range(unsigned int first, unsigned int last);

#endif
