// SPDX-License-Identifier: GPL-2.0
#include "https.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "tools/base/reader.h"
#include "worker.h"

#define YEAR_SECONDS	31536000	/* the lists that browsers are built with take no less */

int https_door(int argc, char **argv, enum config_door *door)
{
	static const struct {
		enum config_door door;
		int count;
		const char *words[3];
	} doors[] = {
		{ DOOR_REDIRECT, 1, { "redirect" } },
		{ DOOR_TLS, 1, { "tls" } },
		{ DOOR_OPTIONAL, 3, { "tls", "client", "optional" } },
		{ DOOR_REQUIRED, 3, { "tls", "client", "required" } },
	};
	unsigned int i;
	int at;

	for (i = 0; i < sizeof(doors) / sizeof(doors[0]); i++) {
		for (at = 0; at < doors[i].count && argc - doors[i].count >= 2; at++)
			if (strcmp(argv[argc - doors[i].count + at], doors[i].words[at]))
				break;
		if (at == doors[i].count) {
			*door = doors[i].door;
			return at;
		}
	}
	*door = DOOR_PLAIN;
	return 0;
}

int https_set_certificate(struct reader *r, int argc, char **argv)
{
	struct config *c = r->config;
	struct config_certificate *certificate = &c->https.certificates[c->https.certificate_count];
	char why[512];

	if (argc == 2)
		return tls_settings_add_directory(&c->https, argv[1], why, sizeof(why)) ?
		       reader_wrong(r, "certificate: %s", why) : 0;
	if (argc != 3 && (argc != 5 || strcmp(argv[3], "ocsp")))
		return reader_wrong(r, "a certificate is: certificate CHAIN-FILE KEY-FILE [ocsp FILE], or certificate DIRECTORY");
	if (c->https.certificate_count == CONFIG_CERTIFICATES_MAX)
		return reader_wrong(r, "more than %d certificates", CONFIG_CERTIFICATES_MAX);
	if (reader_text(r, "the chain's path", argv[1], certificate->chain,
			sizeof(certificate->chain)) ||
	    reader_text(r, "the key's path", argv[2], certificate->key, sizeof(certificate->key)) ||
	    (argc == 5 && reader_text(r, "the OCSP response's path", argv[4], certificate->ocsp,
				      sizeof(certificate->ocsp))))
		return -EINVAL;
	c->https.certificate_count++;
	return 0;
}

int https_set_certificates(struct reader *r, int argc, char **argv)
{
	char why[512];

	(void)argc;
	return tls_settings_add_all(&r->config->https, argv[1], why, sizeof(why)) ?
	       reader_wrong(r, "certificates: %s", why) : 0;
}

/* https-redirect [status 301|308] [port N] [acme on|off] */
int https_set_redirect(struct reader *r, int argc, char **argv)
{
	struct config_redirect *redirect = &r->config->redirect;
	uint64_t number;
	int i, err = 0;

	if (argc % 2 == 0)
		return reader_wrong(r, "https-redirect: %s has no value", argv[argc - 1]);
	for (i = 1; i < argc && !err; i += 2) {
		if (!strcmp(argv[i], "status")) {
			redirect->status = !strcmp(argv[i + 1], "301") ? 301 : 308;
			if (redirect->status == 308 && strcmp(argv[i + 1], "308"))
				err = reader_wrong(r, "https-redirect: status must be 301 or 308");
		} else if (!strcmp(argv[i], "port")) {
			err = reader_number(r, "port", argv[i + 1], 1, 65535, &number);
			redirect->port = number;
		} else if (!strcmp(argv[i], "acme")) {
			err = reader_switch(r, "acme", argv[i + 1], &redirect->acme);
		} else {
			err = reader_wrong(r, "https-redirect has no \"%s\"", argv[i]);
		}
	}
	return err;
}

/* hsts off | hsts SECONDS [include-subdomains] [preload] */
int https_set_hsts(struct reader *r, int argc, char **argv)
{
	struct config *c = r->config;
	bool subdomains = false, preload = false;
	uint64_t seconds;
	int i;

	*c->hsts = '\0';
	if (argc == 2 && !strcmp(argv[1], "off"))
		return 0;
	if (reader_number(r, "hsts", argv[1], 0, UINT32_MAX, &seconds))
		return -EINVAL;
	for (i = 2; i < argc; i++) {
		if (!strcmp(argv[i], "include-subdomains"))
			subdomains = true;
		else if (!strcmp(argv[i], "preload"))
			preload = true;
		else
			return reader_wrong(r, "hsts has no \"%s\"", argv[i]);
	}
	if (preload && (!subdomains || seconds < YEAR_SECONDS))
		return reader_wrong(r, "hsts: preload needs include-subdomains and at least %d seconds",
				    YEAR_SECONDS);
	snprintf(c->hsts, sizeof(c->hsts), "max-age=%" PRIu64 "%s%s", seconds,
		 subdomains ? "; includeSubDomains" : "", preload ? "; preload" : "");
	return 0;
}

const char *https_check(const struct config *config)
{
	bool redirects = false, asks = false, offers = false;
	unsigned int i;

	for (i = 0; i < config->listens; i++) {
		redirects |= config->doors[i] == DOOR_REDIRECT;
		asks |= config->doors[i] > DOOR_TLS;
		offers |= config->http2[i];
	}
	if (https_port(config) && !config->https.certificate_count)
		return "listen: tls needs a certificate";
	if (redirects && !https_port(config))
		return "listen: redirect needs an address with tls to lead to";
	if (asks && !*config->https.client_ca)
		return "listen: client needs a client-ca";
	if (!asks && *config->https.client_ca)
		return "client-ca: no listener asks for certificates (tls client optional, or required)";
	if (config->https.tls_port_http2 && !offers)
		return "tls-port-http2: no listener has http2";
	if (config->https.ticket_rotation_us < 1000000)
		return "ticket-rotation must be at least 1s";
	if (!config->https.tickets && *config->https.ticket_keys)
		return "ticket-keys: tls-tickets is off";
	return NULL;
}

uint16_t https_port(const struct config *config)
{
	unsigned int i;

	for (i = 0; i < config->listens; i++)
		if (config->doors[i] >= DOOR_TLS)
			return address_port(&config->listen[i]);
	return 0;
}

uint16_t https_give_port(const struct conn *conn)
{
	const struct tls_settings *https = &conn->worker->config->https;

	return conn->prelude ? https->tls_port_http2 : https->tls_port;
}

const char *https_hsts(const struct conn *conn, char *out, size_t size)
{
	const char *value = conn->worker->config->hsts;

	/* Without TLS anybody on the way could have said it: browsers do not listen, RFC 6797 forbids it. */
	*out = '\0';
	if (conn->tls && *value)
		snprintf(out, size, "Strict-Transport-Security: %s\r\n", value);
	return out;
}

bool https_says(const struct config *config, const struct field *field)
{
	return *config->hsts && span_is(field->name, "strict-transport-security");
}
