/* SPDX-License-Identifier: GPL-2.0 */
/* Whose place others get when there are as many connections as may be. */
#ifndef FLASH_ROOM_H
#define FLASH_ROOM_H

#include "conn.h"

/* Closes the connection that has been idle for longest. False: there is none. */
bool room_make(struct worker *w);
/* Some of a file's answer went to its client, who has to take more. */
void room_stands(struct conn *c);

#endif
