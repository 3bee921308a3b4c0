// SPDX-License-Identifier: GPL-2.0
#include "shake.h"
#include "client.h"
#include "tls/tls.h"
#include "worker.h"

#define TURN_US	500	/* of handshakes, then others have theirs; a signature by RSA takes as long */

static void failed(struct conn *conn, const char *why)
{
	char peer[ADDRESS_TEXT];

	list_del(&conn->link);
	count(conn->worker, COUNTER_TLS_FAILED);
	log_client("tls-failed", "client=%s reason=\"%s\"",
		   address_text(&conn->peer, peer, sizeof(peer)), why);
	/* Its memory goes at once: max-handshakes does not count who is only listened to. */
	client_close(conn);
	/* An alert may be on its way, which a reset would overtake. */
	conn_end(conn, true);
}

static void count_handshake(struct conn *conn)
{
	const struct tls_notes *notes = client_notes(conn);
	struct worker *w = conn->worker;

	count(w, COUNTER_TLS_HANDSHAKES);
	if (notes->missed)
		count(w, COUNTER_TLS_NAME_MISSED);
	if (client_identity(conn))
		count(w, COUNTER_TLS_CLIENTS);
	if (notes->unknown_ticket)
		count(w, COUNTER_TLS_TICKET_UNKNOWN);
	if (client_resumed(conn))
		count(w, COUNTER_TLS_RESUMED);
	else if (notes->stapled)
		count(w, COUNTER_TLS_STAPLED);
	else if (notes->unstapled)
		count(w, COUNTER_TLS_UNSTAPLED);
}

/* What it needs is made in its turn, too: many may come at once. False: closed. */
static bool prepare(struct conn *conn)
{
	struct worker *w = conn->worker;

	/* A reload may have taken TLS away meanwhile. */
	if (conn->tls || (w->config->tls && !client_secure(conn, w->config->tls)))
		return true;
	count(w, COUNTER_TLS_FAILED);
	conn_close(conn);
	return false;
}

static void step(struct conn *conn)
{
	int over;

	list_del(&conn->link);
	if (!prepare(conn))
		return;
	over = client_shake(conn);
	if (!over && !conn_poll(conn)) {
		conn_close(conn);
	} else if (over < 0) {
		failed(conn, client_failure(conn));
	} else if (over) {
		count_handshake(conn);
		conn_begin(conn);
	}
}

void shake_begin(struct conn *conn)
{
	struct worker *w = conn->worker;

	/* Time that it waits for its turn is its time: a client gives up as well. */
	timer_start(&w->loop, &w->shake_timers, &conn->timer, w->config->handshake_timeout_us);
	shake_ready(conn);
}

bool shake_has_turn(const struct conn *conn)
{
	return conn->state == CONN_SHAKE && !list_empty(&conn->link);
}

void shake_ready(struct conn *conn)
{
	if (!shake_has_turn(conn))
		list_add_tail(&conn->link, &conn->worker->shaking);
}

static struct conn *first(struct worker *w)
{
	return list_empty(&w->shaking) ? NULL : container_of(w->shaking.next, struct conn, link);
}

void shake_turn(struct worker *w)
{
	uint64_t until;
	struct conn *conn = first(w);

	if (!conn)
		return;
	until = loop_clock() + TURN_US;
	do {
		step(conn);
		conn = first(w);
	} while (conn && loop_clock() < until);
	/* The loop must not wait for anybody else. */
	if (conn)
		loop_again(&w->loop, &conn->source);
}

void shake_expired(struct timer *t)
{
	failed(container_of(t, struct conn, timer), "the handshake took too long");
}
