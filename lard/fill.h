/* SPDX-License-Identifier: GPL-2.0 */
/*
 * An answer on its way through the cache: what the back-end sends goes into ex->fill as it comes, however slowly the
 * client takes it, who is sent it from there.
 */
#ifndef LARD_FILL_H
#define LARD_FILL_H

#include <stdbool.h>
#include <stddef.h>
#include "exchange.h"

/* @len bytes have come with the answer's header. */
enum step fill_begin(struct exchange *ex, const char *at, size_t len);
/* More may have. */
enum step fill_take(struct exchange *ex);
/* The kernel passes it on, as fast as the client takes it, for some time now. True: no more, it goes on here. */
bool fill_outruns(struct exchange *ex);

#endif
