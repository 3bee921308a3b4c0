/* SPDX-License-Identifier: GPL-2.0 */
/* What keeps two from changing the same things at once. */
#ifndef FLOTILLA_CLI_LOCK_H
#define FLOTILLA_CLI_LOCK_H

#include "cli.h"

/* A descriptor for apply_unlock(), or -1 after saying why: another one had it for ten seconds, say. */
int apply_lock(struct cli *cli);
void apply_unlock(int fd);
/* The same for rebalance, of this network namespace, and at once: -1 when another one is at it. close() unlocks. */
int rebalance_lock(struct cli *cli);

#endif
