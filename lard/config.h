/* SPDX-License-Identifier: GPL-2.0 */
/*
 * lardd's configuration: a text file, one directive a line. lardd.conf(5) lists the directives.
 * A struct config never changes once read; reload makes another one.
 */
#ifndef LARD_CONFIG_H
#define LARD_CONFIG_H

#include <stdbool.h>
#include <stdint.h>
#include "address.h"
#include "cache_class.h"
#include "policy.h"
#include "share.h"
#include "tls/settings.h"
#include "tools/base/log.h"

struct tls_site;

#define CONFIG_PATH		"/etc/flotilla/lardd.conf"
#define CONFIG_LISTEN_MAX	16
#define CONFIG_WORKERS_MAX	64
#define REQUEST_HEADER_MAX	16384

enum config_mode {
	MODE_AUTO,	/* hand off where that is possible, else proxy */
	MODE_PROXY,
};

enum config_events { EVENTS_EPOLL, EVENTS_USELECT };

enum health_kind { HEALTH_TCP, HEALTH_HTTP, HEALTH_NONE };

struct config_node {
	char name[LARD_NAME_MAX];
	union address address;		/* of its web server */
	uint32_t weight;
	enum lard_admin admin;
	bool proxy_protocol;
};

/**
 * struct config_redirect - see redirect.h
 * @port: of HTTPS; 0: that of the first listener with TLS
 * @acme: what a certificate authority asks for is served in clear text
 */
struct config_redirect {
	unsigned int status;
	uint16_t port;
	bool acme;
};

struct config_health {
	enum health_kind kind;
	char path[256];
	uint64_t interval_us;
	unsigned int fall, rise;
};

/**
 * enum config_miss - whom a request goes to that no cache answers; a site's
 * @MISS_AUTO:    proxied if it is of a class that is kept, else handed off where that can be
 * @MISS_PROXY:   proxied
 * @MISS_HANDOFF: handed off where that can be: only what programs put is kept
 */
enum config_miss { MISS_AUTO, MISS_PROXY, MISS_HANDOFF };

struct config {
	_Atomic unsigned int users;
	union address listen[CONFIG_LISTEN_MAX];
	enum config_door doors[CONFIG_LISTEN_MAX];
	bool http2[CONFIG_LISTEN_MAX];	/* of those with TLS: offers it */
	enum config_miss misses[CONFIG_LISTEN_MAX];
	unsigned int listens;
	struct tls_settings https;
	struct tls_site *tls;		/* made of these by config_load_tls(); NULL: no listener needs it */
	struct config_redirect redirect;
	char hsts[64];			/* the field's value; empty: none of ours */
	struct config_node nodes[LARD_MAX_NODES];
	unsigned int node_count;
	struct config_health health;
	struct lard_params params;
	uint32_t targets;
	enum config_mode mode;
	bool early;			/* see early.h */
	enum config_events events;
	unsigned int workers;
	unsigned int backlog;
	unsigned int max_connections;
	unsigned int max_per_address;	/* connections; 0: as many as there are */
	unsigned int max_queue;
	unsigned int tunnels;
	unsigned int max_header;
	unsigned int http2_streams;	/* of a connection, at a time */
	unsigned int keepalive_requests;
	unsigned int max_handshakes;
	uint64_t handshake_timeout_us;
	uint64_t header_timeout_us;
	uint64_t http2_wait_us;		/* for a first request that may be handed off */
	uint64_t idle_timeout_us;
	uint64_t queue_timeout_us;
	uint64_t connect_timeout_us;
	uint64_t io_timeout_us;
	unsigned int client_rate;	/* bytes a second that a proxied client moves; 0: any */
	uint64_t stop_timeout_us;
	unsigned int handoff_timeout_ms;
	unsigned int splice_min;	/* bytes of an answer that are left to splice; 0: none */
	unsigned int cache_size;	/* bytes; 0: no cache */
	unsigned int cache_object_max;	/* bytes of a body */
	bool cache_kernel;		/* afpa.ko gets what the cache has */
	struct cache_policy cache;
	uint64_t cache_wait_us;		/* for another's answer */
	bool key_host;
	bool forwarded_for;
	char default_host[256];
	char user[64];			/* to become; empty: somebody without rights */
	uint16_t proxy_port;		/* 0: the port the client came to */
	char control[108];
	unsigned int control_mode;
	union address metrics;
	bool metrics_given;
	union address status;
	bool status_given;
	union address share;		/* see share.h */
	bool share_given;
	char share_key[256];
	union address peers[SHARE_PEERS_MAX];
	unsigned int peer_count;
	char access_log[256];
	bool access_json;
	enum log_level log_level;
};

/* NULL after writing "file:line: sentence" into @error. */
struct config *config_read(const char *path, char *error, size_t size);
/* Reads the certificates that it names, if a listener needs them. 0 or -EINVAL with a sentence. */
int config_load_tls(struct config *config, char *error, size_t size);
/* One user, the reader, to begin with; freed with the last. */
struct config *config_get(struct config *config);
bool config_listens_on(const struct config *config, const union address *address);
enum config_door config_door(const struct config *config, const union address *address);
enum config_miss config_miss(const struct config *config, const union address *address);
bool config_http2(const struct config *config, const union address *address);
/* Does any listener of this port offer it? */
bool config_http2_port(const struct config *config, uint16_t port);
void config_put(struct config *config);

#endif
