/* SPDX-License-Identifier: GPL-2.0 */
#ifndef FLASH_MASTER_H
#define FLASH_MASTER_H

#include "config.h"

/*
 * Runs the server: workers, their replacement when they die, reload (SIGHUP), new log files
 * (SIGUSR1), new binary (SIGUSR2), orderly end (SIGQUIT) and end (SIGTERM, SIGINT).
 * @load builds the configuration anew, as at the start; NULL when it is not correct.
 * Return: exit status.
 */
int master_run(struct conf *conf, struct conf *(*load)(void), char **argv);

#endif
