/* SPDX-License-Identifier: GPL-2.0 */
/* Three of the steps of proxying, see proxy.c, which has the fourth. */
#ifndef LARD_PROXY_STEPS_H
#define LARD_PROXY_STEPS_H

#include <errno.h>
#include <stdbool.h>
#include "exchange.h"

#define ROOM_LEAST	64	/* with less, wait until more is free */

static inline bool proxy_would_block(void)
{
	return errno == EAGAIN || errno == EINTR;
}

/*
 * Bytes of a chunked body into @up, framed anew. They are peeked at, as only the parser knows where
 * it ends. What recv() says of the socket, or -2: malformed.
 */

/* Of the client's body, into @up. */
enum step proxy_take_body(struct exchange *ex);
/* From @up to the back-end. */
enum step proxy_push_up(struct exchange *ex);
/* Of the answer, into @down, or what the cache gets. */
enum step proxy_fill_down(struct exchange *ex);
/* An error of ours, or the client must not take what he has got for an answer. */
enum step proxy_fail_or_abort(struct exchange *ex, unsigned int status, const char *why);

#endif
