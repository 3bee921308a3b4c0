/* SPDX-License-Identifier: GPL-2.0 */
/* flotilla process: one run of a command that moves the connections of a process. */
#ifndef FLOTILLA_PROCESS_JOB_H
#define FLOTILLA_PROCESS_JOB_H

#include <flotilla/move.h>
#include "cli.h"
#include "follow.h"
#include "process.h"

/**
 * struct listener - of either process
 * @inode: tells it from others
 * @fd:    a copy, until the kernel has it
 * @local: its address
 */
struct listener {
	uint64_t inode;
	int fd;
	struct sockaddr_storage local;
};

struct listeners {
	struct listener of[HOF_MOVE_LISTENERS];
	unsigned int nr;
};

/**
 * struct job - one run of the command
 * @cli:            it
 * @old, @new:      the processes; @new of process move only
 * @idle_ms:        see hof_move_start
 * @wait_ms:        end after this, whatever is left
 * @dry_run:        only count
 * @drains:         connections go to nodes
 * @gone:           the old process is
 * @move:           the kernel's descriptor
 * @olds, @news:    listeners
 * @shared:         of @news, that are @olds as well
 * @known:          sockets of @old by inode number (tsearch)
 * @fresh:          connections found in the last look that were not known before
 * @taken, @fixed:  connections of the last look that are, see enum known
 * @held:           connections of the last look whose program is in a call
 * @conns:          connections of the service that were ever seen
 * @err:            of the kernel, when a look was broken off
 * @status, @passed: the kernel's
 */
struct job {
	struct cli *cli;
	struct process old, new;
	uint64_t idle_ms, wait_ms;
	bool dry_run, drains, tree, gone;
	int move;
	struct listeners olds, news;
	unsigned int shared;
	void *known;
	unsigned int fresh, taken, fixed, held, conns;
	int err;
	struct hof_move_status status;
	struct hof_move_passed passed;
};

/* NULL: it has said why. */
struct job *job_begin(struct cli *cli);
void job_end(struct job *job);
/* The option at argv[*at], and its value; an exit status. */
int job_option(struct job *job, int argc, char **argv, int *at);
/* Signals that end the program end only what @run waits for. */
int job_run(struct job *job, int (*run)(struct job *job));

/* These return an exit status, after saying why. */
int job_open(struct job *job);
int job_listeners(struct job *job, const struct process *p, struct listeners *list);
int job_hide(struct job *job);
int job_refused(struct job *job, const char *what);
int job_no_rights(struct job *job, const struct process *p, int err);

bool job_has(const struct listeners *list, uint64_t inode);
void job_let_go(struct listeners *list);

/* One look, of which is said what would move. */
int job_count(struct job *job, void (*print)(const struct job *job));
/* Until none is left, the time is over, or it makes no sense. 0 or -errno. */
int job_follow(struct job *job);
unsigned int job_left(const struct job *job);

/* What both commands say of it. */
int job_json(const struct job *job, json_t *row);
void job_print_left(const struct job *job);

int process_drain(struct cli *cli, int argc, char **argv);

#endif
