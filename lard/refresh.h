/* SPDX-License-Identifier: GPL-2.0 */
/* Requests of lardd's own, for pages of the cache that are stale: nobody waits for the answer but the cache. */
#ifndef LARD_REFRESH_H
#define LARD_REFRESH_H

#include <stdbool.h>
#include "message.h"

struct conn;
struct fetch;

/**
 * refresh_begin - ask for what is stale, in the next batch
 * @conn:      who has asked for it now: port, scheme and address are his, and nothing else of his request
 * @key:       of the page, see cache_key.h
 * @encodings: that it is for; cacheable_encodings()
 * @fetch:     of it; whoever waits is told in the end
 *
 * Return: false: there is no place or no memory, and @fetch is still the caller's.
 */
bool refresh_begin(struct conn *conn, struct span key, unsigned int encodings, struct fetch *fetch);

#endif
