/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What a client of HTTP/2 says up to its first request. It is looked at where it is, and stays there for
 * whoever gets the connection: nobody has answered it yet, so that nothing here can have been agreed on.
 */
#ifndef LARD_HTTP2_PRELUDE_H
#define LARD_HTTP2_PRELUDE_H

#include <stdbool.h>
#include <stddef.h>
#include "head.h"

/*
 * 1: the fields of the first request are in @head, which is zeroed but for its limit before, and @ended says
 * that no body follows. 0: more is to come. -1: it is for somebody who speaks the protocol to judge, as it is
 * malformed, or not a client's beginning. In any case @head is to be forgotten.
 */
int prelude_read(const char *at, size_t len, struct head *head, bool *ended);

#endif
