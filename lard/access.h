/* SPDX-License-Identifier: GPL-2.0 */
/* The access log: one line a request, JSON or logfmt. Costs nothing while it is off. */
#ifndef LARD_ACCESS_H
#define LARD_ACCESS_H

#include <stdbool.h>
#include <stdint.h>

struct config;
struct conn;
struct entry;
struct lines;

/* As root, for the user that lardd will be: makes the file. 0 or -errno. */
int access_prepare(const struct config *config);
/* In two steps: what the configuration names is opened, nothing if it names nothing; 0 or -errno. */
int access_try(const struct config *config, struct lines *file);
/* And lines go there from now on, or it is forgotten. */
void access_use(const struct config *config, const struct lines *file);
void access_forget(const struct lines *file);
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
