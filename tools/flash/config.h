/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Configuration: one directive a line, "name value..."; "vhost NAME... { }" groups the ones of a
 * virtual host. Directives of vhosts given outside a group belong to the default host, which
 * answers for every name that no group claims. Built once, read only afterwards.
 */
#ifndef FLASH_CONFIG_H
#define FLASH_CONFIG_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "lard/tls/settings.h"

struct mime_map;
struct tls_site;

enum architecture { ARCH_AMPED, ARCH_SPED, ARCH_MP, ARCH_MT };
enum event_backend { EVENTS_EPOLL, EVENTS_URING, EVENTS_USELECT };
enum transfer { TRANSFER_SENDFILE, TRANSFER_MMAP, TRANSFER_IOLITE };
enum residency {
	RESIDENCY_AUTO, RESIDENCY_PREADV2, RESIDENCY_CACHESTAT, RESIDENCY_MINCORE,
	RESIDENCY_MLOCK, RESIDENCY_CLOCK, RESIDENCY_OFF,
};
enum helper_kind { HELPERS_THREADS, HELPERS_PROCESSES, HELPERS_IO_URING };
enum schedule { SCHEDULE_FIFO, SCHEDULE_SMALL_FIRST };
enum symlinks { SYMLINKS_BENEATH, SYMLINKS_FOLLOW, SYMLINKS_DENY };
enum log_format { LOG_COMBINED, LOG_JSON };
enum app_kind { APP_CGI, APP_FASTCGI, APP_STATUS };

/* Names of the values above, NULL-terminated, in order. */
extern const char *const architecture_names[];
extern const char *const event_backend_names[];

struct listen_address {
	struct sockaddr_storage addr;
	socklen_t len;
	enum config_door door;
	bool http2;		/* with TLS: offers it */
	char *text;
};

/* A program that answers for part of the name space. */
struct app {
	enum app_kind kind;
	char *match;		/* "/prefix/" or "*.suffix" */
	char *target;		/* cgi: directory; fastcgi: "unix:PATH", "HOST:PORT", "exec:PROGRAM" */
	char *place;		/* cgi, exec: where @target leads, without links; NULL: nowhere */
	bool shared;		/* a document root lies in @place: programs are what may be executed */
	unsigned int procs;	/* fastcgi exec: processes kept */
	int index;		/* position among all apps of the configuration */
	struct app *next;
};

struct error_page {
	int status;
	char *file;
	char *body;		/* read when the configuration is loaded */
	size_t len;
	struct error_page *next;
};

struct vhost {
	char **names;		/* lower case, NULL-terminated; "*.example.org" matches below */
	char *root;
	char **index;
	char *userdir;		/* "/home/+/public_html", '+' stands for the user; NULL: off */
	char *headers;		/* extra response header lines, each with CRLF */
	size_t headers_len;
	struct app *apps;
	struct error_page *error_pages;
	enum symlinks symlinks;
	bool listing;
	bool precompressed;
	int root_fd;		/* opened by the worker, -1 before */
	bool own_kernel;	/* on a file system that asks no server (FUSE, NFS, ...) */
	int id;
	struct vhost *next;
};

struct conf {
	struct listen_address *listens;
	unsigned int nr_listens;
	struct vhost *vhosts;	/* the first is the default host */
	unsigned int nr_vhosts;
	unsigned int nr_apps;
	bool programs;		/* some host has one whose text a file could be */
	struct mime_map *mime;

	unsigned int architecture;	/* enum architecture */
	unsigned int events;		/* enum event_backend */
	unsigned int workers;		/* processes of an event loop each; 0: no master */
	unsigned int processes;		/* mp */
	unsigned int threads;		/* mt */
	unsigned int helpers;		/* most helpers of a worker */
	unsigned int helper_kind;	/* enum helper_kind */
	bool reuseport;
	bool defer_accept;
	unsigned int backlog;
	unsigned int send_buffer;	/* 0: the kernel's automatic size */
	char *user, *group;
	uid_t uid;		/* of the workers */
	gid_t gid;
	char *pidfile;

	/* HTTPS */
	struct tls_settings https;
	struct tls_site *tls;		/* made of these by https_load(); NULL: no listener needs it */
	bool ktls;			/* the kernel makes the records, where it can */
	char *ticket_keys;		/* file; NULL: keys of our own */
	unsigned int ticket_rotation, handshake_timeout;
	unsigned int max_handshakes;	/* of all workers */
	unsigned int http2_streams;	/* of a connection, at a time */
	unsigned int redirect_status, redirect_port;
	bool redirect_acme;
	char hsts[128], hsts_text[64];	/* header line, as configured; empty: none */

	/* caches */
	bool path_cache, header_cache, map_cache;
	unsigned int path_entries;
	uint64_t memory_cache;		/* bytes of small files kept in memory */
	unsigned int memory_file;	/* largest file kept in memory */
	uint64_t map_bytes;		/* transfer mmap: most bytes mapped */
	unsigned int chunk;		/* unit of mapping, residency test and sending */
	unsigned int open_files;	/* most descriptors kept open */
	unsigned int revalidate_ms;
	unsigned int transfer;		/* enum transfer */
	unsigned int residency;		/* enum residency */
	unsigned int schedule;		/* enum schedule, of helpers' reads */
	bool header_align;

	/* limits */
	unsigned int max_connections;	/* of a worker */
	unsigned int max_line, max_header, max_header_lines;
	uint64_t max_body;
	uint64_t held_memory;		/* of all workers, for requests and answers that wait */
	unsigned int header_timeout, body_timeout, send_timeout, keepalive_timeout, app_timeout;
	unsigned int drain_timeout;
	unsigned int cgi_processes;
	unsigned int fastcgi_keep, fastcgi_idle, fastcgi_connections;
	unsigned int keepalive_requests;	/* 0: no limit */
	char *hand_back;		/* node that dispatches next requests; NULL: off */

	/* log */
	char *access_log;		/* NULL: off; "-": standard output */
	unsigned int log_format;	/* enum log_format */
	bool stall_histogram;
	char *mime_file;
};

/* @name is only for messages. NULL and a message on stderr when something is wrong. */
struct conf *config_new(void);
int config_load(struct conf *conf, const char *path);
int config_set(struct conf *conf, const char *name, const char *value, const char *where);
/* Fills in what was not said and checks what only the whole can tell. */
int config_finish(struct conf *conf);
void config_free(struct conf *conf);
void config_help(FILE *out);
void config_show(const struct conf *conf, FILE *out);

const struct vhost *vhost_find(const struct conf *conf, const char *host, size_t len);

#endif
