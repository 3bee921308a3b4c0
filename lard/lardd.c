// SPDX-License-Identifier: GPL-2.0
/* The daemon as a whole. */
#include <errno.h>
#include <fcntl.h>
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
#include "crowd.h"
#include "early.h"
#include "floor.h"
#include "health.h"
#include "lardd.h"
#include "metrics.h"
#include "privilege.h"
#include "share.h"
#include "status.h"
#include "takeover.h"
#include "tls/ticket.h"
#include "tools/base/notify.h"
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
	/* LimitFSIZE= is a full disk: the call fails, which costs lines of a log. */
	signal(SIGXFSZ, SIG_IGN);
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

	if (*w->config->https.client_ca)
		return "clients' certificates are told to back-ends, which needs the proxy";
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

/*
 * A predecessor with more workers has more sockets of an address, with clients in their queues: each
 * gets a worker. What could not be kept goes with the predecessor.
 */
static void share_the_rest(struct lardd *lardd, const struct config *config)
{
	unsigned int i, w = 0;
	struct listener *l;
	int fd;

	for (i = 0; i < config->listens; i++) {
		while ((fd = takeover_take(lardd->takeover, &config->listen[i])) >= 0) {
			if (listener_new(&config->listen[i], fd, &l)) {
				close(fd);
				continue;
			}
			if (listener_listen(l, config->backlog) ||
			    worker_add_listener(lardd->worker[w++ % lardd->workers], l))
				listener_drop(l);
		}
	}
}

static int open_doors(struct lardd *lardd, const struct config *config, char *error, size_t size)
{
	unsigned int i;

	for (i = 0; i < lardd->workers; i++)
		if (worker_listen(lardd->worker[i], error, size))
			return -1;
	share_the_rest(lardd, config);
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
	if (config->status_given) {
		lardd->status = status_open(lardd, &config->status, error, size);
		if (!lardd->status)
			return -1;
	}
	return 0;
}

/* As the user that lardd will be, who must open it anew later. */
static int open_log(const struct config *config, char *error, size_t size)
{
	int err = access_prepare(config), denied = 0;

	if (!err) {
		denied = privilege_as_user(error, size);
		err = denied ? 0 : access_open(config);
		privilege_again();
	}
	if (err)
		snprintf(error, size, "cannot write %s: %s", config->access_log, strerror(-err));
	return denied ? denied : err;
}

/*
 * Nothing else can fail any more: the predecessor may go. It gives its sockets to one successor at a time, so that
 * who is not answered has no rival. Who is refused must not serve beside it.
 */
static int end_takeover(struct lardd *lardd, char *error, size_t size)
{
	int err = lardd->takeover ? takeover_done(lardd->takeover) : 0;

	if (err == -EPROTO) {
		snprintf(error, size, "cannot take over: the old lardd does not stop");
		return err;
	}
	if (err)
		log_warn("takeover", "why=\"%s\" text=\"the old lardd did not say that it stops\"",
			 strerror(-err));
	takeover_free(lardd->takeover);	/* with what we do not listen on any more */
	lardd->takeover = NULL;
	return 0;
}

/* A reload reads it again, as the user that lardd is by then. */
static bool warn_unreadable(const char *event, const char *path)
{
	if (!faccessat(AT_FDCWD, path, R_OK, AT_EACCESS))
		return false;
	log_warn(event, "text=\"no reload: the user that lardd is now cannot read %s\"", path);
	return true;
}

static void warn_of_certificates(const struct config *config)
{
	unsigned int i;

	if (config->tls && *config->https.ticket_keys)
		warn_unreadable("ticket-keys", config->https.ticket_keys);
	if (config->tls && *config->https.client_ca)
		warn_unreadable("client-ca", config->https.client_ca);
	for (i = 0; config->tls && i < config->https.certificate_count; i++)
		if (!warn_unreadable("certificate", config->https.certificates[i].chain))
			warn_unreadable("certificate", config->https.certificates[i].key);
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
	pthread_cond_init(&lardd->settled, NULL);
	list_init(&lardd->waiting);
	lardd->config = config;
	lardd->config_path = path;
	log_set_level(config->log_level);
	lardd->engine = lard_new(&config->params, config->targets, secret());
	lardd->early = early_new();
	lardd->cache = cache_new(config->cache_size);
	lardd->crowd = crowd_new(secret());
	lardd->kernel = kernel_cache_new();
	lardd->fetches = fetches_new();
	if (!lardd->engine || !lardd->early || !lardd->cache || !lardd->crowd || !lardd->kernel || !lardd->fetches || new_workers(lardd, config))
		goto fail;
	lardd->started_us = lardd->worker[0]->loop.now;
	health_init(lardd);
	if (takeover) {
		lardd->takeover = takeover_ask(config->control, error, size);
		if (!lardd->takeover)
			goto fail;
		kernel_cache_inherit(lardd->kernel, takeover_sites(lardd->takeover));
	}
	if (privilege_find(config, error, size) || config_load_tls(config, error, size) ||
	    watch_signals(lardd) || open_doors(lardd, config, error, size) || open_log(config, error, size))
		goto fail;
	nodes_configure(lardd, config);
	lardd->floor = floor_new(lardd);
	if (!lardd->floor) {
		snprintf(error, size, "no memory");
		goto fail;
	}
	lardd->share = share_new(lardd, config, error, size);
	if (!lardd->share && *error)
		goto fail;
	if (lardd->control && control_publish(lardd->control, error, size))
		goto fail;
	kernel_cache_configure(lardd->kernel, config);
	if (privilege_drop(config, error, size))
		goto fail;
	warn_unreadable("config", path);
	warn_of_certificates(config);
	if (end_takeover(lardd, error, size))
		goto fail;
	return lardd;

fail:
	/* The old one serves on, with its sites. */
	if (lardd->takeover)
		kernel_cache_give_away(lardd->kernel);
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
		status_close(lardd->status);
		floor_free(lardd->floor);
		share_free(lardd->share);
		nodes_exit(lardd);
	}
	early_free(lardd);
	takeover_free(lardd->takeover);
	access_close();
	ticket_forget();
	for (i = lardd->workers; i-- > 0;) {
		worker_free(lardd->worker[i]);
		lardd->worker[i] = NULL;
	}
	if (signals.fd >= 0)
		close(signals.fd);
	lard_free(lardd->engine);
	cache_free(lardd->cache);
	kernel_cache_free(lardd->kernel);
	fetches_free(lardd->fetches);
	crowd_free(lardd->crowd);
	config_put(lardd->config);
	pthread_cond_destroy(&lardd->settled);
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

/* Those that have no thread must have no listeners either: nobody would accept what comes to them. */
static void start_threads(struct lardd *lardd)
{
	unsigned int i, n;

	for (n = 1; n < lardd->workers; n++) {
		atomic_fetch_add(&lardd->others, 1);
		if (!pthread_create(&lardd->worker[n]->thread, NULL, worker_main, lardd->worker[n]))
			continue;
		atomic_fetch_sub(&lardd->others, 1);
		log_error("worker", "worker=%u text=\"no thread for it: there will be %u\"", n, n);
		break;
	}
	for (i = n; i < lardd->workers; i++)
		worker_free(lardd->worker[i]);
	__atomic_store_n(&lardd->workers, n, __ATOMIC_RELAXED);
}

void lardd_run(struct lardd *lardd)
{
	unsigned int i;

	start_threads(lardd);
	log_info("start", "version=%s mode=%s workers=%u policy=%s why=\"%s\"", FLT_VERSION,
		 give_ready(&lardd->worker[0]->give) ? "handoff" : "proxy", lardd->workers,
		 lard_policy_name(lard_get_params(lardd->engine)->policy), lardd_mode_why(lardd));
	early_tick(lardd);
	notify("READY=1");
	worker_run(lardd->worker[0]);
	for (i = 1; i < lardd->workers; i++) {
		worker_wake(lardd->worker[i]);
		pthread_join(lardd->worker[i]->thread, NULL);
	}
	log_info("stop", "uptime=%llu",
		 (unsigned long long)(loop_clock() - lardd->started_us) / 1000000);
}

void lardd_wake(struct lardd *lardd)
{
	unsigned int i;

	for (i = 1; i < lardd->workers; i++)
		worker_wake(lardd->worker[i]);
}

void lardd_stop(struct lardd *lardd)
{
	struct worker *w = lardd->worker[0];

	notify("STOPPING=1");
	share_stop(lardd->share);
	log_info("stopping", "again=%d", lardd->stopping);
	lardd->stop_by_us = lardd->stopping ? 0 : w->loop.now + w->config->stop_timeout_us;
	__atomic_store_n(&lardd->stopping, true, __ATOMIC_RELAXED);
	lardd_wake(lardd);
}
