// SPDX-License-Identifier: GPL-2.0
#include "http2.h"

#include <string.h>

#include "hold.h"
#include "lard/http2/host.h"
#include "lard/http2/http2.h"
#include "room.h"
#include "secure.h"

#define DRAIN_MS 250

/* Among those who make room for others, if at all. */
enum place { PLACE_NONE, PLACE_IDLE, PLACE_SLOW, PLACE_ANSWERS };

struct http2_limits http2_host_limits(const struct conn *c)
{
	const struct conf *conf = c->w->conf;

	return (struct http2_limits){
		.streams = conf->http2_streams, .header = conf->max_header,
		.requests = conf->keepalive_requests ? conf->keepalive_requests : UINT64_MAX,
	};
}

uint64_t http2_host_clock(const struct conn *c)
{
	return c->w->loop.now * 1000;
}

int http2_host_socket(const struct conn *c)
{
	return c->watch.fd;
}

/* --- a connection --- */

static void put(struct conn *c, enum place place)
{
	if (c->place == place)
		return;
	c->place = place;
	list_del(&c->rest);
	if (place == PLACE_IDLE)
		conn_set_idle(c);
	else if (place != PLACE_NONE)
		hold_slow(c, place == PLACE_SLOW ? &c->w->slow : &c->w->answers);
}

void http2_start(struct conn *c)
{
	c->state = CONN_HTTP2;
	list_del(&c->rest);
	conn_arm(c);
	c->http2 = http2_begin(c);
	if (!c->http2)
		conn_close(c);
}

void http2_events(struct conn *c, uint32_t events)
{
	c->in_http2 = true;
	http2_ready(c->http2, events);
	c->in_http2 = false;
}

void http2_drop(struct conn *c)
{
	if (!c->in_http2) {
		conn_close(c);
		return;
	}
	put(c, PLACE_NONE);
	conn_deadline(c, 0);
	c->dropped = true;
}

void http2_host_kick(struct conn *c)
{
	if (list_empty(&c->turn))
		list_add_tail(&c->turn, &c->w->turns);
}

/* Bytes that have come or gone: it has not stood still. */
static void moved(struct conn *c, ssize_t n)
{
	c->taken += n > 0 ? n : 0;
	if (c->taken < HOLD_STEP)
		return;
	c->taken = 0;
	if (c->place == PLACE_ANSWERS)
		hold_slow(c, &c->w->answers);
}

ssize_t http2_host_recv(struct conn *c, char **at)
{
	*at = c->w->in;
	return secure_recv(c, c->w->in, SCRATCH_SIZE);
}

ssize_t http2_host_send(struct conn *c, const char *at, size_t len)
{
	ssize_t n = secure_send(c, at, len);

	moved(c, n);
	return n;
}

/* Who has stood still does not become younger by asking for more. */
static void find_place(struct conn *c)
{
	if (c->dropped)
		put(c, PLACE_NONE);
	else if (c->stands)
		put(c, PLACE_ANSWERS);
	else if (c->waits == HTTP2_HEADER && c->partial)
		put(c, PLACE_SLOW);
	else
		put(c, c->waits == HTTP2_NOTHING ? PLACE_NONE : PLACE_IDLE);
}

void http2_host_wait(struct conn *c, enum http2_wait wait, bool begun)
{
	const struct conf *conf = c->w->conf;

	c->waits = wait;
	c->partial = begun;
	find_place(c);
	if (c->dropped)		/* its time is over */
		return;
	conn_deadline(c, wait == HTTP2_NOTHING ? CONN_NEVER :
			 wait == HTTP2_HEADER ? conf->header_timeout : conf->keepalive_timeout);
}

bool http2_host_hold(struct conn *c, ssize_t bytes)
{
	if (bytes > 0)
		return hold_take(c, bytes);
	hold_give(c->w, -bytes);
	return true;
}

void http2_host_stands(struct conn *c, bool stands)
{
	c->stands = stands;
	find_place(c);
}

void http2_host_note(struct conn *c, enum http2_note what)
{
	struct stats *stats = c->w->stats;

	switch (what) {
	case HTTP2_CONNECTION:
		stats_add(stats, http2_connections, 1);
		break;
	case HTTP2_STREAM:
		stats_add(stats, http2_streams, 1);
		c->requests++;
		break;
	case HTTP2_REFUSED:
		stats_add(stats, http2_refused, 1);
		break;
	case HTTP2_BAD:
		stats_add(stats, bad_requests, 1);
		break;
	case HTTP2_LATE:	/* conn.c counts it */
		break;
	}
}

void http2_host_flooded(struct conn *c, const char *why)
{
	(void)why;
	stats_add(c->w->stats, http2_flooded, 1);
}

void http2_host_end(struct conn *c, bool broken)
{
	c->http2 = NULL;
	if (broken)
		conn_close(c);
	else
		conn_linger(c);
}

static void drain_again(struct timer *t)
{
	http2_drain(container_of(t, struct worker, http2_drain));
}

void http2_drain(struct worker *w)
{
	bool any = false;
	struct list *n;

	for (n = w->conns.next; n != &w->conns; n = n->next) {
		struct conn *c = list_entry(n, struct conn, node);

		if (c->http2)
			http2_stop(c->http2);
		any |= c->http2 || c->state == CONN_SHAKE;
	}
	w->http2_drain.expired = drain_again;
	if (any)
		loop_timer_set(&w->loop, &w->http2_drain, w->loop.now + DRAIN_MS);
}

/* --- a request --- */

struct conn *http2_host_request(struct conn *parent, struct client_stream *stream)
{
	struct worker *w = parent->w;
	struct conn *c = NULL;

	/* It is not idle any more: nobody closes it to make room for what it asks. */
	if (parent->place != PLACE_ANSWERS)
		put(parent, PLACE_NONE);
	if ((w->nr_conns < w->conf->max_connections || room_make(w)) && !parent->dropped)
		c = conn_new(w, -1, parent->door);
	if (!c) {
		find_place(parent);
		return NULL;
	}
	list_del(&c->rest);
	c->stream = stream;
	strcpy(c->peer, conn_address(parent));
	return c;
}

void http2_host_run(struct conn *c)
{
	c->watch.ready(&c->watch, c->stream->ops->events(c->stream));
}

void http2_host_lost(struct conn *c)
{
	http2_host_kick(c);
}
