// SPDX-License-Identifier: GPL-2.0
#include "conn.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "app.h"
#include "body.h"
#include "handback.h"
#include "hold.h"
#include "http2.h"
#include "input.h"
#include "lard/http2/http2.h"
#include "lard/tls/settings.h"
#include "response.h"
#include "room.h"
#include "secure.h"
#include "send.h"
#include "shake.h"

#define FREE_CONNS 256
#define LINGER_SECONDS 5
#define LINGER_READS 64		/* in one turn: who sends faster than that gets a reset */
#define FILLS_MAX 4		/* in one turn: who sends faster than that leaves others theirs */
#define CONN_EVENTS (EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET)

static void conn_run(struct conn *c);

void conn_deadline(struct conn *c, unsigned int seconds)
{
	uint64_t at = c->w->loop.now + (uint64_t)seconds * 1000;

	/* Later costs a store; only earlier needs the wheel. */
	if (list_empty(&c->timer.node) || at < c->timer.armed)
		loop_timer_set(&c->w->loop, &c->timer, at);
	else
		c->timer.deadline = at;
}

void conn_arm(struct conn *c)
{
	if (!c->stream && !c->watch.events && loop_add(&c->w->loop, &c->watch, CONN_EVENTS))
		conn_deadline(c, 0);	/* out of memory: nothing will come, so end it */
}

void conn_set_idle(struct conn *c)
{
	struct worker *w = c->w;

	list_del(&c->rest);
	list_add_tail(&c->rest, &w->idle);
	if (!w->accepting && !w->draining && !w->blocking)
		conn_accepting(w, true);
}

static void conn_free(struct grave *g)
{
	struct conn *c = container_of(g, struct conn, grave);
	struct worker *w = c->w;

	if (w->nr_free_conns < FREE_CONNS) {
		list_add(&c->node, &w->free_conns);
		w->nr_free_conns++;
	} else {
		free(c);
	}
}

void conn_close(struct conn *c)
{
	static const struct linger reset = { .l_onoff = 1 };
	struct worker *w = c->w;

	if (c->state == CONN_SHAKE)
		shake_leave(c);
	http2_close(c->http2);
	c->http2 = NULL;
	list_del(&c->turn);
	if (c->app && app_is_cut(c) && !c->stream) {
		if (c->tls)
			secure_spoil(c);
		setsockopt(c->watch.fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	}
	if (c->tls) {
		secure_end(c);
		secure_free(c);
	}
	if (c->stream) {
		c->stream->ops->close(c->stream);
		c->stream = NULL;
	} else {
		loop_close(&w->loop, &c->watch);
		stats_add(w->stats, closed, 1);
	}
	loop_timer_del(&c->timer);
	list_del(&c->waiter.node);
	list_del(&c->rest);
	list_del(&c->node);
	if (c->app)
		app_abort(c);
	if (c->path)
		path_put(w->cache, c->path);
	response_free(w, c->response);
	app_body_free(c);
	input_release(c);
	w->nr_conns--;
	loop_bury(&w->loop, &c->grave);
	if (w->draining && !w->nr_conns)
		w->loop.stop = true;
	else if (!w->accepting && !w->draining)
		conn_accepting(w, true);
}

static void end_sending(struct conn *c)
{
	/* The socket may be full still; until it is not, nothing else happens. */
	c->unsaid = c->tls && !secure_end(c);
	if (c->unsaid) {
		conn_arm(c);
		return;
	}
	if (shutdown(c->watch.fd, SHUT_WR)) {
		conn_close(c);
		return;
	}
	c->can_read = true;
	conn_run(c);
}

/*
 * What was taken of its answer is sent when there is room, for which it has as long as others that send. Not
 * all of it was: the stream is broken off.
 */
static void end_stream(struct conn *c)
{
	input_release(c);
	if (c->stream->ops->shutdown(c->stream) || c->stream->ops->done(c->stream)) {
		conn_close(c);
		return;
	}
	c->state = CONN_LINGER;
	room_stands(c);
	conn_deadline(c, c->w->conf->send_timeout);
}

void conn_linger(struct conn *c)
{
	if (c->stream) {
		end_stream(c);
		return;
	}
	c->state = CONN_LINGER;
	input_release(c);
	conn_set_idle(c);
	conn_deadline(c, LINGER_SECONDS);
	end_sending(c);
}

/* All was sent. With TLS the client learns so, for which the socket must have room. */
static void hang_up(struct conn *c)
{
	if (c->stream)
		end_stream(c);
	else if (c->tls && !secure_end(c))
		conn_linger(c);
	else
		conn_close(c);
}

/* MSG_MORE was promised a successor that does not come now. */
static void uncork(struct conn *c)
{
	int one = 1;

	if (c->corked)
		setsockopt(c->watch.fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	c->corked = false;
}

/* The worker is to end. A request may be on its way: reads once more before it hangs up. */
static void last_chance(struct conn *c)
{
	c->can_read = true;
	conn_deadline(c, 1);
}

/* The rest of what the client sends cannot be understood: answer and end. */
static enum verdict refuse(struct conn *c, int status)
{
	enum verdict v;

	stats_add(c->w->stats, bad_requests, 1);
	v = respond_status(c, NULL, status, status == 503 ? RETRY_AFTER : NULL, true);
	if (v == BLOCKED)
		c->state = CONN_SEND;	/* nothing is read any more */
	return v;
}

/* What could not be written down as a request; SERVED: it could. */
static enum verdict faulty_stream(struct conn *c)
{
	const char *why;
	unsigned int status = c->stream->ops->fault(c->stream, &why);

	return status ? refuse(c, status) : SERVED;
}

/* The head is not whole: keep it and read on, unless it is too large. */
static enum verdict partial_head(struct conn *c, char *buf, size_t len)
{
	const struct request_limits limits = {
		c->w->conf->max_line, c->w->conf->max_header_lines,
	};
	struct request req;
	int n;

	if (len >= c->w->conf->max_header) {
		n = request_parse(&req, buf, len, &limits);
		return refuse(c, n < 0 ? -n : 431);
	}
	if (!input_keep(c, buf, len) || !input_grow(c))
		return refuse(c, 503);
	c->scanned = len;
	if (!c->partial) {
		conn_deadline(c, c->w->conf->header_timeout);
		hold_slow(c, &c->w->slow);
	}
	c->partial = true;
	return SERVED;
}

/* Answers the requests in the buffer one after the other. SERVED: all used up, read on. */
static enum verdict consume(struct conn *c, char *buf, size_t len)
{
	struct worker *w = c->w;
	const struct conf *conf = w->conf;
	const struct request_limits limits = { conf->max_line, conf->max_header_lines };
	struct request req;
	enum verdict v;
	int n;

	while (len) {
		if (c->partial && !request_head_complete(buf, len, c->scanned))
			return partial_head(c, buf, len);
		n = request_parse(&req, buf, len, &limits);
		if (!n)
			return partial_head(c, buf, len);
		c->partial = false;
		c->scanned = 0;
		list_del(&c->rest);
		if (n < 0)
			return refuse(c, -n);
		if ((unsigned int)n > conf->max_header)
			return refuse(c, 431);
		if (w->draining || (conf->keepalive_requests &&
				    c->requests + 1 >= conf->keepalive_requests))
			req.flags |= REQ_CLOSE;
		v = serve(c, &req, len > (size_t)n);
		if (v == WAIT) {
			c->state = CONN_LOOKUP;
			conn_deadline(c, CONN_NEVER);
			if (input_keep(c, buf, len))
				return WAIT;
			list_del(&c->waiter.node);
			return refuse(c, 503);
		}
		stats_add(w->stats, requests, 1);
		c->requests++;
		buf += n;
		len -= n;
		if (v == BLOCKED || v == BODY) {
			if (v == BLOCKED && c->state == CONN_READ)
				c->state = CONN_SEND;
			return input_keep(c, buf, len) ? v : CLOSE;
		}
		if (v != SERVED)
			return v;
	}
	input_release(c);
	conn_set_idle(c);
	conn_deadline(c, conf->keepalive_timeout);
	return SERVED;
}

static void read_lingering(struct conn *c)
{
	unsigned int reads = 0;
	ssize_t n;

	do {
		n = recv(c->watch.fd, c->w->in, SCRATCH_SIZE, 0);
	} while (n == SCRATCH_SIZE && ++reads < LINGER_READS);
	if (!n || reads == LINGER_READS || (n < 0 && errno != EAGAIN && errno != EINTR))
		conn_close(c);
	else
		conn_arm(c);
}

/* Goes on until the client or something else has to be waited for. */
static void conn_run(struct conn *c)
{
	enum verdict v = SERVED;
	unsigned int fills = 0;
	char *buf;
	size_t len;
	ssize_t n;

	list_del(&c->turn);
	if (c->state == CONN_LINGER) {
		read_lingering(c);
		return;
	}
	if (c->stream && c->state == CONN_READ && !c->in_len)
		v = faulty_stream(c);
	while (v == SERVED || v == BODY) {
		if (c->in_len && !c->partial) {
			buf = c->in + c->in_off;
			len = c->in_len;
		} else {
			if (!c->can_read)
				break;
			/* Who blocks comes again by himself. */
			if (fills++ == FILLS_MAX) {
				if (!c->w->blocking)
					list_add_tail(&c->turn, &c->w->turns);
				break;
			}
			if (!c->in && c->state == CONN_READ && handback_give(c)) {
				c->state = CONN_BACK;
				list_del(&c->rest);
				conn_deadline(c, CONN_NEVER);
				return;
			}
			n = input_fill(c, &buf, &len);
			if (n < 0) {
				conn_close(c);
				return;
			}
			if (!n)
				break;
		}
		if (c->state == CONN_BODY) {
			/* Takes what belongs to the body and keeps the rest. */
			v = app_body(c, buf, len);
		} else {
			v = consume(c, buf, len);
		}
	}
	switch (v) {
	case CLOSE:
		/* Pushes what is corked: close() would drop it if the client had sent more. */
		if (c->corked)
			shutdown(c->watch.fd, SHUT_WR);
		hang_up(c);
		return;
	case LINGER:
		conn_linger(c);
		return;
	default:
		uncork(c);
		conn_arm(c);
	}
}

void conn_go_on(struct conn *c)
{
	list_del(&c->turn);
	if (c->http2)
		http2_events(c, 0);
	else if (c->stream)
		c->watch.ready(&c->watch, c->stream->ops->events(c->stream));
	else if ((c->state == CONN_READ || c->state == CONN_BODY) && c->can_read)
		conn_run(c);
}

static void waiter_ready(struct waiter *waiter, struct path *path)
{
	struct conn *c = container_of(waiter, struct conn, waiter);

	if (c->state == CONN_LOOKUP) {
		path->refs++;		/* only loops wait, and a loop's cache has no lock */
		c->path = path;
		c->state = CONN_READ;
		conn_run(c);
	} else if (c->state == CONN_SEND) {
		conn_deadline(c, c->w->conf->send_timeout);
		conn_resume_send(c);
	}
}

void conn_response_done(struct conn *c, bool ok)
{
	response_free(c->w, c->response);
	c->response = NULL;
	if (!ok) {
		conn_close(c);
		return;
	}
	if (c->close) {
		if (c->linger)
			conn_linger(c);
		else
			hang_up(c);
		return;
	}
	c->state = CONN_READ;
	conn_set_idle(c);
	conn_deadline(c, c->w->conf->keepalive_timeout);
	if (c->w->draining && !c->in_len)
		last_chance(c);
	conn_run(c);
}

void conn_resume_send(struct conn *c)
{
	switch (response_send(c, false)) {
	case SERVED:
		conn_response_done(c, true);
		break;
	case BLOCKED:
		conn_arm(c);
		break;
	default:
		conn_close(c);
	}
}

static void conn_ready(struct watch *watch, uint32_t events)
{
	struct conn *c = container_of(watch, struct conn, watch);

	if (c->state == CONN_BACK) {	/* on its way, and may read as closed before that is said */
		c->peer_done |= !!(events & EPOLLRDHUP);
		return;
	}
	/* A stream is over when its client has all, which its program may not know yet. */
	if (c->stream && c->state == CONN_APP && app_is_sent(c))
		return;
	if (events & (EPOLLERR | EPOLLHUP)) {
		conn_close(c);
		return;
	}
	if (events & (EPOLLIN | EPOLLRDHUP))
		c->can_read = true;
	if (events & EPOLLRDHUP)
		c->peer_done = true;
	switch (c->state) {
	case CONN_SHAKE:
		shake_ready(c);
		break;
	case CONN_HTTP2:
		http2_events(c, events);
		break;
	case CONN_LINGER:
		if (c->stream) {
			if (c->stream->ops->done(c->stream))
				conn_close(c);
			break;
		}
		if (c->unsaid) {
			if (events & EPOLLOUT)
				end_sending(c);
			break;
		}
		/* fall through */
	case CONN_READ:
	case CONN_BODY:
		if (c->can_read)
			conn_run(c);
		break;
	case CONN_SEND:
		/* On a queue: a helper is reading, and the socket has to wait for it. */
		if (events & EPOLLOUT && list_empty(&c->waiter.node))
			conn_resume_send(c);
		break;
	case CONN_APP:
		app_client_ready(c, events);
		break;
	case CONN_LOOKUP:
	case CONN_BACK:
		break;
	}
}

void conn_take_back(struct conn *c)
{
	c->state = CONN_READ;
	c->can_read = true;
	conn_set_idle(c);
	conn_deadline(c, c->w->conf->keepalive_timeout);
	conn_run(c);
}

static void conn_expired(struct timer *t)
{
	struct conn *c = container_of(t, struct conn, timer);
	struct stats *stats = c->w->stats;

	switch (c->state) {
	case CONN_SHAKE:
		shake_expired(c);
		return;
	case CONN_READ:
		if (!c->partial && c->requests) {
			stats_add(stats, timeouts_idle, 1);
			break;
		}
		stats_add(stats, timeouts_header, 1);
		if (c->partial && respond_status(c, NULL, 408, NULL, false) == LINGER) {
			conn_linger(c);
			return;
		}
		break;
	case CONN_HTTP2:
		if (c->partial || !c->requests)
			stats_add(stats, timeouts_header, 1);
		else
			stats_add(stats, timeouts_idle, 1);
		http2_expired(c->http2);
		return;
	case CONN_SEND:
		stats_add(stats, timeouts_send, 1);
		break;
	case CONN_BODY:
		if (!c->body) {		/* dropped, to make room */
			app_finish(c->app, 503);
			return;
		}
		stats_add(stats, timeouts_body, 1);
		break;
	case CONN_APP:
		app_expired(c);
		return;
	default:
		break;
	}
	conn_close(c);
}

struct conn *conn_new(struct worker *w, int fd, unsigned int door)
{
	struct conn *c;

	if (!list_empty(&w->free_conns)) {
		c = list_entry(w->free_conns.next, struct conn, node);
		list_del(&c->node);
		w->nr_free_conns--;
	} else {
		c = malloc(sizeof(*c));
		if (!c)
			return NULL;
	}
	memset(c, 0, sizeof(*c));
	c->watch.fd = fd;
	c->watch.ready = conn_ready;
	c->grave.free = conn_free;
	c->timer.expired = conn_expired;
	c->waiter.ready = waiter_ready;
	c->w = w;
	c->can_read = true;
	c->door = door;
	c->state = CONN_READ;
	list_init(&c->turn);
	list_init(&c->timer.node);
	list_init(&c->waiter.node);
	list_init(&c->rest);
	list_add_tail(&c->rest, &w->idle);
	list_add_tail(&c->node, &w->conns);
	w->nr_conns++;
	return c;
}

void conn_start(struct conn *c)
{
	struct worker *w = c->w;

	if (c->door >= DOOR_TLS) {
		shake_begin(c);
		shake_make_room(w);
		return;
	}
	conn_deadline(c, c->w->conf->header_timeout);
	/* With deferred accept, or after a handoff, the request is there already. */
	conn_run(c);
}

void conn_begin(struct conn *c)
{
	if (c->tls && secure_wants_http2(c)) {
		http2_start(c);
		return;
	}
	c->state = CONN_READ;
	c->can_read = true;
	conn_set_idle(c);
	conn_deadline(c, c->w->conf->header_timeout);
	if (c->w->draining)
		last_chance(c);
	conn_run(c);
}

ssize_t conn_send(struct conn *c, const void *p, size_t len, bool more)
{
	if (c->stream)
		return c->stream->ops->send(c->stream, &(struct iovec){ (void *)p, len }, 1);
	return c->tls ? secure_send(c, p, len) :
			send(c->watch.fd, p, len, MSG_NOSIGNAL | (more ? MSG_MORE : 0));
}

void conn_drain(struct worker *w)
{
	struct list *n, *next;

	for (n = w->conns.next; n != &w->conns; n = next) {
		struct conn *c = list_entry(n, struct conn, node);

		next = n->next;
		if (c->state == CONN_READ && !c->in_len && !c->stream)
			last_chance(c);
	}
	http2_drain(w);
	if (!w->nr_conns)
		w->loop.stop = true;
}

const char *conn_address(struct conn *c)
{
	struct sockaddr_storage addr;
	socklen_t len = sizeof(addr);
	const void *from;

	/* Asked for only when it is needed, and kept, for it is gone after a reset. */
	if (c->peer[0])
		return c->peer;
	if (c->stream || getpeername(c->watch.fd, (struct sockaddr *)&addr, &len))
		return "-";
	from = addr.ss_family == AF_INET ? (void *)&((struct sockaddr_in *)&addr)->sin_addr :
					   (void *)&((struct sockaddr_in6 *)&addr)->sin6_addr;
	if (!inet_ntop(addr.ss_family, from, c->peer, sizeof(c->peer)))
		return "-";
	return c->peer;
}
