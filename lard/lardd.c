// SPDX-License-Identifier: GPL-2.0
/* The daemon as a whole. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <unistd.h>
#include "access.h"
#include "cache.h"
#include "control.h"
#include "floor.h"
#include "health.h"
#include "lardd.h"
#include "metrics.h"
#include "notify.h"
#include "takeover.h"
#include "worker.h"

static struct source signals = { .fd = -1 };
static struct lardd *signalled;		/* signals are the process's, and so is its one lardd */

static void signal_ready(struct source *s, uint32_t events)
{
	struct signalfd_siginfo info;
	char error[512];

	(void)events;
	while (read(s->fd, &info, sizeof(info)) == sizeof(info)) {
		switch (info.ssi_signo) {
		case SIGHUP:
			lardd_reload(signalled, error, sizeof(error));
			break;
		case SIGUSR1:
			if (access_open(signalled->worker[0]->config))
				log_error("access-log", "text=\"cannot be opened anew\"");
			break;
		default:
			lardd_stop(signalled);
			break;
		}
	}
}

static int watch_signals(struct lardd *lardd)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGUSR1);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	if (sigprocmask(SIG_BLOCK, &set, NULL))
		return -errno;
	signal(SIGPIPE, SIG_IGN);
	signalled = lardd;
	signals.ready = signal_ready;
	signals.fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
	if (signals.fd < 0)
		return -errno;
	return loop_add(&lardd->worker[0]->loop, &signals, EPOLLIN);
}

const char *lardd_mode_why(struct lardd *lardd)
{
	const struct worker *w = lardd->worker[0];

	if (w->config->mode == MODE_PROXY)
		return "the configuration says proxy";
	if (!give_ready(&w->give))
		return "/dev/handoff cannot be opened: is handoff.ko loaded, and may we use it?";
	return "connections are handed off to nodes of the kernel's table";
}

static uint64_t secret(void)
{
	uint64_t seed;

	if (getrandom(&seed, sizeof(seed), 0) != sizeof(seed))
		seed = loop_clock() * 0x9e3779b97f4a7c15ULL ^ getpid();
	return seed;
}

static int new_workers(struct lardd *lardd, const struct config *config)
{
	int err = config->events == EVENTS_USELECT ? loop_register() : 0;

	lardd->by_uselect = config->events == EVENTS_USELECT && !err;
	if (err)
		log_warn("events", "why=\"%s\" text=\"uselect cannot be had, epoll it is\"",
			 strerror(-err));
	for (lardd->workers = 0; lardd->workers < config->workers; lardd->workers++) {
		struct worker *w = worker_new(lardd, lardd->workers);

		if (!w)
			return -ENOMEM;
		lardd->worker[lardd->workers] = w;
		if (w->config->mode == MODE_AUTO)
			give_open(&w->give, w);
	}
	return 0;
}

static int open_doors(struct lardd *lardd, const struct config *config, char *error, size_t size)
{
	unsigned int i;

	for (i = 0; i < lardd->workers; i++)
		if (worker_listen(lardd->worker[i], error, size))
			return -1;
	if (*config->control) {
		lardd->control = control_open(lardd, config->control, config->control_mode,
					      lardd->takeover, error, size);
		if (!lardd->control)
			return -1;
	}
	if (config->metrics_given) {
		lardd->metrics = metrics_open(lardd, &config->metrics, error, size);
		if (!lardd->metrics)
			return -1;
	}
	if (access_open(config)) {
		snprintf(error, size, "cannot write %s: %s", config->access_log, strerror(errno));
		return -1;
	}
	return 0;
}

/* Nothing can fail any more: the predecessor may go. */
static void end_takeover(struct lardd *lardd)
{
	int err = lardd->takeover ? takeover_done(lardd->takeover) : 0;

	if (err)
		log_warn("takeover", "why=\"%s\" text=\"the old lardd did not say that it stops\"",
			 strerror(-err));
	takeover_free(lardd->takeover);	/* with what we do not listen on any more */
	lardd->takeover = NULL;
}

struct lardd *lardd_new(struct config *config, const char *path, bool takeover, char *error,
			size_t size)
{
	struct lardd *lardd = calloc(1, sizeof(*lardd));

	snprintf(error, size, "no memory");
	if (!lardd) {
		config_put(config);
		return NULL;
	}
	pthread_mutex_init(&lardd->lock, NULL);
	list_init(&lardd->waiting);
	lardd->config = config;
	lardd->config_path = path;
	log_set_level(config->log_level);
	lardd->engine = lard_new(&config->params, config->targets, secret());
	lardd->cache = cache_new(config->cache_size);
	if (!lardd->engine || !lardd->cache || new_workers(lardd, config))
		goto fail;
	lardd->started_us = lardd->worker[0]->loop.now;
	health_init(lardd);
	if (takeover) {
		lardd->takeover = takeover_ask(config->control, error, size);
		if (!lardd->takeover)
			goto fail;
	}
	if (watch_signals(lardd) || open_doors(lardd, config, error, size))
		goto fail;
	nodes_configure(lardd, config);
	lardd->floor = floor_new(lardd);
	if (!lardd->floor) {
		snprintf(error, size, "no memory");
		goto fail;
	}
	if (lardd->control && control_publish(lardd->control, error, size))
		goto fail;
	end_takeover(lardd);
	return lardd;

fail:
	lardd_free(lardd);
	return NULL;
}

void lardd_free(struct lardd *lardd)
{
	unsigned int i;

	if (!lardd)
		return;
	if (lardd->workers) {
		control_close(lardd->control);
		metrics_close(lardd->metrics);
		floor_free(lardd->floor);
		nodes_exit(lardd);
	}
	takeover_free(lardd->takeover);
	access_close();
	for (i = lardd->workers; i-- > 0;)
		worker_free(lardd->worker[i]);
	if (signals.fd >= 0)
		close(signals.fd);
	lard_free(lardd->engine);
	cache_free(lardd->cache);
	config_put(lardd->config);
	pthread_mutex_destroy(&lardd->lock);
	free(lardd);
}

static void *worker_main(void *arg)
{
	struct worker *w = arg;

	worker_run(w);
	atomic_fetch_sub(&w->lardd->others, 1);
	worker_wake(w->lardd->worker[0]);
	return NULL;
}

void lardd_run(struct lardd *lardd)
{
	unsigned int i, started = 1;

	log_info("start", "version=%s mode=%s workers=%u policy=%s why=\"%s\"", LARDD_VERSION,
		 give_ready(&lardd->worker[0]->give) ? "handoff" : "proxy", lardd->workers,
		 lard_policy_name(lard_get_params(lardd->engine)->policy), lardd_mode_why(lardd));
	for (i = 1; i < lardd->workers; i++, started++) {
		atomic_fetch_add(&lardd->others, 1);
		if (pthread_create(&lardd->worker[i]->thread, NULL, worker_main, lardd->worker[i])) {
			atomic_fetch_sub(&lardd->others, 1);
			log_error("worker", "worker=%u text=\"no thread for it\"", i);
			break;
		}
	}
	notify_ready();
	worker_run(lardd->worker[0]);
	for (i = 1; i < started; i++) {
		worker_wake(lardd->worker[i]);
		pthread_join(lardd->worker[i]->thread, NULL);
	}
	log_info("stop", "uptime=%llu",
		 (unsigned long long)(loop_clock() - lardd->started_us) / 1000000);
}

static void wake_all(struct lardd *lardd)
{
	unsigned int i;

	for (i = 1; i < lardd->workers; i++)
		worker_wake(lardd->worker[i]);
}

static void note_what_needs_a_restart(const struct config *old, const struct config *new)
{
	if (old->workers != new->workers || old->events != new->events ||
	    old->targets != new->targets ||
	    strcmp(old->control, new->control) || old->metrics_given != new->metrics_given ||
	    memcmp(&old->metrics, &new->metrics, sizeof(old->metrics)))
		log_warn("reload", "text=\"workers, events, targets, control and metrics change with a restart\"");
}

/* Worker 0 tries the new listeners first: if they cannot be had, the old configuration stays. */
static int try_config(struct lardd *lardd, struct config *new, char *error, size_t size)
{
	struct worker *w = lardd->worker[0];
	struct config *old = w->config;
	char ignored[256];
	int err;

	w->config = new;
	err = worker_listen(w, error, size);
	w->config = old;
	if (err) {
		worker_listen(w, ignored, sizeof(ignored));
		return err;
	}
	err = access_open(new);
	if (err)
		snprintf(error, size, "cannot write %s: %s", new->access_log, strerror(-err));
	return err;
}

int lardd_reload(struct lardd *lardd, char *error, size_t size)
{
	struct config *old = lardd->config, *new;
	struct worker *w = lardd->worker[0];

	notify_reloading();
	new = config_read(lardd->config_path, error, size);
	if (!new || try_config(lardd, new, error, size)) {
		config_put(new);
		lardd->reload_failures++;
		log_error("reload", "text=\"%s\"", error);
		notify_ready();
		return -EINVAL;
	}
	note_what_needs_a_restart(old, new);
	log_set_level(new->log_level);
	pthread_mutex_lock(&lardd->lock);
	lardd->config = new;
	if (!floor_rules(lardd->floor))
		lard_set_params(lardd->engine, &new->params, w->loop.now);
	pthread_mutex_unlock(&lardd->lock);
	cache_set_limit(lardd->cache, new->cache_size);
	nodes_configure(lardd, new);
	config_put(old);
	wake_all(lardd);
	w->room = true;
	lardd->reloads++;
	log_info("reload", "reloads=%llu", (unsigned long long)lardd->reloads);
	notify_ready();
	return 0;
}

void lardd_stop(struct lardd *lardd)
{
	struct worker *w = lardd->worker[0];

	notify_stopping();
	log_info("stopping", "again=%d", lardd->stopping);
	lardd->stop_by_us = lardd->stopping ? 0 : w->loop.now + w->config->stop_timeout_us;
	__atomic_store_n(&lardd->stopping, true, __ATOMIC_RELAXED);
	wake_all(lardd);
}
