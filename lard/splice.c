// SPDX-License-Identifier: GPL-2.0
/* Leaving the rest of an answer's body to sksplice.ko, where it is loaded. */
#include <unistd.h>
#include "backend.h"
#include "cache.h"
#include "conn.h"
#include "exchange.h"
#include "splice.h"
#include "splice/lib/sksplice.h"
#include "worker.h"

int splice_open(void)
{
	int device = sksplice_open();

	return device < 0 ? -1 : device;
}

void splice_close(int device)
{
	if (device >= 0)
		close(device);
}

#define COPY_WAKE	65536		/* unread bytes of a copy that are worth a wake-up */
#define COPY_MAX	(2 * COPY_WAKE)	/* and that the kernel holds for us at most */

/* The kernel makes a copy for the cache as it passes the body on. */
static void ask_for_copy(const struct exchange *ex, struct ssp_splice *req)
{
	struct entry *fill = ex->fill;
	size_t left = fill->length - fill->have;

	req->flags |= SSP_KEEPCOPY;
	req->inbuf = (uintptr_t)(fill->body + fill->have);
	req->inbuf_len = left;
	req->min2read = left < COPY_WAKE ? left : COPY_WAKE;
	req->max2cache = COPY_MAX;
}

static void account(struct exchange *ex, uint64_t moved)
{
	ex->bytes_down += moved - ex->splice_moved;
	ex->answer_left -= moved - ex->splice_moved;
	ex->splice_moved = moved;
	ex->complete = !ex->answer_left;
}

bool splice_begin(struct exchange *ex)
{
	struct worker *w = ex->conn->worker;
	unsigned int least = w->config->splice_min;
	struct ssp_splice req = {
		.flags = SSP_LIMIT | SSP_AUTORELEASE,
		.fd0 = ex->backend->source.fd,
		.fd1 = ex->conn->source.fd,
		.limit = ex->answer_left,
	};
	int ret;

	if (ex->conn->tls || ex->conn->stream || w->splicer < 0 || !least || ex->answer != FRAMING_LENGTH ||
	    ex->answer_left < least || ex->splice_refused)
		return false;
	if (ex->fill)
		ask_for_copy(ex, &req);
	ret = sksplice_start(w->splicer, &req);
	if (ret < 0) {
		ex->splice_refused = true;
		return false;
	}
	if (ex->fill)
		ex->fill->have += req.inbuf_done;
	count(w, COUNTER_SPLICED);
	ex->splice_moved = 0;
	account(ex, req.moved01);
	ex->spliced = ret == SSP_ACTIVE;
	ex->spliced_us = w->loop.now;
	/* The next time that the client's socket is writable, the transfer is over. */
	ex->client_writable = !ex->spliced;
	return true;
}

bool splice_over(struct exchange *ex)
{
	struct ssp_result result;

	if (sksplice_result(ex->conn->worker->splicer, ex->conn->source.fd, &result))
		return true;
	account(ex, result.moved01);
	if (result.status == SSP_ACTIVE)
		return false;
	ex->spliced = false;
	return true;
}

void splice_leave(struct exchange *ex)
{
	int fd = ex->conn->source.fd;

	/* It may have ended by itself just now. */
	sksplice_end(ex->conn->worker->splicer, ex->backend->source.fd, fd, 0, NULL);
	splice_over(ex);
	ex->spliced = false;
}

bool splice_moves(struct exchange *ex)
{
	uint64_t moved = ex->splice_moved;

	return ex->spliced && !splice_over(ex) && ex->splice_moved != moved;
}
