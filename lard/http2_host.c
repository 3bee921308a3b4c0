// SPDX-License-Identifier: GPL-2.0
#include "http2_host.h"
#include "client.h"
#include "conn.h"
#include "http2/host.h"
#include "http2/http2.h"
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

void http2_reconsider(struct conn *conn)
{
	if (!conn->http2)
		return;
	if (config_http2_port(conn->worker->config, conn->port))
		http2_host_kick(conn);
	else
		http2_leave(conn->http2);
}
