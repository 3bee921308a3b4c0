// SPDX-License-Identifier: GPL-2.0
#include "master.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "listener.h"
#include "notify.h"
#include "worker.h"

#define RESPAWN_SECONDS 1	/* not oftener than this for one worker */

/**
 * struct generation - the workers of one configuration
 * @pids:    0 for one that has ended
 * @started: when each was last started
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
	time_t *started;
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

/* On failure @conf is freed, and @from keeps its sockets. */
static struct generation *generation_new(struct conf *conf, struct generation *from)
{
	struct generation *g = calloc(1, sizeof(*g));

	if (!g) {
		config_free(conf);
		return NULL;
	}
	g->conf = conf;
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

static void start_worker(struct generation *g, unsigned int i)
{
	struct timespec now;
	pid_t pid;
	int err;

	clock_gettime(CLOCK_MONOTONIC, &now);
	g->started[i] = now.tv_sec;
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
	err = worker_run(g->conf, &g->listeners, i, g->stats, g->nr_stats);
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
	struct timespec now;
	bool later = false;
	unsigned int i;

	clock_gettime(CLOCK_MONOTONIC, &now);
	for (i = 0; i < g->n; i++) {
		if (g->pids[i])
			continue;
		if (g->started[i] && now.tv_sec - g->started[i] <= RESPAWN_SECONDS)
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

static void retire(struct generation *g, int sig)
{
	g->retired = true;
	signal_workers(g, sig);
	g->next = old;
	old = g;
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

static void reload(struct conf *(*load)(void))
{
	struct generation *g;
	struct conf *conf;

	notify_reloading();
	conf = load();
	g = conf ? generation_new(conf, current) : NULL;
	if (!g) {
		fprintf(stderr, "flash: not reloaded, the former configuration stays\n");
		notify("READY=1\nSTATUS=reload failed, former configuration in use");
		return;
	}
	/* New ones accept on the same sockets before old ones stop: no connection is refused. */
	start_workers(g);
	retire(current, SIGQUIT);
	current = g;
	notify("READY=1\nSTATUS=serving");
}

static void write_pidfile(const struct conf *conf)
{
	FILE *f;

	if (!conf->pidfile)
		return;
	f = fopen(conf->pidfile, "we");
	if (!f || fprintf(f, "%d\n", getpid()) < 0)
		fprintf(stderr, "flash: cannot write %s: %s\n", conf->pidfile, strerror(errno));
	if (f)
		fclose(f);
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
	write_pidfile(conf);
	notify("READY=1");
	err = worker_run(conf, &g->listeners, 0, g->stats, g->nr_stats);
	generation_free(g);
	return err ? EXIT_FAILURE : EXIT_SUCCESS;
}

int master_run(struct conf *conf, struct conf *(*load)(void), char **argv)
{
	struct timespec second = { .tv_sec = 1 };
	bool ending = false, later;
	sigset_t set;
	ssize_t n;

	n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	if (n > 0)
		exe[n] = '\0';
	listeners_inherit();
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
	write_pidfile(conf);
	later = start_workers(current);
	finish_upgrade();
	notify("READY=1\nSTATUS=serving");
	while (!ending || old) {
		int sig = later ? sigtimedwait(&set, NULL, &second) : sigwaitinfo(&set, NULL);
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
			if (!ending)
				signal_workers(current, sig);
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
			for (g = old; g; g = g->next)
				signal_workers(g, sig);
			break;
		}
		reap();
		later = !ending && start_workers(current);
	}
	return EXIT_SUCCESS;
}
