/* SPDX-License-Identifier: GPL-2.0 */
/* lardd's control socket. */
#ifndef FLOTILLA_DISPATCHER_H
#define FLOTILLA_DISPATCHER_H

#include "cli.h"

#define DISPATCHER_SOCKET	"/run/flotilla/lardd.sock"

/*
 * The answer, an object, to be given back; NULL after a sentence. It waits for @seconds at most
 * when it connects, and about as long for the answer.
 */
json_t *dispatcher_ask(struct cli *cli, const char *path, const json_t *request,
		       unsigned int seconds);

#endif
