// SPDX-License-Identifier: MIT
// timeout: 240
/* long: debug minutes there */
// cpus: 2
/*
 * Randomised transfers, each byte checked at the client, in the copy and in what is left at
 * the proxy: sizes, modes, families, segment sizes, tiny buffers, resets of either side,
 * half-closes, taking back, closing; a tenth of them with loss and reordering.
 * FLT_SESSIONS says how many (default 2000, 400 on the debug kernel), FLT_SEED which, FLT_WORKERS
 * by how many processes (default 8: a session with tiny buffers mostly waits for a probe of its window).
 */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "splice/lib/sksplice.h"
#include "splice/tests/lib/pattern.h"
#include "splice/tests/lib/session.h"

static unsigned long workers;

static unsigned long env(const char *name, unsigned long otherwise)
{
	const char *value = getenv(name);

	return value ? strtoul(value, NULL, 0) : otherwise;
}

/* The kernel that checks takes ten times as long for each. */
static unsigned long some(void)
{
	struct utsname kernel;

	return !uname(&kernel) && strstr(kernel.release, "debug") ? 400 : 2000;
}

static int work(int dev, unsigned long sessions, unsigned long seed)
{
	struct worker w;
	unsigned long i;
	int err = 0;

	if (session_open(&w, dev, seed)) {
		printf("# cannot listen: %s\n", strerror(errno));
		return 1;
	}
	for (i = 0; i < sessions && !err; i++)
		err = session_run(&w);
	session_close(&w);
	printf("# %llu sessions (%llu in the call), %llu MB; client reset %llu, server reset %llu, "
	       "taken back %llu, closed %llu, short %llu\n",
	       (unsigned long long)w.number, (unsigned long long)w.in_call,
	       (unsigned long long)w.bytes >> 20,
	       (unsigned long long)w.mishaps[MISHAP_CLIENT_RESET],
	       (unsigned long long)w.mishaps[MISHAP_SERVER_RESET],
	       (unsigned long long)w.mishaps[MISHAP_UNSPLICE],
	       (unsigned long long)w.mishaps[MISHAP_SINK_CLOSE],
	       (unsigned long long)w.mishaps[MISHAP_SHORT]);
	fflush(stdout);
	return err ? 1 : 0;
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static int run_workers(int dev, unsigned long sessions, unsigned long seed)
{
	double start = now();
	int failed = 0, status;
	unsigned long i;

	for (i = 0; i < workers; i++) {
		fflush(stdout);
		if (!fork())
			_exit(work(dev, sessions / workers, seed + i));
	}
	while (wait(&status) > 0)
		failed |= status;
	printf("# %.0f sessions a second\n", sessions / (now() - start));
	return failed;
}

/* Transfers of sockets that are closed are over; nothing may be left under way. */
static int left(int dev)
{
	struct timespec pause = { .tv_nsec = 10000000 };
	struct ssp_info info;
	int i;

	for (i = 0; i < 9000; i++) {
		if (sksplice_info(dev, &info))
			return -1;
		if (!info.active)
			return 0;
		nanosleep(&pause, NULL);
	}
	return info.active;
}

int main(void)
{
	unsigned long sessions = env("FLT_SESSIONS", some()), seed = env("FLT_SEED", 20261121);
	char load[4096];
	int dev, bad, lossy;

	workers = env("FLT_WORKERS", 8);
	if (!workers || workers > sessions) {
		printf("Bail out! FLT_WORKERS must be 1 to %lu\n", sessions);
		return 1;
	}
	snprintf(load, sizeof(load), "for m in flotilla sksplice; do [ -d /sys/module/$m ] || "
		 "insmod $FLT_MODULES/$m.ko || exit 1; done");
	if (system(load)) {
		printf("Bail out! sksplice.ko cannot be loaded\n");
		return 1;
	}
	dev = sksplice_open();
	if (dev < 0) {
		printf("Bail out! /dev/sksplice: %s\n", strerror(-dev));
		return 1;
	}
	if (unshare(CLONE_NEWNET) || system("ip link set lo up")) {
		printf("Bail out! no network namespace\n");
		return 1;
	}
	printf("TAP version 13\n1..4\n# %lu sessions by %lu processes, seed %lu\n", sessions, workers,
	       seed);
	pattern_init(seed);
	bad = run_workers(dev, sessions, seed);
	printf("%s 1 no_byte_is_wrong_or_missing\n", bad ? "not ok" : "ok");
	if (system("tc qdisc add dev lo root netem delay 200us 100us loss 0.5% reorder 10%")) {
		printf("not ok 2 the_same_with_loss_and_reordering: no netem\n");
		bad = 1;
	} else {
		lossy = run_workers(dev, sessions / 10, seed + workers);
		printf("%s 2 the_same_with_loss_and_reordering\n", lossy ? "not ok" : "ok");
		bad |= lossy;
	}
	lossy = left(dev);
	printf("%s 3 nothing_is_left_under_way\n", lossy ? "not ok" : "ok");
	bad |= lossy;
	close(dev);
	lossy = system("for i in $(seq 900); do rmmod sksplice 2>/dev/null && exit 0; sleep 0.1; done; "
		       "exit 1");
	printf("%s 4 the_module_unloads\n", lossy ? "not ok" : "ok");
	return bad || lossy ? 1 : 0;
}
