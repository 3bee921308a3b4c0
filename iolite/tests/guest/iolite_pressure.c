// SPDX-License-Identifier: GPL-2.0
/* Little memory: who is charged, what goes back, and nobody is killed who would live with read(2). */
/* timeout: 300 */
/* long: both a minute, and on the debug kernel minutes */
/* mem: 1G */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "kselftest_harness.h"

#include <flotilla/iolite.h>
#include <iolite.h>
#include "iolite/tests/lib/module.h"

#define MB		(1l << 20)
#define IMAGE		"/tmp/iolite.pressure.img"
#define MNT		"/tmp/iolite.pressure"
#define GROUPS		"/tmp/iolite.groups"
#define GROUP		GROUPS "/iolite-pressure"
/* More than the group has. */
#define FILE_MB		112

FIXTURE(pressure) {
};

FIXTURE_SETUP(pressure)
{
	ASSERT_EQ(0, module_load());
	ASSERT_EQ(0, system("mkdir -p " MNT " " GROUPS "; truncate -s 160M " IMAGE " && mkfs.ext4 -q " IMAGE " && "
			    MODULE_MOUNT(IMAGE, MNT) " && dd if=/dev/urandom of=" MNT "/big bs=1M count=112 "
			    "2>/dev/null && sync && sleep 0.1 && echo 3 > /proc/sys/vm/drop_caches"));
	ASSERT_EQ(0, system("mount -t cgroup2 none " GROUPS " && echo +memory > " GROUPS "/cgroup.subtree_control && "
			    "mkdir -p " GROUP));
}

FIXTURE_TEARDOWN(pressure)
{
	EXPECT_EQ(0, system("umount -d " MNT "; rm -f " IMAGE));
	/* Charged pages keep a dead group, not its directory. */
	EXPECT_EQ(0, system("rmdir " GROUP "; umount " GROUPS));
}

static int put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY);
	int err = fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text) ? -errno : 0;

	close(fd);
	return err;
}

/* The number behind @key in a file, or the first one. */
static long number(const char *path, const char *key)
{
	FILE *file = fopen(path, "r");
	char line[256];
	long found = -1;

	while (file && found < 0 && fgets(line, sizeof(line), file)) {
		if (!key)
			found = atol(line);
		else if (!strncmp(line, key, strlen(key)))
			found = atol(line + strlen(key));
	}
	if (file)
		fclose(file);
	return found;
}

/* In the group from its first page on. */
static pid_t in_group(void)
{
	pid_t pid = fork();

	if (!pid && put(GROUP "/cgroup.procs", "0"))
		_exit(100);
	return pid;
}

static int ended(pid_t pid)
{
	int status;

	if (waitpid(pid, &status, 0) != pid)
		return -1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

static int read_all(const char *path, long size)
{
	int fd = open(path, O_RDONLY);
	long done = 0;
	size_t n = 1;

	while (n) {
		IOL_Agg *agg;

		if (IOL_read(fd, &agg, 65536, &n))
			return 2;
		done += n;
		IOL_destroy(agg);
	}
	close(fd);
	return done == size ? 0 : 3;
}

/* What came first, and would go first, is in use for as long as the process lives. */
static int hold_first(const char *path)
{
	int fd = open(path, O_RDONLY), i;
	IOL_Agg *agg;
	size_t n;

	for (i = 0; i < 16; i++)
		if (IOL_read(fd, &agg, 65536, &n) || n != 65536)
			return 4;
	close(fd);
	return 0;
}

TEST_F(pressure, a_group_reads_a_file_larger_than_itself)
{
	int round;
	pid_t pid;

	ASSERT_EQ(0, put(GROUP "/memory.max", "48M"));
	for (round = 0; round < 2; round++) {
		pid = in_group();
		if (!pid)
			_exit(read_all(MNT "/big", FILE_MB * MB));
		EXPECT_EQ(0, ended(pid));
	}
	EXPECT_EQ(0, number(GROUP "/memory.events", "oom_kill "));
	/* What is left of it goes when it is asked for. */
	put(GROUP "/memory.reclaim", "40M");
	EXPECT_GT(16 * MB, number(GROUP "/memory.current", NULL));
	EXPECT_EQ(0, put(GROUP "/memory.max", "max"));
}

static unsigned long long chunks_of_memory(void)
{
	return counter("ChunksMade") - counter("ChunksFreed");
}

/* Of /proc/meminfo, in kB, with what processors keep to give out again: it is counted in none. */
static long memory(const char *key)
{
	FILE *file = fopen("/proc/zoneinfo", "r");
	long sum = 0, pages;
	char line[200];

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, " count: %ld", &pages) == 1)
			sum += pages;
	if (file)
		fclose(file);
	return number("/proc/meminfo", key) + sum * (sysconf(_SC_PAGESIZE) / 1024);
}

/* Nothing is reserved for the cache: what it has, anonymous memory takes, and it comes back after that. */
TEST_F(pressure, anonymous_memory_takes_the_cache_s_and_the_cache_grows_again)
{
	unsigned long long empty, full, squeezed, again;
	int go[2], told[2];
	char byte;
	pid_t pid;

	empty = chunks_of_memory();
	ASSERT_EQ(0, pipe(go));
	ASSERT_EQ(0, pipe(told));
	ASSERT_EQ(0, put(GROUP "/memory.max", "150M"));
	pid = in_group();
	if (!pid) {
		char *memory;

		if (hold_first(MNT "/big") || read_all(MNT "/big", FILE_MB * MB) || write(told[1], "", 1) != 1 ||
		    read(go[0], &byte, 1) != 1)
			_exit(1);
		memory = malloc(110 * MB);
		memset(memory, 1, 110 * MB);
		if (write(told[1], "", 1) != 1 || read(go[0], &byte, 1) != 1)
			_exit(2);
		free(memory);
		_exit(read_all(MNT "/big", FILE_MB * MB));
	}
	/* Who is killed says nothing any more. */
	close(told[1]);
	ASSERT_EQ(1, read(told[0], &byte, 1));
	full = chunks_of_memory();
	ASSERT_EQ(1, write(go[1], "", 1));
	ASSERT_EQ(1, read(told[0], &byte, 1));
	squeezed = chunks_of_memory();
	ASSERT_EQ(1, write(go[1], "", 1));
	ASSERT_EQ(0, ended(pid));
	again = chunks_of_memory();
	TH_LOG("chunks: %llu empty, %llu full, %llu beside 110 MB, %llu again", empty, full, squeezed, again);
	EXPECT_LT(empty + FILE_MB * 16 / 2, full);
	EXPECT_GT(full / 2, squeezed);
	EXPECT_LT(squeezed + FILE_MB * 16 / 4, again);
	EXPECT_EQ(0, number(GROUP "/memory.events", "oom_kill "));
	EXPECT_EQ(0, put(GROUP "/memory.max", "max"));
}

TEST_F(pressure, cached_data_counts_as_available_memory)
{
	long reserve = number("/proc/sys/vm/min_free_kbytes", NULL), before, free_before;
	char text[32];

	/* Of what can be reclaimed the kernel holds back up to its low watermark. */
	ASSERT_EQ(0, put("/proc/sys/vm/min_free_kbytes", "4096"));
	before = memory("MemAvailable:");
	free_before = memory("MemFree:");
	ASSERT_EQ(0, read_all(MNT "/big", FILE_MB * MB));
	IOL_flush();
	/* It is there, in kB, and it is no loss. */
	EXPECT_LT(FILE_MB * 1024 / 2, free_before - memory("MemFree:"));
	EXPECT_GT(FILE_MB * 1024 / 4, before - memory("MemAvailable:"));
	snprintf(text, sizeof(text), "%ld", reserve);
	EXPECT_EQ(0, put("/proc/sys/vm/min_free_kbytes", text));
}

TEST_F(pressure, eight_bytes_written_do_not_keep_a_buffer)
{
	static char bytes[65536];
	pid_t pid = in_group();

	if (!pid) {
		int file = open(MNT "/small", O_RDWR | O_CREAT, 0600), null = open("/dev/null", O_WRONLY), i;
		IOL_Agg *all, *few;
		size_t n;

		for (i = 0; i < 1500; i++) {
			/* Sealed by the first write, so that the second goes by reference. */
			if (IOL_from_memory(IOL_DEF_ALLOC, &all, bytes, sizeof(bytes)) ||
			    IOL_write(null, all, &n) || IOL_select(&few, all, 4096, 8) ||
			    IOL_write(file, few, &n) || n != 8)
				_exit(1);
			IOL_destroy(few);
			IOL_destroy(all);
		}
		_exit(0);
	}
	EXPECT_EQ(0, ended(pid));
	EXPECT_GT(16 * MB, number(GROUP "/memory.current", NULL));
}

/* What an unread socket keeps is bounded by what it is charged. */
static void keep_in_socket(int rounds)
{
	struct sockaddr_in addr = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int lsn = socket(AF_INET, SOCK_STREAM, 0), to, i, file = open(MNT "/big", O_RDONLY);
	struct iol_init init = { .version = IOL_VERSION, .scratch = -1 };
	int dev = open("/dev/iolite", O_RDWR);
	socklen_t len = sizeof(addr);

	if (bind(lsn, (void *)&addr, sizeof(addr)) || listen(lsn, 1) || getsockname(lsn, (void *)&addr, &len))
		_exit(1);
	to = socket(AF_INET, SOCK_STREAM, 0);
	if (connect(to, (void *)&addr, sizeof(addr)) || module_domain(dev, &init))
		_exit(2);
	for (i = 0; i < rounds; i++) {
		struct iol_send send = { .fd = to, .file = file, .position = 65536l * i, .size = 1,
					 .flags = IOL_IO_NOWAIT | IOL_SEND_MORE };

		if (ioctl(dev, IOL_IOC_SEND, &send))
			_exit(4);
	}
}

TEST_F(pressure, bytes_in_a_socket_do_not_keep_buffers)
{
	unsigned long long before = chunks_of_memory();
	const int rounds = 900;
	int go[2], told[2], i;
	char byte;
	pid_t pid;

	ASSERT_EQ(0, system("ip link set lo up"));
	/* What is cached and not in flight is none of this. */
	ASSERT_EQ(0, put("/sys/module/iolite/parameters/cache_max", "1048576"));
	ASSERT_EQ(0, pipe(go));
	ASSERT_EQ(0, pipe(told));
	pid = fork();
	if (!pid) {
		keep_in_socket(rounds);
		_exit(write(told[1], "", 1) == 1 && read(go[0], &byte, 1) == 1 ? 0 : 5);
	}
	close(told[1]);
	EXPECT_EQ(1, read(told[0], &byte, 1));
	for (i = 0; i < 600 && chunks_of_memory() >= before + rounds / 4; i++)
		usleep(100000);
	TH_LOG("%llu chunks for %d bytes", chunks_of_memory() - before, rounds);
	EXPECT_GT(before + rounds / 4, chunks_of_memory());
	EXPECT_EQ(1, write(go[1], "", 1));
	EXPECT_EQ(0, ended(pid));
	EXPECT_EQ(0, put("/sys/module/iolite/parameters/cache_max", "0"));
}

/* Made and given back in many pools, so that each of them has memory to spare. */
TEST_F(pressure, spare_memory_is_in_the_quota)
{
	pid_t pid;

	ASSERT_EQ(0, put("/sys/module/iolite/parameters/domain_quota", "16777216"));
	pid = in_group();
	if (!pid) {
		int fd = open("/dev/iolite", O_RDWR), i, k;
		struct iol_init init = { .version = IOL_VERSION, .scratch = -1 };
		static struct iol_alloc a[48];

		if (module_domain(fd, &init))
			_exit(1);
		for (i = 0; i < 24; i++) {
			struct iol_pool_args pool = { 0 };

			if (ioctl(fd, IOL_IOC_POOL_CREATE, &pool))
				_exit(2);
			for (k = 0; k < 48; k++) {
				a[k] = (struct iol_alloc){ .pool = pool.pool, .size = IOL_CHUNK_SIZE };
				if (ioctl(fd, IOL_IOC_ALLOC, &a[k]))
					_exit(3);
			}
			for (k = 0; k < 48; k++) {
				struct iol_slice slice = { a[k].offset, a[k].generation, 1, 0 };
				struct iol_release release = { .slices = (uintptr_t)&slice, .count = 1 };

				if (ioctl(fd, IOL_IOC_RELEASE, &release))
					_exit(4);
			}
		}
		_exit(number(GROUP "/memory.current", NULL) < 24 * MB ? 0 : 5);
	}
	EXPECT_EQ(0, ended(pid));
	EXPECT_EQ(0, put("/sys/module/iolite/parameters/domain_quota", "268435456"));
}

/* TCP has next to no memory: slow, but it ends, and nothing is lost. */
TEST_F(pressure, tcp_without_memory_is_slow_and_right)
{
	struct sockaddr_in addr = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	static char bytes[65536], in[65536];
	int lsn = socket(AF_INET, SOCK_STREAM, 0), to, from, i;
	socklen_t len = sizeof(addr);
	size_t sum = 0;
	ssize_t n;
	pid_t pid;

	for (i = 0; i < (int)sizeof(bytes); i++)
		bytes[i] = i * 7;
	ASSERT_EQ(0, system("ip link set lo up; cat /proc/sys/net/ipv4/tcp_mem > /tmp/iolite.tcp_mem; "
			    "echo 4 8 16 > /proc/sys/net/ipv4/tcp_mem"));
	ASSERT_EQ(0, bind(lsn, (void *)&addr, sizeof(addr)));
	ASSERT_EQ(0, listen(lsn, 1));
	ASSERT_EQ(0, getsockname(lsn, (void *)&addr, &len));
	to = socket(AF_INET, SOCK_STREAM, 0);
	ASSERT_EQ(0, connect(to, (void *)&addr, sizeof(addr)));
	from = accept(lsn, NULL, NULL);
	pid = fork();
	if (!pid) {
		close(from);
		for (i = 0; i < 16; i++) {
			IOL_Agg *all, *rest;
			size_t put_in, at = 0;

			if (IOL_from_memory(IOL_DEF_ALLOC, &all, bytes, sizeof(bytes)))
				_exit(1);
			for (; at < sizeof(bytes); at += put_in) {
				if (IOL_select(&rest, all, at, sizeof(bytes) - at) ||
				    IOL_write(to, rest, &put_in))
					_exit(2);
				IOL_destroy(rest);
			}
			IOL_destroy(all);
		}
		/* The kernel resets what is closed when it has no memory for orphans. */
		shutdown(to, SHUT_WR);
		_exit(read(to, in, 1) ? 3 : 0);
	}
	close(to);
	while ((n = read(from, in, sizeof(in))) > 0)
		for (i = 0; i < n; i++, sum++)
			ASSERT_EQ(bytes[sum % sizeof(bytes)], in[i]);
	EXPECT_EQ(16 * sizeof(bytes), sum);
	close(from);
	EXPECT_EQ(0, ended(pid));
	EXPECT_EQ(0, system("cat /tmp/iolite.tcp_mem > /proc/sys/net/ipv4/tcp_mem"));
}

MODULE_UNLOADS

TEST_HARNESS_MAIN
