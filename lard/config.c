// SPDX-License-Identifier: GPL-2.0
/* Reading the configuration. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "config.h"
#include "early.h"
#include "https.h"
#include "tls/tls.h"
#include "tools/base/reader.h"

static int find_listen(const struct config *config, const union address *address)
{
	unsigned int i;

	for (i = 0; i < config->listens; i++)
		if (!memcmp(&config->listen[i], address, sizeof(*address)))
			return i;
	return -1;
}

static int set_listen(struct reader *r, int argc, char **argv)
{
	struct config *c = r->config;
	bool http2 = argc > 2 && !strcmp(argv[argc - 1], "http2");
	enum config_door door;
	int i, end = argc - http2;

	end -= https_door(end, argv, &door);
	if (http2 && door < DOOR_TLS)
		return reader_wrong(r, "listen: http2 needs tls before it");
	for (i = 1; i < end; i++) {
		union address address;

		if (address_parse(argv[i], 0, &address))
			return reader_wrong(r, "listen: \"%s\" is not ADDRESS:PORT or [ADDRESS]:PORT",
					    argv[i]);
		if (config_listens_on(c, &address)) {
			if (config_door(c, &address) != door || config_http2(c, &address) != http2)
				return reader_wrong(r, "listen: \"%s\" is there in two ways, as with and without tls",
						    argv[i]);
			continue;
		}
		if (c->listens == CONFIG_LISTEN_MAX)
			return reader_wrong(r, "more than %d addresses to listen on",
					    CONFIG_LISTEN_MAX);
		c->doors[c->listens] = door;
		c->http2[c->listens] = http2;
		c->listen[c->listens++] = address;
	}
	return 0;
}

/* miss auto|proxy|handoff [ADDRESS:PORT...]: those of listen above, if none is named all of them */
static int set_miss(struct reader *r, int argc, char **argv)
{
	static const char *const names[] = { "auto", "proxy", "handoff" };
	struct config *c = r->config;
	union address address;
	unsigned int miss, n;
	int i, at;

	for (miss = 0; miss <= MISS_HANDOFF && strcmp(argv[1], names[miss]); miss++)
		;
	if (miss > MISS_HANDOFF)
		return reader_wrong(r, "miss must be auto, proxy or handoff");
	for (i = 2; i < argc; i++) {
		at = address_parse(argv[i], 0, &address) ? -1 : find_listen(c, &address);
		if (at < 0)
			return reader_wrong(r, "miss: \"%s\" is not an address that is listened on above", argv[i]);
		c->misses[at] = miss;
	}
	for (n = 0; argc == 2 && n < c->listens; n++)
		c->misses[n] = miss;
	return 0;
}

static int set_policy(struct reader *r, int argc, char **argv)
{
	(void)argc;
	if (lard_policy_parse(argv[1], &r->config->params.policy))
		return reader_wrong(r, "\"%s\" is not one of wrr, lb, lard, lard/r, lc, chbl",
				    argv[1]);
	return 0;
}

static bool name_is_good(const char *name)
{
	return *name && strlen(name) < LARD_NAME_MAX &&
	       !name[strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
			    "0123456789._-")];
}

static int set_node_option(struct reader *r, struct config_node *node, const char *key,
			   const char *value)
{
	uint64_t number;
	int err;

	if (!strcmp(key, "weight")) {
		err = reader_number(r, key, value, 0, 65535, &number);
		node->weight = number;
		return err;
	}
	if (!strcmp(key, "admin")) {
		node->admin = !strcmp(value, "drain") ? LARD_DRAIN :
			      !strcmp(value, "maintenance") ? LARD_MAINTENANCE : LARD_ACTIVE;
		if (node->admin == LARD_ACTIVE && strcmp(value, "active"))
			return reader_wrong(r, "admin must be active, drain or maintenance");
		return 0;
	}
	if (!strcmp(key, "proxy-protocol"))
		return reader_switch(r, key, value, &node->proxy_protocol);
	return reader_wrong(r, "a node has no \"%s\"", key);
}

static int set_node(struct reader *r, int argc, char **argv)
{
	struct config *c = r->config;
	struct config_node *node = &c->nodes[c->node_count];
	unsigned int i;
	int arg, err;

	if (c->node_count == LARD_MAX_NODES)
		return reader_wrong(r, "more than %d nodes", LARD_MAX_NODES);
	if (argc < 3 || argc % 2 == 0)
		return reader_wrong(r, "a node is: node NAME ADDRESS:PORT [KEY VALUE]...");
	if (!name_is_good(argv[1]))
		return reader_wrong(r, "\"%s\" is not a node name: up to %d of A-Z a-z 0-9 . _ -",
				    argv[1], LARD_NAME_MAX - 1);
	for (i = 0; i < c->node_count; i++)
		if (!strcmp(c->nodes[i].name, argv[1]))
			return reader_wrong(r, "node %s is there twice", argv[1]);
	*node = (struct config_node){ .weight = 100 };
	strcpy(node->name, argv[1]);
	if (address_parse(argv[2], 0, &node->address))
		return reader_wrong(r, "\"%s\" is not ADDRESS:PORT", argv[2]);
	for (arg = 3; arg < argc; arg += 2) {
		err = set_node_option(r, node, argv[arg], argv[arg + 1]);
		if (err)
			return err;
	}
	c->node_count++;
	return 0;
}

/* health-check tcp|http|none [path P] [interval T] [fall N] [rise N] */
static int set_health(struct reader *r, int argc, char **argv)
{
	struct config_health *h = &r->config->health;
	uint64_t number;
	int i, err = 0;

	if (!strcmp(argv[1], "tcp"))
		h->kind = HEALTH_TCP;
	else if (!strcmp(argv[1], "http"))
		h->kind = HEALTH_HTTP;
	else if (!strcmp(argv[1], "none"))
		h->kind = HEALTH_NONE;
	else
		return reader_wrong(r, "health-check must be tcp, http or none");
	if (argc % 2)
		return reader_wrong(r, "health-check: %s has no value", argv[argc - 1]);
	for (i = 2; i < argc && !err; i += 2) {
		if (!strcmp(argv[i], "path")) {
			err = *argv[i + 1] == '/' ?
			      reader_text(r, "path", argv[i + 1], h->path, sizeof(h->path)) :
			      reader_wrong(r, "a path begins with /");
		} else if (!strcmp(argv[i], "interval")) {
			err = reader_time(r, "interval", argv[i + 1], &h->interval_us);
			if (!err && h->interval_us < 10000)
				err = reader_wrong(r, "interval must be at least 10ms");
		} else if (!strcmp(argv[i], "fall")) {
			err = reader_number(r, "fall", argv[i + 1], 1, 1000, &number);
			h->fall = number;
		} else if (!strcmp(argv[i], "rise")) {
			err = reader_number(r, "rise", argv[i + 1], 1, 1000, &number);
			h->rise = number;
		} else {
			err = reader_wrong(r, "health-check has no \"%s\"", argv[i]);
		}
	}
	return err;
}

static int set_mode(struct reader *r, int argc, char **argv)
{
	(void)argc;
	if (!strcmp(argv[1], "auto"))
		r->config->mode = MODE_AUTO;
	else if (!strcmp(argv[1], "proxy"))
		r->config->mode = MODE_PROXY;
	else
		return reader_wrong(r, "mode must be auto or proxy");
	return 0;
}

static int set_events(struct reader *r, int argc, char **argv)
{
	(void)argc;
	if (!strcmp(argv[1], "epoll"))
		r->config->events = EVENTS_EPOLL;
	else if (!strcmp(argv[1], "uselect"))
		r->config->events = EVENTS_USELECT;
	else
		return reader_wrong(r, "events must be epoll or uselect");
	return 0;
}

static int set_page(struct reader *r, char **argv, union address *address, bool *given)
{
	*given = strcmp(argv[1], "off");
	if (*given && address_parse(argv[1], 0, address))
		return reader_wrong(r, "%s must be ADDRESS:PORT or off", argv[0]);
	return 0;
}

static int set_metrics(struct reader *r, int argc, char **argv)
{
	(void)argc;
	return set_page(r, argv, &r->config->metrics, &r->config->metrics_given);
}

static int set_status(struct reader *r, int argc, char **argv)
{
	(void)argc;
	return set_page(r, argv, &r->config->status, &r->config->status_given);
}

static int set_share(struct reader *r, int argc, char **argv)
{
	(void)argc;
	return set_page(r, argv, &r->config->share, &r->config->share_given);
}

static bool is_peer(const struct config *c, const union address *address)
{
	unsigned int i;

	for (i = 0; i < c->peer_count; i++)
		if (!memcmp(&c->peers[i], address, sizeof(*address)))
			return true;
	return false;
}

static int set_peer(struct reader *r, int argc, char **argv)
{
	struct config *c = r->config;
	int i;

	for (i = 1; i < argc; i++) {
		if (c->peer_count == SHARE_PEERS_MAX)
			return reader_wrong(r, "more than %d peers", SHARE_PEERS_MAX);
		if (address_parse(argv[i], 0, &c->peers[c->peer_count]))
			return reader_wrong(r, "\"%s\" is not ADDRESS:PORT", argv[i]);
		if (is_peer(c, &c->peers[c->peer_count]))
			return reader_wrong(r, "peer %s is there twice", argv[i]);
		c->peer_count++;
	}
	return 0;
}

static int set_access_log(struct reader *r, int argc, char **argv)
{
	struct config *c = r->config;

	if (argc == 3 && strcmp(argv[2], "json") && strcmp(argv[2], "logfmt"))
		return reader_wrong(r, "the access log's format is json or logfmt");
	c->access_json = argc < 3 || !strcmp(argv[2], "json");
	if (!strcmp(argv[1], "off")) {
		c->access_log[0] = '\0';
		return 0;
	}
	return reader_text(r, "access-log", argv[1], c->access_log, sizeof(c->access_log));
}

static int set_log_level(struct reader *r, int argc, char **argv)
{
	(void)argc;
	if (log_parse_level(argv[1], &r->config->log_level))
		return reader_wrong(r, "log-level must be error, warn, info or debug");
	return 0;
}

static int set_control(struct reader *r, int argc, char **argv)
{
	struct config *c = r->config;
	unsigned long mode;
	char *end;

	if (argc == 3) {
		mode = strtoul(argv[2], &end, 8);
		if (*argv[2] < '0' || *argv[2] > '7' || *end || mode > 0777)
			return reader_wrong(r, "control: \"%s\" is not a file mode", argv[2]);
		c->control_mode = mode;
	}
	if (!strcmp(argv[1], "off")) {
		c->control[0] = '\0';
		return 0;
	}
	return reader_text(r, "control", argv[1], c->control, sizeof(c->control));
}

/* cache-class static|image|dynamic on|off [T] */
static int set_cache_class(struct reader *r, int argc, char **argv)
{
	static const uint64_t ttls_us[CACHE_CLASSES] = {
		[CLASS_STATIC] = 600000000, [CLASS_IMAGE] = 3600000000ULL,
	};
	struct cache_policy *policy = &r->config->cache;
	unsigned int class;

	for (class = 0; class < CACHE_CLASSES; class++)
		if (!strcmp(argv[1], cache_class_names[class]))
			break;
	if (class == CACHE_CLASSES)
		return reader_wrong(r, "cache-class must be static, image or dynamic");
	if (argc < 3)
		return reader_wrong(r, "cache-class: %s is on or off", argv[1]);
	policy->classes[class].ttl_us = ttls_us[class];
	if (reader_switch(r, "cache-class", argv[2], &policy->classes[class].on))
		return -EINVAL;
	return argc < 4 ? 0 :
	       reader_time(r, "cache-class", argv[3], &policy->classes[class].ttl_us);
}

static int set_cache_dynamic(struct reader *r, int argc, char **argv)
{
	struct cache_policy *policy = &r->config->cache;
	int i;

	for (i = 1; i < argc; i++) {
		if (policy->prefixes == CACHE_PREFIXES_MAX)
			return reader_wrong(r, "more than %d beginnings of dynamic paths", CACHE_PREFIXES_MAX);
		if (*argv[i] != '/')
			return reader_wrong(r, "a path begins with /");
		if (reader_text(r, "cache-dynamic", argv[i], policy->dynamic[policy->prefixes++],
				CACHE_PREFIX_SIZE))
			return -EINVAL;
	}
	return 0;
}

static int set_include(struct reader *r, int argc, char **argv)
{
	(void)argc;
	if (r->depth == READER_DEPTH)
		return reader_wrong(r, "files include each other");
	return reader_file(r, argv[1]);
}

enum kind { KIND_CALL, KIND_NUMBER, KIND_PORT, KIND_TIME, KIND_SWITCH, KIND_TEXT };

struct directive {
	const char *name;
	enum kind kind;
	int words;		/* at most, with the name; 0: any number */
	int (*set)(struct reader *r, int argc, char **argv);
	size_t offset;
	uint64_t low, high;	/* high: size of a text */
};

#define NUMBER(text, member, low, high) \
	{ text, KIND_NUMBER, 2, NULL, offsetof(struct config, member), low, high }
#define TIME(text, member) { text, KIND_TIME, 2, NULL, offsetof(struct config, member), 0, 0 }
#define SWITCH(text, member) { text, KIND_SWITCH, 2, NULL, offsetof(struct config, member), 0, 0 }
#define CALL(text, words, function) { text, KIND_CALL, words, function, 0, 0, 0 }

static const struct directive directives[] = {
	CALL("listen", 0, set_listen),
	CALL("certificate", 0, https_set_certificate),
	CALL("certificates", 2, https_set_certificates),
	{ "client-ca", KIND_TEXT, 2, NULL, offsetof(struct config, https.client_ca), 0, 256 },
	SWITCH("tls-tickets", https.tickets),
	TIME("ticket-rotation", https.ticket_rotation_us),
	{ "ticket-keys", KIND_TEXT, 2, NULL, offsetof(struct config, https.ticket_keys), 0, 256 },
	TIME("handshake-timeout", handshake_timeout_us),
	CALL("https-redirect", 0, https_set_redirect),
	CALL("hsts", 4, https_set_hsts),
	CALL("policy", 2, set_policy),
	NUMBER("t_low", params.t_low, 1, 1000000),
	NUMBER("t_high", params.t_high, 2, 1000000),
	NUMBER("max_outstanding", params.max_outstanding, 0, 100000000),
	NUMBER("load-bound", params.bound_percent, 100, 10000),
	TIME("replication_seconds", params.replication_us),
	TIME("slow-start", params.slow_start_us),
	NUMBER("targets", targets, 1, 1 << 28),
	CALL("node", 0, set_node),
	CALL("health-check", 0, set_health),
	CALL("mode", 2, set_mode),
	SWITCH("early", early),
	CALL("events", 2, set_events),
	NUMBER("workers", workers, 1, CONFIG_WORKERS_MAX),
	NUMBER("backlog", backlog, 1, 1 << 20),
	NUMBER("max-connections", max_connections, 1, 1 << 28),
	NUMBER("max-connections-per-address", max_per_address, 0, 1 << 28),
	NUMBER("max-handshakes", max_handshakes, 1, 1 << 28),
	NUMBER("max-queue", max_queue, 0, 1 << 28),
	NUMBER("tunnels", tunnels, 0, 1 << 28),
	NUMBER("max-header", max_header, 256, REQUEST_HEADER_MAX),
	NUMBER("http2-streams", http2_streams, 1, 1000),
	NUMBER("keepalive-requests", keepalive_requests, 1, UINT_MAX),
	TIME("header-timeout", header_timeout_us),
	TIME("idle-timeout", idle_timeout_us),
	TIME("queue-timeout", queue_timeout_us),
	TIME("connect-timeout", connect_timeout_us),
	TIME("io-timeout", io_timeout_us),
	TIME("stop-timeout", stop_timeout_us),
	NUMBER("client-rate", client_rate, 0, 1 << 30),
	NUMBER("handoff-timeout-ms", handoff_timeout_ms, 0, 600000),
	NUMBER("splice-min", splice_min, 0, UINT_MAX),
	NUMBER("cache-size", cache_size, 0, UINT_MAX),
	NUMBER("cache-object-max", cache_object_max, 1, UINT_MAX),
	SWITCH("cache-kernel", cache_kernel),
	CALL("cache-class", 4, set_cache_class),
	CALL("miss", 0, set_miss),
	CALL("cache-dynamic", 0, set_cache_dynamic),
	TIME("cache-wait", cache_wait_us),
	TIME("cache-grace", cache.grace_us),
	TIME("cache-stale-if-error", cache.if_error_us),
	SWITCH("key-host", key_host),
	SWITCH("forwarded-for", forwarded_for),
	{ "default-host", KIND_TEXT, 2, NULL, offsetof(struct config, default_host), 0, 256 },
	{ "user", KIND_TEXT, 2, NULL, offsetof(struct config, user), 0, 64 },
	{ "tls-port", KIND_PORT, 2, NULL, offsetof(struct config, https.tls_port), 1, 65535 },
	{ "tls-port-http2", KIND_PORT, 2, NULL, offsetof(struct config, https.tls_port_http2), 1, 65535 },
	TIME("http2-wait", http2_wait_us),
	{ "proxy-port", KIND_PORT, 2, NULL, offsetof(struct config, proxy_port), 1, 65535 },
	CALL("control", 3, set_control),
	CALL("metrics", 2, set_metrics),
	CALL("status", 2, set_status),
	CALL("share", 2, set_share),
	{ "share-key", KIND_TEXT, 2, NULL, offsetof(struct config, share_key), 0, 256 },
	CALL("peer", 0, set_peer),
	CALL("access-log", 3, set_access_log),
	CALL("log-level", 2, set_log_level),
	CALL("include", 2, set_include),
};

static int run_directive(struct reader *r, const struct directive *d, int argc, char **argv)
{
	void *member = (char *)r->config + d->offset;
	uint64_t number;
	int err;

	if (argc < 2)
		return reader_wrong(r, "%s needs a value", d->name);
	if (d->words && argc > d->words)
		return reader_wrong(r, "%s: \"%s\" is too much", d->name, argv[d->words]);
	switch (d->kind) {
	case KIND_NUMBER:
		err = reader_number(r, d->name, argv[1], d->low, d->high, &number);
		if (!err)
			*(unsigned int *)member = number;
		return err;
	case KIND_PORT:
		err = reader_number(r, d->name, argv[1], d->low, d->high, &number);
		if (!err)
			*(uint16_t *)member = number;
		return err;
	case KIND_TIME:
		return reader_time(r, d->name, argv[1], member);
	case KIND_SWITCH:
		return reader_switch(r, d->name, argv[1], member);
	case KIND_TEXT:
		return reader_text(r, d->name, argv[1], member, d->high);
	default:
		return d->set(r, argc, argv);
	}
}

static int run_words(struct reader *r, int argc, char **argv)
{
	unsigned int i;

	for (i = 0; i < sizeof(directives) / sizeof(directives[0]); i++)
		if (!strcmp(argv[0], directives[i].name))
			return run_directive(r, &directives[i], argc, argv);
	return reader_wrong(r, "unknown directive \"%s\"", argv[0]);
}

/* NULL, or why no peer would be heard. */
static const char *check_share(const struct config *c)
{
	unsigned int i;

	if (c->share_given && (!*c->share_key || !c->peer_count))
		return "share needs share-key and peer";
	for (i = 0; c->share_given && i < c->peer_count; i++)
		if (c->peers[i].any.sa_family != c->share.any.sa_family)
			return "share and peer are IPv4, or they are IPv6";
	return NULL;
}

/* What no single line is to blame for. */
static int check_whole(struct reader *r)
{
	const struct config *c = r->config;
	const char *why;

	if (lard_check_params(&c->params, &why))
		goto wrong;
	if (c->cache_size && c->cache_object_max > c->cache_size / 2)
		why = "cache-object-max must be at most half of cache-size";
	else if (c->cache_kernel && !c->cache_size)
		why = "cache-kernel needs cache-size";
	else if ((why = check_share(c)) || (why = https_check(c)) || (why = early_check(c)))
		goto wrong;
	else if (!c->listens)
		why = "no address to listen on";
	else
		return 0;
wrong:
	snprintf(r->error, r->error_size, "%s: %s", r->path, why);
	return -EINVAL;
}

static const struct config defaults = {
	.users = 1,
	.health = {
		.kind = HEALTH_TCP, .path = "/", .interval_us = 1000000, .fall = 3, .rise = 2,
	},
	.params = LARD_PARAMS_DEFAULT,
	.targets = LARD_TARGETS_DEFAULT,
	.workers = 1,
	.backlog = 4096,
	.max_connections = 1 << 20,
	.max_handshakes = 2048,
	.max_queue = 10000,
	.tunnels = 10000,
	.max_header = 8192,
	.http2_streams = 100,
	.keepalive_requests = 1000,
	.splice_min = 8192,
	.cache_object_max = 1 << 20,
	.cache_wait_us = 5000000,
	.https = { .tickets = true, .ticket_rotation_us = 3600000000ULL },
	.redirect = { .status = 308 },
	.handshake_timeout_us = 10000000,
	.header_timeout_us = 10000000,
	.http2_wait_us = 500000,
	.idle_timeout_us = 60000000,
	.queue_timeout_us = 30000000,
	.connect_timeout_us = 3000000,
	.io_timeout_us = 60000000,
	.client_rate = 500,
	.stop_timeout_us = 30000000,
	.key_host = true,
	.forwarded_for = true,
	.control = "/run/flotilla/lardd.sock",
	.control_mode = 0660,
	.access_json = true,
	.log_level = LOG_LEVEL_INFO,
};

struct config *config_read(const char *path, char *error, size_t size)
{
	struct config *config = malloc(sizeof(*config));
	struct reader reader = {
		.config = config, .run = run_words, .path = path,
		.error = error, .error_size = size,
	};

	if (!config) {
		snprintf(error, size, "no memory");
		return NULL;
	}
	*config = defaults;
	if (reader_file(&reader, path) || (reader.path = path, check_whole(&reader))) {
		config_put(config);
		return NULL;
	}
	/* Later requests of a connection that is handed off would bring what lardd alone may say. */
	if (*config->https.client_ca)
		config->mode = MODE_PROXY;
	return config;
}

int config_load_tls(struct config *config, char *error, size_t size)
{
	if (!https_port(config))
		return 0;
	config->tls = tls_site_new(&config->https, error, size);
	return config->tls ? 0 : -EINVAL;
}

struct config *config_get(struct config *config)
{
	config->users++;
	return config;
}

bool config_listens_on(const struct config *config, const union address *address)
{
	return find_listen(config, address) >= 0;
}

enum config_door config_door(const struct config *config, const union address *address)
{
	int at = find_listen(config, address);

	return at < 0 ? DOOR_PLAIN : config->doors[at];
}

enum config_miss config_miss(const struct config *config, const union address *address)
{
	int at = find_listen(config, address);

	return at < 0 ? MISS_AUTO : config->misses[at];
}

bool config_http2(const struct config *config, const union address *address)
{
	int at = find_listen(config, address);

	return at >= 0 && config->http2[at];
}

bool config_http2_port(const struct config *config, uint16_t port)
{
	unsigned int i;

	for (i = 0; i < config->listens; i++)
		if (config->http2[i] && address_port(&config->listen[i]) == port)
			return true;
	return false;
}

void config_put(struct config *config)
{
	if (!config || --config->users)
		return;
	tls_site_put(config->tls);
	free(config);
}
