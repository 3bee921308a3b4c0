// SPDX-License-Identifier: GPL-2.0
#include "worker.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <malloc.h>
#include <pthread.h>
#include <pwd.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "app.h"
#include "child.h"
#include "conn.h"
#include "disk.h"
#include "handback.h"
#include "hold.h"
#include "lite.h"
#include "log.h"
#include "lookup.h"
#include "map.h"
#include "predict.h"
#include "shake.h"

#define KEPT_FREE (1 << 20)

/* What signals asked for; read by every loop of the process. */
static atomic_int asked_stop, asked_drain, asked_reopen;
static struct loop *main_loop;		/* the one signals wake; NULL in mt */

static void on_signal(int sig)
{
	if (sig == SIGQUIT)
		asked_drain = 1;
	else if (sig == SIGUSR1)
		asked_reopen++;
	else
		asked_stop = 1;
	if (main_loop)
		loop_wake(main_loop);
}

static void signals_init(void)
{
	static const int ours[] = { SIGTERM, SIGINT, SIGQUIT, SIGUSR1 };
	struct sigaction sa = { .sa_handler = on_signal };	/* no SA_RESTART: mp, mt */
	sigset_t none;
	size_t i;

	for (i = 0; i < sizeof(ours) / sizeof(ours[0]); i++)
		sigaction(ours[i], &sa, NULL);
	sa.sa_handler = SIG_IGN;
	sigaction(SIGPIPE, &sa, NULL);
	sigaction(SIGHUP, &sa, NULL);
	sigaction(SIGUSR2, &sa, NULL);
	sa.sa_handler = SIG_DFL;
	sigaction(SIGCHLD, &sa, NULL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

static void drain_expired(struct timer *t)
{
	container_of(t, struct worker, drain_end)->loop.stop = true;
}

static void worker_woken(struct loop *loop)
{
	struct worker *w = container_of(loop, struct worker, loop);

	if (w->helpers)
		helpers_reap(w->helpers);
	if (asked_stop)
		loop->stop = true;
	if (asked_drain && !w->draining) {
		w->draining = true;
		conn_accepting(w, false);
		w->drain_end.expired = drain_expired;
		loop_timer_set(loop, &w->drain_end,
			       loop->now + w->conf->drain_timeout * 1000ull);
		conn_drain(w);
	}
	if (w->log)
		log_reopen(w->log, asked_reopen);
}

static const struct loop_backend *backend(const struct conf *conf)
{
	if (conf->architecture == ARCH_MP || conf->architecture == ARCH_MT)
		return &loop_direct;
	if (conf->events == EVENTS_USELECT)
		return &loop_uselect;
	return conf->events == EVENTS_URING ? &loop_uring : &loop_epoll;
}

static int worker_init(struct worker *w, const struct listeners *ls, struct cache *shared)
{
	const struct conf *conf = w->conf;
	int err;

	w->blocking = conf->architecture == ARCH_MP || conf->architecture == ARCH_MT;
	w->may_wait = conf->architecture != ARCH_AMPED;
	list_init(&w->conns);
	list_init(&w->idle);
	list_init(&w->sending);
	hold_init(w);
	shake_init(w);
	list_init(&w->free_conns);
	list_init(&w->children);
	list_init(&w->cgi_waiting);
	said_init(w);
	list_init(&w->drain_end.node);
	list_init(&w->http2_drain.node);
	if (conf->architecture == ARCH_AMPED) {
		/* First: what helper processes inherit must not keep an event mechanism alive. */
		w->helpers = helpers_new(w);
		if (!w->helpers)
			return -ENOMEM;
	}
	err = loop_init(&w->loop, backend(conf));
	if (err && backend(conf) != &loop_epoll && backend(conf) != &loop_direct) {
		fprintf(stderr, "flash: %s cannot be used (%s); using epoll\n",
			event_backend_names[conf->events], strerror(-err));
		err = loop_init(&w->loop, &loop_epoll);
	}
	if (err)
		return err;
	if (w->helpers)
		helpers_begin(w->helpers, w);
	w->loop.woken = worker_woken;
	w->loop.spawns = conf->nr_apps > 0;
	if (conf->stall_histogram)
		w->loop.stalls = w->stats->stalls;
	w->loop.stall_max = &w->stats->stall_max;
	w->cache = shared ? shared : cache_new(conf, false);
	if (!w->cache)
		return -ENOMEM;
	if (conf->transfer == TRANSFER_MMAP && !w->maps) {
		w->maps = map_cache_new(w->cache, conf->map_bytes, w->stats);
		if (!w->maps)
			return -ENOMEM;
	}
	if (w->residency == RESIDENCY_CLOCK && !w->may_wait) {
		err = disk_predict_init(w);
		if (err)
			return err;
	}
	if (conf->transfer == TRANSFER_IOLITE)
		lite_check();
	if (conf->hand_back)
		w->handback = handback_new(w);
	if (conf->access_log) {
		w->log = log_open(w);
		if (!w->log)
			return -errno;
	}
	return conn_accept_init(w, ls);
}

/* All connections first: what they hold belongs to the caches. */
static void worker_exit(struct worker *w, bool shared)
{
	conn_accept_exit(w);
	handback_free(w->handback);
	while (!list_empty(&w->conns))
		conn_close(list_entry(w->conns.next, struct conn, node));
	loop_timer_del(&w->drain_end);
	loop_timer_del(&w->http2_drain);
	hold_exit(w);
	fcgi_stop(w);
	helpers_free(w->helpers);
	fcgi_exit(w);
	children_exit(w);
	said_exit(w);
	if (w->log)
		log_close(w->log);
	if (!shared) {
		cache_free(w->cache);
		map_cache_free(w->maps);
	}
	predict_free(w->predict);
	free(w->copy);
	loop_exit(&w->loop);
	while (!list_empty(&w->free_conns)) {
		struct conn *c = list_entry(w->free_conns.next, struct conn, node);

		list_del(&c->node);
		free(c);
	}
}

static int complain(const char *what, const char *name)
{
	fprintf(stderr, "flash: cannot %s %s: %s\n", what, name, strerror(errno));
	return -(errno ? errno : EINVAL);
}

int worker_drop_privileges(const struct conf *conf)
{
	const struct passwd *pw = NULL;
	const struct group *gr = NULL;
	int dumpable = prctl(PR_GET_DUMPABLE);
	gid_t gid;

	/* What systemd gave the master would go on to the programs that we start. */
	prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	if (geteuid())		/* if it was given; handback_new() will say when it was not */
		handback_after_user(conf);
	if (!conf->user && !conf->group)
		return 0;
	errno = 0;
	if (conf->user && !(pw = getpwnam(conf->user)))
		return complain("find user", conf->user);
	if (conf->group && !(gr = getgrnam(conf->group)))
		return complain("find group", conf->group);
	gid = gr ? gr->gr_gid : pw->pw_gid;
	if (geteuid()) {
		if (pw && pw->pw_uid == geteuid())
			return 0;
		errno = EPERM;
		return complain("become", conf->user ? conf->user : conf->group);
	}
	if (pw ? initgroups(conf->user, gid) : setgroups(1, &gid))
		return complain("set groups of", conf->user ? conf->user : conf->group);
	if (setresgid(gid, gid, gid))
		return complain("become group", conf->group ? conf->group : conf->user);
	if (pw && (!handback_before_user(conf) || setresuid(pw->pw_uid, pw->pw_uid, pw->pw_uid) ||
		   !handback_after_user(conf)))
		return complain("become", conf->user);
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	/* As the master is: keys of a former configuration are in here yet, see lard/tls/tls_file.h. */
	prctl(PR_SET_DUMPABLE, dumpable == 1, 0, 0, 0);
	return 0;
}

/* Those that open and stat a cached name from memory. A list of the good ones: others may wait. */
static bool own_kernel(int fd)
{
	static const unsigned int known[] = {
		0xef53 /* ext */, 0x58465342 /* xfs */, 0x9123683e /* btrfs */, 0x01021994 /* tmpfs */,
		0x858458f6 /* ramfs */, 0x794c7630 /* overlay */, 0xf2f52010 /* f2fs */,
		0x73717368 /* squashfs */, 0xe0f5e1e2 /* erofs */, 0x9660 /* iso */, 0x4d44 /* fat */,
		0x2fc12fc1 /* zfs */, 0xca451a4e /* bcachefs */,
	};
	struct statfs fs;
	size_t i;

	if (fstatfs(fd, &fs))
		return false;
	for (i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if ((unsigned int)fs.f_type == known[i])
			return true;
	return false;
}

static int open_roots(const struct conf *conf)
{
	struct vhost *v;

	for (v = conf->vhosts; v; v = v->next) {
		if (v->root_fd >= 0)
			continue;
		v->root_fd = open(v->root, O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (v->root_fd < 0)
			return complain("open document root", v->root);
		v->own_kernel = own_kernel(v->root_fd);
	}
	return 0;
}

static void raise_limit(int which, rlim_t want)
{
	struct rlimit rl;

	if (getrlimit(which, &rl) || rl.rlim_cur >= want)
		return;
	if (rl.rlim_max < want && !geteuid())
		rl.rlim_max = want;
	rl.rlim_cur = want < rl.rlim_max ? want : rl.rlim_max;
	setrlimit(which, &rl);
}

/* As many descriptors as the limits of the configuration may need, as far as allowed. */
static void raise_limits(const struct conf *conf)
{
	rlim_t want = conf->max_connections + conf->open_files + 256;
	struct rlimit rl;

	raise_limit(RLIMIT_NOFILE, want);
	if (conf->residency != RESIDENCY_MLOCK)
		return;
	raise_limit(RLIMIT_MEMLOCK, conf->map_bytes);
	if (!getrlimit(RLIMIT_MEMLOCK, &rl) && rl.rlim_cur < conf->map_bytes)
		fprintf(stderr, "flash: only %llu bytes may be locked in memory, not map_bytes\n",
			(unsigned long long)rl.rlim_cur);
}

/* The former generation may go now. */
static void say_ready(int fd)
{
	if (fd >= 0 && write(fd, "r", 1) == 1)
		close(fd);
}

struct thread {
	pthread_t id;
	struct worker *w;
};

static void *thread_main(void *arg)
{
	struct thread *t = arg;

	loop_run(&t->w->loop);
	return NULL;
}

/* mt: one thread per connection at a time, all with the same cache. */
static int run_threads(const struct conf *conf, const struct listeners *ls, struct worker *model,
		       int ready)
{
	struct thread *threads = calloc(conf->threads, sizeof(*threads));
	struct cache *cache = cache_new(conf, true);
	unsigned int i, n = 0;
	int err = 0;

	if (cache && conf->transfer == TRANSFER_MMAP)
		model->maps = map_cache_new(cache, conf->map_bytes, model->stats);
	if (!threads || !cache || (conf->transfer == TRANSFER_MMAP && !model->maps)) {
		free(threads);
		cache_free(cache);
		return -ENOMEM;
	}
	for (i = 0; i < conf->threads && !err; i++) {
		struct worker *w = calloc(1, sizeof(*w));

		if (!w) {
			err = -ENOMEM;
			break;
		}
		*w = *model;
		w->stats = &model->stats[i];
		threads[i].w = w;
		n++;
		err = worker_init(w, ls, cache);
		if (!err)
			err = -pthread_create(&threads[i].id, NULL, thread_main, &threads[i]);
		if (err)
			asked_stop = 1;
	}
	if (!err)
		say_ready(ready);
	for (i = 0; i < n; i++) {
		if (threads[i].id)
			pthread_join(threads[i].id, NULL);
	}
	for (i = 0; i < n; i++) {
		worker_exit(threads[i].w, true);
		free(threads[i].w);
	}
	cache_free(cache);
	map_cache_free(model->maps);
	free(threads);
	return err;
}

int worker_run(const struct conf *conf, const struct listeners *ls, unsigned int index,
	       struct stats *all_stats, unsigned int nr_stats, int ready)
{
	struct worker *w = calloc(1, sizeof(*w));
	int err;

	if (!w)
		return -ENOMEM;
	signals_init();
	raise_limits(conf);
	/* What a request has freed the next one takes: it does not go back to the kernel between them. */
	mallopt(M_TRIM_THRESHOLD, KEPT_FREE);
	mallopt(M_MMAP_THRESHOLD, KEPT_FREE);
	err = worker_drop_privileges(conf);
	if (conf->workers)
		prctl(PR_SET_PDEATHSIG, SIGTERM);	/* a change of user clears it */
	if (!err)
		err = open_roots(conf);
	if (err)
		goto out;
	lookup_probe();
	w->conf = conf;
	w->index = index;
	w->stats = &all_stats[index];
	w->all_stats = all_stats;
	w->nr_stats = nr_stats;
	w->residency = residency_probe(conf);
	if (conf->architecture == ARCH_MT) {
		err = run_threads(conf, ls, w, ready);
		goto out;
	}
	err = worker_init(w, ls, NULL);
	if (!err) {
		main_loop = &w->loop;
		say_ready(ready);
		loop_wake(&w->loop);	/* a signal may have come before there was a loop */
		err = loop_run(&w->loop);
		main_loop = NULL;
		worker_exit(w, false);
	} else {
		fprintf(stderr, "flash: cannot start a worker: %s\n", strerror(-err));
	}
out:
	free(w);
	return err;
}
