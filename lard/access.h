/* SPDX-License-Identifier: GPL-2.0 */
/* The access log: one line a request, JSON or logfmt. Costs nothing while it is off. */
#ifndef LARD_ACCESS_H
#define LARD_ACCESS_H

#include <stdbool.h>
#include <stdint.h>

struct config;
struct conn;
struct entry;

/**
 * struct access_file - where lines go
 * @fd:     -1: nowhere
 * @stream: a pipe, terminal or socket, whose reader may stop: what does not fit waits in memory, and
 *	    what does not fit there is counted (LardLogLost)
 */
struct access_file {
	int fd;
	bool stream, socket;
};

/* As root, for the user that lardd will be: makes the file. 0 or -errno. */
int access_prepare(const struct config *config);
/* In two steps: what the configuration names is opened; 0 or -errno. */
int access_try(const struct config *config, struct access_file *file);
/* And lines go there from now on, or it is forgotten. */
void access_use(const struct config *config, const struct access_file *file);
void access_forget(const struct access_file *file);
/* Both. 0 or -errno, with the old file kept. */
int access_open(const struct config *config);
void access_close(void);
/* What is buffered goes to the file. */
void access_flush(void);

/* worker->request is the connection's: remember what a line will need. */
void access_keep(struct conn *conn);
void access_handed_off(struct conn *conn, uint32_t usec);
void access_proxied(struct conn *conn, unsigned int status, uint64_t bytes, const struct entry *cached,
		    bool truncated);
void access_refused(struct conn *conn, unsigned int status);

#endif
