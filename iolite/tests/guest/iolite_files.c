// SPDX-License-Identifier: GPL-2.0
/* The file cache: snapshots, coherence with ordinary calls, one physical copy, eviction. */
/* timeout: 300 */
// long: debug it takes up to eight minutes there
#include <errno.h>
#include <fcntl.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "kselftest_harness.h"

#include <iolite.h>
#include "iolite/tests/lib/module.h"

#define MNT	"/tmp/iolite.mnt"
#define SIZE	300000
#define PART	16384

FIXTURE(files) {
	int fd;
	char *model;
};

FIXTURE_SETUP(files)
{
	ASSERT_EQ(0, module_load());
	ASSERT_EQ(0, system("umount -d " MNT " 2>/dev/null; rm -f /tmp/iolite.img; mkdir -p " MNT "; "
			    "dd if=/dev/zero of=/tmp/iolite.img bs=1M count=0 seek=64 2>/dev/null && "
			    "mkfs.ext4 -q /tmp/iolite.img && " MODULE_MOUNT("/tmp/iolite.img", MNT)));
	self->model = malloc(4 * SIZE);
	for (int i = 0; i < SIZE; i++)
		self->model[i] = i * 7 + i / 256;
	self->fd = open(MNT "/f", O_RDWR | O_CREAT, 0644);
	ASSERT_EQ(SIZE, write(self->fd, self->model, SIZE));
	ASSERT_EQ(0, fsync(self->fd));
	/* Young changes are not cached: another one might hide in the same tick. */
	usleep(100000);
}

FIXTURE_TEARDOWN(files)
{
	close(self->fd);
	free(self->model);
	IOL_flush();
	EXPECT_EQ(0, system("umount -d " MNT " && e2fsck -fn /tmp/iolite.img >/dev/null 2>&1"));
	unlink("/tmp/iolite.img");
}

/* Does the file read as the model, through us? */
static int same(int fd, const char *model, size_t size)
{
	char *bytes = malloc(size + 1);
	size_t at = 0, n;
	int bad = 0;
	IOL_Agg *agg;

	while (at < size) {
		if (IOL_pread(fd, &agg, size - at, at, &n) || !n) {
			bad = 1;
			break;
		}
		IOL_copy_out(agg, 0, bytes + at, n);
		IOL_destroy(agg);
		at += n;
	}
	if (!bad && memcmp(bytes, model, size))
		bad = 2;
	free(bytes);
	return bad;
}

static IOL_Agg *text(const char *from, size_t len)
{
	IOL_Agg *agg = NULL;

	IOL_from_memory(IOL_DEF_ALLOC, &agg, from, len);
	return agg;
}

TEST_F(files, a_second_read_hits_and_copies_nothing)
{
	unsigned long long misses, hits, copied;

	ASSERT_EQ(0, same(self->fd, self->model, SIZE));
	misses = counter("FileMisses");
	hits = counter("FileHits");
	copied = counter("BytesCopiedFile") + counter("BytesCopiedReceive");
	ASSERT_EQ(0, same(self->fd, self->model, SIZE));
	EXPECT_EQ(misses, counter("FileMisses"));
	EXPECT_LT(hits, counter("FileHits"));
	EXPECT_EQ(copied, counter("BytesCopiedFile") + counter("BytesCopiedReceive"));
}

TEST_F(files, a_read_is_a_snapshot)
{
	char byte;
	IOL_Agg *old, *now;
	size_t n;

	ASSERT_EQ(0, IOL_pread(self->fd, &old, 1000, 0, &n));
	ASSERT_EQ(3, pwrite(self->fd, "new", 3, 100));
	ASSERT_EQ(0, IOL_pread(self->fd, &now, 1000, 0, &n));
	IOL_copy_out(old, 100, &byte, 1);
	EXPECT_EQ(self->model[100], byte);
	IOL_copy_out(now, 100, &byte, 1);
	EXPECT_EQ('n', byte);
	IOL_destroy(old);
	IOL_destroy(now);
}

TEST_F(files, ordinary_writes_and_truncation_are_seen_at_once)
{
	int round;

	for (round = 0; round < 50; round++) {
		size_t at = (round * 7919) % (SIZE - 10);

		ASSERT_EQ(0, same(self->fd, self->model, SIZE));
		memset(self->model + at, round, 10);
		ASSERT_EQ(10, pwrite(self->fd, self->model + at, 10, at));
	}
	usleep(50000);
	ASSERT_EQ(0, same(self->fd, self->model, SIZE));
	ASSERT_EQ(0, ftruncate(self->fd, 1000));
	ASSERT_EQ(0, ftruncate(self->fd, SIZE));
	memset(self->model + 1000, 0, SIZE - 1000);
	EXPECT_EQ(0, same(self->fd, self->model, SIZE));
}

TEST_F(files, stores_through_a_mapping_are_seen)
{
	int round;

	for (round = 0; round < 20; round++) {
		char *map;

		ASSERT_EQ(0, same(self->fd, self->model, SIZE));
		map = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, self->fd, 0);
		ASSERT_NE(MAP_FAILED, map);
		map[round * 5000] = self->model[round * 5000] = round + 1;
		ASSERT_EQ(0, same(self->fd, self->model, SIZE));
		map[round * 5000 + 1] = self->model[round * 5000 + 1] = round + 2;
		munmap(map, SIZE);
		ASSERT_EQ(0, same(self->fd, self->model, SIZE));
		usleep(30000);
	}
}

/* Byte @at of an aggregate. */
static int byte_of(IOL_Agg *agg, size_t at)
{
	unsigned char byte;

	return IOL_copy_out(agg, at, &byte, 1) == 1 ? byte : -1;
}

TEST_F(files, stores_and_our_calls_keep_the_order_in_which_they_are_made)
{
	IOL_Agg *before, *between, *after, *one;
	volatile char *at;
	void *map = NULL;
	size_t n;
	int i;

	ASSERT_EQ(0, IOL_pread(self->fd, &before, SIZE, 0, &n));
	ASSERT_EQ(0, IOL_mmap(&map, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, self->fd, 0));
	for (i = 0; i < 10; i++) {
		size_t pos = i * 29000 + 17;

		at = (char *)map + pos;
		ASSERT_EQ((char)self->model[pos], *at);
		*at = 'a' + i;
		ASSERT_EQ(0, IOL_pread(self->fd, &between, 1, pos, &n));
		*at = 'A' + i;
		ASSERT_EQ(0, IOL_pread(self->fd, &after, 1, pos, &n));
		/* All stores before a read, and none after it. */
		EXPECT_EQ((unsigned char)self->model[pos], byte_of(before, pos));
		EXPECT_EQ('a' + i, byte_of(between, 0));
		EXPECT_EQ('A' + i, byte_of(after, 0));
		/* A write supersedes stores before it, and is superseded by those after it. */
		one = text("w", 1);
		ASSERT_EQ(0, IOL_pwrite(self->fd, one, pos, &n));
		EXPECT_EQ('w', *at);
		*at = self->model[pos] = '0' + i;
		IOL_destroy(one);
		IOL_destroy(between);
		IOL_destroy(after);
	}
	ASSERT_EQ(0, msync(map, SIZE, MS_SYNC));
	ASSERT_EQ(0, munmap(map, SIZE));
	EXPECT_EQ(0, same(self->fd, self->model, SIZE));
	EXPECT_EQ(-EBADF, IOL_mmap(&map, SIZE, PROT_READ, MAP_SHARED, -1, 0));
	IOL_destroy(before);
}

TEST_F(files, writes_of_both_kinds_and_reads_of_both_kinds_agree_in_500_rounds)
{
	unsigned long seed = 1;
	size_t size = SIZE;
	int round;

	TH_LOG("seed %lu", seed);
	for (round = 0; round < 500; round++) {
		size_t at, len, n;
		IOL_Agg *agg;

		seed = seed * 6364136223846793005UL + 1442695040888963407UL;
		at = (seed >> 20) % size;
		len = 1 + (seed >> 40) % 90000;
		memset(self->model + at, seed >> 33, len);
		if (at + len > size)
			size = at + len;
		if (seed >> 62) {
			agg = text(self->model + at, len);
			ASSERT_NE(NULL, agg);
			ASSERT_EQ(0, IOL_pwrite(self->fd, agg, at, &n));
			ASSERT_EQ(len, n);
			IOL_destroy(agg);
		} else {
			ASSERT_EQ(len, pwrite(self->fd, self->model + at, len, at));
		}
		if (round % 5 == 0) {
			char *bytes = malloc(size);

			ASSERT_EQ(size, pread(self->fd, bytes, size, 0));
			ASSERT_EQ(0, memcmp(bytes, self->model, size));
			free(bytes);
			ASSERT_EQ(0, same(self->fd, self->model, size));
		}
	}
}

TEST_F(files, what_is_written_is_cached_without_a_copy_and_unaligned)
{
	unsigned long long hits, misses;
	static char bytes[40000];
	IOL_Agg *agg, *in;
	size_t n;

	agg = text(self->model + 5, sizeof(bytes));
	ASSERT_EQ(0, IOL_pwrite(self->fd, agg, 17, &n));
	hits = counter("FileHits");
	misses = counter("FileMisses");
	ASSERT_EQ(0, IOL_pread(self->fd, &in, sizeof(bytes), 17, &n));
	EXPECT_EQ(sizeof(bytes), n);
	EXPECT_EQ(hits + 1, counter("FileHits"));
	EXPECT_EQ(misses, counter("FileMisses"));
	IOL_copy_out(in, 0, bytes, sizeof(bytes));
	EXPECT_EQ(0, memcmp(bytes, self->model + 5, sizeof(bytes)));
	IOL_destroy(agg);
	IOL_destroy(in);
}

/* Some bytes, or some pages, of a large buffer are not worth the buffer; bytes would show what is beside them. */
TEST_F(files, small_parts_of_buffers_are_not_kept_for_the_cache)
{
	static const size_t part[2][2] = { { 100, 600 }, { 4096, 8192 } };
	unsigned long long chunks;
	IOL_Agg *agg;
	size_t n;
	int i;

	ASSERT_EQ(0, ftruncate(self->fd, 0));
	IOL_flush();
	chunks = counter("ChunksMade") - counter("ChunksFreed");
	for (i = 0; i < 400; i++) {
		IOL_Agg *all = text(self->model, 65536);

		ASSERT_EQ(0, IOL_select(&agg, all, part[i % 2][0], part[i % 2][1]));
		IOL_destroy(all);
		ASSERT_EQ(0, IOL_write(self->fd, agg, &n));
		IOL_destroy(agg);
	}
	IOL_flush();
	EXPECT_GT(chunks + 20, counter("ChunksMade") - counter("ChunksFreed"));
}

TEST_F(files, position_append_eof_and_directions_are_those_of_read_and_write)
{
	IOL_Agg *agg;
	size_t n;
	int fd;

	ASSERT_EQ(SIZE - 10, lseek(self->fd, SIZE - 10, SEEK_SET));
	ASSERT_EQ(0, IOL_read(self->fd, &agg, 100, &n));
	EXPECT_EQ(10, n);
	EXPECT_EQ(SIZE, lseek(self->fd, 0, SEEK_CUR));
	IOL_destroy(agg);
	ASSERT_EQ(0, IOL_read(self->fd, &agg, 100, &n));
	EXPECT_EQ(0, n);
	IOL_destroy(agg);
	fd = open(MNT "/f", O_WRONLY | O_APPEND);
	agg = text("tail", 4);
	ASSERT_EQ(0, IOL_write(fd, agg, &n));
	EXPECT_EQ(4, n);
	EXPECT_EQ(SIZE + 4, lseek(self->fd, 0, SEEK_END));
	EXPECT_EQ(-EBADF, IOL_read(fd, &agg, 1, &n));
	close(fd);
}

TEST_F(files, file_data_goes_on_to_a_pipe_by_reference_and_nothing_else_is_seen)
{
	unsigned long long copied;
	int ends[2], status;
	pid_t pid;

	ASSERT_EQ(0, same(self->fd, self->model, SIZE));
	ASSERT_EQ(0, pipe(ends));
	copied = counter("BytesCopiedReceive");
	pid = fork();
	if (!pid) {
		size_t at = 0, n;
		IOL_Agg *agg;
		char *bytes = malloc(SIZE);

		close(ends[1]);
		while (at < SIZE) {
			if (IOL_read(ends[0], &agg, SIZE - at, &n) || !n)
				_exit(1);
			IOL_copy_out(agg, 0, bytes + at, n);
			IOL_destroy(agg);
			at += n;
		}
		_exit(memcmp(bytes, self->model, SIZE) ? 2 : 0);
	}
	for (size_t at = 0, n; at < SIZE; at += n) {
		IOL_Agg *agg;

		/* Whole pages: of others only what was asked for is given, by copy. */
		ASSERT_EQ(0, IOL_pread(self->fd, &agg, 61440, at, &n));
		ASSERT_EQ(0, IOL_write_destroy(ends[1], &agg, NULL));
		ASSERT_EQ(NULL, agg);
	}
	waitpid(pid, &status, 0);
	EXPECT_EQ(0, status);
	EXPECT_EQ(copied, counter("BytesCopiedReceive"));
	close(ends[0]);
	close(ends[1]);
}

TEST_F(files, a_file_in_memory_is_watched_too)
{
	int fd = open("/tmp/iolite.f", O_RDWR | O_CREAT | O_TRUNC, 0600), in, round;
	unsigned long long hits;

	ASSERT_EQ(SIZE, write(fd, self->model, SIZE));
	EXPECT_EQ(0, same(fd, self->model, SIZE));
	self->model[5]++;
	ASSERT_EQ(1, pwrite(fd, self->model + 5, 1, 5));
	EXPECT_EQ(0, same(fd, self->model, SIZE));
	close(fd);
	in = open("/tmp/iolite.f", O_RDONLY);
	for (round = 0; round < 20; round++) {
		volatile char *at;
		char *map;

		usleep(30000);
		EXPECT_EQ(0, same(in, self->model, SIZE));
		hits = counter("FileHits");
		EXPECT_EQ(0, same(in, self->model, SIZE));
		EXPECT_LT(hits, counter("FileHits"));
		/*
		 * Mapped, stored to and gone before the next read; in a page that it has seen no time stamp shows
		 * it, and no event before the file is closed.
		 */
		fd = open("/tmp/iolite.f", O_RDWR);
		EXPECT_EQ(0, same(in, self->model, SIZE));
		map = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		ASSERT_NE(MAP_FAILED, map);
		at = map + round * 9000;
		EXPECT_EQ(self->model[round * 9000], *at);
		*at = self->model[round * 9000] = round + 3;
		munmap(map, SIZE);
		EXPECT_EQ(0, same(in, self->model, SIZE));
		/* Or by who has closed it before. */
		map = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		ASSERT_NE(MAP_FAILED, map);
		close(fd);
		at = map + round * 9000 + 1;
		EXPECT_EQ(self->model[round * 9000 + 1], *at);
		*at = self->model[round * 9000 + 1] = round + 4;
		munmap(map, SIZE);
		EXPECT_EQ(0, same(in, self->model, SIZE));
	}
	close(in);
	unlink("/tmp/iolite.f");
}

/* Evicts everything that nobody uses. */
static int drop_caches(void)
{
	return system("echo N > /sys/module/iolite/parameters/half_rule; echo 3 > /proc/sys/vm/drop_caches; "
		      "echo Y > /sys/module/iolite/parameters/half_rule");
}

TEST_F(files, the_cache_gives_memory_back_under_pressure)
{
	unsigned long long evicted = counter("FileEvicted"), declined;
	int i, fd;

	ASSERT_EQ(0, system("for i in $(seq 40); do cp " MNT "/f " MNT "/g$i || exit 1; done; sync; sleep 0.1"));
	for (i = 1; i <= 40; i++) {
		char name[64];

		snprintf(name, sizeof(name), MNT "/g%d", i);
		fd = open(name, O_RDONLY);
		ASSERT_EQ(0, same(fd, self->model, SIZE));
		close(fd);
	}
	IOL_flush();
	ASSERT_EQ(0, drop_caches());
	EXPECT_LT(evicted + 30, counter("FileEvicted"));
	EXPECT_EQ(0, same(self->fd, self->model, SIZE));
	IOL_flush();
	/*
	 * Nobody is asked but caches like ours, so the half rule agrees, whatever was before us: but what
	 * reclaim looked at since the last eviction still counts, which may be many rounds.
	 */
	evicted = counter("FileEvicted");
	for (i = 0; i < 500 && evicted == counter("FileEvicted"); i++) {
		declined = counter("ReclaimDeclined");
		ASSERT_EQ(0, system("echo 2 > /proc/sys/vm/drop_caches"));
	}
	EXPECT_LT(evicted, counter("FileEvicted"));
	EXPECT_EQ(declined, counter("ReclaimDeclined"));
	EXPECT_LT(0, counter("ReclaimAsked"));
	EXPECT_LE(counter("ReclaimAsked"), counter("ReclaimLooked"));
}

TEST_F(files, of_a_chunk_in_use_the_free_pages_go_back)
{
	unsigned long long shed, filled;
	char name[64], bytes[PART];
	IOL_Context *context;
	int i, fd[4], round;
	const char *addr;
	IOL_Agg *agg;
	size_t len;

	IOL_flush();
	for (i = 0; i < 4; i++) {
		snprintf(name, sizeof(name), MNT "/quarter%d", i);
		fd[i] = open(name, O_RDWR | O_CREAT | O_TRUNC, 0644);
		ASSERT_EQ(PART, pwrite(fd[i], self->model + i * PART, PART, 0));
	}
	ASSERT_EQ(0, system("sync; sleep 0.1"));
	ASSERT_EQ(0, drop_caches());
	for (round = 0; round < 3; round++) {
		shed = counter("PagesShed");
		filled = counter("PagesFilled");
		for (i = 0; i < 4; i++)
			ASSERT_EQ(0, same(fd[i], self->model + i * PART, PART));
		/* Of the chunk that the four make one stays in use. */
		IOL_flush();
		ASSERT_EQ(0, IOL_pread(fd[round], &agg, PART, 0, NULL));
		ASSERT_EQ(0, IOL_gen_start(agg, &context));
		ASSERT_EQ(0, IOL_gen_nextRd(context, &addr, &len));
		ASSERT_EQ(PART, len);
		ASSERT_EQ(0, drop_caches());
		EXPECT_LE(shed + 12, counter("PagesShed"));
		for (i = 0; i < 4; i++)
			ASSERT_EQ(0, same(fd[i], self->model + i * PART, PART));
		EXPECT_LE(filled + 12, counter("PagesFilled"));
		memcpy(bytes, addr, PART);
		EXPECT_EQ(0, memcmp(bytes, self->model + round * PART, PART));
		IOL_gen_end(context);
		IOL_destroy(agg);
	}
	for (i = 0; i < 4; i++) {
		close(fd[i]);
		snprintf(name, sizeof(name), MNT "/quarter%d", i);
		unlink(name);
	}
}

TEST_F(files, behind_the_end_of_a_file_nothing_of_another_is_seen)
{
	unsigned long long recycled = counter("BuffersRecycled");
	int i, fd = open(MNT "/small", O_RDWR | O_CREAT, 0644);
	IOL_Context *context;
	const char *addr;
	IOL_Agg *agg;
	size_t len;

	ASSERT_EQ(10, write(fd, "0123456789", 10));
	memset(self->model, 'S', SIZE);
	ASSERT_EQ(SIZE, pwrite(self->fd, self->model, SIZE, 0));
	ASSERT_EQ(0, fsync(fd));
	usleep(100000);
	ASSERT_EQ(0, same(self->fd, self->model, SIZE));
	IOL_flush();
	/* The next buffer is one of those that this frees. */
	ASSERT_EQ(0, ftruncate(self->fd, 0));
	ASSERT_EQ(0, IOL_pread(self->fd, &agg, 1, 0, NULL));
	IOL_destroy(agg);
	ASSERT_EQ(0, IOL_pread(fd, &agg, 100, 0, NULL));
	ASSERT_EQ(0, IOL_gen_start(agg, &context));
	ASSERT_EQ(0, IOL_gen_nextRd(context, &addr, &len));
	ASSERT_EQ(10, len);
	EXPECT_LT(recycled, counter("BuffersRecycled"));
	for (i = 10; i < 4096; i++)
		ASSERT_EQ(0, addr[i]);
	IOL_gen_end(context);
	IOL_destroy(agg);
	close(fd);
}

TEST_F(files, a_small_limit_evicts_what_nobody_uses_first)
{
	unsigned long long evicted = counter("FileEvicted"), referenced = counter("FileEvictedReferenced"), hits;
	IOL_Agg *old, *agg;
	int fd, round;
	size_t n, at;

	/* The oldest entry is in use. */
	ASSERT_EQ(0, IOL_pread(self->fd, &old, 65536, 0, &n));
	ASSERT_EQ(0, system("cp " MNT "/f " MNT "/h; sync; sleep 0.1"));
	/* Room for two more. */
	ASSERT_EQ(0, system("echo 200000 > /sys/module/iolite/parameters/cache_max"));
	fd = open(MNT "/h", O_RDONLY);
	for (round = 0; round < 3; round++) {
		for (at = 0; at < SIZE; at += n) {
			ASSERT_EQ(0, IOL_pread(fd, &agg, 65536, at, &n));
			ASSERT_LT(0, n);
			IOL_destroy(agg);
			IOL_flush();
		}
	}
	close(fd);
	EXPECT_LE(evicted + 10, counter("FileEvicted"));
	EXPECT_EQ(referenced, counter("FileEvictedReferenced"));
	hits = counter("FileHits");
	IOL_destroy(old);
	ASSERT_EQ(0, IOL_pread(self->fd, &old, 65536, 0, NULL));
	EXPECT_EQ(hits + 1, counter("FileHits"));
	IOL_destroy(old);
	ASSERT_EQ(0, system("echo 0 > /sys/module/iolite/parameters/cache_max"));
}

static uint64_t digest_of(struct __test_metadata *_metadata, int fd, size_t *read)
{
	IOL_Agg *all = NULL, *part, *both;
	uint64_t digest = 0;
	size_t at, n;

	for (at = 0; at < SIZE; at += n) {
		ASSERT_EQ(0, IOL_pread(fd, &part, SIZE - at, at, &n));
		ASSERT_LT(0, n);
		if (!all) {
			all = part;
			continue;
		}
		ASSERT_EQ(0, IOL_concat(&both, all, part));
		IOL_destroy(all);
		IOL_destroy(part);
		all = both;
	}
	ASSERT_EQ(0, IOL_digest(all, &digest, read));
	IOL_destroy(all);
	IOL_flush();
	return digest;
}

TEST_F(files, what_was_digested_once_is_not_read_again)
{
	uint64_t first, changed;
	IOL_Agg *patch;
	size_t read;

	first = digest_of(_metadata, self->fd, &read);
	EXPECT_EQ(SIZE, read);
	EXPECT_EQ(first, digest_of(_metadata, self->fd, &read));
	EXPECT_EQ(0, read);
	/* Ten bytes in the middle: the piece that they were in is two others now. */
	ASSERT_EQ(0, IOL_from_memory(IOL_DEF_ALLOC, &patch, "0123456789", 10));
	ASSERT_EQ(0, IOL_pwrite(self->fd, patch, 100000, NULL));
	changed = digest_of(_metadata, self->fd, &read);
	EXPECT_NE(first, changed);
	EXPECT_LT(0, read);
	EXPECT_GE(65536, read);
	/* By an ordinary write: all is read from the disk anew, into buffers of new generations. */
	ASSERT_EQ(10, pwrite(self->fd, self->model + 100000, 10, 100000));
	ASSERT_EQ(0, fsync(self->fd));
	usleep(100000);
	EXPECT_EQ(first, digest_of(_metadata, self->fd, &read));
	EXPECT_EQ(SIZE, read);
	IOL_destroy(patch);
}

static int tcp_pair(int pair[2])
{
	struct sockaddr_in addr = { .sin_family = AF_INET };
	int listener = socket(AF_INET, SOCK_STREAM, 0);
	socklen_t len = sizeof(addr);

	addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	pair[0] = socket(AF_INET, SOCK_STREAM, 0);
	if (system("ip link set lo up") || bind(listener, (struct sockaddr *)&addr, len) || listen(listener, 1) ||
	    getsockname(listener, (struct sockaddr *)&addr, &len) || connect(pair[0], (struct sockaddr *)&addr, len))
		return -1;
	pair[1] = accept(listener, NULL, NULL);
	close(listener);
	return pair[1] < 0 ? -1 : 0;
}

TEST_F(files, what_more_follows_on_waits_for_it)
{
	struct tcp_info info;
	socklen_t len = sizeof(info);
	char bytes[904];
	int pair[2];
	size_t n;

	ASSERT_EQ(0, tcp_pair(pair));
	ASSERT_EQ(0, same(self->fd, self->model, SIZE));
	ASSERT_EQ(0, IOL_send(pair[0], "head", 4, self->fd, 1001, 300, IOL_MORE, &n));
	ASSERT_EQ(304, n);
	EXPECT_EQ(-1, recv(pair[1], bytes, 1, MSG_DONTWAIT));
	ASSERT_EQ(0, IOL_send(pair[0], NULL, 0, self->fd, 1301, 600, 0, &n));
	ASSERT_EQ(600, n);
	ASSERT_EQ(904, recv(pair[1], bytes, 904, MSG_WAITALL));
	EXPECT_EQ(0, memcmp(bytes, "head", 4));
	EXPECT_EQ(0, memcmp(bytes + 4, self->model + 1001, 900));
	ASSERT_EQ(0, getsockopt(pair[0], IPPROTO_TCP, TCP_INFO, &info, &len));
	EXPECT_EQ(1, info.tcpi_data_segs_out);
	close(pair[0]);
	close(pair[1]);
}

TEST_F(files, a_header_and_a_part_of_the_file_go_in_one_call)
{
	unsigned long long copied, allocated = counter("BuffersMade");
	char *bytes = malloc(30004);
	int pair[2];
	size_t n;

	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
	ASSERT_EQ(0, system("echo 3 > /proc/sys/vm/drop_caches"));
	EXPECT_EQ(-ENODATA, IOL_send(pair[0], "head", 4, self->fd, 1000, 30000, IOL_RESIDENT, &n));
	ASSERT_EQ(0, same(self->fd, self->model, SIZE));
	copied = counter("BytesCopiedFile") + counter("BytesCopiedReceive") + counter("BytesCopiedSend");
	allocated = counter("BuffersMade");
	EXPECT_EQ(0, IOL_send(pair[0], "head", 4, self->fd, 1001, 30000, IOL_RESIDENT, &n));
	ASSERT_EQ(30004, n);
	ASSERT_EQ(30004, recv(pair[1], bytes, 30004, MSG_WAITALL));
	EXPECT_EQ(0, memcmp(bytes, "head", 4));
	EXPECT_EQ(0, memcmp(bytes + 4, self->model + 1001, 30000));
	EXPECT_EQ(copied, counter("BytesCopiedFile") + counter("BytesCopiedReceive") +
			  counter("BytesCopiedSend"));
	EXPECT_EQ(allocated, counter("BuffersMade"));
	/* Behind the end there is nothing, and then the header is not sent either. */
	EXPECT_EQ(0, IOL_send(pair[0], "head", 4, self->fd, SIZE, 1, 0, &n));
	EXPECT_EQ(0, n);
	EXPECT_EQ(-EBADF, IOL_send(-1, "head", 4, self->fd, 0, 1, 0, &n));
	EXPECT_EQ(-EBADF, IOL_send(pair[0], "head", 4, -1, 0, 1, 0, &n));
	EXPECT_EQ(-EOPNOTSUPP, IOL_send(pair[0], "head", 4, pair[1], 0, 1, 0, &n));
	EXPECT_EQ(-EOPNOTSUPP, IOL_send(pair[0], bytes, 4097, self->fd, 0, 1, 0, &n));
	EXPECT_EQ(-EOPNOTSUPP, IOL_send(pair[0], bytes, 1, self->fd, -1, 1, 0, &n));
	EXPECT_EQ(-EOPNOTSUPP, IOL_send(pair[0], bytes, 1, self->fd, 0, 0, 0, &n));
	EXPECT_EQ(-EFAULT, IOL_send(pair[0], (void *)8, 1, self->fd, 0, 1, 0, &n));
	EXPECT_EQ(-EINVAL, IOL_send(pair[0], bytes, 1, self->fd, 0, 1, 4, &n));
	EXPECT_EQ(-1, recv(pair[1], bytes, 1, MSG_DONTWAIT));
	close(pair[0]);
	close(pair[1]);
	free(bytes);
}

MODULE_UNLOADS

TEST_HARNESS_MAIN
