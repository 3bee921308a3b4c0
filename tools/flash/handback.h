/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Handing kept connections back: when the next request of a connection has arrived, unread, the
 * connection goes to the node that dispatches, which may send it on to another node (row 38 of
 * lard/doc/paper.md). What cannot be given is served here, as ever.
 */
#ifndef FLASH_HANDBACK_H
#define FLASH_HANDBACK_H

#include <stdbool.h>

struct conf;
struct conn;
struct handback;
struct worker;

/* Opens /dev/handoff; NULL and a message when that cannot be: all requests are served here then. */
struct handback *handback_new(struct worker *w);
/* First at the end: no event comes after it, and what was not decided is ours again. */
void handback_free(struct handback *b);

/*
 * Looks whether a next request is there and gives the connection away. True: nothing must touch
 * the socket until the connection is closed or conn_take_back() called, which is sure to come.
 */
bool handback_give(struct conn *c);

/* Around the change to another user: keeps the one capability that giving needs. */
bool handback_before_user(const struct conf *conf);
bool handback_after_user(const struct conf *conf);

#endif
