// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include "backend.h"
#include "cache.h"
#include "caching.h"
#include "fill.h"
#include "splice.h"
#include "worker.h"

#define TAKE_MOST	65536	/* at a time */
#define SPLICED_US	500000	/* others may be waiting for what a client takes slowly */

/* What the client can be sent; more than that may have gone to him past us. */
static void show(struct exchange *ex)
{
	struct entry *fill = ex->fill;

	ex->down_end = fill->have > ex->down_start ? fill->have : ex->down_start;
	ex->complete = caching_is_full(ex);
	if (!ex->complete)
		return;
	caching_filled(ex);
	exchange_release(ex);
}

static void add(struct exchange *ex, size_t len)
{
	ex->fill->have += len;
	ex->answer_left -= len;
}

enum step fill_begin(struct exchange *ex, const char *at, size_t len)
{
	size_t used = len < ex->answer_left ? len : ex->answer_left;

	memcpy(ex->fill->body, at, used);
	ex->down_start = 0;
	add(ex, used);
	/* More than it announced: whatever that is, it is not the next answer. */
	if (used < len) {
		ex->backend_keep = false;
		backend_distrust(ex->backend);
	}
	show(ex);
	return STEP_MOVED;
}

enum step fill_take(struct exchange *ex)
{
	struct entry *fill = ex->fill;
	size_t left = fill->length - fill->have;
	ssize_t n;

	n = recv(ex->backend->source.fd, fill->body + fill->have, left < TAKE_MOST ? left : TAKE_MOST, 0);
	if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
		ex->backend_readable = errno == EINTR;
		return STEP_IDLE;
	}
	if (n <= 0)
		return exchange_abort(ex);
	add(ex, n);
	show(ex);
	return STEP_MOVED;
}

bool fill_outruns(struct exchange *ex)
{
	struct entry *fill = ex->fill;

	if (!ex->spliced || !fill || ex->client_lost || caching_is_full(ex) ||
	    ex->conn->worker->loop.now - ex->spliced_us < SPLICED_US)
		return false;
	splice_leave(ex);
	if (ex->complete)
		return true;
	ex->down_start = fill->length - ex->answer_left;
	/* What the kernel has copied for us is read first. */
	ex->answer_left = fill->length - fill->have;
	ex->backend_readable = ex->client_writable = true;
	ex->splice_refused = true;
	show(ex);
	return true;
}
