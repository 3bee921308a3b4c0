// SPDX-License-Identifier: GPL-2.0
#include "master.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "listener.h"
#include "log.h"
#include "tools/base/notify.h"
#include "worker.h"

#define RESPAWN_SECONDS 1	/* not oftener than this for one worker */
#define READY_SECONDS 60	/* for all workers of a generation to begin */
#define KILL_SECONDS 10		/* for a worker to end, when its time is over */
#define RETIRED_MAX 8		/* generations that finish what they have */

/**
 * struct generation - the workers of one configuration
 * @pids:    0 for one that has ended
 * @started: when each was last started
 * @ready:   workers say here that they have begun, while somebody waits for it; -1 otherwise
 * @kill_at: retired: s, when those that are left are killed
 * @retired: told to finish; not started again
 */
struct generation {
	struct generation *next;
	struct conf *conf;
	struct listeners listeners;
	struct stats *stats;
	size_t stats_size;
	unsigned int n, nr_stats, alive;
	pid_t *pids;
	time_t *started, kill_at;
	int ready;
	bool retired;
};

static struct generation *current, *old;
static pid_t upgrade_pid;
static char exe[PATH_MAX];

static unsigned int processes(const struct conf *conf)
{
	if (conf->architecture == ARCH_MP)
		return conf->processes;
	if (conf->architecture == ARCH_MT)
		return 1;
	return conf->workers ? conf->workers : 1;
}

static void generation_free(struct generation *g)
{
	listeners_close(&g->listeners);
	if (g->stats)
		munmap(g->stats, g->stats_size);
	config_free(g->conf);
	free(g->pids);
	free(g->started);
	free(g);
}

/* As root, for workers that may not create it. They say so when they cannot open it. */
static void prepare_log(const struct conf *conf)
{
	int err = log_prepare(conf, conf->uid, conf->gid);

	if (err)
		fprintf(stderr, "flash: cannot create %s: %s\n", conf->access_log, strerror(-err));
}

/* On failure @conf is freed, and @from keeps its sockets. */
static struct generation *generation_new(struct conf *conf, struct generation *from)
{
	struct generation *g = calloc(1, sizeof(*g));

	if (!g) {
		config_free(conf);
		return NULL;
	}
	g->conf = conf;
	prepare_log(conf);
	g->ready = -1;
	g->n = processes(conf);
	g->nr_stats = conf->architecture == ARCH_MT ? conf->threads : g->n;
	g->pids = calloc(g->n, sizeof(*g->pids));
	g->started = calloc(g->n, sizeof(*g->started));
	g->stats_size = g->nr_stats * sizeof(struct stats);
	g->stats = mmap(NULL, g->stats_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
			-1, 0);
	if (g->stats == MAP_FAILED)
		g->stats = NULL;
	if (!g->pids || !g->started || !g->stats ||
	    listeners_open(&g->listeners, conf, from ? &from->listeners : NULL)) {
		generation_free(g);
		return NULL;
	}
	return g;
}

static time_t seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec;
}

static void start_worker(struct generation *g, unsigned int i)
{
	pid_t pid;
	int err;

	g->started[i] = seconds();
	fflush(NULL);
	pid = fork();
	if (pid < 0) {
		fprintf(stderr, "flash: cannot start a worker: %s\n", strerror(errno));
		return;
	}
	if (pid) {
		g->pids[i] = pid;
		g->alive++;
		return;
	}
	if (current && current != g)
		listeners_forget(&g->listeners, &current->listeners);
	err = worker_run(g->conf, &g->listeners, i, g->stats, g->nr_stats, g->ready);
	while (old) {
		struct generation *next = old->next;

		generation_free(old);
		old = next;
	}
	generation_free(g);
	exit(err ? EXIT_FAILURE : EXIT_SUCCESS);
}

/* Starts what is missing; true when some must wait because it died too quickly. */
static bool start_workers(struct generation *g)
{
	time_t now = seconds();
	bool later = false;
	unsigned int i;

	for (i = 0; i < g->n; i++) {
		if (g->pids[i])
			continue;
		if (g->started[i] && now - g->started[i] <= RESPAWN_SECONDS)
			later = true;
		else
			start_worker(g, i);
	}
	return later;
}

static void signal_workers(const struct generation *g, int sig)
{
	unsigned int i;

	for (i = 0; i < g->n; i++)
		if (g->pids[i])
			kill(g->pids[i], sig);
}

/* At most @seconds more. */
static void hurry(struct generation *g, time_t left)
{
	if (!g->kill_at || g->kill_at > seconds() + left)
		g->kill_at = seconds() + left;
}

static void retire(struct generation *g, int sig)
{
	struct generation *last;
	unsigned int n = 0;

	g->retired = true;
	signal_workers(g, sig);
	hurry(g, (sig == SIGQUIT ? g->conf->drain_timeout : 0) + KILL_SECONDS);
	g->next = old;
	old = g;
	/* One reload after the other must not pile them up. */
	for (last = old; last; last = last->next) {
		if (++n <= RETIRED_MAX)
			continue;
		signal_workers(last, SIGTERM);
		hurry(last, KILL_SECONDS);
	}
}

/* A worker that waits for something that does not come holds up nobody else's end. */
static void kill_late(void)
{
	struct generation *g;

	for (g = old; g; g = g->next)
		if (g->kill_at <= seconds())
			signal_workers(g, SIGKILL);
}

static void forget(pid_t pid, struct generation *g, int status)
{
	unsigned int i;

	for (i = 0; i < g->n; i++) {
		if (g->pids[i] != pid)
			continue;
		g->pids[i] = 0;
		g->alive--;
		if (!g->retired && WIFSIGNALED(status))
			fprintf(stderr, "flash: worker %d died of signal %d\n", pid,
				WTERMSIG(status));
	}
}

static void reap(void)
{
	struct generation *g, **p;
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		if (pid == upgrade_pid) {
			upgrade_pid = 0;
			fprintf(stderr, "flash: the new binary did not start\n");
		}
		if (current)
			forget(pid, current, status);
		for (g = old; g; g = g->next)
			forget(pid, g, status);
	}
	for (p = &old; (g = *p); ) {
		if (g->alive) {
			p = &g->next;
			continue;
		}
		*p = g->next;
		generation_free(g);
	}
}

/* Has one of @g's workers ended? */
static bool lost_one(struct generation *g)
{
	unsigned int i;
	int status;

	for (i = 0; i < g->n; i++) {
		if (!g->pids[i])
			return true;
		if (waitpid(g->pids[i], &status, WNOHANG) == g->pids[i]) {
			forget(g->pids[i], g, status);
			return true;
		}
	}
	return false;
}

static bool asked_to_end(void)
{
	sigset_t set;

	return !sigpending(&set) && (sigismember(&set, SIGTERM) || sigismember(&set, SIGINT) ||
				     sigismember(&set, SIGQUIT));
}

/*
 * Starts all workers of @g and waits until each of them serves. False: one could not, or it takes
 * too long; those that could must go.
 */
static bool begin(struct generation *g)
{
	time_t until = seconds() + READY_SECONDS;
	struct pollfd p = { .events = POLLIN };
	unsigned int n = 0;
	bool ok = false;
	char buf[64];
	int fds[2];
	ssize_t got;

	if (pipe2(fds, O_CLOEXEC | O_NONBLOCK))
		return false;
	g->ready = fds[1];
	p.fd = fds[0];
	start_workers(g);
	while (!ok && !lost_one(g) && !asked_to_end() && seconds() < until) {
		poll(&p, 1, 50);
		got = read(fds[0], buf, sizeof(buf));
		n += got > 0 ? got : 0;
		ok = n >= g->n;
	}
	close(fds[0]);
	close(fds[1]);
	g->ready = -1;
	return ok;
}

static void reload(struct conf *(*load)(void))
{
	struct generation *g;
	struct conf *conf;

	notify_reloading();
	conf = load();
	g = conf ? generation_new(conf, current) : NULL;
	if (g)
		listeners_tune(&g->listeners, conf, true);
	/* New ones accept on the same sockets before old ones stop: no connection is refused. */
	if (g && !begin(g)) {
		listeners_tune(&current->listeners, current->conf, false);
		retire(g, SIGTERM);
		g = NULL;
	}
	if (!g) {
		fprintf(stderr, "flash: not reloaded, the former configuration stays\n");
		notify("READY=1\nSTATUS=reload failed, former configuration in use");
		return;
	}
	retire(current, SIGQUIT);
	listeners_tune(&g->listeners, g->conf, false);
	listeners_commit(&g->listeners, &current->listeners);
	current = g;
	notify("READY=1\nSTATUS=serving");
}

/* A file of its own that takes the name's place, whole: the directory may be the workers', who could put a link there. */
static bool replace_pidfile(const char *path, const char *fresh)
{
	struct stat st;
	bool ok;
	int fd;

	if (!lstat(path, &st) && !S_ISREG(st.st_mode) && !S_ISLNK(st.st_mode)) {
		errno = EEXIST;		/* a device, say */
		return false;
	}
	unlink(fresh);
	fd = open(fresh, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	if (fd < 0)
		return false;
	ok = dprintf(fd, "%d\n", getpid()) > 0;
	close(fd);
	if (ok && !rename(fresh, path))
		return true;
	unlink(fresh);
	return false;
}

static void write_pidfile(const struct conf *conf)
{
	char *fresh;

	if (!conf->pidfile)
		return;
	if (asprintf(&fresh, "%s.new", conf->pidfile) < 0)
		fresh = NULL;
	if (!fresh || !replace_pidfile(conf->pidfile, fresh))
		fprintf(stderr, "flash: cannot write %s: %s\n", conf->pidfile, strerror(errno));
	free(fresh);
}

/* Starts the binary that now stands where ours was; it takes over the listening sockets. */
static void upgrade(char **argv)
{
	char pid[16];

	if (upgrade_pid)
		return;
	upgrade_pid = fork();
	if (upgrade_pid < 0)
		upgrade_pid = 0;
	if (upgrade_pid)
		return;
	snprintf(pid, sizeof(pid), "%d", getppid());
	if (!listeners_export(&current->listeners) && !setenv("FLASH_UPGRADE", pid, 1))
		execv(exe, argv);
	fprintf(stderr, "flash: cannot start %s: %s\n", exe, strerror(errno));
	_exit(EXIT_FAILURE);
}

/* The former binary, which is our parent, may go now. */
static void finish_upgrade(void)
{
	const char *pid = getenv("FLASH_UPGRADE");

	if (pid && atoi(pid) > 1 && atoi(pid) == getppid()) {
		notify("MAINPID=%d", getpid());
		kill(atoi(pid), SIGQUIT);
	}
	unsetenv("FLASH_UPGRADE");
}

static int run_alone(struct conf *conf)
{
	struct generation *g = generation_new(conf, NULL);
	int err;

	if (!g)
		return EXIT_FAILURE;
	listeners_tune(&g->listeners, conf, false);
	listeners_commit(&g->listeners, NULL);
	write_pidfile(conf);
	notify("READY=1");
	err = worker_run(conf, &g->listeners, 0, g->stats, g->nr_stats, -1);
	generation_free(g);
	return err ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* Nobody is served yet. */
static void end_at_once(struct generation *g)
{
	unsigned int i;

	signal_workers(g, SIGKILL);
	for (i = 0; i < g->n; i++)
		if (g->pids[i])
			waitpid(g->pids[i], NULL, 0);
	generation_free(g);
}

int master_run(struct conf *conf, struct conf *(*load)(void), char **argv)
{
	struct timespec second = { .tv_sec = 1 };
	bool ending = false, later = false;
	sigset_t set;
	ssize_t n;

	n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	if (n > 0)
		exe[n] = '\0';
	listeners_inherit();
	if (!geteuid() && !conf->user)
		fprintf(stderr, "flash: WARNING: workers, and the programs that they start, run as root; name a user (\"user www-data\", or \"user root\" if it is meant)\n");
	if (!conf->workers)
		return run_alone(conf);
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGQUIT);
	sigaddset(&set, SIGUSR1);
	sigaddset(&set, SIGUSR2);
	sigprocmask(SIG_BLOCK, &set, NULL);

	current = generation_new(conf, NULL);
	if (!current)
		return EXIT_FAILURE;
	listeners_tune(&current->listeners, conf, getenv("FLASH_UPGRADE") != NULL);
	if (!begin(current) && !asked_to_end()) {
		end_at_once(current);
		return EXIT_FAILURE;
	}
	write_pidfile(conf);
	finish_upgrade();
	listeners_tune(&current->listeners, conf, false);
	listeners_commit(&current->listeners, NULL);
	notify("READY=1\nSTATUS=serving");
	while (!ending || old) {
		int sig = later || old ? sigtimedwait(&set, NULL, &second) : sigwaitinfo(&set, NULL);
		struct generation *g;

		switch (sig) {
		case SIGHUP:
			if (!ending)
				reload(load);
			break;
		case SIGUSR2:
			if (!ending)
				upgrade(argv);
			break;
		case SIGUSR1:
			/* Those that finish write to the log too. */
			if (!ending) {
				prepare_log(current->conf);
				signal_workers(current, sig);
			}
			for (g = old; g; g = g->next)
				signal_workers(g, sig);
			break;
		case SIGTERM:
		case SIGINT:
		case SIGQUIT:
			notify("STOPPING=1");
			if (!ending) {
				if (current->conf->pidfile && !upgrade_pid)
					unlink(current->conf->pidfile);
				retire(current, sig);
				current = NULL;
				ending = true;
			}
			for (g = old; g; g = g->next) {
				signal_workers(g, sig);
				hurry(g, (sig == SIGQUIT ? g->conf->drain_timeout : 0) + KILL_SECONDS);
			}
			break;
		}
		kill_late();
		reap();
		later = !ending && start_workers(current);
	}
	return EXIT_SUCCESS;
}
