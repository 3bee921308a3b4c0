// SPDX-License-Identifier: GPL-2.0
/* Hits of several CPUs at once: no lock that is common to different files, and what is evicted is not read. */
/* timeout: 120 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <sys/wait.h>
#include <time.h>

#include "kselftest_harness.h"

#include <iolite.h>
#include "iolite/tests/lib/module.h"

#define READERS	3
#define HITS	1000
#define FILES	8
#define SIZE	200000
#define MNT	"/tmp/iolite.hits"
#define IMAGE	"/tmp/iolite.hits.img"
#define TRACE	"/sys/kernel/tracing/"

FIXTURE(hits) {
	int fd[FILES];
};

FIXTURE_SETUP(hits)
{
	char name[64], bytes[SIZE];
	int f;

	ASSERT_EQ(0, module_load());
	ASSERT_EQ(0, system("umount -d " MNT " 2>/dev/null; rm -f " IMAGE "; mkdir -p " MNT "; truncate -s 64M " IMAGE
			    "; mkfs.ext4 -q " IMAGE " && " MODULE_MOUNT(IMAGE, MNT)));
	for (f = 0; f < FILES; f++) {
		snprintf(name, sizeof(name), MNT "/f%d", f);
		self->fd[f] = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
		memset(bytes, 'a' + f, SIZE);
		ASSERT_EQ(SIZE, write(self->fd[f], bytes, SIZE));
		close(self->fd[f]);
		self->fd[f] = open(name, O_RDONLY);
	}
}

FIXTURE_TEARDOWN(hits)
{
	int f;

	for (f = 0; f < FILES; f++)
		close(self->fd[f]);
	IOL_flush();
	EXPECT_EQ(0, system("umount -d " MNT));
	unlink(IMAGE);
	EXPECT_EQ(0, system("echo 0 > /sys/module/iolite/parameters/cache_max"));
}

static int hit(int fd, unsigned int times)
{
	IOL_Agg *agg;
	size_t n;

	while (times--) {
		if (IOL_pread(fd, &agg, 4096, 0, &n) || n != 4096)
			return -1;
		IOL_destroy(agg);
	}
	return 0;
}

/* How often the probe hit since the trace was emptied. */
static long probed(void)
{
	FILE *trace = fopen(TRACE "trace", "r");
	char line[256];
	long n = 0;

	while (trace && fgets(line, sizeof(line), trace))
		n += !!strstr(line, "iol_probe:");
	if (trace)
		fclose(trace);
	return trace ? n : -1;
}

/* The kernel's own word, by a probe on the function that takes a spinning lock. */
TEST_F(hits, a_hit_does_not_take_the_lock_that_is_common_to_all_files)
{
	unsigned long long before;
	IOL_Agg *agg;
	size_t n;

	ASSERT_EQ(0, IOL_pread(self->fd[0], &agg, SIZE, 0, &n));
	IOL_destroy(agg);
	ASSERT_EQ(0, system("mountpoint -q " TRACE " || mount -t tracefs none " TRACE "; cd " TRACE " && "
			    "lock=$(awk '$3 == \"iol_cache_lock\" { print $1 }' /proc/kallsyms) && [ -n \"$lock\" ] && "
			    "echo 'p:iol_probe _raw_spin_lock lock=%di:x64' > kprobe_events && "
			    "echo \"lock == 0x$lock\" > events/kprobes/iol_probe/filter && echo > trace && "
			    "echo 1 > events/kprobes/iol_probe/enable"));
	before = counter("FileHits");
	EXPECT_EQ(0, hit(self->fd[0], HITS));
	EXPECT_EQ(before + HITS, counter("FileHits"));
	EXPECT_EQ(0, probed());
	/* Who brings something new takes it, or the probe would not be worth anything. */
	ASSERT_EQ(0, IOL_pread(self->fd[1], &agg, SIZE, 0, &n));
	IOL_destroy(agg);
	EXPECT_LT(0, probed());
	EXPECT_EQ(0, system("cd " TRACE " && echo 0 > events/kprobes/iol_probe/enable && echo > kprobe_events && "
			    "echo > trace"));
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

/*
 * Three read, one writes, each several chunks, and there is room for a third of it only: a read
 * sees all of a write or nothing. Both policies.
 */
TEST_F(hits, a_read_beside_writes_and_eviction_is_of_one_write)
{
	unsigned long long evicted = counter("FileEvicted");
	static char bytes[SIZE];
	pid_t pid[READERS];
	int r, status, round;
	time_t start = time(NULL);
	char name[64];

	ASSERT_EQ(0, system("echo 600000 > /sys/module/iolite/parameters/cache_max"));
	for (r = 0; r < READERS; r++) {
		pid[r] = fork();
		if (!pid[r])
			read_until_killed(self->fd, r + 1);
	}
	for (round = 0; time(NULL) - start < 6; round++) {
		IOL_Agg *agg;
		size_t n;
		int fd;

		snprintf(name, sizeof(name), MNT "/f%d", round % FILES);
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
	for (r = 0; r < READERS; r++) {
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
