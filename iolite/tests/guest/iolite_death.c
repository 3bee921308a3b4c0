// SPDX-License-Identifier: GPL-2.0
/* Processes die in the middle of everything; what they had goes, what they gave stays. */
/* timeout: 120 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>

#include "kselftest_harness.h"

#include <iolite.h>
#include "iolite/tests/lib/module.h"

#define WORKERS	4

FIXTURE(death) {
	int ends[2];
};

FIXTURE_SETUP(death)
{
	ASSERT_EQ(0, module_load());
	ASSERT_EQ(0, pipe(self->ends));
}

FIXTURE_TEARDOWN(death)
{
	close(self->ends[0]);
	close(self->ends[1]);
}

/* Whole and part of buffers, files, pipes and sockets, until killed. */
static void work(int in, int out, int file)
{
	unsigned long seed = getpid();
	char bytes[3000];

	memset(bytes, 'w', sizeof(bytes));
	for (;;) {
		struct pollfd ready = { .fd = in, .events = POLLIN };
		IOL_Agg *agg, *more, *both;
		size_t n;

		seed = seed * 6364136223846793005UL + 1442695040888963407UL;
		if (IOL_from_memory(IOL_DEF_ALLOC, &agg, bytes, 1 + (seed >> 33) % sizeof(bytes)))
			_exit(1);
		if (IOL_pread(file, &more, 1 + (seed >> 40) % 100000, 0, &n))
			_exit(2);
		if (IOL_concat(&both, agg, more))
			_exit(3);
		IOL_write(out, both, &n);
		IOL_destroy(agg);
		IOL_destroy(more);
		IOL_destroy(both);
		while (poll(&ready, 1, 0) == 1 && !IOL_read(in, &agg, 1 + (seed >> 45) % 70000, &n) && n)
			IOL_destroy(agg);
	}
}

static unsigned long long chunks(void)
{
	return counter("ChunksMade") - counter("ChunksFreed");
}

/* As many rounds as a slow kernel manages in this time, if not all. */
#define SECONDS_MOST	25

TEST_F(death, workers_killed_at_any_moment_leave_nothing)
{
	const char *rounds = getenv("IOLITE_DEATHS");
	int round, i, pair[2], file, status;
	int most = rounds ? atoi(rounds) : 25;
	time_t start = time(NULL);

	file = open("/tmp/iolite.death", O_RDWR | O_CREAT | O_TRUNC, 0600);
	ASSERT_EQ(0, ftruncate(file, 100000));
	for (round = 0; round < most && (rounds || time(NULL) - start < SECONDS_MOST); round++) {
		bool unix_sockets = round & 1;
		pid_t pid[WORKERS];

		ASSERT_EQ(0, unix_sockets ? socketpair(AF_UNIX, SOCK_STREAM, 0, pair) : pipe(pair));
		for (i = 0; i < WORKERS; i++) {
			fcntl(pair[i & 1], F_SETFL, O_NONBLOCK);
			pid[i] = fork();
			if (!pid[i])
				work(pair[0], pair[1], file);
		}
		usleep(20000 + round % 7 * 9000);
		for (i = 0; i < WORKERS; i++) {
			kill(pid[i], SIGKILL);
			ASSERT_EQ(pid[i], waitpid(pid[i], &status, 0));
			ASSERT_EQ(SIGKILL, WTERMSIG(status));
		}
		close(pair[0]);
		close(pair[1]);
	}
	TH_LOG("%d rounds", round);
	EXPECT_LT(3, round);
	close(file);
	unlink("/tmp/iolite.death");
	/* Sockets are emptied by whoever closes them last, inodes and their cached data a little later. */
	for (i = 0; i < 300 && chunks(); i++) {
		ASSERT_EQ(0, system("echo 2 > /proc/sys/vm/drop_caches"));
		usleep(100000);
	}
	EXPECT_EQ(0, chunks());
	EXPECT_EQ(counter("BuffersMade"), counter("BuffersFreed"));
}

TEST_F(death, the_module_stays_while_a_domain_or_a_pipe_has_something)
{
	IOL_Agg *agg;
	int status;
	pid_t pid;
	size_t n;

	pid = fork();
	if (!pid) {
		if (IOL_from_memory(IOL_DEF_ALLOC, &agg, "some data that is not so small, as it is sealed", 47))
			_exit(1);
		if (!IOL_domain())
			_exit(2);
		if (!system("rmmod iolite 2>/dev/null"))
			_exit(3);
		agg = NULL;
		if (IOL_create(IOL_DEF_ALLOC, &agg, 5000) || IOL_write(self->ends[1], agg, &n))
			_exit(4);
		_exit(0);
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
	/* The domain has gone; the pipe still has what it wrote. */
	EXPECT_NE(0, system("rmmod iolite 2>/dev/null"));
	EXPECT_EQ(0, access("/dev/iolite", F_OK));
}

/* Without a window nothing says that it ended: then it had nothing. */
TEST_F(death, what_a_process_had_goes_with_it_though_another_has_its_descriptor)
{
	const int most = 64, refused = 100;
	unsigned long long before;
	int mapped, status;

	for (mapped = 0; mapped < 2; mapped++) {
		int fd = open("/dev/iolite", O_RDWR), n = 0;
		pid_t pid;

		before = chunks();
		pid = fork();
		if (!pid) {
			struct iol_init init = { .version = IOL_VERSION, .scratch = -1 };

			if (mapped ? module_domain(fd, &init) : ioctl(fd, IOL_IOC_INIT, &init))
				_exit(255);
			for (n = 0; n < most; n++) {
				struct iol_alloc alloc = { .pool = init.pool, .size = IOL_CHUNK_SIZE };

				if (ioctl(fd, IOL_IOC_ALLOC, &alloc))
					_exit(errno == ENXIO ? refused : 255);
			}
			_exit(n);
		}
		ASSERT_EQ(pid, waitpid(pid, &status, 0));
		EXPECT_EQ(mapped ? most : refused, WEXITSTATUS(status));
		EXPECT_EQ(before, chunks());
		close(fd);
	}
}

TEST_F(death, a_program_that_calls_exec_takes_nothing_along)
{
	IOL_Agg *agg;
	int status;
	pid_t pid;

	pid = fork();
	if (!pid) {
		if (IOL_create(IOL_DEF_ALLOC, &agg, 100000) || !IOL_domain())
			_exit(1);
		execl("/bin/sh", "sh", "-c", "! grep -q iolite /proc/self/maps && ! ls -l /proc/self/fd | grep -q iolite",
		      NULL);
		_exit(2);
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
}

MODULE_UNLOADS

TEST_HARNESS_MAIN
