// SPDX-License-Identifier: GPL-2.0
/* One physical copy: who shares a buffer, who may see it, and when its memory is used again. */
/* timeout: 240 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "kselftest_harness.h"

#include <iolite.h>
#include "iolite/tests/lib/module.h"

#define MNT	"/tmp/iolite.share"
#define IMAGE	"/tmp/iolite.share.img"
#define SIZE	65536
#define PARAMETER(name, value) \
	system("echo " value " > /sys/module/iolite/parameters/" name)

FIXTURE(sharing) {
	int a;
	int b;
	int ends[2];
	char *bytes;
};

FIXTURE_SETUP(sharing)
{
	int i;

	ASSERT_EQ(0, module_load());
	ASSERT_EQ(0, system("umount -d " MNT " 2>/dev/null; rm -f " IMAGE "; mkdir -p " MNT "; truncate -s 64M " IMAGE
			    "; mkfs.ext4 -q " IMAGE " && " MODULE_MOUNT(IMAGE, MNT)));
	self->bytes = malloc(4 * SIZE);
	for (i = 0; i < 4 * SIZE; i++)
		self->bytes[i] = i * 7 + i / 256;
	self->a = open(MNT "/a", O_RDWR | O_CREAT, 0644);
	self->b = open(MNT "/b", O_RDWR | O_CREAT, 0644);
	ASSERT_EQ(4 * SIZE, write(self->a, self->bytes, 4 * SIZE));
	ASSERT_EQ(0, fsync(self->a));
	ASSERT_EQ(0, pipe(self->ends));
}

FIXTURE_TEARDOWN(sharing)
{
	free(self->bytes);
	IOL_flush();
	close(self->a);
	close(self->b);
	close(self->ends[0]);
	close(self->ends[1]);
	EXPECT_EQ(0, system("umount -d " MNT));
	unlink(IMAGE);
}

/* Where the first byte of an aggregate is, if it is contiguous. */
static const char *place(IOL_Agg *agg)
{
	IOL_Context *context;
	const char *at = NULL;
	size_t len;

	IOL_gen_start(agg, &context);
	IOL_gen_nextRd(context, &at, &len);
	IOL_gen_end(context);
	return len == IOL_length(agg) ? at : NULL;
}

static unsigned long long copies(void)
{
	return counter("BytesCopiedInline") + counter("BytesCopiedReceive") + counter("BytesCopiedSend") +
	       counter("BytesCopiedFile");
}

static int ended(pid_t pid)
{
	int status;

	if (waitpid(pid, &status, 0) != pid)
		return -1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

/*
 * An address in the window stands for one page of memory, the same in every process, and a page that
 * is in use stays at its address.
 */
TEST_F(sharing, one_page_of_the_window_is_the_cache_s_two_processes_a_pipe_s_and_a_socket_s)
{
	const char *mine, *theirs[2];
	unsigned long long before;
	int pair[2], told[2];
	IOL_Agg *agg, *other;
	pid_t pid;
	size_t n;

	ASSERT_EQ(0, pipe(told));
	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
	ASSERT_EQ(0, IOL_pread(self->a, &agg, SIZE, 0, &n));
	IOL_destroy(agg);
	before = copies();
	pid = fork();
	if (!pid) {
		int fds[2] = { self->ends[0], pair[1] }, i;

		for (i = 0; i < 2; i++) {
			IOL_Agg *in;

			if (IOL_read(fds[i], &in, SIZE, &n) || n != SIZE)
				_exit(1);
			theirs[i] = place(in);
			if (!theirs[i] || memcmp(theirs[i], self->bytes, SIZE))
				_exit(3);
			IOL_destroy(in);
		}
		_exit(write(told[1], theirs, sizeof(theirs)) == sizeof(theirs) ? 0 : 2);
	}
	ASSERT_EQ(0, IOL_pread(self->a, &agg, SIZE, 0, &n));
	ASSERT_EQ(SIZE, n);
	mine = place(agg);
	ASSERT_NE(NULL, mine);
	ASSERT_EQ(0, IOL_write(self->ends[1], agg, &n));
	ASSERT_EQ(SIZE, n);
	ASSERT_EQ(0, IOL_write(pair[0], agg, &n));
	ASSERT_EQ(SIZE, n);
	ASSERT_EQ(0, ended(pid));
	ASSERT_EQ(sizeof(theirs), read(told[0], theirs, sizeof(theirs)));
	EXPECT_EQ(mine, theirs[0]);
	EXPECT_EQ(mine, theirs[1]);
	/* And again out of the cache. */
	ASSERT_EQ(0, IOL_pread(self->a, &other, SIZE, 0, &n));
	EXPECT_EQ(mine, place(other));
	EXPECT_EQ(before, copies());
	IOL_destroy(agg);
	IOL_destroy(other);
}

TEST_F(sharing, a_record_is_appended_written_elsewhere_and_sent_and_is_one_buffer)
{
	unsigned long long before, freed;
	IOL_Agg *record, *at[3], *sent;
	const char *where;
	int pair[2], i;
	size_t n;

	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
	ASSERT_EQ(0, IOL_pread(self->a, &record, SIZE, 0, &n));
	where = place(record);
	ASSERT_NE(NULL, where);
	before = copies() - counter("BytesCopiedFile");
	ASSERT_EQ(0, IOL_pwrite(self->a, record, 4 * SIZE, &n));
	ASSERT_EQ(0, IOL_pwrite(self->b, record, 0, &n));
	ASSERT_EQ(0, IOL_write(pair[0], record, &n));
	IOL_destroy(record);
	IOL_flush();
	ASSERT_EQ(0, IOL_pread(self->a, &at[0], SIZE, 0, &n));
	ASSERT_EQ(0, IOL_pread(self->a, &at[1], SIZE, 4 * SIZE, &n));
	ASSERT_EQ(0, IOL_pread(self->b, &at[2], SIZE, 0, &n));
	ASSERT_EQ(0, IOL_read(pair[1], &sent, SIZE, &n));
	ASSERT_EQ(SIZE, n);
	EXPECT_EQ(where, place(sent));
	for (i = 0; i < 3; i++) {
		EXPECT_EQ(where, place(at[i]));
		EXPECT_EQ(0, memcmp(place(at[i]), self->bytes, SIZE));
	}
	EXPECT_EQ(before, copies() - counter("BytesCopiedFile"));
	/* Memory goes with the last of them: three entries of the cache, then four aggregates. */
	ASSERT_EQ(0, ftruncate(self->a, 0));
	ASSERT_EQ(0, ftruncate(self->b, 0));
	ASSERT_EQ(0, IOL_pread(self->a, &record, 1, 0, &n));
	IOL_destroy(record);
	ASSERT_EQ(0, IOL_pread(self->b, &record, 1, 0, &n));
	IOL_destroy(record);
	IOL_flush();
	freed = counter("BuffersFreed");
	for (i = 0; i < 3; i++)
		IOL_destroy(at[i]);
	IOL_flush();
	EXPECT_EQ(freed, counter("BuffersFreed"));
	EXPECT_EQ(0, memcmp(place(sent), self->bytes, SIZE));
	IOL_destroy(sent);
	IOL_flush();
	EXPECT_EQ(freed + 1, counter("BuffersFreed"));
}

TEST_F(sharing, what_nobody_shares_is_filled_again_in_place_and_what_is_shared_is_not)
{
	unsigned long long made;
	IOL_Context *context;
	IOL_Agg *agg, *in;
	const char *where;
	char *at;
	size_t n;

	ASSERT_EQ(0, IOL_from_memory(IOL_DEF_ALLOC, &agg, self->bytes, 8192));
	where = place(agg);
	ASSERT_EQ(0, IOL_write(self->ends[1], agg, &n));
	/* The pipe has it. */
	EXPECT_EQ(-EBUSY, IOL_reopen(agg));
	ASSERT_EQ(8192, read(self->ends[0], self->bytes, 8192));
	made = counter("BuffersMade");
	ASSERT_EQ(0, IOL_reopen(agg));
	ASSERT_EQ(0, IOL_gen_start(agg, &context));
	ASSERT_EQ(0, IOL_gen_nextWr(context, &at, &n));
	ASSERT_EQ(8192, n);
	memset(at, 'r', n);
	IOL_gen_end(context);
	EXPECT_EQ(made, counter("BuffersMade"));
	EXPECT_EQ(where, place(agg));
	ASSERT_EQ(0, IOL_write(self->ends[1], agg, &n));
	ASSERT_EQ(0, IOL_read(self->ends[0], &in, 8192, &n));
	EXPECT_EQ('r', *place(in));
	/* And the reader, though it is the same process. */
	EXPECT_EQ(-EBUSY, IOL_reopen(agg));
	IOL_destroy(in);
	IOL_destroy(agg);
}

/* A third process reads @n bytes of the middle of a page; what that copies, or -1. */
static long long passed_on(struct __test_metadata *_metadata, FIXTURE_DATA(sharing) *self, IOL_Agg *agg,
			   bool grant, IOL_Allocator *pool)
{
	unsigned long long before = counter("BytesCopiedReceive");
	int ids[2], go[2];
	uint64_t domain;
	char byte = 0;
	pid_t pid;
	size_t n;

	ASSERT_EQ(0, pipe(ids));
	ASSERT_EQ(0, pipe(go));
	pid = fork();
	if (!pid) {
		IOL_Agg *in;

		domain = IOL_domain();
		if (write(ids[1], &domain, 8) != 8 || read(go[0], &byte, 1) != 1)
			_exit(1);
		_exit(IOL_read(self->ends[0], &in, SIZE, &n) || n != 2000);
	}
	ASSERT_EQ(8, read(ids[0], &domain, 8));
	if (grant)
		ASSERT_EQ(0, IOL_grant(pool, domain));
	ASSERT_EQ(0, IOL_write(self->ends[1], agg, &n));
	ASSERT_EQ(1, write(go[1], &byte, 1));
	ASSERT_EQ(0, ended(pid));
	close(ids[0]), close(ids[1]), close(go[0]), close(go[1]);
	return counter("BytesCopiedReceive") - before;
}

/* Data of an ordinary writer is put into the pool that the reader names, whose audience is known before. */
TEST_F(sharing, who_has_the_pool_gets_it_without_a_copy_and_who_has_not_gets_a_copy)
{
	IOL_Agg *agg[2], *part[2];
	IOL_Allocator *pool;
	size_t n;
	int i;

	ASSERT_EQ(0, IOL_create_allocator(&pool, NULL));
	for (i = 0; i < 2; i++) {
		ASSERT_EQ(8192, write(self->ends[1], self->bytes, 8192));
		ASSERT_EQ(0, IOL_read_alloc(self->ends[0], i ? IOL_DEF_ALLOC : pool, &agg[i], 8192, &n));
		ASSERT_EQ(8192, n);
		ASSERT_EQ(0, IOL_select(&part[i], agg[i], 1000, 2000));
	}
	EXPECT_EQ(0, passed_on(_metadata, self, part[0], true, pool));
	/* The other pool is not what he was granted; and this one was granted to somebody who is gone. */
	EXPECT_EQ(2000, passed_on(_metadata, self, part[1], true, pool));
	EXPECT_EQ(2000, passed_on(_metadata, self, part[0], false, pool));
	for (i = 0; i < 2; i++) {
		IOL_destroy(agg[i]);
		IOL_destroy(part[i]);
	}
	EXPECT_EQ(0, IOL_destroy_allocator(pool));
}

#define QUOTA_CHUNKS	32

/* The reader keeps all: nothing is used again, each chunk is made and mapped once, and then it is ENOMEM. */
TEST_F(sharing, a_reader_who_never_lets_go_costs_a_chunk_and_its_mapping_each_time_until_his_quota)
{
	unsigned long long chunks, ptes, refused;
	IOL_Agg *agg;
	pid_t pid;
	size_t n;
	int i;

	ASSERT_EQ(0, PARAMETER("domain_quota", "2097152"));
	ASSERT_EQ(0, IOL_control(self->ends[0], IOL_PIPE_ROOM));
	chunks = counter("ChunksMade");
	ptes = counter("PtesRead");
	refused = counter("QuotaRefused");
	pid = fork();
	if (!pid) {
		int err = 0, got;

		close(self->ends[1]);
		for (got = 0; !err; got++) {
			IOL_Agg *in;

			err = IOL_read(self->ends[0], &in, SIZE, &n);
			if (!err && (n != SIZE || *(volatile const char *)place(in) != (char)got))
				_exit(100);
		}
		_exit(err == -ENOMEM ? got - 1 : 101);
	}
	for (i = 0; i < QUOTA_CHUNKS + 4; i++) {
		memset(self->bytes, i, SIZE);
		ASSERT_EQ(0, IOL_from_memory(IOL_DEF_ALLOC, &agg, self->bytes, SIZE));
		ASSERT_EQ(0, IOL_write_destroy(self->ends[1], &agg, &n));
		ASSERT_EQ(SIZE, n);
		IOL_flush();
	}
	EXPECT_EQ(QUOTA_CHUNKS, ended(pid));
	EXPECT_LT(refused, counter("QuotaRefused"));
	EXPECT_LE(QUOTA_CHUNKS, counter("ChunksMade") - chunks);
	EXPECT_GE(QUOTA_CHUNKS + 8, counter("ChunksMade") - chunks);
	EXPECT_LE(16 * QUOTA_CHUNKS, counter("PtesRead") - ptes);
	EXPECT_GE(16 * (QUOTA_CHUNKS + 1), counter("PtesRead") - ptes);
	ASSERT_EQ(0, PARAMETER("domain_quota", "268435456"));
}

TEST_F(sharing, what_is_looked_at_in_memory_is_not_used_and_goes_first)
{
	unsigned long long hits;
	volatile const char *at;
	IOL_Agg *older, *newer, *third;
	size_t n;
	int i;

	ASSERT_EQ(0, PARAMETER("cache_max", "140000"));
	ASSERT_EQ(0, IOL_pread(self->a, &older, SIZE, 0, &n));
	ASSERT_EQ(0, IOL_pread(self->a, &newer, SIZE, SIZE, &n));
	at = place(older);
	for (i = 0; i < SIZE; i++)
		(void)at[i];
	/* Room for two: one that is held has to go, too. */
	ASSERT_EQ(0, IOL_pread(self->a, &third, SIZE, 2 * SIZE, &n));
	for (i = 0; i < SIZE; i++)
		ASSERT_EQ((char)(i * 7 + i / 256), at[i]);
	hits = counter("FileHits");
	IOL_destroy(newer);
	ASSERT_EQ(0, IOL_pread(self->a, &newer, SIZE, SIZE, &n));
	EXPECT_EQ(hits + 1, counter("FileHits"));
	IOL_destroy(older);
	ASSERT_EQ(0, IOL_pread(self->a, &older, SIZE, 0, &n));
	EXPECT_EQ(hits + 1, counter("FileHits"));
	IOL_destroy(older);
	IOL_destroy(newer);
	IOL_destroy(third);
	ASSERT_EQ(0, PARAMETER("cache_max", "0"));
}

/* What it locks to see whether it may keep what it read is free again. */
TEST_F(sharing, a_read_that_does_not_wait_leaves_the_file_to_others)
{
	unsigned long long hits;
	IOL_Agg *agg;
	size_t n;

	alarm(100);
	ASSERT_EQ(SIZE, pread(self->a, self->bytes + SIZE, SIZE, 0));
	ASSERT_EQ(0, IOL_pread_nowait(self->a, &agg, SIZE, 0, &n));
	ASSERT_EQ(SIZE, n);
	EXPECT_EQ(0, memcmp(place(agg), self->bytes, SIZE));
	IOL_destroy(agg);
	hits = counter("FileHits");
	ASSERT_EQ(0, IOL_pread_nowait(self->a, &agg, SIZE, 0, &n));
	IOL_destroy(agg);
	EXPECT_EQ(hits + 1, counter("FileHits"));
	ASSERT_EQ(1, pwrite(self->a, "w", 1, 0));
	ASSERT_EQ(0, fsync(self->a));
}

/* Bytes of one write at offset 17 that are a hit afterwards. */
static size_t kept(struct __test_metadata *_metadata, FIXTURE_DATA(sharing) *self, size_t len)
{
	unsigned long long before;
	IOL_Agg *agg, *in;
	size_t n;
	bool hit;

	ASSERT_EQ(0, ftruncate(self->b, 0));
	ASSERT_EQ(0, IOL_from_memory(IOL_DEF_ALLOC, &agg, self->bytes, len));
	ASSERT_EQ(0, IOL_pwrite(self->b, agg, 17, &n));
	ASSERT_EQ(len, n);
	IOL_destroy(agg);
	before = counter("FileHits");
	ASSERT_EQ(0, IOL_pread(self->b, &in, len, 17, &n));
	hit = counter("FileHits") > before;
	EXPECT_EQ(hit ? n : len, n);
	EXPECT_EQ(0, memcmp(place(in), self->bytes, n));
	IOL_destroy(in);
	return hit ? n : 0;
}

/* Any offset in the file; of the buffer only what is most of it, since all of it is kept. */
TEST_F(sharing, an_extent_at_offset_17_is_cached_if_it_is_most_of_its_buffer)
{
	EXPECT_EQ(7000, kept(_metadata, self, 7000));
	EXPECT_EQ(40000, kept(_metadata, self, 40000));
	EXPECT_EQ(0, kept(_metadata, self, 1000));
}

MODULE_UNLOADS

TEST_HARNESS_MAIN
