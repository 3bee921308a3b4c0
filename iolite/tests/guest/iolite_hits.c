// SPDX-License-Identifier: GPL-2.0
/* Hits of several CPUs at once: no lock that is common to different files, and what is evicted is not read. */
/* timeout: 120 */
/* cpus: 4 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <sys/wait.h>
#include <time.h>

#include "kselftest_harness.h"

#include <iolite.h>
#include "iolite/tests/lib/module.h"

#define CPUS	4
#define HITS	20000
#define FILES	8
#define SIZE	200000
#define TRACE	"/sys/kernel/tracing/"

FIXTURE(hits) {
	int fd[FILES];
};

FIXTURE_SETUP(hits)
{
	char name[64], bytes[SIZE];
	int f;

	ASSERT_EQ(0, module_load());
	for (f = 0; f < FILES; f++) {
		snprintf(name, sizeof(name), "/tmp/iolite.hits.%d", f);
		self->fd[f] = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
		memset(bytes, 'a' + f, SIZE);
		ASSERT_EQ(SIZE, write(self->fd[f], bytes, SIZE));
		close(self->fd[f]);
		self->fd[f] = open(name, O_RDONLY);
	}
}

FIXTURE_TEARDOWN(hits)
{
	char name[64];
	int f;

	for (f = 0; f < FILES; f++) {
		close(self->fd[f]);
		snprintf(name, sizeof(name), "/tmp/iolite.hits.%d", f);
		unlink(name);
	}
	IOL_flush();
	EXPECT_EQ(0, system("echo 0 > /sys/module/iolite/parameters/cache_max"));
}

static void hit(int fd, int cpu, unsigned int times)
{
	cpu_set_t set;
	IOL_Agg *agg;
	size_t n;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof(set), &set);
	while (times--) {
		if (IOL_pread(fd, &agg, 4096, 0, &n) || n != 4096)
			_exit(1);
		IOL_destroy(agg);
	}
	_exit(0);
}

/* Whoever waited in a queue for a spinning lock, from where he came. */
static long waits_in(const char *function)
{
	FILE *trace = fopen(TRACE "trace", "r");
	char line[256];
	long n = 0;

	while (trace && fgets(line, sizeof(line), trace))
		n += !!strstr(line, function);
	if (trace)
		fclose(trace);
	return trace ? n : -1;
}

TEST_F(hits, hits_of_different_files_wait_for_no_common_lock)
{
	unsigned long long hits, all;
	int cpu, status;
	pid_t pid[CPUS];
	IOL_Agg *agg;
	size_t n;

	ASSERT_EQ(0, system("mountpoint -q " TRACE " || mount -t tracefs none " TRACE "; cd " TRACE " && "
			    "echo 1 > options/stacktrace && echo 4096 > buffer_size_kb && echo > trace && "
			    "echo 1 > events/lock/contention_begin/enable"));
	for (cpu = 0; cpu < CPUS; cpu++) {
		ASSERT_EQ(0, IOL_pread(self->fd[cpu], &agg, SIZE, 0, &n));
		IOL_destroy(agg);
	}
	hits = counter("FileHits");
	for (cpu = 0; cpu < CPUS; cpu++) {
		pid[cpu] = fork();
		if (!pid[cpu])
			hit(self->fd[cpu], cpu, HITS);
	}
	for (cpu = 0; cpu < CPUS; cpu++) {
		ASSERT_EQ(pid[cpu], waitpid(pid[cpu], &status, 0));
		EXPECT_EQ(0, status);
	}
	all = counter("FileHits") - hits;
	EXPECT_EQ(CPUS * HITS, all);
	ASSERT_EQ(0, system("cd " TRACE " && echo 0 > events/lock/contention_begin/enable"));
	TH_LOG("%llu hits on %d CPUs: %ld waits in iol_cache_find, %ld in all of the read call", all, CPUS,
	       waits_in("iol_cache_find"), waits_in("iol_read_call"));
	EXPECT_EQ(0, waits_in("iol_cache_find"));
	EXPECT_EQ(0, waits_in("iol_file_validate"));
	ASSERT_EQ(0, system("cd " TRACE " && echo 0 > options/stacktrace && echo > trace"));
}

/* Reads files until killed; what a call gives must be of one mark. */
static void read_until_killed(const int *fd, unsigned long seed)
{
	IOL_Context *context;
	const char *addr;
	size_t n, len, i;
	IOL_Agg *agg;
	char mark;

	for (;;) {
		seed = seed * 6364136223846793005UL + 1442695040888963407UL;
		/* A short read is one, too. */
		if (IOL_pread(fd[(seed >> 33) % FILES], &agg, SIZE, 0, &n) || !n)
			_exit(1);
		IOL_copy_out(agg, 0, &mark, 1);
		IOL_gen_start(agg, &context);
		while (!IOL_gen_nextRd(context, &addr, &len) && len)
			for (i = 0; i < len; i += 512)
				if (addr[i] != mark)
					_exit(2);
		IOL_gen_end(context);
		IOL_destroy(agg);
	}
}

/* Three CPUs read, one writes, and there is room for a third of it only. Both policies. */
TEST_F(hits, what_is_hit_beside_writes_and_eviction_is_whole)
{
	unsigned long long evicted = counter("FileEvicted");
	static char bytes[SIZE];
	pid_t pid[CPUS - 1];
	int r, status, round;
	time_t start = time(NULL);
	char name[64];

	ASSERT_EQ(0, system("echo 600000 > /sys/module/iolite/parameters/cache_max"));
	for (r = 0; r < CPUS - 1; r++) {
		pid[r] = fork();
		if (!pid[r])
			read_until_killed(self->fd, r + 1);
	}
	for (round = 0; time(NULL) - start < 6; round++) {
		IOL_Agg *agg;
		size_t n;
		int fd;

		snprintf(name, sizeof(name), "/tmp/iolite.hits.%d", round % FILES);
		fd = open(name, O_RDWR);
		memset(bytes, 'A' + round % 50, SIZE);
		ASSERT_EQ(0, IOL_from_memory(IOL_DEF_ALLOC, &agg, bytes, SIZE));
		ASSERT_EQ(0, IOL_pwrite(fd, agg, 0, &n));
		EXPECT_EQ(SIZE, n);
		IOL_destroy(agg);
		close(fd);
		if (round % 16 == 0)
			ASSERT_EQ(0, system(round % 32 ? "echo Y > /sys/module/iolite/parameters/gds" :
						       "echo N > /sys/module/iolite/parameters/gds"));
		usleep(2000);
	}
	for (r = 0; r < CPUS - 1; r++) {
		kill(pid[r], SIGKILL);
		ASSERT_EQ(pid[r], waitpid(pid[r], &status, 0));
		EXPECT_TRUE(WIFSIGNALED(status));
	}
	TH_LOG("%d writes, %llu evicted", round, counter("FileEvicted") - evicted);
	EXPECT_LT(evicted, counter("FileEvicted"));
	ASSERT_EQ(0, system("echo N > /sys/module/iolite/parameters/gds"));
}

MODULE_UNLOADS

TEST_HARNESS_MAIN
