/* SPDX-License-Identifier: GPL-2.0 */
/* What a connection has received and not used up: it is kept only while it has to be. */
#ifndef FLASH_INPUT_H
#define FLASH_INPUT_H

#include "conn.h"

/* Keeps [@buf, @buf + @len) for later; it may lie within what is kept already. False: no memory. */
bool input_keep(struct conn *c, char *buf, size_t len);
void input_release(struct conn *c);
/* Room behind what is kept. False: no memory. */
bool input_grow(struct conn *c);
/* Receives behind what is kept, or into the worker's buffer. 0: nothing now; -1: the end. */
ssize_t input_fill(struct conn *c, char **buf, size_t *len);

#endif
