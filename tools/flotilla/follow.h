/* SPDX-License-Identifier: GPL-2.0 */
/* What the commands share that follow connections while they move. */
#ifndef FLOTILLA_FOLLOW_H
#define FLOTILLA_FOLLOW_H

#include <flotilla/move.h>
#include <signal.h>
#include "cli.h"

#define NEVER		UINT64_MAX

/**
 * struct follow - signals as they were before
 */
struct follow {
	struct sigaction before[2];
};

/* In between, signals that end the program end only what it waits for. */
void follow_begin(struct follow *f);
void follow_end(const struct follow *f);
bool follow_is_stopped(void);

uint64_t follow_now_ms(void);
/* /dev/handoff, or -1 after saying why not. */
int follow_device(struct cli *cli);
/* By the names of the refusals. */
json_t *follow_reasons(const __u32 counts[HOF_MOVE_REASONS]);
/* A line of those that are left; nothing when there are none. */
void follow_print(unsigned int nr, const char *text);
/* Somebody looks at how far it is. */
bool follow_is_watched(const struct cli *cli);
/* --wait, in milliseconds; an exit status. */
int follow_wait(struct cli *cli, const char *text, uint64_t *wait_ms);

#endif
