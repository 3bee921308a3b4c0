// SPDX-License-Identifier: GPL-2.0
/* Client connections. */
#include <errno.h>
#include <limits.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <unistd.h>
#include "caching.h"
#include "client.h"
#include "crowd.h"
#include "dispatch.h"
#include "http2/http2.h"
#include "http2_host.h"
#include "kernel_cache.h"
#include "proxy.h"
#include "redirect.h"
#include "shake.h"
#include "worker.h"

#define STOP_GRACE_US	1000000	/* for the next request of who has just had an answer, or has just come */
#define RECYCLE_LOOK	64	/* connections looked at for one that can go */

const char *const conn_state_names[CONN_STATES] = {
	"free", "handshaking", "reading", "queued", "waiting-for-cache", "handing-off", "remote", "remote-idle", "proxied",
	"http2", "lingering",
};

/* --- states --- */

static void live_add(struct worker *w, enum conn_state state, int more)
{
	uint32_t n = atomic_load_explicit(&w->live[state], memory_order_relaxed);

	atomic_store_explicit(&w->live[state], n + more, memory_order_relaxed);
}

void conn_enter(struct conn *conn, enum conn_state state)
{
	if (conn->state != CONN_FREE)
		live_add(conn->worker, conn->state, -1);
	if (state != CONN_FREE)
		live_add(conn->worker, state, 1);
	conn->state = state;
}

void conn_close(struct conn *conn)
{
	if (conn->state == CONN_FREE)
		return;
	timer_stop(&conn->timer);
	if (conn->state == CONN_SHAKE || conn->state == CONN_PARK)
		list_del(&conn->link);
	caching_leave(conn);
	http2_close(conn->http2);
	conn->http2 = NULL;
	client_close(conn);
	crowd_leave(conn->worker->lardd->crowd, conn->address);
	conn->address = NULL;
	free(conn->line);
	conn->line = NULL;
	conn_enter(conn, CONN_FREE);
	conn->generation++;
	loop_bury(&conn->worker->loop, &conn->source, conn_pool_put);
}

void conn_abandon(struct conn *conn)
{
	if (conn->exchange)
		proxy_abandon(conn);
	else
		conn_close(conn);
}

/* --- requests --- */

ssize_t conn_peek(struct conn *conn, int more)
{
	struct worker *w = conn->worker;
	ssize_t n;

	do {
		n = client_recv(conn, w->peek, conn->header_max, MSG_PEEK | more);
	} while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

bool conn_peek_again(struct conn *conn)
{
	struct worker *w = conn->worker;
	ssize_t n = conn_peek(conn, 0);

	if (n > 0 && conn->prelude)
		n = http2_prelude(conn, n);
	else if (n > 0)
		n = request_parse(&w->request, w->peek, n, NULL);
	if (n == 1)
		return true;
	count(w, COUNTER_ABORTED);
	return false;
}

bool conn_poll(struct conn *conn)
{
	/* Edge-triggered: what was peeked at stays in the socket and must not wake us again. */
	if (!conn->polled && loop_add(&conn->worker->loop, &conn->source,
				      EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET))
		return false;
	conn->polled = true;
	return true;
}

/*
 * A request that has arrived whole is acknowledged by its answer, from wherever that comes: one packet
 * less for each connection. A client that has more to send may be waiting for an ACK before it does.
 */
static void acknowledge(struct conn *conn)
{
	static const int on = 1;

	setsockopt(conn->source.fd, IPPROTO_TCP, TCP_QUICKACK, &on, sizeof(on));
}

/* @more: CLIENT_MORE when it has been called for what is there. False: there is more to come. */
static bool read_request(struct conn *conn, int more)
{
	struct worker *w = conn->worker;
	size_t before = conn->searched;
	unsigned int fault;
	const char *why;
	int verdict;
	ssize_t n;

	fault = client_fault(conn, &why);
	if (fault) {
		conn_refuse(conn, fault, why);
		return true;
	}
	do {
		n = conn_peek(conn, more);
		if (n <= 0 && n != -EAGAIN) {
			conn_close(conn);
			return true;
		}
		verdict = n > 0 ? request_parse(&w->request, w->peek, n, &conn->searched) : 0;
		more = 0;
	} while (!verdict && client_unseal(conn));
	if (n > 0 && (!verdict || (verdict > 0 && w->request.framing != FRAMING_NONE)))
		acknowledge(conn);
	if (verdict > 0) {
		timer_stop(&conn->timer);
		conn->searched = 0;
		if (!redirect_request(conn))
			dispatch_request(conn);
	} else if (verdict < 0) {
		conn_refuse(conn, -verdict, w->request.error);
	} else if (n >= (ssize_t)conn->header_max) {
		conn_refuse(conn, 431, "header beyond the limit");
	} else if (client_ended(conn) || !conn_poll(conn)) {
		conn_close(conn);
		return true;
	} else if (list_empty(&conn->timer.link) || (n > 0 && !before && conn->served)) {
		/* From the first byte on, the whole header has header-timeout to arrive. */
		timer_start(&w->loop, &w->header_timers, &conn->timer, w->config->header_timeout_us);
	}
	return verdict || n >= (ssize_t)conn->header_max;
}

/* As read_request(), of who speaks HTTP/2 and may be handed off with the first. */
static bool read_prelude(struct conn *conn, int more)
{
	struct worker *w = conn->worker;
	ssize_t n = conn_peek(conn, more);
	int verdict;

	if (n <= 0 && n != -EAGAIN) {
		conn_close(conn);
		return true;
	}
	verdict = n > 0 ? http2_prelude(conn, n) : 0;
	if (!verdict && (n >= (ssize_t)conn->header_max || client_unseal(conn) || !client_sealed(conn)))
		verdict = -1;
	if (n > 0 && (!verdict || (verdict > 0 && w->request.framing != FRAMING_NONE)))
		acknowledge(conn);
	if (verdict > 0) {
		timer_stop(&conn->timer);
		conn->searched = 0;
		dispatch_request(conn);
	} else if (verdict < 0 || !conn_poll(conn)) {
		http2_stay(conn, NULL);
		return true;
	} else if (list_empty(&conn->timer.link)) {
		timer_start(&w->loop, &w->prelude_timers, &conn->timer, w->config->http2_wait_us);
	}
	return verdict;
}

static bool read_more(struct conn *conn, int more)
{
	return conn->prelude ? read_prelude(conn, more) : read_request(conn, more);
}

void conn_begin(struct conn *conn)
{
	timer_stop(&conn->timer);
	conn->began_us = conn->worker->loop.now;
	conn->prelude = client_wants_http2(conn);
	if (conn->prelude && !dispatch_may_give(conn)) {
		http2_stay(conn, NULL);
		return;
	}
	conn_enter(conn, CONN_READ);
	read_more(conn, 0);
}

static void conn_ready(struct source *s, uint32_t events)
{
	struct conn *conn = container_of(s, struct conn, source);

	if (conn->stream)
		events |= conn->stream->ops->events(conn->stream);
	switch (conn->state) {
	case CONN_SHAKE:
		shake_ready(conn);
		break;
	case CONN_READ:
		/* What is there is peeked at and stays: the end behind it is seen by no read. */
		if (!read_more(conn, CLIENT_MORE) && events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))
			conn_close(conn);
		break;
	case CONN_PARK:
		if (events & (EPOLLERR | EPOLLHUP)) {
			count(conn->worker, COUNTER_ABORTED);
			conn_close(conn);
		}
		break;
	case CONN_WAIT:
		/* Half-closed is still waiting for its answer. */
		if (events & (EPOLLERR | EPOLLHUP))
			dispatch_abandon(conn);
		break;
	case CONN_PROXY:
		proxy_client_ready(conn, events);
		break;
	case CONN_HTTP2:
		http2_ready(conn->http2, events);
		break;
	case CONN_LINGER:
		if (!conn->stream)
			conn_linger(conn);
		else if (conn->stream->ops->done(conn->stream))
			conn_close(conn);
		break;
	default:
		break;
	}
}

/* The first of @q; not one of whom there is more than @seen, as no event of that may have been seen yet. */
static bool recycle(struct worker *w, struct timer_queue *q, int seen)
{
	struct list *at = q->timers.next;
	unsigned int i;

	for (i = 0; i < RECYCLE_LOOK && at != &q->timers; i++, at = at->next) {
		struct conn *conn = container_of(container_of(at, struct timer, link), struct conn,
						 timer);

		if (client_unseen(conn) > seen || shake_has_turn(conn) || http2_is_busy(conn->http2))
			continue;
		conn_close(conn);
		count(w, COUNTER_RECYCLED);
		return true;
	}
	return false;
}

static void refuse_address(struct worker *w, const union address *peer)
{
	char text[ADDRESS_TEXT];

	count(w, COUNTER_ADDRESS_REFUSED);
	log_client("address-refused", "client=%s most=%u", address_text(peer, text, sizeof(text)),
		   w->config->max_per_address);
}

static void set_up(struct conn *conn, struct worker *w, int fd)
{
	conn->source = (struct source){ .fd = fd, .ready = conn_ready };
	conn->worker = w;
	conn->address = NULL;
	conn->began_us = w->loop.now;
	conn->asked_us = 0;
	conn->searched = 0;
	conn->header_max = w->config->max_header;
	conn->served = 0;
	conn->tried = 0;
	conn->node = -1;
	conn->attempts = 0;
	conn->offers_http2 = false;
	conn->prelude = false;
	conn->denied = NULL;
	conn->polled = false;
	conn->shut = false;
	conn->fallback = false;
	conn->tls = NULL;
	conn->stream = NULL;
	conn->http2 = NULL;
	conn->site = KERNEL_SITE_NONE;
	conn->fetch = NULL;
	conn->entry = NULL;
	conn->asks = conn->found = false;
	conn->refreshes = conn->checks = false;
	conn->patient_until = 0;
}

void conn_accept(const struct listener *l, int fd, const union address *peer)
{
	struct worker *w = l->worker;
	unsigned int most = w->config->max_per_address;
	struct crowd_address *address = NULL;
	struct conn *conn;

	if (most) {
		address = crowd_enter(w->lardd->crowd, peer, most);
		if (!address) {
			refuse_address(w, peer);
			close(fd);
			return;
		}
	}
	conn = conn_pool_take(&w->pool);
	if (!conn) {
		count(w, COUNTER_ACCEPT_FAILED);
		crowd_leave(w->lardd->crowd, address);
		close(fd);
		return;
	}
	set_up(conn, w, fd);
	conn->peer = *peer;
	conn->port = address_port(&l->address);
	conn->door = l->door;
	conn->miss = l->miss;
	conn->site = l->door == DOOR_PLAIN ? l->site : KERNEL_SITE_NONE;
	conn->address = address;
	conn->offers_http2 = l->http2;
	if (conn->door == DOOR_TLS && client_take(conn))
		count(w, COUNTER_TLS_RETURNED);
	if (conn->door < DOOR_TLS || conn->tls) {
		conn_enter(conn, CONN_READ);
		read_request(conn, 0);
		return;
	}
	conn_enter(conn, CONN_SHAKE);
	shake_begin(conn);
}

struct conn *conn_stream(struct conn *parent, struct client_stream *stream)
{
	struct worker *w = parent->worker;
	bool full = w->pool.used >= worker_share(w, w->config->max_connections);
	struct conn *conn = full && !conn_recycle(w) ? NULL : conn_pool_take(&w->pool);

	if (!conn)
		return NULL;
	set_up(conn, w, -1);
	conn->peer = parent->peer;
	conn->port = parent->port;
	conn->door = parent->door;
	conn->miss = parent->miss;
	conn->tls = parent->tls;
	conn->stream = stream;
	/* What became of the first request before there were streams. */
	conn->fallback = parent->fallback;
	conn->denied = parent->denied;
	parent->fallback = false;
	parent->denied = NULL;
	/* There is nothing to poll, its connection tells it of events. */
	conn->polled = true;
	conn_enter(conn, CONN_READ);
	return conn;
}

bool conn_may_stay(const struct conn *conn)
{
	return conn->served + 1 < conn->worker->config->keepalive_requests &&
	       !lardd_stopping(conn->worker);
}

void conn_next(struct conn *conn)
{
	struct worker *w = conn->worker;

	conn->served++;
	conn->searched = 0;
	conn->header_max = w->config->max_header;
	conn->tried = 0;
	/* Who waits in the queue has no node, and a refusal is not of what was asked for before. */
	conn->node = -1;
	conn->attempts = 0;
	conn->fallback = false;
	conn->patient_until = 0;
	free(conn->line);
	conn->line = NULL;
	conn->began_us = w->loop.now;
	conn->asked_us = 0;
	conn_enter(conn, CONN_READ);
	timer_start(&w->loop, &w->idle_timers, &conn->timer, w->config->idle_timeout_us);
	/* Not at once: a client that pipelines must not keep the loop to itself. */
	loop_again(&w->loop, &conn->source);
}

/* Closing with a request unread, or on its way, would be a reset instead of an answer. */
void conn_close_idle(struct conn *conn)
{
	if (conn->state == CONN_HTTP2) {
		http2_stop(conn->http2);
		return;
	}
	if ((conn->state == CONN_READ || conn->state == CONN_SHAKE) && !conn->stream &&
	    conn->worker->loop.now - conn->began_us >= STOP_GRACE_US && !client_waiting(conn))
		conn_close(conn);
}

/*
 * Who has had his last answer, or else refused ones would keep all others out; who is idle; then who
 * has been at the handshake for longest, then at a request: whole requests are taken up at once.
 */
bool conn_recycle(struct worker *w)
{
	return recycle(w, &w->linger_timers, INT_MAX) || recycle(w, &w->idle_timers, 0) ||
	       conn_recycle_handshake(w) || recycle(w, &w->prelude_timers, 0) ||
	       recycle(w, &w->header_timers, SEARCH_AGAIN);
}

bool conn_recycle_handshake(struct worker *w)
{
	return recycle(w, &w->shake_timers, INT_MAX);
}

/* --- time-outs --- */

/*
 * It has sent us nothing. The kernel may have answered it, perhaps just now, and then it is a kept connection
 * between two requests: true, if it is dealt with.
 */
static bool is_the_kernels(struct conn *conn)
{
	struct worker *w = conn->worker;
	uint64_t silent;

	if (conn->site == KERNEL_SITE_NONE || conn->served || conn->searched ||
	    client_recv(conn, &(char){ 0 }, 1, MSG_PEEK) > 0 ||
	    !kernel_cache_spoke(conn->source.fd, &silent))
		return false;
	if (silent >= w->config->idle_timeout_us)
		conn_close(conn);
	else
		timer_start(&w->loop, &w->idle_timers, &conn->timer, w->config->idle_timeout_us - silent);
	return true;
}

void conn_header_expired(struct timer *t)
{
	struct conn *conn = container_of(t, struct conn, timer);

	switch (conn->state) {
	case CONN_HTTP2:
		http2_expired(conn->http2);
		break;
	case CONN_LINGER:
		conn_close(conn);
		break;
	case CONN_READ:
		if (is_the_kernels(conn))
			break;
		/* Nothing sent on a kept connection: it may close without a word. */
		if (conn->served && !conn->searched &&
		    client_recv(conn, &(char){ 0 }, 1, MSG_PEEK) <= 0)
			conn_close(conn);
		else
			conn_refuse(conn, 408, "the request did not arrive in time");
		break;
	default:
		break;
	}
}

void conn_prelude_expired(struct timer *t)
{
	http2_stay(container_of(t, struct conn, timer), NULL);
}

void conn_queue_expired(struct timer *t)
{
	struct conn *conn = container_of(t, struct conn, timer);

	if (conn->state == CONN_WAIT)
		dispatch_expired(conn);
}

void conn_park_expired(struct timer *t)
{
	dispatch_resume(container_of(t, struct conn, timer));
}
