// SPDX-License-Identifier: GPL-2.0
/* Nobody waits for another user who has no CPU time left. */
/* timeout: 120 */
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "kselftest_harness.h"

#include "iolite/tests/lib/module.h"

#define GROUPS	"/tmp/iolite.bounds"
#define GROUP	GROUPS "/starved"
#define PREEMPT	"/sys/kernel/debug/sched/preempt"
#define DOMAINS	1500
#define PERIODS	12

static int put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY);
	int err = fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text);

	close(fd);
	return err;
}

static int throttled(void)
{
	FILE *file = fopen(GROUP "/cpu.stat", "r");
	char key[64];
	int value, n = -1;

	while (file && fscanf(file, "%63s %d", key, &value) == 2)
		if (!strcmp(key, "nr_throttled"))
			n = value;
	if (file)
		fclose(file);
	return n;
}

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec + now.tv_nsec / 1e9;
}

/* Looks for a domain that is not there, among many. */
static void grant_for_ever(int told)
{
	struct iol_pool_args args = { .domain = ~0ULL >> 1 };
	struct rlimit limit = { DOMAINS + 100, DOMAINS + 100 };
	struct iol_init init;
	int fd = -1, i;

	if (setrlimit(RLIMIT_NOFILE, &limit))
		_exit(1);
	for (i = 0; i < DOMAINS; i++) {
		init = (struct iol_init){ .version = IOL_VERSION, .scratch = -1 };
		fd = open("/dev/iolite", O_RDWR);
		if (i + 1 < DOMAINS ? ioctl(fd, IOL_IOC_INIT, &init) : module_domain(fd, &init))
			_exit(2);
	}
	args.pool = init.pool;
	if (write(told, "", 1) != 1)
		_exit(3);
	for (;;)
		ioctl(fd, IOL_IOC_POOL_GRANT, &args);
}

TEST(nobody_waits_for_who_has_no_cpu_time_left)
{
	double longest = 0, waited = 0;
	int told[2], begin, calls = 0;
	char byte, id[16];
	pid_t pid;

	ASSERT_EQ(0, module_load());
	/* So that he stops anywhere, as on kernels that are made so. */
	if (put(PREEMPT, "full"))
		SKIP(return, "preemption cannot be chosen");
	ASSERT_EQ(0, system("mkdir -p " GROUPS " && mount -t cgroup2 none " GROUPS " && echo +cpu > " GROUPS
			    "/cgroup.subtree_control && mkdir " GROUP));
	if (put(GROUP "/cpu.max", "1000 1000000"))
		SKIP(return, "the kernel has no bound for a group's CPU time");
	ASSERT_EQ(0, pipe(told));
	pid = fork();
	if (!pid)
		grant_for_ever(told[1]);
	close(told[1]);
	ASSERT_EQ(1, read(told[0], &byte, 1));
	snprintf(id, sizeof(id), "%d", pid);
	ASSERT_EQ(0, put(GROUP "/cgroup.procs", id));
	while (throttled() < 2)
		usleep(10000);
	begin = throttled();
	while (throttled() < begin + PERIODS) {
		struct iol_init init = { .version = IOL_VERSION, .scratch = -1 };
		double from = seconds(), took;
		int fd = open("/dev/iolite", O_RDWR);

		ASSERT_EQ(0, ioctl(fd, IOL_IOC_INIT, &init));
		close(fd);
		took = seconds() - from;
		/* A slow machine's moments are none. */
		waited += took > 0.3 ? took : 0;
		longest = took > longest ? took : longest;
		calls++;
	}
	TH_LOG("%d calls, %.2f s in slow ones, the longest %.2f s", calls, waited, longest);
	/* A period is a second. */
	EXPECT_GT(PERIODS / 3, waited);
	EXPECT_EQ(0, put(GROUP "/cpu.max", "max"));
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	EXPECT_EQ(0, put(PREEMPT, "voluntary"));
	EXPECT_EQ(0, system("rmdir " GROUP " && umount " GROUPS));
}

MODULE_UNLOADS

TEST_HARNESS_MAIN
