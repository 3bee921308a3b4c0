// SPDX-License-Identifier: GPL-2.0
/* What one user may pin of the machine, however many processes, domains, pools and sockets he has. */
/* timeout: 120 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "kselftest_harness.h"

#include <flotilla/iolite.h>
#include "iolite/tests/lib/module.h"

#define PARAMETER	"/sys/module/iolite/parameters/"
/* Chunks of a user's quota here; far less than what one domain may have. */
#define CHUNKS		256
/* More than that, if nobody stops it. */
#define MOST		1024
#define UID		2001
#define OTHER_UID	2002

struct domain {
	int fd;
	uint64_t pool;
};

FIXTURE(quota) {
	int told[2];
	int go[2];
};

static int set(const char *name, unsigned long value)
{
	char path[100], text[32];
	int fd, n, err;

	snprintf(path, sizeof(path), PARAMETER "%s", name);
	n = snprintf(text, sizeof(text), "%lu", value);
	fd = open(path, O_WRONLY);
	err = fd < 0 || write(fd, text, n) != n;
	close(fd);
	return err;
}

FIXTURE_SETUP(quota)
{
	ASSERT_EQ(0, module_load());
	ASSERT_EQ(0, chmod("/dev/iolite", 0666));
	set("user_quota", CHUNKS * IOL_CHUNK_SIZE);
	ASSERT_EQ(0, pipe(self->told));
	ASSERT_EQ(0, pipe(self->go));
}

FIXTURE_TEARDOWN(quota)
{
	int fd[] = { self->told[0], self->told[1], self->go[0], self->go[1] };
	unsigned int i;

	for (i = 0; i < sizeof(fd) / sizeof(*fd); i++)
		close(fd[i]);
	set("user_quota", 0);
}

static void be(uid_t uid)
{
	if (setgroups(0, NULL) || setgid(uid) || setuid(uid))
		_exit(90);
}

static int domain_open(struct domain *domain)
{
	struct iol_init init = { .version = IOL_VERSION, .scratch = -1 };

	domain->fd = open("/dev/iolite", O_RDWR | O_CLOEXEC);
	if (domain->fd < 0 || ioctl(domain->fd, IOL_IOC_INIT, &init))
		return -1;
	if (mmap(NULL, init.window, PROT_READ, MAP_SHARED, domain->fd, 0) == MAP_FAILED ||
	    mmap(NULL, init.window, PROT_READ | PROT_WRITE, MAP_SHARED, domain->fd, init.fill) == MAP_FAILED)
		return -1;
	domain->pool = init.pool;
	return 0;
}

static int alloc(const struct domain *domain, uint64_t pool, struct iol_slice *slice)
{
	struct iol_alloc alloc = { .pool = pool, .size = IOL_CHUNK_SIZE };

	if (ioctl(domain->fd, IOL_IOC_ALLOC, &alloc))
		return -errno;
	*slice = (struct iol_slice){ alloc.offset, alloc.generation, 1, 0 };
	return 0;
}

/* Until there are no more, or there are too many; how many, -1: not for want of memory. */
static int alloc_all(const struct domain *domain)
{
	struct iol_slice slice;
	int n, err = 0;

	for (n = 0; n < MOST && !err; n += !err)
		err = alloc(domain, domain->pool, &slice);
	return !err || err == -ENOMEM ? n : -1;
}

/* A byte of each of up to @most buffers is sent to a socket, and nothing else is left of the buffer; how many. */
static int send_all(const struct domain *domain, uint64_t pool, int to, int most)
{
	struct iol_slice slice;
	int n;

	for (n = 0; n < most; n++) {
		struct iol_io io = { .fd = to, .position = IOL_POSITION_FILE, .slices = (uintptr_t)&slice,
				     .count = 1, .flags = IOL_IO_NOWAIT };
		struct iol_release release = { .slices = (uintptr_t)&slice, .count = 1 };
		int err = alloc(domain, pool, &slice), sent;

		if (err)
			return err == -ENOMEM ? n : -1;
		sent = ioctl(domain->fd, IOL_IOC_WRITE, &io);
		if (ioctl(domain->fd, IOL_IOC_RELEASE, &release))
			return -1;
		if (sent)
			break;
	}
	return n;
}

static int ended(pid_t pid)
{
	int status;

	if (waitpid(pid, &status, 0) != pid)
		return -1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

/* How many chunks a fresh process of a user gets. */
static int chunks_of(uid_t uid)
{
	int told[2], got = -2;
	pid_t pid;

	if (pipe(told))
		return -3;
	pid = fork();
	if (!pid) {
		struct domain domain;

		be(uid);
		got = domain_open(&domain) ? -4 : alloc_all(&domain);
		_exit(write(told[1], &got, sizeof(got)) != sizeof(got));
	}
	close(told[1]);
	if (read(told[0], &got, sizeof(got)) != sizeof(got))
		got = -5;
	close(told[0]);
	ended(pid);
	return got;
}

TEST_F(quota, the_domains_of_a_user_share_one_quota)
{
	unsigned long long refused = counter("UserQuotaRefused");
	int got = -1, others;
	char byte;
	pid_t pid;

	pid = fork();
	if (!pid) {
		struct domain domain;
		int n, i;

		be(UID);
		for (got = i = 0; i < 8 && got < MOST; i++, got += n) {
			n = domain_open(&domain) ? -1 : alloc_all(&domain);
			if (n < 0)
				_exit(1);
		}
		_exit(write(self->told[1], &got, sizeof(got)) != sizeof(got) || read(self->go[0], &byte, 1) != 1);
	}
	close(self->told[1]);
	self->told[1] = -1;
	ASSERT_EQ(sizeof(got), read(self->told[0], &got, sizeof(got)));
	EXPECT_EQ(CHUNKS, got);
	EXPECT_LT(refused, counter("UserQuotaRefused"));
	/* Nor has another process of his any; another user has his own. */
	EXPECT_EQ(0, chunks_of(UID));
	others = chunks_of(OTHER_UID);
	EXPECT_EQ(CHUNKS, others);
	/* Who may lock memory without limit may do so here. */
	EXPECT_LT(CHUNKS, chunks_of(0));
	ASSERT_EQ(1, write(self->go[1], "", 1));
	EXPECT_EQ(0, ended(pid));
	EXPECT_EQ(CHUNKS, chunks_of(UID));
}

TEST_F(quota, what_is_in_flight_is_in_the_quota_until_it_has_landed)
{
	int got[2] = { -1, -1 }, i, left;
	int pair[16][2];
	char byte;
	pid_t pid;

	for (i = 0; i < 16; i++)
		ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, pair[i]));
	pid = fork();
	if (!pid) {
		struct iol_pool_args pool = { };
		struct domain domain;
		int n;

		be(UID);
		if (domain_open(&domain))
			_exit(1);
		/* Half of the quota from a pool that goes before its data has arrived. */
		if (ioctl(domain.fd, IOL_IOC_POOL_CREATE, &pool))
			_exit(2);
		for (i = 0, got[0] = 0; i < 8 && got[0] < CHUNKS / 2; i++, got[0] += n)
			n = send_all(&domain, pool.pool, pair[i][0], CHUNKS / 2 - got[0]);
		if (ioctl(domain.fd, IOL_IOC_POOL_DESTROY, &pool))
			_exit(3);
		for (i = 8, got[1] = 0; i < 16; i++, got[1] += n)
			n = send_all(&domain, domain.pool, pair[i][0], MOST);
		_exit(write(self->told[1], got, sizeof(got)) != sizeof(got) || read(self->go[0], &byte, 1) != 1);
	}
	close(self->told[1]);
	self->told[1] = -1;
	ASSERT_EQ(sizeof(got), read(self->told[0], got, sizeof(got)));
	EXPECT_EQ(CHUNKS / 2, got[0]);
	EXPECT_EQ(CHUNKS / 2, got[1]);
	EXPECT_EQ(0, chunks_of(UID));
	/* The end of the process does not free what sockets still have. */
	ASSERT_EQ(1, write(self->go[1], "", 1));
	EXPECT_EQ(0, ended(pid));
	left = chunks_of(UID);
	EXPECT_EQ(0, left);
	for (i = 0; i < 16; i++) {
		close(pair[i][0]);
		close(pair[i][1]);
	}
	/* Sockets in flight themselves, and the look for what has landed, take a moment. */
	for (i = 0; i < 3000 && left != CHUNKS; i++, left = chunks_of(UID))
		usleep(20000);
	EXPECT_EQ(CHUNKS, left);
}

/* A child in a user namespace of its own, and there another user: 0: as many chunks as @UID may have. */
TEST_F(quota, the_users_of_a_user_namespace_count_as_its_maker)
{
	char path[64], byte;
	int got = -1, fd;
	pid_t pid;

	pid = fork();
	if (!pid) {
		struct domain own, inside;

		be(UID);
		if (domain_open(&own) || alloc_all(&own) != CHUNKS || unshare(CLONE_NEWUSER))
			_exit(1);
		if (write(self->told[1], &got, sizeof(got)) != sizeof(got) || read(self->go[0], &byte, 1) != 1)
			_exit(2);
		if (setuid(7))
			_exit(3);
		got = domain_open(&inside) ? -1 : alloc_all(&inside);
		_exit(write(self->told[1], &got, sizeof(got)) != sizeof(got));
	}
	close(self->told[1]);
	self->told[1] = -1;
	ASSERT_EQ(sizeof(got), read(self->told[0], &got, sizeof(got)));
	snprintf(path, sizeof(path), "/proc/%d/uid_map", pid);
	fd = open(path, O_WRONLY);
	ASSERT_EQ(13, write(fd, "0 100000 1000", 13));
	close(fd);
	ASSERT_EQ(1, write(self->go[1], "", 1));
	ASSERT_EQ(sizeof(got), read(self->told[0], &got, sizeof(got)));
	EXPECT_EQ(0, got);
	EXPECT_EQ(0, ended(pid));
}

/* The pools of all of his domains; another user has as many. */
TEST_F(quota, a_user_s_pools_are_counted)
{
	int made = 0;
	pid_t pid;

	pid = fork();
	if (!pid) {
		struct iol_pool_args args;
		struct domain domain;

		be(UID);
		if (domain_open(&domain))
			_exit(2);
		do {
			args = (struct iol_pool_args){ };
		} while (!ioctl(domain.fd, IOL_IOC_POOL_CREATE, &args) && made++ < 8192);
		if (errno != ENOMEM || made > 8192)
			_exit(3);
		pid = fork();
		if (!pid)
			_exit(!domain_open(&domain));
		_exit(ended(pid));
	}
	EXPECT_EQ(0, ended(pid));
	pid = fork();
	if (!pid) {
		struct domain domain;

		be(OTHER_UID);
		_exit(domain_open(&domain));
	}
	EXPECT_EQ(0, ended(pid));
}

#define FILE_CHUNKS	2048

/* What has left the cache and is held is in nobody's quota; over a bound of all of it the rest is its reader's. */
TEST_F(quota, data_of_files_that_is_kept_from_the_cache_has_a_bound)
{
	int n = 0, file;
	pid_t pid;

	ASSERT_EQ(0, system("mkdir -p /tmp/iolite.quota && mount -t tmpfs -o size=200M none /tmp/iolite.quota && "
			    "dd if=/dev/zero of=/tmp/iolite.quota/f bs=1M count=128 status=none && "
			    "chmod 644 /tmp/iolite.quota/f"));
	ASSERT_EQ(0, set("cache_max", 1 << 20));
	pid = fork();
	if (!pid) {
		struct domain domain;
		int err = 0;

		be(UID);
		file = open("/tmp/iolite.quota/f", O_RDONLY);
		if (file < 0 || domain_open(&domain))
			_exit(2);
		for (n = 0; n < FILE_CHUNKS && !err; n += !err) {
			struct iol_slice slice;
			struct iol_io io = { .fd = file, .position = (uint64_t)n * IOL_CHUNK_SIZE, .size = 1,
					     .slices = (uintptr_t)&slice, .count = 1 };

			err = ioctl(domain.fd, IOL_IOC_READ, &io) ? -errno : 0;
		}
		if (write(self->told[1], &n, sizeof(n)) != sizeof(n) || read(self->go[0], &n, 1) != 1)
			_exit(3);
		_exit(err && err != -ENOMEM ? 4 : 0);
	}
	ASSERT_EQ(sizeof(n), read(self->told[0], &n, sizeof(n)));
	TH_LOG("%d chunks of a file", n);
	/* That of all, his own, and what is cached. */
	EXPECT_GE(512 + CHUNKS + 64, n);
	EXPECT_LE(512, n);
	ASSERT_EQ(1, write(self->go[1], "", 1));
	EXPECT_EQ(0, ended(pid));
	EXPECT_EQ(0, set("cache_max", 0));
	EXPECT_EQ(0, system("umount /tmp/iolite.quota && rmdir /tmp/iolite.quota"));
}

#define TRACING	"/sys/kernel/tracing/"

/* How often pools look for what has landed, in a second; a busy machine may take several for it. */
static int looks(void)
{
	struct timespec from, to;
	double seconds;
	FILE *file;
	int n = -1;

	clock_gettime(CLOCK_MONOTONIC, &from);
	if (system("echo > " TRACING "trace; echo 1 > " TRACING "events/workqueue/workqueue_execute_start/enable; sleep 1; "
		   "echo 0 > " TRACING "events/workqueue/workqueue_execute_start/enable"))
		return -1;
	clock_gettime(CLOCK_MONOTONIC, &to);
	file = popen("grep -c iol_pool_poll " TRACING "trace", "r");
	if (fscanf(file, "%d", &n) != 1)
		n = -1;
	pclose(file);
	seconds = to.tv_sec - from.tv_sec + (to.tv_nsec - from.tv_nsec) / 1e9;
	return n <= 0 ? n : (int)(n / seconds);
}

TEST_F(quota, what_stays_in_flight_is_looked_for_more_and_more_rarely)
{
	const int pools = 20;
	struct domain domain;
	int pair[2], i, n;

	ASSERT_EQ(0, system("mountpoint -q " TRACING " || mount -t tracefs none " TRACING));
	ASSERT_EQ(0, set("user_quota", 0));
	ASSERT_EQ(0, domain_open(&domain));
	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
	for (i = 0; i < pools; i++) {
		struct iol_pool_args args = { };

		ASSERT_EQ(0, ioctl(domain.fd, IOL_IOC_POOL_CREATE, &args));
		ASSERT_EQ(1, send_all(&domain, args.pool, pair[0], 1));
	}
	/* After 10, 20, 40 ms and so on. */
	for (i = 0; i < 10 && looks() > 2 * pools; i++)
		;
	n = looks();
	TH_LOG("%d pools were looked at %d times in a second, after %d", pools, n, i);
	EXPECT_LE(0, n);
	EXPECT_GE(2 * pools, n);
	close(pair[0]);
	close(pair[1]);
	for (i = 0; i < 300 && counter("BuffersMade") != counter("BuffersFreed"); i++)
		usleep(100000);
	EXPECT_EQ(counter("BuffersMade"), counter("BuffersFreed"));
	close(domain.fd);
}

/* It does not wait for what is in flight, nor is looked at it any more. */
TEST_F(quota, the_module_goes_while_something_of_its_is_in_flight)
{
	int pair[2];
	char byte;
	pid_t pid;

	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
	pid = fork();
	if (!pid) {
		struct domain domain;

		be(UID);
		_exit(domain_open(&domain) || send_all(&domain, domain.pool, pair[0], 4) != 4);
	}
	EXPECT_EQ(0, ended(pid));
	EXPECT_EQ(0, module_unload());
	EXPECT_EQ(1, read(pair[1], &byte, 1));
	close(pair[0]);
	close(pair[1]);
	ASSERT_EQ(0, module_load());
}

MODULE_UNLOADS

TEST_HARNESS_MAIN
