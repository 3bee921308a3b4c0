/* SPDX-License-Identifier: MIT */
/*
 * libflotilla: the generic netlink family and the sysfs class for programs.
 * Errors are negative errno values; flt_client_error() has the kernel's sentence.
 */
#ifndef FLOTILLA_LIB_H
#define FLOTILLA_LIB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <flotilla/flotilla.h>

struct flt_client;

/* -ENOENT: flotilla.ko is not loaded. */
int flt_client_open(struct flt_client **out);
void flt_client_close(struct flt_client *c);
const char *flt_client_error(const struct flt_client *c);

struct flt_node_info {
	uint32_t id;
	char name[FLT_NAME_MAX];
	struct sockaddr_storage addr;		/* link address and port */
	struct sockaddr_storage fwd_addr;	/* ss_family 0: none given */
	uint32_t weight;
	uint8_t state, admin, role, forward, auth;
	int32_t key;
	bool proven;				/* its link is up and authenticated */
	uint64_t features;			/* enum flt_feature that its HELLO named */
	uint32_t load, rtt_us, reconnects;
	uint64_t uptime_ms;
	char reason[64];			/* why its link is not up, or last went down; "": never was */
	uint32_t given;				/* with node_new/_set: bit (1 << FLT_A_NODE_x - FLT_A_NODE_ID) */
	/* What it says of itself, which nothing proves: to be shown. */
	char version[FLT_VERSION_MAX];		/* "": it has said nothing, and then the rest is 0 */
	int64_t clock_us;			/* how far its clock is ahead of ours, */
	uint32_t clock_error_us;		/* give or take that */
	bool examined;				/* somebody has, age_s ago, and then the rest is set */
	uint32_t faults, warnings, age_s;
	char wrong[FLT_WRONG_MAX];		/* names of what is wrong */
};
#define FLT_GIVEN(attr) (1U << ((attr) - FLT_A_NODE_ID))

typedef int (*flt_node_fn)(const struct flt_node_info *node, void *arg);
int flt_node_each(struct flt_client *c, flt_node_fn fn, void *arg);
int flt_node_new(struct flt_client *c, const struct flt_node_info *node);
int flt_node_set(struct flt_client *c, const struct flt_node_info *node);	/* by name */
int flt_node_del(struct flt_client *c, const char *name);

struct flt_local_info {
	char name[FLT_NAME_MAX];
	struct sockaddr_storage addr;
	uint8_t insecure;			/* takes connections over links that are not authenticated */
	bool insecure_given;			/* with local_set */
};
int flt_local_get(struct flt_client *c, struct flt_local_info *local);
int flt_local_set(struct flt_client *c, const struct flt_local_info *local);

/* What was found when this node was examined; its peers hear it. @wrong: "": nothing. */
int flt_report_set(struct flt_client *c, uint32_t faults, uint32_t warnings, const char *wrong);

/* What connections of other nodes are taken for; port 0: all of the address. */
typedef int (*flt_service_fn)(const struct sockaddr_storage *service, void *arg);
int flt_service_each(struct flt_client *c, flt_service_fn fn, void *arg);
int flt_service_new(struct flt_client *c, const struct sockaddr_storage *service);
int flt_service_del(struct flt_client *c, const struct sockaddr_storage *service);

/* A service whose requests a policy decides on, and one of its counters. */
struct flt_policy_info {
	struct sockaddr_storage service;
	char name[16];
	char args[512];
	char what[16];
	uint64_t value;
};
typedef int (*flt_policy_fn)(const struct flt_policy_info *policy, void *arg);
int flt_policy_each(struct flt_client *c, flt_policy_fn fn, void *arg);
/* @args: nodes and NAME=NUMBER, with spaces between; "": none. */
int flt_policy_set(struct flt_client *c, const struct sockaddr_storage *service, const char *name,
		   const char *args);
int flt_policy_off(struct flt_client *c, const struct sockaddr_storage *service);

/* A number of a service whose SYNs go to lighter nodes; with a node: that node's load. */
struct flt_redirect_info {
	struct sockaddr_storage service;
	char node[FLT_NAME_MAX];
	char what[16];
	uint64_t value;
};
typedef int (*flt_redirect_fn)(const struct flt_redirect_info *info, void *arg);
int flt_redirect_each(struct flt_client *c, flt_redirect_fn fn, void *arg);
/* @args: NAME=VALUE, with spaces between, see FLT_CMD_REDIRECT_SET. */
int flt_redirect_set(struct flt_client *c, const struct sockaddr_storage *service,
		     const char *args);
int flt_redirect_off(struct flt_client *c, const struct sockaddr_storage *service);

struct flt_conn_info {
	struct flt_tuple tuple;
	char node[FLT_NAME_MAX];
	char state[16];
	uint64_t packets, bytes, age_ms;
};
typedef int (*flt_conn_fn)(const struct flt_conn_info *conn, void *arg);
int flt_conn_each(struct flt_client *c, flt_conn_fn fn, void *arg);

typedef int (*flt_stat_fn)(const char *room, const char *name, uint64_t value, void *arg);
int flt_stats_each(struct flt_client *c, flt_stat_fn fn, void *arg);

/* Events come on a socket of their own; poll its descriptor. */
int flt_events_open(struct flt_client **out);
int flt_events_fd(const struct flt_client *c);
typedef int (*flt_event_fn)(enum flt_event type, const struct flt_node_info *node, void *arg);
int flt_events_read(struct flt_client *c, flt_event_fn fn, void *arg);	/* does not block */

/* /sys/class/flotilla/dispatch/NAME; text without the newline. */
int flt_dispatch_get(const char *name, char *text, size_t size);
int flt_dispatch_set(const char *name, const char *text);
/*
 * Descriptor on the attribute: POLLPRI when it changed. Only reading it through this descriptor,
 * with flt_dispatch_read(), takes the POLLPRI back; flt_dispatch_get() does not.
 */
int flt_dispatch_watch(const char *name);
int flt_dispatch_read(int fd, char *text, size_t size);

#endif
