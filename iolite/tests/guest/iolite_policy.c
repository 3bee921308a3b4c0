// SPDX-License-Identifier: GPL-2.0
/* What is evicted, access by access, is what a simulator of the policy evicts. */
/* timeout: 120 */
// long: debug it takes a minute and a half there
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kselftest_harness.h"

#include <flotilla/iolite.h>
#include <iolite.h>
#include "iolite/tests/lib/module.h"

#define FILES		60
#define CHUNK		65536u
#define CHUNKS_MOST	4
#define CACHE_MAX	(1u << 20)
#define ACCESSES	1200
#define SHIFT		32

enum policy { LRU, GDS, GDS_PACKETS };

/* One cached range: a chunk of a file. @seq orders those of one rank. */
struct range {
	bool there;
	bool busy;
	uint64_t rank;
	uint64_t seq;
	uint32_t len;
};

struct file {
	int fd;
	uint32_t size;
	struct range range[CHUNKS_MOST];
};

/* The paper's cache, and Greedy-Dual-Size's L in @inflation. */
struct model {
	struct file file[FILES];
	uint64_t bytes;
	uint64_t clock;
	uint64_t inflation;
	uint64_t seq;
	unsigned int hits;
	unsigned int misses;
};

static struct model model;
static unsigned long seed;

static unsigned int random_below(unsigned int n)
{
	seed = seed * 6364136223846793005UL + 1442695040888963407UL;
	return (seed >> 33) % n;
}

/* A range keeps whole pages. */
static uint32_t kept(const struct range *range)
{
	return (range->len + 4095) & ~4095u;
}

static void rank_now(struct range *range, uint32_t size, enum policy policy)
{
	uint64_t cost = policy == GDS_PACKETS ? 2 + size / 536 : 1;

	range->seq = ++model.seq;
	if (policy != LRU) {
		range->rank = model.inflation + (cost << SHIFT) / size;
		return;
	}
	if (model.clock < model.inflation)
		model.clock = model.inflation;
	range->rank = ++model.clock;
}

static bool before(const struct range *a, const struct range *b)
{
	return !b || a->rank < b->rank || (a->rank == b->rank && a->seq < b->seq);
}

static bool evict(enum policy policy)
{
	struct range *idle = NULL, *any = NULL, *victim;
	unsigned int f, c;

	for (f = 0; f < FILES; f++) {
		for (c = 0; c < CHUNKS_MOST; c++) {
			struct range *range = &model.file[f].range[c];

			if (!range->there)
				continue;
			if (before(range, any))
				any = range;
			if (!range->busy && before(range, idle))
				idle = range;
		}
	}
	victim = idle ? idle : any;
	if (!victim)
		return false;
	if (policy != LRU && model.inflation < victim->rank)
		model.inflation = victim->rank;
	victim->there = false;
	model.bytes -= kept(victim);
	return true;
}

/* All of a file, chunk by chunk; what was had is in use until the end. */
static void model_read(struct file *file, enum policy policy)
{
	unsigned int c;

	for (c = 0; c * CHUNK < file->size; c++) {
		struct range *range = &file->range[c];

		if (range->there) {
			model.hits++;
		} else {
			model.misses++;
			range->len = file->size - c * CHUNK < CHUNK ? file->size - c * CHUNK : CHUNK;
			while (model.bytes + kept(range) > CACHE_MAX)
				if (!evict(policy))
					break;
			range->there = true;
			model.bytes += kept(range);
		}
		range->busy = true;
		rank_now(range, file->size, policy);
	}
	for (c = 0; c < CHUNKS_MOST; c++)
		file->range[c].busy = false;
}

/* Many small ones, some of several chunks. */
static uint32_t size_of(unsigned int f)
{
	if (f % 7 == 0)
		return CHUNK + 1 + random_below(CHUNK * (CHUNKS_MOST - 1) - 1);
	return 1 + random_below(f % 3 ? 20000 : CHUNK);
}

/* Popular ones first: the lower of three. */
static unsigned int choose(void)
{
	unsigned int f = FILES, i;

	for (i = 0; i < 3; i++) {
		unsigned int g = random_below(FILES);

		if (g < f)
			f = g;
	}
	return f * 37 % FILES;
}

static int files_make(void)
{
	static char bytes[CHUNK * CHUNKS_MOST];
	char name[64];
	unsigned int f;

	for (f = 0; f < FILES; f++) {
		struct file *file = &model.file[f];

		snprintf(name, sizeof(name), "/tmp/iolite.policy.%u", f);
		file->size = size_of(f);
		file->fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
		if (write(file->fd, bytes, file->size) != (ssize_t)file->size)
			return -1;
		close(file->fd);
		file->fd = open(name, O_RDONLY);
		unlink(name);
	}
	/* Changes younger than this are not cached. */
	usleep(50000);
	return 0;
}

static int parameters(enum policy policy)
{
	char command[200];

	snprintf(command, sizeof(command),
		 "cd /sys/module/iolite/parameters && echo %c > gds && echo %d > gds_cost && "
		 "echo %u > cache_max", policy == LRU ? 'N' : 'Y', policy == GDS_PACKETS, CACHE_MAX);
	return system(command);
}

static int read_whole(const struct file *file)
{
	IOL_Agg *agg;
	size_t n;

	if (IOL_pread(file->fd, &agg, file->size, 0, &n) || n != file->size)
		return -1;
	IOL_destroy(agg);
	IOL_flush();
	return 0;
}

FIXTURE(policy) {
};

FIXTURE_SETUP(policy)
{
	ASSERT_EQ(0, module_load());
}

FIXTURE_TEARDOWN(policy)
{
}

/* In one process: the cache goes on from policy to policy, and so does the simulator. */
TEST_F(policy, every_hit_and_miss_is_the_simulators)
{
	static const char *const names[] = { "LRU", "GDS(1)", "GDS(packets)" };
	unsigned int hits[3], policy, i;

	seed = 20261121;
	ASSERT_EQ(0, files_make());
	for (policy = LRU; policy <= GDS_PACKETS; policy++) {
		unsigned long long hit = counter("FileHits"), miss = counter("FileMisses");

		ASSERT_EQ(0, parameters(policy));
		model.hits = 0;
		model.misses = 0;
		for (i = 0; i < ACCESSES; i++) {
			struct file *file = &model.file[choose()];

			model_read(file, policy);
			ASSERT_EQ(0, read_whole(file));
			/* Each access is compared, a few of them at a time. */
			if (i % 8)
				continue;
			ASSERT_EQ(model.hits, counter("FileHits") - hit) {
				TH_LOG("%s, access %u", names[policy], i);
			}
			ASSERT_EQ(model.misses, counter("FileMisses") - miss);
		}
		hits[policy] = model.hits;
		TH_LOG("%s: %u hits, %u misses of %u accesses, seed 20261121", names[policy], model.hits,
		       model.misses, ACCESSES);
	}
	/* Small documents stay longer. */
	EXPECT_GT(hits[GDS], hits[LRU]);
	for (i = 0; i < FILES; i++)
		close(model.file[i].fd);
}

/* Pages round: one file of many chunks, read chunk by chunk; and who reads it. */
#define SCAN		20
#define OTHERS		6
#define TURNS		10

/* Another program with data of its own, which it reads as often as we do: a byte asks for one chunk. */
struct other {
	pid_t pid;
	int ask[2];
	int answer[2];
};

static int file_of(unsigned int chunks)
{
	static char bytes[CHUNK];
	char name[] = "/tmp/iolite.scan.XXXXXX", path[64];
	int fd = mkstemp(name), ro;

	while (chunks--)
		if (write(fd, bytes, CHUNK) != CHUNK)
			return -1;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	ro = open(path, O_RDONLY);
	close(fd);
	unlink(name);
	return ro;
}

static int read_chunk(int fd, unsigned int n)
{
	IOL_Agg *agg;
	size_t got;

	if (IOL_pread(fd, &agg, CHUNK, (off_t)n * CHUNK, &got) || got != CHUNK)
		return -1;
	IOL_destroy(agg);
	IOL_flush();
	return 0;
}

static void other_start(struct other *other, int fd)
{
	char byte;
	int n;

	if (pipe(other->ask) || pipe(other->answer))
		return;
	other->pid = fork();
	if (other->pid)
		return;
	close(other->ask[1]);
	for (n = 0; read(other->ask[0], &byte, 1) == 1; n++)
		if (read_chunk(fd, n % OTHERS) || write(other->answer[1], "!", 1) != 1)
			_exit(1);
	_exit(0);
}

static void other_turn(struct other *other)
{
	char byte;

	if (write(other->ask[1], "?", 1) != 1 || read(other->answer[0], &byte, 1) != 1)
		exit(1);
}

/* Hits of ours and of the other's in @TURNS rounds, each access by one of the other's. */
static void take_turns(struct __test_metadata *_metadata, struct other *other, int fd, unsigned int scan,
		       unsigned int *ours, unsigned int *others)
{
	unsigned int turn, n;

	*ours = 0;
	*others = 0;
	for (turn = 0; turn < TURNS; turn++) {
		for (n = 0; n < scan; n++) {
			unsigned long long before = counter("FileHits");

			ASSERT_EQ(0, read_chunk(fd, n));
			*ours += counter("FileHits") - before;
			before = counter("FileHits");
			other_turn(other);
			*others += counter("FileHits") - before;
		}
	}
}

TEST_F(policy, a_program_chooses_among_its_own_and_others_do_not_notice)
{
	int ours_fd = file_of(SCAN), others_fd = file_of(OTHERS);
	unsigned int ours, others, n, all = SCAN * TURNS;
	struct other other;

	ASSERT_EQ(0, parameters(LRU));
	usleep(50000);
	other_start(&other, others_fd);
	EXPECT_EQ(-EINVAL, IOL_policy(IOL_POLICY_GDS + 1));
	/* Round and round, four more than fit: the order common to all loses each just before it is asked for. */
	take_turns(_metadata, &other, ours_fd, SCAN, &ours, &others);
	EXPECT_EQ(0, ours);
	EXPECT_EQ(all - OTHERS, others);
	ASSERT_EQ(0, IOL_policy(IOL_POLICY_MRU));
	take_turns(_metadata, &other, ours_fd, SCAN, &ours, &others);
	take_turns(_metadata, &other, ours_fd, SCAN, &ours, &others);
	TH_LOG("MRU: %u of %u hits where LRU had none; the other program's %u of %u", ours, all, others, all);
	/* Ten chunks are left for us. */
	EXPECT_LE(all * 4 / 10, ours);
	EXPECT_EQ(all, others);
	EXPECT_LT(0, counter("FileEvictedChosen"));
	/* A foolish choice: what was used last is used next, and goes. It is ours that are missed. */
	others = 0;
	for (n = 0; n < all; n++) {
		unsigned long long before;

		ASSERT_EQ(0, read_chunk(ours_fd, n % SCAN));
		ASSERT_EQ(0, read_chunk(ours_fd, n % 4));
		before = counter("FileHits");
		other_turn(&other);
		others += counter("FileHits") - before;
	}
	EXPECT_EQ(all, others);
	/* The order common to all again. */
	ASSERT_EQ(0, IOL_policy(IOL_POLICY_SYSTEM));
	take_turns(_metadata, &other, ours_fd, CACHE_MAX / CHUNK - OTHERS - 1, &ours, &others);
	EXPECT_EQ((CACHE_MAX / CHUNK - OTHERS - 1) * TURNS, others);
	EXPECT_LE((CACHE_MAX / CHUNK - OTHERS - 1) * (TURNS - 1), ours);
	close(other.ask[1]);
	ASSERT_EQ(other.pid, waitpid(other.pid, NULL, 0));
	close(ours_fd);
	close(others_fd);
}

MODULE_UNLOADS

TEST_HARNESS_MAIN
