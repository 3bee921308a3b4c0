/* SPDX-License-Identifier: GPL-2.0 */
/* Programs started by a worker: started by a helper (exec reads the disk), reaped by the loop. */
#ifndef FLASH_CHILD_H
#define FLASH_CHILD_H

#include <sys/types.h>

#include "worker.h"

/**
 * struct child - a running program
 * @watch: its pidfd; readable when it has ended
 * @ended: called then, may be NULL; the struct is freed afterwards
 */
struct child {
	struct watch watch;
	struct grave grave;
	struct list node;		/* worker's children */
	struct worker *w;
	pid_t pid;
	void (*ended)(struct child *child);
	void *owner;
};

/*
 * Anywhere. @env is "NAME=VALUE\0..." of @env_len bytes; *@said becomes the other end of its standard
 * error, for said_watch(), or -1. Return: pid, or a negative errno.
 */
pid_t child_spawn(const char *program, const char *dir, const char *env, size_t env_len, int in,
		  int out, int *said);

/* On the loop: reaps @pid when it ends. NULL: memory is short, and @pid was killed. */
struct child *child_watch(struct worker *w, pid_t pid);

/* End of the worker: tells all to end. */
void children_exit(struct worker *w);

/* Runs @job on a helper, or here and now where there is none. */
void job_submit(struct worker *w, struct job *job);

#endif
