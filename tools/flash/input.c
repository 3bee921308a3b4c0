// SPDX-License-Identifier: GPL-2.0
#include "input.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "hold.h"
#include "secure.h"

#define IN_START 2048

void input_release(struct conn *c)
{
	hold_give(c->w, c->in_cap);
	free(c->in);
	c->in = NULL;
	c->in_off = 0;
	c->in_len = 0;
	c->in_cap = 0;
	c->scanned = 0;
}

bool input_keep(struct conn *c, char *buf, size_t len)
{
	char *in;
	size_t cap = IN_START;

	if (!len) {
		input_release(c);
		return true;
	}
	if (c->in && buf >= c->in && buf <= c->in + c->in_cap) {
		c->in_off = buf - c->in;
		c->in_len = len;
		return true;
	}
	while (cap < len)
		cap *= 2;
	if (!hold_take(c, cap))
		return false;
	in = malloc(cap);
	if (!in) {
		hold_give(c->w, cap);
		return false;
	}
	memcpy(in, buf, len);
	input_release(c);
	c->in = in;
	c->in_len = len;
	c->in_cap = cap;
	return true;
}

bool input_grow(struct conn *c)
{
	char *in;

	if (c->in_len < c->in_cap)
		return true;
	if (!hold_take(c, c->in_cap))
		return false;
	in = realloc(c->in, 2 * c->in_cap);
	if (!in) {
		hold_give(c->w, c->in_cap);
		return false;
	}
	c->in = in;
	c->in_cap *= 2;
	return true;
}

static ssize_t receive(struct conn *c, char *to, size_t room)
{
	if (c->stream)
		return c->stream->ops->recv(c->stream, to, room, 0);
	return c->tls ? secure_recv(c, to, room) : recv(c->watch.fd, to, room, 0);
}

ssize_t input_fill(struct conn *c, char **buf, size_t *len)
{
	struct worker *w = c->w;
	size_t room = SCRATCH_SIZE;
	char *to = w->in;
	ssize_t n;

	if (c->in) {
		if (c->in_off) {
			memmove(c->in, c->in + c->in_off, c->in_len);
			c->in_off = 0;
		}
		if (!input_grow(c))
			return -1;
		to = c->in + c->in_len;
		room = c->in_cap - c->in_len;
	}
	do {
		n = receive(c, to, room);
	} while (n < 0 && errno == EINTR && !w->blocking);
	if (w->blocking)		/* it may have waited long */
		loop_clock(&w->loop);
	if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
		c->can_read = false;
		return 0;
	}
	/* A stream says itself where its body ends. */
	if (!n && c->stream && c->state == CONN_BODY) {
		c->can_read = false;
		c->peer_done = true;
		*buf = to;
		*len = 0;
		return 1;
	}
	if (n <= 0)
		return -1;
	/*
	 * Less than there was room for: it is empty, and the next arrival is a new edge. A record more may be there
	 * without one; who blocks has no edges, and deadlines have their turn.
	 */
	c->can_read = (size_t)n == room || c->peer_done || (conn_is_secure(c) && !w->blocking);
	if (c->in) {
		c->in_len += n;
		*buf = c->in;
		*len = c->in_len;
	} else {
		*buf = to;
		*len = n;
	}
	return n;
}
