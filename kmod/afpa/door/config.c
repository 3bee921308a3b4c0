// SPDX-License-Identifier: GPL-2.0
/* The file of directives, and what must not be said there. */
#include "config.h"
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tools/base/reader.h"

#define PORT_DEFAULT	"7473"

static int take_path(struct reader *r, const char *name, const char *text, char out[FILE_NAME_MAX])
{
	if (*text != '/')
		return reader_wrong(r, "%s must be a path that begins with a slash", name);
	return reader_text(r, name, text, out, FILE_NAME_MAX);
}

/* As a site is written, but with a port of our own if none is given. */
static int take_listen(struct reader *r, const char *text)
{
	struct config *config = r->config;
	char full[AFPA_SITE_TEXT];
	struct afpa_site site;

	snprintf(full, sizeof(full), "%s", text);
	if (afpa_site_parse(&site, full)) {
		snprintf(full, sizeof(full), "%s:" PORT_DEFAULT, text);
		if (strlen(text) > 48 || afpa_site_parse(&site, full))
			return reader_wrong(r, "listen must be an address and a port such as 10.0.0.2:7473 or [fd00::2]:7473, not \"%s\"",
					    text);
	}
	memset(&config->listen, 0, sizeof(config->listen));
	if (site.family == AF_INET6) {
		struct sockaddr_in6 *v6 = (void *)&config->listen;

		v6->sin6_family = AF_INET6;
		v6->sin6_port = site.port;
		memcpy(&v6->sin6_addr, site.addr, 16);
		config->listen_len = sizeof(*v6);
	} else {
		struct sockaddr_in *v4 = (void *)&config->listen;

		v4->sin_family = AF_INET;
		v4->sin_port = site.port;
		memcpy(&v4->sin_addr, site.addr, 4);
		config->listen_len = sizeof(*v4);
	}
	return 0;
}

static int take_site(struct reader *r, const char *text)
{
	struct config *config = r->config;

	if (config->nr_sites == NAMED_SITES_MAX)
		return reader_wrong(r, "more than %d sites", NAMED_SITES_MAX);
	if (afpa_site_parse(&config->sites[config->nr_sites], text))
		return reader_wrong(r, "site must be such as 0.0.0.0:80 or [::]:80, not \"%s\"", text);
	config->nr_sites++;
	return 0;
}

/* The token goes there: in the clear only to an address that is near. */
static int judge_peer(struct reader *r, const char *url)
{
	struct sockaddr_storage address = { 0 };
	char text[URL_MAX];
	struct afpa_site site;
	const char *at;

	if (!strncmp(url, "https://", 8)) {
		at = url + 8;
		if (!*at || strcspn(at, "/@?# ") != strlen(at))
			return reader_wrong(r, "peer must be https://NAME:PORT without a path, not \"%s\"", url);
		return 0;
	}
	if (strncmp(url, "http://", 7))
		return reader_wrong(r, "peer must begin with http:// or https://");
	snprintf(text, sizeof(text), "%s", url + 7);
	if (afpa_site_parse(&site, text))
		return reader_wrong(r, "peer must be http://ADDRESS:PORT, an address and not a name, not \"%s\"", url);
	address.ss_family = site.family;
	if (site.family == AF_INET)
		memcpy(&((struct sockaddr_in *)&address)->sin_addr, site.addr, 4);
	else
		memcpy(&((struct sockaddr_in6 *)&address)->sin6_addr, site.addr, 16);
	if (!address_is_near(&address) && !r->config->insecure)
		return reader_wrong(r, "the token would go to %s in the clear: use https://, or --insecure", url);
	return 0;
}

static int take_peer(struct reader *r, const char *url)
{
	struct config *config = r->config;
	unsigned int i;
	int err;

	if (config->nr_peers == PEERS_MAX)
		return reader_wrong(r, "more than %d peers", PEERS_MAX);
	err = reader_text(r, "peer", url, config->peers[config->nr_peers], URL_MAX);
	if (!err)
		err = judge_peer(r, url);
	for (i = 0; !err && i < config->nr_peers; i++)
		if (!strcmp(config->peers[i], url))
			return reader_wrong(r, "peer %s is there twice", url);
	if (!err)
		config->nr_peers++;
	return err;
}

static int take_number(struct reader *r, const char *name, const char *text, uint64_t low, uint64_t high,
		       unsigned int *out)
{
	uint64_t number;
	int err = reader_number(r, name, text, low, high, &number);

	if (!err)
		*out = number;
	return err;
}

static int take_time(struct reader *r, const char *name, const char *text, unsigned int *ms)
{
	uint64_t us;
	int err = reader_time(r, name, text, &us);

	if (!err && (us < 100000 || us > 3600000000ULL))
		return reader_wrong(r, "%s must be from 100ms to 1h", name);
	if (!err)
		*ms = us / 1000;
	return err;
}

/* 4096, 64K, 16M, 1G */
static int take_bytes(struct reader *r, const char *name, const char *text, uint64_t *bytes)
{
	static const char units[] = "KMG";
	unsigned long long number;
	const char *unit;
	char *end;

	errno = 0;
	number = strtoull(text, &end, 10);
	unit = *end ? strchr(units, *end) : NULL;
	if (*text < '0' || *text > '9' || errno || number > 1ULL << 40 || (*end && (!unit || end[1])))
		return reader_wrong(r, "%s must be a size such as 64K, 16M or 1G, not \"%s\"", name, text);
	*bytes = number << (unit ? 10 * (unit - units + 1) : 0);
	if (!*bytes || *bytes > 1ULL << 40)
		return reader_wrong(r, "%s must be from 1 to 1024G", name);
	return 0;
}

static int take_limit(struct reader *r, const char *name, const char *text)
{
	struct config *c = r->config;

	if (!strcmp(name, "max-connections"))
		return take_number(r, name, text, 8, 10000, &c->connections);
	if (!strcmp(name, "max-connections-per-address"))
		return take_number(r, name, text, 1, 10000, &c->connections_address);
	if (!strcmp(name, "max-body"))
		return take_bytes(r, name, text, &c->body_max);
	if (!strcmp(name, "memory"))
		return take_bytes(r, name, text, &c->memory);
	if (!strcmp(name, "timeout"))
		return take_time(r, name, text, &c->timeout_ms);
	if (!strcmp(name, "request-timeout"))
		return take_time(r, name, text, &c->request_ms);
	if (!strcmp(name, "peer-timeout"))
		return take_time(r, name, text, &c->peer_ms);
	if (!strcmp(name, "queue"))
		return take_number(r, name, text, 1, 100000, &c->queue);
	return reader_wrong(r, "%s is not a directive", name);
}

static int run(struct reader *r, int argc, char **argv)
{
	struct config *c = r->config;
	const char *name = argv[0];

	if (argc != 2)
		return reader_wrong(r, "%s takes one value", name);
	if (!strcmp(name, "listen"))
		return take_listen(r, argv[1]);
	if (!strcmp(name, "site"))
		return take_site(r, argv[1]);
	if (!strcmp(name, "peer"))
		return take_peer(r, argv[1]);
	if (!strcmp(name, "token"))
		return take_path(r, name, argv[1], c->token);
	if (!strcmp(name, "peer-token"))
		return take_path(r, name, argv[1], c->peer_token);
	if (!strcmp(name, "peer-ca"))
		return take_path(r, name, argv[1], c->peer_ca);
	if (!strcmp(name, "certificate"))
		return take_path(r, name, argv[1], c->certificate);
	if (!strcmp(name, "key"))
		return take_path(r, name, argv[1], c->key);
	if (!strcmp(name, "user"))
		return reader_text(r, name, argv[1], c->user, sizeof(c->user));
	if (!strcmp(name, "state")) {
		c->state[0] = '\0';
		return strcmp(argv[1], "none") ? take_path(r, name, argv[1], c->state) : 0;
	}
	return take_limit(r, name, argv[1]);
}

static int judge(const struct config *c, const char *path, char *error, size_t size)
{
	char text[AFPA_SITE_TEXT];
	const char *why = NULL;
	unsigned int i;

	if (!*c->token)
		why = "there is no token";
	else if (!*c->certificate != !*c->key)
		why = "certificate and key go together";
	else if (c->nr_peers && !*c->peer_token)
		why = "peers need a peer-token";
	else if (*c->peer_token && !strcmp(c->peer_token, c->token))
		why = "token and peer-token are one file: what clients know is not for peers";
	else if (c->memory < c->body_max)
		why = "memory is less than max-body";
	if (why) {
		snprintf(error, size, "%s: %s", path, why);
		return -EINVAL;
	}
	for (i = 0; i < c->nr_sites; i++)
		if (address_is_of_site(&c->listen, &c->sites[i])) {
			snprintf(error, size, "%s: listen %s is a site, where everybody comes", path,
				 address_text(&c->listen, text));
			return -EINVAL;
		}
	if (!*c->certificate && !address_is_near(&c->listen) && !c->insecure) {
		snprintf(error, size,
			 "%s: tokens would come to %s in the clear: give it a certificate and a key, a private address, or --insecure",
			 path, address_text(&c->listen, text));
		return -EINVAL;
	}
	return 0;
}

int config_read(struct config *config, const char *path, char *error, size_t size)
{
	struct reader r = { .config = config, .run = run, .error = error, .error_size = size };
	int err;

	*config = (struct config){
		.insecure = config->insecure,
		.state = "/var/lib/afpad",
		.user = "afpad",
		.connections = 128,
		.connections_address = 32,
		.body_max = 16 << 20,
		.memory = 256 << 20,
		.timeout_ms = 10000,
		.request_ms = 20000,
		.peer_ms = 3000,
		.queue = 10000,
	};
	r.path = path;
	take_listen(&r, "127.0.0.1");
	err = reader_file(&r, path);
	return err ? err : judge(config, path, error, size);
}
