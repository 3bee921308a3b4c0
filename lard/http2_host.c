// SPDX-License-Identifier: GPL-2.0
#include "http2_host.h"
#include <stdlib.h>
#include <string.h>
#include "client.h"
#include "conn.h"
#include "dispatch.h"
#include "http2/host.h"
#include "http2/http2.h"
#include "http2/prelude.h"
#include "worker.h"

struct http2_limits http2_host_limits(const struct conn *conn)
{
	const struct config *config = conn->worker->config;

	return (struct http2_limits){
		.streams = config->http2_streams, .header = config->max_header,
		.requests = config->keepalive_requests,
	};
}

uint64_t http2_host_clock(const struct conn *conn)
{
	return conn->worker->loop.now;
}

int http2_host_socket(const struct conn *conn)
{
	return conn->source.fd;
}

void http2_host_kick(struct conn *conn)
{
	loop_again(&conn->worker->loop, &conn->source);
}

ssize_t http2_host_recv(struct conn *conn, char **at)
{
	*at = conn->worker->peek;
	return client_recv(conn, conn->worker->peek, sizeof(conn->worker->peek), 0);
}

ssize_t http2_host_send(struct conn *conn, const char *at, size_t len)
{
	return client_send(conn, &(struct iovec){ (char *)at, len }, 1);
}

void http2_host_wait(struct conn *conn, enum http2_wait wait, bool begun)
{
	struct worker *w = conn->worker;

	(void)begun;
	timer_stop(&conn->timer);
	if (wait == HTTP2_HEADER)
		timer_start(&w->loop, &w->header_timers, &conn->timer, w->config->header_timeout_us);
	else if (wait == HTTP2_IDLE)
		timer_start(&w->loop, &w->idle_timers, &conn->timer, w->config->idle_timeout_us);
}

/* What a connection may have is bounded, and max-connections bounds those. */
bool http2_host_hold(struct conn *conn, ssize_t bytes)
{
	(void)conn;
	(void)bytes;
	return true;
}

void http2_host_stands(struct conn *conn, bool stands)
{
	(void)conn;
	(void)stands;
}

void http2_host_note(struct conn *conn, enum http2_note what)
{
	static const enum counter counters[] = {
		[HTTP2_CONNECTION] = COUNTER_HTTP2_CONNECTIONS, [HTTP2_STREAM] = COUNTER_HTTP2_STREAMS,
		[HTTP2_REFUSED] = COUNTER_HTTP2_REFUSED, [HTTP2_BAD] = COUNTER_BAD_REQUEST,
		[HTTP2_LATE] = COUNTER_TIMED_OUT,
	};

	count(conn->worker, counters[what]);
}

void http2_host_flooded(struct conn *conn, const char *why)
{
	char peer[ADDRESS_TEXT];

	count(conn->worker, COUNTER_HTTP2_FLOODED);
	log_client("http2-flood", "client=%s reason=\"%s\"",
		   address_text(&conn->peer, peer, sizeof(peer)), why);
}

/* What was sent last must arrive, which a reset would overtake. */
void http2_host_end(struct conn *conn, bool broken)
{
	conn->http2 = NULL;
	timer_stop(&conn->timer);
	if (broken)
		conn_close(conn);
	else
		conn_end(conn, true);
}

struct conn *http2_host_request(struct conn *parent, struct client_stream *stream)
{
	return conn_stream(parent, stream);
}

void http2_host_run(struct conn *request)
{
	request->source.ready(&request->source, 0);
}

void http2_host_lost(struct conn *request)
{
	/* Its keys may go before it. */
	request->tls = NULL;
	loop_again(&request->worker->loop, &request->source);
}

int http2_prelude(struct conn *conn, size_t len)
{
	struct head head = { .limit = conn->header_max };
	struct worker *w = conn->worker;
	int verdict, good = -1;
	bool ended, is_head;
	size_t size;
	char *text;

	conn->searched = len;
	verdict = prelude_read(w->peek, len, &head, &ended);
	/* What is refused is answered by who speaks the protocol. */
	text = verdict > 0 ? head_text(&head, ended, &size, &is_head) : NULL;
	if (text && size < sizeof(w->peek)) {
		memcpy(w->peek, text, size);
		good = request_parse(&w->request, w->peek, size, NULL);
	}
	free(text);
	head_forget(&head);
	return verdict > 0 ? good > 0 ? 1 : -1 : verdict;
}

void http2_stay(struct conn *conn, const char *denied)
{
	timer_stop(&conn->timer);
	dispatch_release(conn);
	conn->node = -1;
	conn->prelude = false;
	conn->denied = denied;
	conn->searched = 0;
	free(conn->line);
	conn->line = NULL;
	conn_enter(conn, CONN_HTTP2);
	if (conn_poll(conn))
		conn->http2 = http2_begin(conn);
	if (!conn->http2)
		conn_close(conn);
	else
		/* There may be other listeners than at its handshake. */
		http2_reconsider(conn);
}

void http2_reconsider(struct conn *conn)
{
	if (!conn->http2)
		return;
	if (config_http2_port(conn->worker->config, conn->port))
		http2_host_kick(conn);
	else
		http2_leave(conn->http2);
}
