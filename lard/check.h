/* SPDX-License-Identifier: GPL-2.0 */
/* What a configuration needs of the machine, for --check: nothing is made or changed. */
#ifndef LARD_CHECK_H
#define LARD_CHECK_H

#include <stddef.h>

struct config;

/* The process has the rights of the running daemon afterwards. 0, or -errno after a sentence. */
int check_machine(struct config *config, const char *path, char *error, size_t size);

#endif
