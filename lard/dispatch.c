// SPDX-License-Identifier: GPL-2.0
/* From a request to a node. */
#include <errno.h>
#include <string.h>
#include "access.h"
#include "caching.h"
#include "client.h"
#include "dispatch.h"
#include "early.h"
#include "http2_host.h"
#include "https.h"
#include "proxy.h"
#include "url.h"
#include "worker.h"

#define ROOM_US		10000
#define CANONICAL_MAX URL_CANONICAL_MAX(256, REQUEST_HEADER_MAX)

long dispatch_canonical(const struct config *config, const char *host, size_t host_len,
			const char *target, size_t target_len, char *out, size_t size)
{
	char first[ADDRESS_TEXT];

	if (!host_len && *config->default_host) {
		host = config->default_host;
		host_len = strlen(host);
	} else if (!host_len) {
		host = address_text(&config->listen[0], first, sizeof(first));
		host_len = strlen(host);
	}
	if (!config->key_host)
		host_len = 0;
	return url_canonical(host, host_len, target, target_len, out, size);
}

uint64_t dispatch_key(struct worker *w)
{
	const struct config *config = w->config;
	const struct request *r = &w->request;
	char canonical[CANONICAL_MAX];
	uint64_t key;
	long len;

	len = dispatch_canonical(config, r->host.at, r->host.len, r->target.at, r->target.len,
				 canonical, sizeof(canonical));
	/* Cannot happen: the header limit is below the buffer's size. Any key would be served. */
	if (len < 0)
		return 0;
	key = url_key(canonical, len);
	if (w->hot)
		hot_note(w->hot, key, canonical, len);
	return key;
}

/* With TLS the keys go along; of who is sent to HTTPS each request must be seen. */
static bool may_move(const struct conn *conn)
{
	const struct give *give = &conn->worker->give;

	if (conn->tls)
		return https_give_port(conn) && client_sealed(conn) &&
		       (client_is_kernels(conn) ? give->tls_port : give->tls);
	return conn->door == DOOR_PLAIN;
}

bool dispatch_may_give(const struct conn *conn)
{
	const struct worker *w = conn->worker;

	return w->config->mode == MODE_AUTO && conn->miss != MISS_PROXY && give_ready(&w->give) &&
	       may_move(conn);
}

/* It is handed off, if its node takes that. */
static bool goes_as_it_is(const struct conn *conn)
{
	return dispatch_may_give(conn) && (conn->miss == MISS_HANDOFF || !caching_wants(conn));
}

/* The node is chosen and charged; the request is in worker->peek. */
static void go(struct conn *conn)
{
	struct worker *w = conn->worker;

	/* What stays is counted as a stream. */
	if (!conn->prelude)
		count(w, COUNTER_REQUESTS);
	if (conn->node_id && goes_as_it_is(conn)) {
		caching_leave(conn);
		give_submit(conn);
	} else if (conn->prelude) {
		http2_stay(conn, NULL);
	} else {
		proxy_request(conn);
	}
}

/* Under lardd->lock. */
static void assign(struct lardd *lardd, struct conn *conn, const struct lard_decision *d)
{
	conn->node = d->node;
	conn->node_id = lardd->nodes.at[d->node].kernel_id;
	conn->why = d->why;
	/* Far from every threshold a load some milliseconds old will do: see HOF_TELL_LATER. */
	conn->relaxed = d->load < lard_get_params(lardd->engine)->t_low && d->total < d->limit / 2;
}

/* What the kernel has given ends without a word to us. */
static void watch_room(struct worker *w)
{
	if (w->room_watched || !early_is(w->lardd))
		return;
	w->room_watched = true;
	timer_start(&w->loop, &w->room_timers, &w->room_timer, ROOM_US);
}

void dispatch_room_expired(struct timer *t)
{
	struct worker *w = container_of(t, struct worker, room_timer);

	w->room_watched = false;
	if (!atomic_load_explicit(&w->lardd->waiters, memory_order_relaxed))
		return;
	w->room = true;
	watch_room(w);
}

static void wait_in_queue(struct conn *conn)
{
	struct worker *w = conn->worker;

	count(w, COUNTER_QUEUED);
	watch_room(w);
	timer_start(&w->loop, &w->queue_timers, &conn->timer, w->config->queue_timeout_us);
}

static void deny(struct conn *conn, const char *why)
{
	if (conn->prelude)
		http2_stay(conn, why);
	else
		conn_refuse(conn, 503, why);
}

/* No node has anything to do with it. */
static void answer_from_cache(struct conn *conn)
{
	count(conn->worker, COUNTER_REQUESTS);
	proxy_request(conn);
}

static void decide(struct conn *conn)
{
	struct worker *w = conn->worker;
	struct lardd *lardd = w->lardd;
	struct lard_decision d = { .node = -1, .why = LARD_WHY_FULL };
	bool goes = goes_as_it_is(conn), queued = false;

	if (conn->prelude && !goes) {
		http2_stay(conn, NULL);
		return;
	}
	switch (goes ? CACHING_GOES_ON : caching_first(conn)) {
	case CACHING_FOUND:
		answer_from_cache(conn);
		return;
	case CACHING_WAITS:
		return;
	default:
		break;
	}
	pthread_mutex_lock(&lardd->lock);
	/* First come, first served: nobody overtakes those who wait. */
	if (list_empty(&lardd->waiting))
		lard_dispatch(lardd->engine, conn->key, w->loop.now, &d);
	if (d.node >= 0) {
		early_note(lardd);
		assign(lardd, conn, &d);
	} else if (d.why == LARD_WHY_FULL && !conn->refreshes && lardd->waiters < w->config->max_queue) {
		conn_enter(conn, CONN_WAIT);
		list_add_tail(&conn->link, &lardd->waiting);
		lardd->waiters++;
		early_waiting(lardd);
		queued = true;
		w->room = lard_has_room(lardd->engine);
	}
	pthread_mutex_unlock(&lardd->lock);

	if (d.node >= 0)
		go(conn);
	else if (queued)
		wait_in_queue(conn);
	/* Nobody waits for it, and whoever asks next tries again: it keeps no client out of the queue. */
	else if (conn->refreshes)
		conn_close(conn);
	else if (caching_will_do(conn))
		answer_from_cache(conn);
	else
		deny(conn, d.why == LARD_WHY_FULL ? "too many requests are waiting" :
		     "no back-end is available");
}

void dispatch_request(struct conn *conn)
{
	struct worker *w = conn->worker;

	conn->asked_us = w->loop.now;
	conn->key = dispatch_key(w);
	access_keep(conn);
	if (conn->denied)
		conn_refuse(conn, 503, conn->denied);
	else
		decide(conn);
}

void dispatch_resume(struct conn *conn)
{
	timer_stop(&conn->timer);
	list_del(&conn->link);
	caching_leave(conn);
	conn_enter(conn, CONN_READ);
	if (conn_peek_again(conn))
		decide(conn);
	else
		conn_close(conn);
}

bool dispatch_again(struct conn *conn)
{
	struct worker *w = conn->worker;
	struct lardd *lardd = w->lardd;
	struct lard_decision d;
	int from = conn->node;

	pthread_mutex_lock(&lardd->lock);
	if (lard_retry(lardd->engine, conn->key, w->loop.now, conn->tried, &d) >= 0) {
		assign(lardd, conn, &d);
		lard_release(lardd->engine, from);
	}
	pthread_mutex_unlock(&lardd->lock);
	return d.node >= 0;
}

void dispatch_release(struct conn *conn)
{
	struct worker *w = conn->worker;

	if (conn->node < 0)
		return;
	pthread_mutex_lock(&w->lardd->lock);
	lard_release(w->lardd->engine, conn->node);
	pthread_mutex_unlock(&w->lardd->lock);
	w->room = true;
}

bool dispatch_charge(struct conn *conn)
{
	struct lardd *lardd = conn->worker->lardd;
	bool there;

	pthread_mutex_lock(&lardd->lock);
	/* Its slot may be free or another node's by now. */
	there = lardd->nodes.at[conn->node].kernel_id == conn->node_id;
	if (there)
		lard_charge(lardd->engine, conn->node);
	pthread_mutex_unlock(&lardd->lock);
	return there;
}

/* Off the queue; false: another worker has just taken it off, with a node, and mailed it to us. */
static bool leave_queue(struct conn *conn)
{
	struct lardd *lardd = conn->worker->lardd;
	bool waiting;

	pthread_mutex_lock(&lardd->lock);
	waiting = conn->node < 0;
	if (waiting) {
		list_del(&conn->link);
		lardd->waiters--;
		early_waiting(lardd);
	}
	pthread_mutex_unlock(&lardd->lock);
	return waiting;
}

void dispatch_abandon(struct conn *conn)
{
	if (!leave_queue(conn))
		return;
	count(conn->worker, COUNTER_ABORTED);
	conn_close(conn);
}

void dispatch_expired(struct conn *conn)
{
	if (leave_queue(conn))
		deny(conn, "no room came up in time");
}

/* The first of the queue, with a node; NULL: nobody waits or there is no room. Under the lock. */
static struct conn *take_first(struct lardd *lardd, uint64_t now)
{
	struct lard_decision d;
	struct conn *conn;

	if (list_empty(&lardd->waiting))
		return NULL;
	conn = container_of(lardd->waiting.next, struct conn, link);
	if (lard_dispatch(lardd->engine, conn->key, now, &d) < 0)
		return NULL;
	list_del(&conn->link);
	lardd->waiters--;
	early_waiting(lardd);
	early_note(lardd);
	assign(lardd, conn, &d);
	return conn;
}

static void go_from_queue(struct conn *conn)
{
	timer_stop(&conn->timer);
	if (conn_peek_again(conn)) {
		go(conn);
		return;
	}
	dispatch_release(conn);
	conn_close(conn);
}

static void deliver_mail(struct worker *w)
{
	struct conn *conn;

	for (;;) {
		pthread_mutex_lock(&w->lardd->lock);
		conn = list_empty(&w->mail) ? NULL :
		       container_of(w->mail.next, struct conn, link);
		if (conn)
			list_del(&conn->link);
		pthread_mutex_unlock(&w->lardd->lock);
		if (!conn)
			return;
		go_from_queue(conn);
	}
}

void dispatch_batch_end(struct worker *w)
{
	struct lardd *lardd = w->lardd;
	struct conn *conn;

	while (w->room && atomic_load_explicit(&lardd->waiters, memory_order_relaxed)) {
		struct worker *owner = w;

		w->room = false;
		pthread_mutex_lock(&lardd->lock);
		conn = take_first(lardd, w->loop.now);
		if (conn) {
			w->room = true;
			owner = conn->worker;
			if (owner != w)
				list_add_tail(&conn->link, &owner->mail);
		}
		pthread_mutex_unlock(&lardd->lock);
		if (conn && owner == w)
			go_from_queue(conn);
		else if (conn)
			worker_wake(owner);
	}
	w->room = false;
	if (__atomic_load_n(&lardd->workers, __ATOMIC_RELAXED) > 1)
		deliver_mail(w);
}
