/* SPDX-License-Identifier: GPL-2.0 */
/* The access log: one line a request, JSON or logfmt. Costs nothing while it is off. */
#ifndef LARD_ACCESS_H
#define LARD_ACCESS_H

#include <stdbool.h>
#include <stdint.h>

struct config;
struct conn;

/* (Re)opens what the configuration names. 0 or -errno, with the old file kept. */
int access_open(const struct config *config);
void access_close(void);
/* What is buffered goes to the file. */
void access_flush(void);

/* worker->request is the connection's: remember what a line will need. */
void access_keep(struct conn *conn);
void access_handed_off(struct conn *conn, uint32_t usec);
void access_proxied(struct conn *conn, unsigned int status, uint64_t bytes, bool cached,
		    bool truncated);
void access_refused(struct conn *conn, unsigned int status);

#endif
