// SPDX-License-Identifier: GPL-2.0
/*
 * Handing connections off. The request stays in the socket (it was only peeked at), where the
 * checkpoint takes it. Submitting does not wait; what became of it is read as events, many with
 * one read().
 */
#include <errno.h>
#include <handoff.h>
#include <openssl/crypto.h>
#include <string.h>
#include <unistd.h>
#include "access.h"
#include "client.h"
#include "dispatch.h"
#include "http2_host.h"
#include "https.h"
#include "nodes.h"
#include "proxy.h"
#include "worker.h"

#define EVENTS 128

/* Not the target's fault: the connection itself cannot move, so another node is no help. */
static bool refusal_is_of_connection(enum flt_refusal why)
{
	return why && why != FLT_REFUSE_CHANGED &&
	       (why < FLT_REFUSE_NOLISTENER || why == FLT_REFUSE_KEYS || why == FLT_REFUSE_KTLS);
}

/*
 * Not moved; the descriptor is as before. Next-best node, or the same one if only the client has
 * sent something meanwhile; after DISPATCH_TRIES proxy it. False: proxy it now.
 */
static bool next_choice(struct conn *conn, enum flt_refusal why)
{
	if (++conn->attempts >= DISPATCH_TRIES)
		return false;
	if (why != FLT_REFUSE_CHANGED) {
		conn->tried |= 1ULL << conn->node;
		/* Nobody else: the first choice, by proxy. */
		if (!dispatch_again(conn))
			return false;
	}
	return conn->node_id;
}

/* As next_choice(), of who was asked. */
static bool try_another(struct conn *conn, enum flt_refusal why)
{
	struct worker *w = conn->worker;

	count(w, COUNTER_HANDOFF_FAILED);
	log_debug("handoff-failed", "node=%d refusal=%s", conn->node, handoff_refusal_name(why));
	if (refusal_is_of_connection(why))
		return false;
	if (conn->tls && why == FLT_REFUSE_NOLISTENER)
		nodes_deaf(w, conn->node, conn->prelude);
	else
		nodes_fault(w, conn->node, why);
	if (!next_choice(conn, why))
		return false;
	count(w, COUNTER_HANDOFF_RETRIED);
	return true;
}

/* Who is known to have no listener for it is not asked. */
static bool find_ear(struct conn *conn)
{
	while (conn->tls && !nodes_hears(conn->worker, conn->node, conn->prelude))
		if (!next_choice(conn, FLT_REFUSE_NOLISTENER))
			return false;
	return true;
}

static void fall_back(struct conn *conn)
{
	count(conn->worker, COUNTER_PROXY_FALLBACK);
	conn->fallback = true;
	if (conn->prelude) {
		http2_stay(conn, NULL);
		return;
	}
	if (conn_peek_again(conn)) {
		proxy_request(conn);
		return;
	}
	dispatch_release(conn);
	conn_close(conn);
}

static int submit(struct conn *conn, enum flt_refusal *why)
{
	struct worker *w = conn->worker;
	struct flt_tls keys, *tls = NULL;
	int err;

	if (conn->tls) {
		tls = &keys;
		/* A reload may have taken it away since the first try. */
		if (!https_give_port(conn) || client_keys(conn, tls))
			return -ENOTSUP;
		tls->port = https_give_port(conn);
	}
	err = handoff_submit_tls(w->give.device, conn->source.fd, conn->node_id, conn_cookie(conn),
				 HOF_WANT_IDLE | (conn->relaxed ? w->give.later : 0),
				 w->config->handoff_timeout_ms, tls, why);
	if (tls)
		OPENSSL_cleanse(tls, sizeof(*tls));
	return err;
}

void give_submit(struct conn *conn)
{
	enum flt_refusal why;
	int err;

	do {
		why = FLT_REFUSE_NONE;
		conn_enter(conn, CONN_GIVEN);
		if (!find_ear(conn))
			break;
		err = submit(conn, &why);
		if (!err)
			return;
		if (!why && (err == -ENOENT || err == -EHOSTUNREACH))
			why = FLT_REFUSE_NODEDOWN;
		else if (!why)
			log_client("handoff-error", "error=%d text=\"%s\"", -err, strerror(-err));
	} while (why && try_another(conn, why));
	fall_back(conn);
}

static void event_done(struct conn *conn, const struct hof_event *event)
{
	struct worker *w = conn->worker;

	count(w, COUNTER_HANDED_OFF);
	count_by(w, COUNTER_HANDOFF_USEC, event->usec);
	nodes_fine(w, conn->node);
	access_handed_off(conn, event->usec);
	tally_request(conn, OUTCOME_HANDOFF, 0);
	if (conn->tls) {
		count(w, COUNTER_TLS_HANDED_OFF);
		nodes_heard(w, conn->node, conn->prelude);
	}
	if (conn->prelude) {
		count(w, COUNTER_REQUESTS);
		count(w, COUNTER_HTTP2_HANDED_OFF);
	}
	client_forget(conn);
	conn_enter(conn, CONN_REMOTE);
	close(conn->source.fd);
	conn->source.fd = -1;
}

static void event_failed(struct conn *conn, enum flt_refusal why)
{
	if (try_another(conn, why))
		give_submit(conn);
	else
		fall_back(conn);
}

static void event_closed(struct conn *conn, enum flt_refusal why)
{
	count(conn->worker, why ? COUNTER_REMOTE_LOST : COUNTER_REMOTE_CLOSED);
	if (conn->state == CONN_REMOTE)
		dispatch_release(conn);
	conn_close(conn);
}

static void handle_event(struct worker *w, const struct hof_event *event)
{
	struct conn *conn = conn_find(&w->pool, event->cookie);

	if (!conn)
		return;
	switch (event->type) {
	case HOF_EVENT_DONE:
		if (conn->state == CONN_GIVEN)
			event_done(conn, event);
		break;
	case HOF_EVENT_FAILED:
		if (conn->state == CONN_GIVEN)
			event_failed(conn, event->refusal);
		break;
	case HOF_EVENT_CLOSED:
		if (conn->state == CONN_REMOTE || conn->state == CONN_IDLE)
			event_closed(conn, event->refusal);
		break;
	case HOF_EVENT_IDLE:
		if (conn->state == CONN_REMOTE) {
			conn_enter(conn, CONN_IDLE);
			dispatch_release(conn);
		}
		break;
	case HOF_EVENT_BUSY:
		if (conn->state == CONN_IDLE && dispatch_charge(conn))
			conn_enter(conn, CONN_REMOTE);
		break;
	}
}

static void read_events(struct give *give)
{
	struct hof_event events[EVENTS];
	int n, i;

	n = handoff_events(give->device, events, EVENTS);
	if (n < 0) {
		log_error("handoff-device", "error=%d text=\"%s\"", -n, strerror(-n));
		return;
	}
	for (i = 0; i < n; i++)
		handle_event(give->worker, &events[i]);
}

static void give_ready_to_read(struct source *s, uint32_t ready)
{
	(void)ready;
	read_events(container_of(s, struct give, source));
}

void give_batch_end(struct give *give)
{
	if (give->device && handoff_waiting(give->device))
		read_events(give);
}

int give_open(struct give *give, struct worker *w)
{
	struct hof_info info;
	int err;

	if (give->device)
		return 0;
	give->worker = w;
	err = handoff_open(&give->device);
	if (err) {
		give->device = NULL;
		return err;
	}
	if (handoff_info(give->device, &info))
		info.features = 0;
	give->later = info.features & HOF_FEATURE_LATER ? HOF_TELL_LATER : 0;
	give->tls = info.features & HOF_FEATURE_TLS;
	give->tls_port = info.features & HOF_FEATURE_TLS_PORT;
	give->source = (struct source){
		.fd = handoff_fd(give->device), .ready = give_ready_to_read,
	};
	err = loop_add(&w->loop, &give->source, EPOLLIN);
	if (err)
		give_close(give);
	return err;
}

void give_close(struct give *give)
{
	if (give->device)
		handoff_close(give->device);
	give->device = NULL;
}
