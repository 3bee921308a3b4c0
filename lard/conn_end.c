// SPDX-License-Identifier: GPL-2.0
/* How connections end: after the last answer, or with a refusal. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include "access.h"
#include "caching.h"
#include "client.h"
#include "conn.h"
#include "https.h"
#include "worker.h"

#define LINGER_US	2000000
#define LINGER_ROUNDS	16	/* per event: who sends without an end must not keep the loop to himself */

static void log_refusal(struct conn *conn, unsigned int status, const char *why)
{
	char peer[ADDRESS_TEXT];

	log_client("request-refused", "client=%s status=%u reason=\"%s\"",
		   address_text(&conn->peer, peer, sizeof(peer)), status, why);
}

static const char *reason_phrase(unsigned int status)
{
	switch (status) {
	case 400:
		return "Bad Request";
	case 408:
		return "Request Timeout";
	case 414:
		return "URI Too Long";
	case 421:
		return "Misdirected Request";
	case 431:
		return "Request Header Fields Too Large";
	case 501:
		return "Not Implemented";
	case 502:
		return "Bad Gateway";
	case 503:
		return "Service Unavailable";
	case 504:
		return "Gateway Timeout";
	case 505:
		return "HTTP Version Not Supported";
	default:
		return "Error";
	}
}

static void count_refusal(struct worker *w, unsigned int status)
{
	switch (status) {
	case 408:
		count(w, COUNTER_TIMED_OUT);
		break;
	case 431:
		count(w, COUNTER_TOO_LARGE);
		break;
	case 502:
	case 504:
		count(w, COUNTER_BAD_GATEWAY);
		break;
	case 503:
		count(w, COUNTER_UNAVAILABLE);
		break;
	default:
		count(w, COUNTER_BAD_REQUEST);
		break;
	}
}

void conn_refuse(struct conn *conn, unsigned int status, const char *why)
{
	struct worker *w = conn->worker;
	char answer[640], hsts[100];
	int len;

	caching_leave(conn);
	count_refusal(w, status);
	log_refusal(conn, status, why);
	access_refused(conn, status);
	tally_request(conn, OUTCOME_REFUSED, status);
	len = snprintf(answer, sizeof(answer),
		       "HTTP/1.1 %u %s\r\nContent-Type: text/plain\r\nContent-Length: %zu\r\n"
		       "%s%sConnection: close\r\n\r\n%u %s: %s\n",
		       status, reason_phrase(status),
		       strlen(reason_phrase(status)) + strlen(why) + 7,
		       status == 503 ? "Retry-After: 1\r\n" : "",
		       https_hsts(conn, hsts, sizeof(hsts)), status, reason_phrase(status), why);
	if (client_send(conn, &(struct iovec){ answer, len }, 1) == len)
		conn_end(conn, true);
	else
		conn_close(conn);
}

void conn_linger(struct conn *conn)
{
	unsigned int round = 0;
	bool more;
	ssize_t n;

	/* There may have been no room for it. */
	client_shutdown(conn);
	do {
		n = recv(conn->source.fd, conn->worker->peek, sizeof(conn->worker->peek), 0);
		more = n > 0 || (n < 0 && errno == EINTR);
	} while (more && ++round < LINGER_ROUNDS);
	if (more)
		loop_again(&conn->worker->loop, &conn->source);
	else if (n == 0 || errno != EAGAIN)
		conn_close(conn);
}

/* What was taken of its answer is sent when there is room for it. */
static void end_stream(struct conn *conn)
{
	struct worker *w = conn->worker;

	if (client_shutdown(conn) || conn->stream->ops->done(conn->stream)) {
		conn_close(conn);
		return;
	}
	conn_enter(conn, CONN_LINGER);
	timer_start(&w->loop, &w->idle_timers, &conn->timer, w->config->idle_timeout_us);
}

void conn_end(struct conn *conn, bool unread)
{
	struct worker *w = conn->worker;

	if (conn->stream) {
		end_stream(conn);
		return;
	}
	/* Closing with unread bytes would reset the connection and with it our answer. */
	if ((!unread && conn_peek(conn, 0) <= 0) || (client_shutdown(conn) && errno != EAGAIN) ||
	    !conn_poll(conn)) {
		conn_close(conn);
		return;
	}
	conn_enter(conn, CONN_LINGER);
	timer_start(&w->loop, &w->linger_timers, &conn->timer, LINGER_US);
	conn_linger(conn);
}

void conn_linger_expired(struct timer *t)
{
	conn_close(container_of(t, struct conn, timer));
}
