/* SPDX-License-Identifier: GPL-2.0 */
/* The processes to watch and the ports they listen on. */
#ifndef FLT_COUNT_PROCESS_H
#define FLT_COUNT_PROCESS_H

/*
 * Puts the processes of the list PID[,PID...], their present children and their TCP
 * listeners' ports into the two maps. Says on stderr what is wrong and returns -1.
 */
int count_watch(const char *pids, int targets, int ports);

#endif
