// SPDX-License-Identifier: GPL-2.0
#include "redirect.h"
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include "access.h"
#include "client.h"
#include "https.h"
#include "tls/tls.h"
#include "worker.h"

#define LOCATION_MAX	8192	/* what browsers and proxies take */
#define ACME		"/.well-known/acme-challenge/"

static bool is_letter_or_digit(unsigned char c)
{
	return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

/* Nothing but what an authority gives out there: a name of base64url's letters, RFC 8555, 8.3. */
static bool is_challenge(struct span target)
{
	size_t at = sizeof(ACME) - 1;

	if (target.len <= at || memcmp(target.at, ACME, at))
		return false;
	for (; at < target.len; at++)
		if (!is_letter_or_digit(target.at[at]) && target.at[at] != '-' && target.at[at] != '_')
			return false;
	return true;
}

/* The name or address alone; nothing that could pass for more in a URL. @len 0: it is none. */
static struct span host_name(struct span host)
{
	size_t i, colon = host.len;

	for (i = host.len; i-- > 0 && host.at[i] >= '0' && host.at[i] <= '9';)
		;
	if (i < host.len && host.at[i] == ':')
		colon = i;
	if (host.len && *host.at == '[' && (colon == host.len || host.at[colon - 1] != ']'))
		colon = host.len;
	host.len = colon;
	if (host.len && host.at[host.len - 1] == '.')
		host.len--;
	for (i = 0; i < host.len; i++)
		if (!is_letter_or_digit(host.at[i]) && !strchr("-._:[]", host.at[i]))
			return (struct span){ NULL, 0 };
	return host;
}

/* What a URL cannot have is encoded, for whoever reads the field in another way than we do. @size: no room. */
static size_t put_target(char *out, size_t size, struct span target)
{
	static const char plain[] = "-._~!$&'()*+,;=:@/?%";
	size_t len = 0, i;

	for (i = 0; i < target.len && len + 3 < size; i++) {
		unsigned char c = target.at[i];

		if (is_letter_or_digit(c) || (c && strchr(plain, c)))
			out[len++] = c;
		else
			len += snprintf(out + len, size - len, "%%%02X", c);
	}
	return i == target.len ? len : size;
}

static void send_there(struct conn *conn, struct span host, struct span target)
{
	const struct config *config = conn->worker->config;
	unsigned int status = config->redirect.status;
	uint16_t port = config->redirect.port ? config->redirect.port : https_port(config);
	char answer[LOCATION_MAX + 512], number[8] = "";
	size_t len, room, more;

	if (port != 443)
		snprintf(number, sizeof(number), ":%u", port);
	len = snprintf(answer, sizeof(answer),
		       "HTTP/1.1 %u %s\r\nContent-Length: 0\r\nConnection: close\r\nLocation: https://%.*s%s%s",
		       status, status == 301 ? "Moved Permanently" : "Permanent Redirect",
		       (int)host.len, host.at, number, target.len && *target.at == '/' ? "" : "/");
	room = sizeof(answer) - len - 4;
	more = put_target(answer + len, room, target);
	if (more == room) {
		conn_refuse(conn, 414, "the address that it leads to is too long");
		return;
	}
	len += more;
	memcpy(answer + len, "\r\n\r\n", 4);
	len += 4;
	count(conn->worker, COUNTER_REDIRECTED);
	access_refused(conn, status);
	tally_code(conn, status);
	if (client_send(conn, &(struct iovec){ answer, len }, 1) == (ssize_t)len)
		conn_end(conn, true);
	else
		conn_close(conn);
}

bool redirect_request(struct conn *conn)
{
	struct worker *w = conn->worker;
	const struct request *r = &w->request;
	struct span host = r->host, target = request_origin_form(r, &host);
	const char *other = w->config->default_host;

	if (conn->door != DOOR_REDIRECT || (w->config->redirect.acme && is_challenge(target)))
		return false;
	conn->asked_us = w->loop.now;
	access_keep(conn);
	if (!host.len)
		host = (struct span){ other, strlen(other) };
	host = host_name(host);
	/* A reload may have taken TLS away for new connections; this one's listener was before it. */
	if (!host.len || host.len > 255 || !w->config->tls ||
	    !tls_site_is_for(w->config->tls, host.at, host.len))
		conn_refuse(conn, 421, "no certificate is for this host");
	else if (span_is(target, "*"))
		conn_refuse(conn, 400, "it asks for no address that could be elsewhere");
	else
		send_there(conn, host, target);
	return true;
}
