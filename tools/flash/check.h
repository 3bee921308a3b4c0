/* SPDX-License-Identifier: GPL-2.0 */
/* Does the machine have what a configuration names? */
#ifndef FLASH_CHECK_H
#define FLASH_CHECK_H

#include "config.h"

/* Looks up the user and group of the workers. 0, or -1 and a message. */
int check_user(struct conf *conf);

/*
 * Directories, logs and programs, as the workers' user would find them. Gives up privileges, so
 * that the process should end. 0, or -1 and messages.
 */
int check_machine(const struct conf *conf);

#endif
