/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What is printed while others wait for this program, for its lock say: who reads it (a pager, a terminal after ^S, a log
 * that is stuck) must not hold them up, nor end it half-way by going away. It goes out at once if it is taken at once, and
 * else at the end.
 */
#ifndef FLOTILLA_CLI_HOLD_H
#define FLOTILLA_CLI_HOLD_H

/* Standard output and standard error, from here on. */
void hold_begin(void);
/* The rest in its order, for as long as that takes: when nobody waits any more. */
void hold_end(void);

#endif
