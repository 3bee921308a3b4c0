/* SPDX-License-Identifier: GPL-2.0 */
/*
 * TLS handshakes. Each step costs a signature or a key exchange, which no library of ours can do by
 * halves: they take turns, and what is established goes between.
 */
#ifndef FLASH_SHAKE_H
#define FLASH_SHAKE_H

#include <stdbool.h>

struct conn;
struct worker;

void shake_init(struct worker *w);
/* @c is new. */
void shake_begin(struct conn *c);
/* There is something to be read, or room to write. */
void shake_ready(struct conn *c);
/* Its handshake is over, or it is. */
void shake_leave(struct conn *c);
/* It took too long. */
void shake_expired(struct conn *c);
/* One more would be too many: closes the one that has been at it for longest. */
void shake_make_room(struct worker *w);

#endif
