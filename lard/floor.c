// SPDX-License-Identifier: GPL-2.0
/* What flotilla.ko tells. Worker 0 only. */
#include <errno.h>
#include <flotilla.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "floor.h"
#include "worker.h"

enum attribute { A_POLICY, A_T_LOW, A_T_HIGH, A_REPLICATION, A_MAX_OUTSTANDING, ATTRIBUTES };

static const char *const attribute_names[ATTRIBUTES] = {
	"policy", "t_low", "t_high", "replication_seconds", "max_outstanding",
};

struct attribute_watch {
	struct source source;
	struct floor *floor;
};

/**
 * struct floor - see floor.h
 * @events:  netlink; NULL: the module is not there
 * @watched: sysfs attributes are
 * @stale:   the node table is to be read anew
 */
struct floor {
	struct lardd *lardd;
	struct flt_client *client;
	struct flt_client *events;
	struct source source;
	struct attribute_watch watches[ATTRIBUTES];
	bool watched;
	bool stale;
};

bool floor_is_there(const struct floor *floor)
{
	return floor->events;
}

bool floor_rules(const struct floor *floor)
{
	return floor->watched;
}

static struct worker *home(struct floor *floor)
{
	return floor->lardd->worker[0];
}

/* --- parameters --- */

static int read_number(struct floor *floor, enum attribute which, uint32_t *number)
{
	char text[64], *end;
	unsigned long n;
	int err;

	err = flt_dispatch_read(floor->watches[which].source.fd, text, sizeof(text));
	if (err)
		return err;
	errno = 0;
	n = strtoul(text, &end, 10);
	if (errno || end == text || n > UINT32_MAX)
		return -EINVAL;
	*number = n;
	return 0;
}

static int read_params(struct floor *floor, struct lard_params *p)
{
	uint32_t seconds = 0;
	char text[64];
	int err;

	err = flt_dispatch_read(floor->watches[A_POLICY].source.fd, text, sizeof(text));
	if (!err)
		err = lard_policy_parse(text, &p->policy);
	if (!err)
		err = read_number(floor, A_T_LOW, &p->t_low);
	if (!err)
		err = read_number(floor, A_T_HIGH, &p->t_high);
	if (!err)
		err = read_number(floor, A_REPLICATION, &seconds);
	if (!err)
		err = read_number(floor, A_MAX_OUTSTANDING, &p->max_outstanding);
	p->replication_us = seconds * 1000000ULL;
	return err;
}

/* Reading also takes the POLLPRI of every attribute back. */
static void adopt_params(struct floor *floor)
{
	struct lardd *lardd = floor->lardd;
	struct lard_params params, old;
	int err;

	pthread_mutex_lock(&lardd->lock);
	old = params = *lard_get_params(lardd->engine);
	pthread_mutex_unlock(&lardd->lock);
	err = read_params(floor, &params);
	if (err) {
		log_error("dispatch-parameters", "error=%d text=\"%s\"", -err, strerror(-err));
		return;
	}
	/*
	 * The kernel says the number in force. If it is its own for the nodes that it sees up, it is
	 * automatic, and ours must follow what we know of the nodes besides.
	 */
	if (params.max_outstanding ==
	    lard_auto_limit(nodes_kernel_count(lardd), params.t_low, params.t_high))
		params.max_outstanding = 0;
	if (!memcmp(&params, &old, sizeof(params)))
		return;
	pthread_mutex_lock(&lardd->lock);
	err = lard_set_params(lardd->engine, &params, home(floor)->loop.now);
	pthread_mutex_unlock(&lardd->lock);
	home(floor)->room = true;
	if (err)
		log_error("dispatch-parameters", "error=%d", -err);
	else
		log_info("dispatch-parameters",
			 "policy=%s t_low=%u t_high=%u replication_seconds=%u max_outstanding=%u",
			 lard_policy_name(params.policy), params.t_low, params.t_high,
			 (unsigned int)(params.replication_us / 1000000), params.max_outstanding);
}

static void attribute_ready(struct source *s, uint32_t events)
{
	(void)events;
	adopt_params(container_of(s, struct attribute_watch, source)->floor);
}

static void unwatch(struct floor *floor)
{
	int i;

	for (i = 0; i < ATTRIBUTES; i++) {
		if (floor->watches[i].source.fd >= 0)
			close(floor->watches[i].source.fd);
		floor->watches[i].source.fd = -1;
	}
	floor->watched = false;
}

static void watch(struct floor *floor)
{
	int i;

	for (i = 0; i < ATTRIBUTES; i++) {
		struct attribute_watch *a = &floor->watches[i];

		a->floor = floor;
		a->source.ready = attribute_ready;
		a->source.fd = flt_dispatch_watch(attribute_names[i]);
		if (a->source.fd < 0 || loop_add(&home(floor)->loop, &a->source, EPOLLPRI)) {
			unwatch(floor);
			return;
		}
	}
	floor->watched = true;
	adopt_params(floor);
}

/* --- nodes --- */

static int on_node(const struct flt_node_info *node, void *arg)
{
	nodes_kernel_add(((struct floor *)arg)->lardd, node);
	return 0;
}

static void read_nodes(struct floor *floor)
{
	int err;

	nodes_kernel_begin(floor->lardd);
	err = flt_node_each(floor->client, on_node, floor);
	if (err)
		log_error("node-table", "error=%d text=\"%s\"", -err,
			  flt_client_error(floor->client));
	else
		nodes_kernel_end(floor->lardd);
}

static int on_event(enum flt_event type, const struct flt_node_info *node, void *arg)
{
	struct floor *floor = arg;

	switch (type) {
	case FLT_EVENT_NODE_REMOVED:
		nodes_kernel_remove(floor->lardd, node->id);
		break;
	case FLT_EVENT_NODE_ADDED:
	case FLT_EVENT_NODE_CHANGED:
	case FLT_EVENT_NODE_UP:
	case FLT_EVENT_NODE_DOWN:
		/* An event may say less than the table, and several come together. */
		floor->stale = true;
		break;
	default:
		break;
	}
	return 0;
}

static void events_ready(struct source *s, uint32_t events)
{
	struct floor *floor = container_of(s, struct floor, source);
	int err;

	(void)events;
	err = flt_events_read(floor->events, on_event, floor);
	if (err || floor->stale)
		read_nodes(floor);
	floor->stale = false;
	/* The automatic limit follows the number of nodes. */
	if (floor->watched)
		adopt_params(floor);
}

static void disconnect(struct floor *floor)
{
	if (floor->client)
		flt_client_close(floor->client);
	if (floor->events)
		flt_client_close(floor->events);
	floor->client = floor->events = NULL;
}

static void try_connect(struct floor *floor)
{
	if (flt_client_open(&floor->client)) {
		floor->client = NULL;
		return;
	}
	if (flt_events_open(&floor->events)) {
		floor->events = NULL;
		disconnect(floor);
		return;
	}
	floor->source = (struct source){
		.fd = flt_events_fd(floor->events), .ready = events_ready,
	};
	if (loop_add(&home(floor)->loop, &floor->source, EPOLLIN)) {
		disconnect(floor);
		return;
	}
	log_info("floor", "module=flotilla");
	read_nodes(floor);
}

int floor_stats_each(const struct floor *floor,
		     int (*fn)(const char *room, const char *name, uint64_t value, void *arg),
		     void *arg)
{
	return floor->client ? flt_stats_each(floor->client, fn, arg) : -ENOENT;
}

void floor_tick(struct floor *floor)
{
	if (!floor->events)
		try_connect(floor);
	if (floor->events && !floor->watched)
		watch(floor);
}

struct floor *floor_new(struct lardd *lardd)
{
	struct floor *floor = calloc(1, sizeof(*floor));
	int i;

	if (!floor)
		return NULL;
	floor->lardd = lardd;
	for (i = 0; i < ATTRIBUTES; i++)
		floor->watches[i].source.fd = -1;
	floor_tick(floor);
	return floor;
}

void floor_free(struct floor *floor)
{
	if (!floor)
		return;
	unwatch(floor);
	disconnect(floor);
	free(floor);
}
