// SPDX-License-Identifier: GPL-2.0
/*
 * Another configuration, whole or not at all. All that can fail comes first: for every worker the
 * sockets that it will need are bound, the log is opened, then all of them listen. Only then does
 * anything of the old configuration end.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include "access.h"
#include "cache.h"
#include "early.h"
#include "floor.h"
#include "lardd.h"
#include "privilege.h"
#include "tls/ticket.h"
#include "tools/base/lines.h"
#include "tools/base/notify.h"
#include "worker.h"

#define SETTLE_SECONDS 2	/* for all workers to have moved to the former configuration */

/**
 * struct change - what a new configuration needs
 * @fresh: listeners of each worker
 */
struct change {
	struct lardd *lardd;
	struct config *config;
	struct listener *fresh[CONFIG_WORKERS_MAX];
	struct lines log;
	char *error;
	size_t size;
};

static bool other_share(const struct config *old, const struct config *new)
{
	return old->share_given != new->share_given ||
	       (new->share_given && (memcmp(&old->share, &new->share, sizeof(old->share)) ||
				     strcmp(old->share_key, new->share_key) ||
				     memcmp(old->peers, new->peers, sizeof(old->peers))));
}

static void note_what_needs_a_restart(const struct config *old, const struct config *new)
{
	if (old->workers != new->workers || old->events != new->events ||
	    old->targets != new->targets || strcmp(old->user, new->user) ||
	    strcmp(old->control, new->control) || old->metrics_given != new->metrics_given ||
	    memcmp(&old->metrics, &new->metrics, sizeof(old->metrics)) ||
	    old->status_given != new->status_given ||
	    memcmp(&old->status, &new->status, sizeof(old->status)) || other_share(old, new))
		log_warn("reload", "text=\"workers, events, targets, user, control, metrics, status and share change with a restart\"");
	if (privilege_lacks(new))
		log_warn("reload", "text=\"a capability that this needs was given up: it takes a restart\"");
}

static int sorry(struct change *c, const char *what, const union address *address, int err)
{
	char text[ADDRESS_TEXT];

	snprintf(c->error, c->size, "cannot %s %s: %s", what,
		 address ? address_text(address, text, sizeof(text)) : c->config->access_log,
		 strerror(-err));
	return err;
}

/* The same addresses for each worker: that the configuration in force does not have. */
static int bind_all(struct change *c)
{
	const struct config *old = c->lardd->config;
	unsigned int i, w;

	for (i = 0; i < c->config->listens; i++) {
		const union address *address = &c->config->listen[i];

		for (w = 0; w < c->lardd->workers && !config_listens_on(old, address); w++) {
			struct listener *l;
			int err = listener_new(address, -1, &l);

			if (err)
				return sorry(c, "listen on", address, err);
			l->next = c->fresh[w];
			c->fresh[w] = l;
		}
	}
	return 0;
}

static int listen_all(struct change *c)
{
	unsigned int w;

	for (w = 0; w < c->lardd->workers; w++) {
		struct listener *l;

		for (l = c->fresh[w]; l; l = l->next) {
			int err = listener_listen(l, c->config->backlog);

			if (err)
				return sorry(c, "listen on", &l->address, err);
		}
	}
	return 0;
}

/* The last thing that can fail, and done with it. */
static int change_nodes(struct change *c)
{
	int lack = nodes_configure(c->lardd, c->config);

	if (!lack)
		return 0;
	snprintf(c->error, c->size,
		 "no room for %d of the nodes: with those of the kernel's table, and those that go and still have requests, there are %d at most",
		 lack, LARD_MAX_NODES);
	return -ENOSPC;
}

/* 0, or -errno with everything as it was. */
static int try_change(struct change *c)
{
	unsigned int w;
	int err;

	err = bind_all(c);
	if (!err) {
		err = access_try(c->config, &c->log);
		if (err)
			sorry(c, "write", NULL, err);
	}
	err = err ? err : listen_all(c);
	err = err ? err : change_nodes(c);
	if (!err)
		return 0;
	access_forget(&c->log);
	for (w = 0; w < c->lardd->workers; w++)
		listener_drop(c->fresh[w]);
	return err;
}

bool lardd_settle(struct lardd *lardd)
{
	struct timespec until;
	int err = 0;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += SETTLE_SECONDS;
	pthread_mutex_lock(&lardd->lock);
	while (lardd->settling && !err)
		err = pthread_cond_timedwait(&lardd->settled, &lardd->lock, &until);
	pthread_mutex_unlock(&lardd->lock);
	return !err;
}

/* Nothing can fail from here on. */
static void commit(struct change *c)
{
	struct lardd *lardd = c->lardd;
	struct worker *first = lardd->worker[0];
	struct config *old = lardd->config;
	unsigned int w;

	note_what_needs_a_restart(old, c->config);
	log_set_level(c->config->log_level);
	access_use(c->config, &c->log);
	pthread_mutex_lock(&lardd->lock);
	lardd->config = c->config;
	lardd->settling = lardd->workers;
	for (w = 0; w < lardd->workers; w++)
		lardd->worker[w]->fresh = c->fresh[w];
	if (!floor_rules(lardd->floor))
		lard_set_params(lardd->engine, &c->config->params, first->loop.now);
	pthread_mutex_unlock(&lardd->lock);
	cache_set_limit(lardd->cache, c->config->cache_size);
	kernel_cache_configure(lardd->kernel, c->config);
	/* Who has them reads what connections of 1.2 said. */
	if (!c->config->https.tickets)
		ticket_forget();
	worker_adopt(first);
	early_reload(lardd);
	config_put(old);
	lardd_wake(lardd);
	first->room = true;
}

static int read_and_try(struct change *c)
{
	if (lardd_stopping(c->lardd->worker[0])) {
		snprintf(c->error, c->size, "lardd is stopping");
		return -ESHUTDOWN;
	}
	if (!lardd_settle(c->lardd)) {
		snprintf(c->error, c->size, "a worker has not moved to the last configuration yet");
		return -EBUSY;
	}
	c->config = config_read(c->lardd->config_path, c->error, c->size);
	if (!c->config || config_load_tls(c->config, c->error, c->size))
		return -EINVAL;
	return try_change(c);
}

int lardd_reload(struct lardd *lardd, char *error, size_t size)
{
	struct change c = { .lardd = lardd, .log.fd = -1, .error = error, .size = size };
	char quoted[1024];

	notify_reloading();
	if (read_and_try(&c)) {
		config_put(c.config);
		lardd->reload_failures++;
		log_printable(error);
		log_error("reload", "text=%s", log_quote(error, strlen(error), quoted, sizeof(quoted)));
		notify("READY=1");
		return -EINVAL;
	}
	commit(&c);
	lardd->reloads++;
	log_info("reload", "reloads=%llu", (unsigned long long)lardd->reloads);
	notify("READY=1");
	return 0;
}
