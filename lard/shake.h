/* SPDX-License-Identifier: GPL-2.0 */
/*
 * TLS handshakes. Each step costs a signature or a key exchange, which no library of ours can do by
 * halves: they take turns, and what is established goes between.
 */
#ifndef LARD_SHAKE_H
#define LARD_SHAKE_H

#include <stdbool.h>

struct conn;
struct timer;
struct worker;

/* @conn is new and CONN_SHAKE. */
void shake_begin(struct conn *conn);
/* There is something to be read, or room to write. */
void shake_ready(struct conn *conn);
/* It waits for us, not we for its client. */
bool shake_has_turn(const struct conn *conn);
/* At the end of a batch: for a while, and one step at least. */
void shake_turn(struct worker *w);
/* For timer queues. */
void shake_expired(struct timer *t);

#endif
