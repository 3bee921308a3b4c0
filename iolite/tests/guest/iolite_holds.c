// SPDX-License-Identifier: GPL-2.0
/* Threads of one process work on the same objects: nobody lets go of what another one has. */
/* timeout: 180 */
/* long: debug minutes there */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include "kselftest_harness.h"

#include <flotilla/iolite.h>
#include "iolite/tests/lib/module.h"
#include "tools/testing/trap.h"

/* Generations that are tried for a buffer whose place is known. */
#define GUESSES		64

/* What a domain may hold; little, so that trying it out is quick. */
static int quota(long bytes)
{
	char command[100];

	snprintf(command, sizeof(command), "echo %ld > /sys/module/iolite/parameters/domain_quota", bytes);
	return system(command);
}

FIXTURE(holds) {
	int fd;
	int scratch[2];
	struct iol_init init;
	char *window;
	char *fill;
};

FIXTURE_VARIANT(holds) {
	int kind;
	bool data;
};

enum { FROM_TCP, FROM_PACKETS, FROM_UNIX, FROM_EVENT };

FIXTURE_VARIANT_ADD(holds, tcp_end) { .kind = FROM_TCP };
FIXTURE_VARIANT_ADD(holds, tcp_data) { .kind = FROM_TCP, .data = true };
FIXTURE_VARIANT_ADD(holds, packets_end) { .kind = FROM_PACKETS };
FIXTURE_VARIANT_ADD(holds, packets_data) { .kind = FROM_PACKETS, .data = true };
FIXTURE_VARIANT_ADD(holds, unix_end) { .kind = FROM_UNIX };
FIXTURE_VARIANT_ADD(holds, unix_data) { .kind = FROM_UNIX, .data = true };
FIXTURE_VARIANT_ADD(holds, event_data) { .kind = FROM_EVENT, .data = true };

FIXTURE_SETUP(holds)
{
	ASSERT_EQ(0, module_load());
	ASSERT_EQ(0, quota(16 << 20));
	ASSERT_EQ(0, pipe2(self->scratch, O_CLOEXEC | O_NONBLOCK));
	self->fd = open("/dev/iolite", O_RDWR | O_CLOEXEC);
	ASSERT_LE(0, self->fd);
	self->init = (struct iol_init){ .version = IOL_VERSION, .scratch = self->scratch[0] };
	ASSERT_EQ(0, ioctl(self->fd, IOL_IOC_INIT, &self->init));
	self->window = mmap(NULL, self->init.window, PROT_READ, MAP_SHARED, self->fd, 0);
	ASSERT_NE(MAP_FAILED, self->window);
	self->fill = mmap(NULL, self->init.window, PROT_READ | PROT_WRITE, MAP_SHARED, self->fd,
			  self->init.fill);
	ASSERT_NE(MAP_FAILED, self->fill);
}

FIXTURE_TEARDOWN(holds)
{
	EXPECT_EQ(0, quota(256 << 20));
	close(self->fd);
}

static int let_go(int fd, uint64_t offset, uint64_t generation, uint32_t times)
{
	struct iol_slice slice = { offset, generation, times, 0 };
	struct iol_release release = { .slices = (uintptr_t)&slice, .count = 1 };

	return ioctl(fd, IOL_IOC_RELEASE, &release) ? -errno : 0;
}

static int get(int fd, struct iol_alloc *a, uint32_t size)
{
	*a = (struct iol_alloc){ .size = size };
	return ioctl(fd, IOL_IOC_ALLOC, a) ? -errno : 0;
}

/* 64 KiB buffers that the domain's quota still allows. */
static int room(int fd)
{
	static struct iol_alloc a[5000];
	int n = 0, i;

	while (n < 5000 && !get(fd, &a[n], IOL_CHUNK_SIZE))
		n++;
	for (i = 0; i < n; i++)
		if (let_go(fd, a[i].offset, a[i].generation, 1))
			return -1;
	return n;
}

struct reader {
	int fd;
	int from;
	struct iol_slice *slices;
	int slice_room;
	int ret;
	uint32_t count;
};

static void *read_thread(void *arg)
{
	struct reader *reader = arg;
	struct iol_io io = { .fd = reader->from, .position = -1, .size = IOL_CHUNK_SIZE,
			     .slices = (uintptr_t)reader->slices, .count = reader->slice_room };

	reader->ret = ioctl(reader->fd, IOL_IOC_READ, &io) ? -errno : (int)io.size;
	reader->count = io.count;
	return NULL;
}

/* Is the only other thread of the process asleep? */
static void await_sleep(void)
{
	char path[64], line[256], state = 0;
	int tries, pid = getpid(), tid;

	for (tries = 0; tries < 1000 && state != 'S' && state != 'D'; tries++) {
		usleep(10000);
		for (tid = pid + 1; tid < pid + 100; tid++) {
			FILE *file;

			snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", pid, tid);
			file = fopen(path, "r");
			if (!file)
				continue;
			if (fgets(line, sizeof(line), file))
				state = strrchr(line, ')')[2];
			fclose(file);
			break;
		}
	}
}

/* Names of the buffer that the next call will use, tried by one who was not told. */
static int guess(int fd, const struct iol_alloc *last)
{
	uint64_t generation;
	int hits = 0;

	for (generation = last->generation + 1; generation < last->generation + GUESSES; generation++)
		hits += !let_go(fd, last->offset, generation, 1);
	return hits;
}

static int tcp_pair(int pair[2])
{
	struct sockaddr_in addr = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int lsn = socket(AF_INET, SOCK_STREAM, 0);
	socklen_t len = sizeof(addr);

	if (system("ip link set lo up") || bind(lsn, (void *)&addr, sizeof(addr)) || listen(lsn, 1) ||
	    getsockname(lsn, (void *)&addr, &len))
		return -1;
	pair[1] = socket(AF_INET, SOCK_STREAM, 0);
	if (connect(pair[1], (void *)&addr, sizeof(addr)))
		return -1;
	pair[0] = accept(lsn, NULL, NULL);
	close(lsn);
	return pair[0] < 0 ? -1 : 0;
}

static int pair_of(int kind, int pair[2])
{
	switch (kind) {
	case FROM_TCP:
		return tcp_pair(pair);
	case FROM_PACKETS:
		return socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair);
	case FROM_UNIX:
		return socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
	default:
		pair[0] = eventfd(0, 0);
		pair[1] = dup(pair[0]);
		return pair[0] < 0 ? -1 : 0;
	}
}

/*
 * The reader waits, its buffer made; the place of that is known, since memory used last is used
 * again, and the generation by counting.
 */
TEST_F(holds, a_buffer_of_a_blocked_read_cannot_be_released_by_guess)
{
	uint64_t word = 0x4141414141414141;
	struct iol_slice slices[8];
	struct iol_alloc last;
	pthread_t thread;
	int pair[2], before, round, hits = 0;
	struct reader reader = { .fd = self->fd, .slices = slices, .slice_room = 8 };

	before = room(self->fd);
	ASSERT_LT(100, before);
	for (round = 0; round < 20; round++) {
		uint32_t i;

		ASSERT_EQ(0, pair_of(variant->kind, pair));
		reader.from = pair[0];
		ASSERT_EQ(0, get(self->fd, &last, IOL_CHUNK_SIZE));
		ASSERT_EQ(0, let_go(self->fd, last.offset, last.generation, 1));
		ASSERT_EQ(0, pthread_create(&thread, NULL, read_thread, &reader));
		await_sleep();
		hits += guess(self->fd, &last);
		if (variant->data) {
			ASSERT_EQ(sizeof(word), write(pair[1], &word, sizeof(word)));
		} else {
			ASSERT_EQ(0, shutdown(pair[1], SHUT_RDWR));
		}
		pthread_join(thread, NULL);
		EXPECT_EQ(variant->data ? (int)sizeof(word) : 0, reader.ret);
		/* What came is there, and is given back once for each time. */
		for (i = 0; i < reader.count; i++) {
			EXPECT_EQ('A', self->window[slices[i].offset]);
			EXPECT_EQ(0, let_go(self->fd, slices[i].offset, slices[i].generation, 1));
		}
		close(pair[0]);
		close(pair[1]);
	}
	EXPECT_EQ(0, hits);
	EXPECT_EQ(before, room(self->fd));
}

/*
 * The reader is stopped while it tells the names, of which the first is known by then; that one is
 * released; then telling the rest fails.
 */
TEST(names_that_are_being_told_are_not_valid_yet)
{
	struct iol_init init = { .version = IOL_VERSION, .scratch = -1 };
	struct reader reader = { .slice_room = 64 };
	char *two;
	struct uffd_msg msg;
	pthread_t thread;
	int ends[2], uffd, round, before, fd;

	ASSERT_EQ(0, module_load());
	ASSERT_EQ(0, quota(16 << 20));
	fd = open("/dev/iolite", O_RDWR | O_CLOEXEC);
	ASSERT_EQ(0, module_domain(fd, &init));
	before = room(fd);
	for (round = 0; round < 10; round++) {
		struct iol_slice *first, out[2];
		struct iol_io io = { .position = -1, .slices = (uintptr_t)out, .count = 2 };
		struct iol_alloc a;

		two = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		ASSERT_NE(MAP_FAILED, two);
		uffd = trap(two + 4096);
		if (uffd < 0)
			SKIP(return, "no userfaultfd");
		ASSERT_EQ(0, pipe(ends));
		ASSERT_EQ(0, get(fd, &a, IOL_CHUNK_SIZE));
		/* Two slices of one sealed buffer that do not touch. */
		out[0] = (struct iol_slice){ a.offset, a.generation, 4096, 0 };
		out[1] = (struct iol_slice){ a.offset + 8192, a.generation, 4096, 0 };
		io.fd = ends[1];
		ASSERT_EQ(0, ioctl(fd, IOL_IOC_WRITE, &io));
		ASSERT_EQ(0, let_go(fd, a.offset, a.generation, 1));
		first = (struct iol_slice *)(two + 4096) - 1;
		*first = (struct iol_slice){ 0 };
		reader.fd = fd;
		reader.from = ends[0];
		reader.slices = first;
		ASSERT_EQ(0, pthread_create(&thread, NULL, read_thread, &reader));
		/* The second name is about to be told. */
		ASSERT_EQ(sizeof(msg), read(uffd, &msg, sizeof(msg)));
		ASSERT_EQ(a.generation, first->generation);
		EXPECT_NE(0, let_go(fd, first->offset, first->generation, 1));
		EXPECT_NE(0, let_go(fd, first->offset, first->generation, 2));
		ASSERT_EQ(0, munmap(two + 4096, 4096));
		/* Only this wakes who waits for the page. */
		close(uffd);
		pthread_join(thread, NULL);
		EXPECT_EQ(-EFAULT, reader.ret);
		EXPECT_EQ(-ESTALE, let_go(fd, a.offset, a.generation, 1));
		close(ends[0]);
		close(ends[1]);
		munmap(two, 4096);
	}
	EXPECT_EQ(before, room(fd));
	EXPECT_EQ(0, quota(256 << 20));
	close(fd);
}

/* What all threads of the next test know. */
#define THREADS		6
#define NAMES		64

static struct crowd {
	int fd;
	int ends[2];
	int pair[2];
	int tcp[2];
	int file;
	struct iol_init init;
	struct iol_slice names[NAMES];
	volatile int stop;
	unsigned long calls;
} crowd;

static uint32_t dice(uint64_t *seed)
{
	*seed = *seed * 6364136223846793005ULL + 1442695040888963407ULL;
	return *seed >> 33;
}

static int crowd_target(uint64_t *seed)
{
	int targets[] = { crowd.ends[1], crowd.pair[1], crowd.tcp[1], crowd.file };

	return targets[dice(seed) % 4];
}

static int crowd_source(uint64_t *seed)
{
	int sources[] = { crowd.ends[0], crowd.pair[0], crowd.tcp[0], crowd.file };

	return sources[dice(seed) % 4];
}

/* One call of any kind with names that others use at the same time. */
static void crowd_call(uint64_t *seed)
{
	struct iol_slice *name = &crowd.names[dice(seed) % NAMES], slices[16];
	struct iol_io io = { .position = -1, .flags = IOL_IO_NOWAIT, .slices = (uintptr_t)slices,
			     .size = 1 + dice(seed) % 100000, .count = 16 };
	struct iol_alloc a = { .size = 1 + dice(seed) % IOL_CHUNK_SIZE };
	struct iol_seal seal = { .slice = *name };
	struct iol_send send = { .flags = IOL_IO_NOWAIT | IOL_SEND_RESIDENT, .size = 50000 };
	uint32_t i;

	switch (dice(seed) % 9) {
	case 0:
	case 1:
		if (!ioctl(crowd.fd, IOL_IOC_ALLOC, &a))
			*name = (struct iol_slice){ a.offset, a.generation, 1, 0 };
		break;
	case 2:
		ioctl(crowd.fd, IOL_IOC_SEAL, &seal);
		break;
	case 3:
		a = (struct iol_alloc){ .offset = name->offset, .generation = name->generation };
		if (!ioctl(crowd.fd, IOL_IOC_REOPEN, &a))
			name->generation = a.generation;
		break;
	case 4:
		let_go(crowd.fd, name->offset, name->generation + dice(seed) % 2, 1 + dice(seed) % 2);
		break;
	case 5:
		io.fd = crowd_source(seed);
		/* Sometimes nobody can be told. */
		if (dice(seed) % 4 == 0)
			io.slices = 8;
		if (!ioctl(crowd.fd, IOL_IOC_READ, &io))
			for (i = 0; i < io.count; i++)
				crowd.names[dice(seed) % NAMES] = slices[i];
		break;
	case 6:
	case 7:
		for (i = 0; i < 16; i++) {
			slices[i] = crowd.names[dice(seed) % NAMES];
			slices[i].length = 1 + dice(seed) % 4096;
		}
		io.fd = crowd_target(seed);
		io.count = 1 + dice(seed) % 4;
		ioctl(crowd.fd, IOL_IOC_WRITE, &io);
		if (lseek(crowd.file, 0, SEEK_CUR) > 1 << 20)
			lseek(crowd.file, 0, SEEK_SET);
		break;
	case 8:
		send.fd = dice(seed) % 2 ? crowd.pair[1] : crowd.tcp[1];
		send.file = dice(seed) % 2 ? crowd.ends[0] : crowd.file;
		ioctl(crowd.fd, IOL_IOC_SEND, &send);
		break;
	}
	__atomic_add_fetch(&crowd.calls, 1, __ATOMIC_RELAXED);
}

static void *crowd_thread(void *arg)
{
	uint64_t seed = (uintptr_t)arg;

	while (!crowd.stop)
		crowd_call(&seed);
	return NULL;
}

/* One process of the crowd; how it ends is part of it. */
static void crowd_run(unsigned int round)
{
	pthread_t thread[THREADS];
	int scratch[2], i;
	char *window;

	crowd.fd = open("/dev/iolite", O_RDWR | O_CLOEXEC);
	if (pipe2(crowd.ends, O_NONBLOCK) || pipe2(scratch, O_NONBLOCK | O_CLOEXEC))
		_exit(1);
	crowd.init = (struct iol_init){ .version = IOL_VERSION, .scratch = scratch[0] };
	if (ioctl(crowd.fd, IOL_IOC_INIT, &crowd.init))
		_exit(2);
	window = mmap(NULL, crowd.init.window, PROT_READ, MAP_SHARED, crowd.fd, 0);
	if (window == MAP_FAILED || socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, crowd.pair) ||
	    tcp_pair(crowd.tcp))
		_exit(4);
	for (i = 0; i < 2; i++)
		fcntl(crowd.tcp[i], F_SETFL, O_NONBLOCK);
	crowd.file = open("/tmp/iolite.crowd", O_RDWR | O_CREAT, 0600);
	for (i = 0; i < THREADS; i++)
		if (pthread_create(&thread[i], NULL, crowd_thread, (void *)(uintptr_t)(round * 100 + i + 1)))
			_exit(5);
	usleep(700000);
	/* Where they have had a processor for less than that. */
	for (i = 0; i < 3000 && __atomic_load_n(&crowd.calls, __ATOMIC_RELAXED) <= 100; i++)
		usleep(10000);
	switch (round % 4) {
	case 0:		/* the window goes from under them */
		munmap(window, crowd.init.window);
		usleep(100000);
		break;
	case 1:		/* so does the descriptor */
		close(crowd.fd);
		usleep(100000);
		break;
	case 2:		/* exec in the middle */
		execl("/bin/true", "true", NULL);
		_exit(6);
	}
	crowd.stop = 1;
	for (i = 0; round % 4 != 3 && i < THREADS; i++)
		pthread_join(thread[i], NULL);
	_exit(crowd.calls > 100 ? 0 : 7);
}

/* Pools that are made, and the one who guesses their names. */
static struct {
	int fd;
	uint64_t next;
	bool stop;
	unsigned int hits;
} pools;

static void *pool_wrecker(void *arg)
{
	(void)arg;
	while (!__atomic_load_n(&pools.stop, __ATOMIC_RELAXED)) {
		struct iol_pool_args args = { .pool = __atomic_load_n(&pools.next, __ATOMIC_RELAXED) };

		if (!ioctl(pools.fd, IOL_IOC_POOL_DESTROY, &args))
			pools.hits++;
	}
	return NULL;
}

/* What is told then is not read from what has gone: the debug kernel sees it. */
TEST(a_pool_may_be_destroyed_before_its_maker_hears_its_name)
{
	struct iol_init init = { .version = IOL_VERSION, .scratch = -1 };
	unsigned int wrong = 0, made;
	pthread_t thread;

	ASSERT_EQ(0, module_load());
	pools.fd = open("/dev/iolite", O_RDWR | O_CLOEXEC);
	ASSERT_EQ(0, module_domain(pools.fd, &init));
	pools.next = init.pool + 1;
	ASSERT_EQ(0, pthread_create(&thread, NULL, pool_wrecker, NULL));
	for (made = 0; made < 100000 && pools.hits < 100; made++) {
		struct iol_pool_args args = { };

		if (ioctl(pools.fd, IOL_IOC_POOL_CREATE, &args) || args.pool != pools.next)
			wrong++;
		ioctl(pools.fd, IOL_IOC_POOL_DESTROY, &args);
		__atomic_store_n(&pools.next, args.pool + 1, __ATOMIC_RELAXED);
	}
	pools.stop = true;
	pthread_join(thread, NULL);
	close(pools.fd);
	EXPECT_EQ(0, wrong);
	EXPECT_NE(0, pools.hits);
}

#define CROWDS	12

TEST(a_crowd_of_threads_with_each_other_s_names_leaves_nothing)
{
	int round, status, i;

	ASSERT_EQ(0, module_load());
	/* TCP leaves packets that were read to another CPU, which frees them when it next gets one. */
	ASSERT_EQ(0, system("echo 0 > /proc/sys/net/core/skb_defer_max"));
	for (round = 0; round < CROWDS; round++) {
		pid_t pid = fork();

		if (!pid)
			crowd_run(round);
		ASSERT_EQ(pid, waitpid(pid, &status, 0));
		ASSERT_EQ(0, status);
	}
	unlink("/tmp/iolite.crowd");
	for (i = 0; i < 300 && counter("BuffersMade") != counter("BuffersFreed"); i++) {
		ASSERT_EQ(0, system("echo 2 > /proc/sys/vm/drop_caches"));
		usleep(100000);
	}
	EXPECT_EQ(counter("BuffersMade"), counter("BuffersFreed"));
	EXPECT_EQ(counter("ChunksMade"), counter("ChunksFreed"));
	EXPECT_EQ(0, system("echo 64 > /proc/sys/net/core/skb_defer_max"));
}

MODULE_UNLOADS

TEST_HARNESS_MAIN
