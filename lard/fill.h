/* SPDX-License-Identifier: GPL-2.0 */
/*
 * An answer on its way through the cache: what the back-end sends goes into ex->fill as it comes, however slowly the
 * client takes it, who is sent it from there. In there it has no framing; a client who is told no length, as nobody
 * knows it yet, gets a chunk of all that is there each time that he has taken the last one.
 */
#ifndef LARD_FILL_H
#define LARD_FILL_H

#include <stdbool.h>
#include <stddef.h>
#include "exchange.h"

/*
 * @r is the answer's header, which stands in ex->header from @header on as it goes to the client; @len bytes have come
 * behind it.
 */
enum step fill_begin(struct exchange *ex, const struct response *r, size_t header, size_t len);
/* More may have. */
enum step fill_take(struct exchange *ex);
/* What is there, for the client, if he has taken what was. */
void fill_show(struct exchange *ex);
/* The kernel passes it on, as fast as the client takes it, for some time now. True: no more, it goes on here. */
bool fill_outruns(struct exchange *ex);

#endif
