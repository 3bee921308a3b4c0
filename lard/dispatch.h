/* SPDX-License-Identifier: GPL-2.0 */
/* Between connections and the policy engine: decisions, the queue at the limit, retries. */
#ifndef LARD_DISPATCH_H
#define LARD_DISPATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct conn;
struct lardd;
struct request;
struct worker;

#define DISPATCH_TRIES 2	/* nodes asked to take a connection before it is proxied */

/* worker->request is complete: choose a node and go there, wait, or answer 503. */
void dispatch_request(struct conn *conn);
/* A connection in CONN_PARK: what it waits for is there, or it has waited long enough. */
void dispatch_resume(struct conn *conn);
/*
 * The node refused the request: another one has it, and the first is released. False: none is left, and it stays with
 * the first, which a reload may have removed: once released it would be gone.
 */
bool dispatch_again(struct conn *conn);
/* A request that nothing speaks against, but what it asks for perhaps, is handed off, if its node takes that. */
bool dispatch_may_give(const struct conn *conn);
/* The request on @conn no longer loads its node. */
void dispatch_release(struct conn *conn);
/* After release: it does again (a kept connection that became busy). False: the node is gone. */
bool dispatch_charge(struct conn *conn);

/* A connection in CONN_WAIT: its client has gone; it has waited too long. */
void dispatch_abandon(struct conn *conn);
void dispatch_expired(struct conn *conn);
/* For a timer queue: perhaps there is room. */
struct timer;
void dispatch_room_expired(struct timer *t);
/* Once a batch: serve the queue while there is room, and our mail. */
void dispatch_batch_end(struct worker *w);

/* The key of the worker's request, as the configuration says; the status page hears of it. */
struct config;
uint64_t dispatch_key(struct worker *w);
/* "host/path?query"; its length or a negative errno. */
long dispatch_canonical(const struct config *config, const char *host, size_t host_len,
			const char *target, size_t target_len, char *out, size_t size);

#endif
