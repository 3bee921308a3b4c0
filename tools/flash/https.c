// SPDX-License-Identifier: GPL-2.0
#include "https.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "conn.h"
#include "lard/tls/ticket.h"
#include "lard/tls/tls.h"
#include "message.h"

#define YEAR_SECONDS 31536000	/* the lists that browsers are built with take no less */
#define LOCATION_MAX 8192	/* what browsers and proxies take */
#define CHALLENGE "/.well-known/acme-challenge/"

static const char *const door_names[] = { "", "redirect", "tls" };

int https_door(char **words, int n)
{
	unsigned int door;

	if (!n)
		return DOOR_PLAIN;
	for (door = DOOR_REDIRECT; n == 1 && door <= DOOR_TLS; door++)
		if (!strcmp(words[0], door_names[door]))
			return door;
	return -1;
}

const char *https_door_text(unsigned int door)
{
	return door_names[door];
}

int https_set_certificate(struct conf *conf, char **words, int n, char *why, size_t size)
{
	if (n == 1)
		return tls_settings_add_directory(&conf->https, words[0], why, size);
	if (n == 2 || (n == 4 && !strcmp(words[2], "ocsp")))
		return tls_settings_add(&conf->https, words[0], words[1], n == 4 ? words[3] : "", why, size);
	snprintf(why, size, "a certificate is: certificate CHAIN-FILE KEY-FILE [ocsp FILE], or certificate DIRECTORY");
	return -1;
}

int https_set_certificates(struct conf *conf, char **words, int n, char *why, size_t size)
{
	if (n == 1)
		return tls_settings_add_all(&conf->https, words[0], why, size);
	snprintf(why, size, "certificates takes one directory");
	return -1;
}

/* https_redirect [status 301|308] [port N] [acme on|off] */
int https_set_redirect(struct conf *conf, char **words, int n, char *why, size_t size)
{
	int i, port;

	for (i = 0; i + 1 < n; i += 2) {
		const char *name = words[i], *value = words[i + 1];

		port = strspn(value, "0123456789") == strlen(value) && strlen(value) <= 5 ?
		       atoi(value) : 0;
		if (!strcmp(name, "status") && (!strcmp(value, "301") || !strcmp(value, "308")))
			conf->redirect_status = atoi(value);
		else if (!strcmp(name, "port") && port > 0 && port <= 65535)
			conf->redirect_port = port;
		else if (!strcmp(name, "acme") && (!strcmp(value, "on") || !strcmp(value, "off")))
			conf->redirect_acme = !strcmp(value, "on");
		else
			break;
	}
	if (i == n)
		return 0;
	snprintf(why, size, "https_redirect is: [status 301|308] [port N] [acme on|off], and has no \"%s\"",
		 words[i]);
	return -1;
}

/* hsts off | hsts SECONDS [include-subdomains] [preload] */
int https_set_hsts(struct conf *conf, char **words, int n, char *why, size_t size)
{
	bool subdomains = false, preload = false;
	unsigned long seconds;
	int i;

	*conf->hsts = *conf->hsts_text = '\0';
	if (n == 1 && !strcmp(words[0], "off"))
		return 0;
	if (!n || !*words[0] || strspn(words[0], "0123456789") != strlen(words[0]) ||
	    strlen(words[0]) > 10) {
		snprintf(why, size, "hsts takes seconds, or off");
		return -1;
	}
	seconds = strtoul(words[0], NULL, 10);
	for (i = 1; i < n; i++) {
		if (!strcmp(words[i], "include-subdomains")) {
			subdomains = true;
		} else if (!strcmp(words[i], "preload")) {
			preload = true;
		} else {
			snprintf(why, size, "hsts has no \"%s\"", words[i]);
			return -1;
		}
	}
	if (preload && (!subdomains || seconds < YEAR_SECONDS)) {
		snprintf(why, size, "hsts: preload needs include-subdomains and at least %d seconds",
			 YEAR_SECONDS);
		return -1;
	}
	snprintf(conf->hsts_text, sizeof(conf->hsts_text), "%lu%s%s", seconds,
		 subdomains ? " include-subdomains" : "", preload ? " preload" : "");
	snprintf(conf->hsts, sizeof(conf->hsts), "Strict-Transport-Security: max-age=%lu%s%s\r\n",
		 seconds, subdomains ? "; includeSubDomains" : "", preload ? "; preload" : "");
	return 0;
}

/* --- the whole --- */

static unsigned int address_port(const struct listen_address *a)
{
	return ntohs(((const struct sockaddr_in *)&a->addr)->sin_port);
}

/* Of the first address with TLS; 0: there is none. */
static unsigned int https_port(const struct conf *conf)
{
	unsigned int i;

	for (i = 0; i < conf->nr_listens; i++)
		if (conf->listens[i].door >= DOOR_TLS)
			return address_port(&conf->listens[i]);
	return 0;
}

const char *https_check(struct conf *conf)
{
	bool redirects = false, tls = false, http2 = false;
	unsigned int i, j;

	for (i = 0; i < conf->nr_listens; i++) {
		const struct listen_address *a = &conf->listens[i];

		redirects |= a->door == DOOR_REDIRECT;
		tls |= a->door >= DOOR_TLS;
		http2 |= a->http2;
		for (j = 0; j < i; j++)
			if (a->len == conf->listens[j].len &&
			    (a->door != conf->listens[j].door || a->http2 != conf->listens[j].http2) &&
			    !memcmp(&a->addr, &conf->listens[j].addr, a->len))
				return "an address is there in two ways, as with and without tls";
	}
	if (http2 && (conf->architecture == ARCH_MP || conf->architecture == ARCH_MT))
		return "http2 needs the architecture amped or sped";
	if (tls && !conf->https.certificate_count)
		return "tls needs a certificate";
	if (redirects && !tls)
		return "redirect needs an address with tls to lead to";
	if (conf->ticket_keys && strlen(conf->ticket_keys) >= sizeof(conf->https.ticket_keys))
		return "the name of the file with ticket_keys is too long";
	if (!conf->redirect_port)
		conf->redirect_port = https_port(conf);
	conf->https.tickets = true;
	conf->https.ticket_rotation_us = conf->ticket_rotation * 1000000ull;
	if (conf->ticket_keys)
		strcpy(conf->https.ticket_keys, conf->ticket_keys);
	return NULL;
}

/* The kernel gets the module for root alone, which workers are not; nobody connects here. */
static void ask_for_kernel_tls(void)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return;
	setsockopt(fd, IPPROTO_TCP, TCP_ULP, "tls", 3);
	close(fd);
}

int https_load(struct conf *conf)
{
	static bool shared;
	char error[512];

	if (!https_port(conf))
		return 0;
	/* Over reloads it is one set. */
	if (!shared && ticket_share())
		return message("TLS: no memory");
	shared = true;
	if (conf->ktls)
		ask_for_kernel_tls();
	conf->tls = tls_site_new(&conf->https, error, sizeof(error));
	return conf->tls ? 0 : message("%s", error);
}

void https_show(const struct conf *conf, FILE *out)
{
	unsigned int i;

	for (i = 0; i < conf->https.certificate_count; i++) {
		const struct config_certificate *c = &conf->https.certificates[i];

		fprintf(out, "certificate %s %s%s%s\n", c->chain, c->key, *c->ocsp ? " ocsp " : "",
			c->ocsp);
	}
	fprintf(out, "https_redirect status %u acme %s", conf->redirect_status,
		conf->redirect_acme ? "on" : "off");
	if (conf->redirect_port)
		fprintf(out, " port %u", conf->redirect_port);
	fprintf(out, "\nhsts %s\n", *conf->hsts_text ? conf->hsts_text : "off");
}

/* --- answers --- */

const char *https_hsts(const struct conn *c)
{
	/* Without TLS anybody on the way could have said it: browsers do not listen, RFC 6797 forbids it. */
	return conn_is_secure(c) ? c->w->conf->hsts : "";
}

static bool is_letter_or_digit(unsigned char c)
{
	return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

/* Nothing but what an authority gives out there: a name of base64url's letters, RFC 8555, 8.3. */
static bool is_challenge(const struct slice *path)
{
	size_t at = sizeof(CHALLENGE) - 1;

	if (path->len <= at || memcmp(path->p, CHALLENGE, at))
		return false;
	for (; at < path->len; at++)
		if (!is_letter_or_digit(path->p[at]) && path->p[at] != '-' && path->p[at] != '_')
			return false;
	return true;
}

bool https_redirects(const struct conn *c, const struct request *req)
{
	return c->door == DOOR_REDIRECT && !(c->w->conf->redirect_acme && is_challenge(&req->path));
}

/* What a URL cannot have is encoded, for whoever reads the field in another way than we do. */
static size_t put_url(char *out, size_t size, const struct slice *s)
{
	static const char plain[] = "-._~!$&'()*+,;=:@/?%";
	size_t len = 0, i;

	for (i = 0; i < s->len && len + 4 < size; i++) {
		unsigned char c = s->p[i];

		if (is_letter_or_digit(c) || (c && strchr(plain, c)))
			out[len++] = c;
		else
			len += snprintf(out + len, size - len, "%%%02X", c);
	}
	return i == s->len ? len : size;
}

/* Nothing in it could pass for more in a URL, and we can show a certificate for it. */
static bool is_host(const struct conf *conf, const struct slice *host)
{
	unsigned int i;

	for (i = 0; i < host->len; i++)
		if (!is_letter_or_digit(host->p[i]) && !strchr("-._:[]", host->p[i]))
			return false;
	return host->len && host->len <= 255 && conf->tls &&
	       tls_site_is_for(conf->tls, host->p, host->len);
}

enum verdict https_redirect(struct conn *c, struct request *req, bool more)
{
	const struct conf *conf = c->w->conf;
	struct slice host = req->host, query = { req->query.p ? req->query.p - 1 : NULL,
						 req->query.p ? req->query.len + 1 : 0 };
	char extra[LOCATION_MAX + 512], port[8] = "";
	size_t len, n;

	if (req->flags & REQ_BODY)
		req->flags |= REQ_CLOSE;
	if (host.len && host.p[host.len - 1] == '.')
		host.len--;
	if (!is_host(conf, &host))
		return respond_status(c, req, 421, NULL, more);
	if (*req->path.p != '/')
		return respond_status(c, req, 400, NULL, more);
	if (conf->redirect_port != 443)
		snprintf(port, sizeof(port), ":%u", conf->redirect_port);
	len = snprintf(extra, sizeof(extra), "Location: https://%.*s%s", (int)host.len, host.p, port);
	n = put_url(extra + len, LOCATION_MAX, &req->path);
	if (n < LOCATION_MAX) {
		len += n;
		n = query.len ? put_url(extra + len, LOCATION_MAX - n, &query) : 0;
	}
	if (n >= LOCATION_MAX || len + n > LOCATION_MAX)
		return respond_status(c, req, 414, NULL, more);
	len += n;
	strcpy(extra + len, "\r\n");
	stats_add(c->w->stats, redirected, 1);
	return respond_status(c, req, conf->redirect_status, extra, more);
}
